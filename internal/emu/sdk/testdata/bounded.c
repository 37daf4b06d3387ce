/* Tests the bounded copies: text that fits, text that does not, and the state of the target
 * afterwards. Compiles as C and C++. */
#include <stdlib.h>

#include "securec.h"

#define EXPECT(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%d: %s\n", __LINE__, #condition); \
			exit(1); \
		} \
	} while (0)

int main(void)
{
	char b[4] = {1, 2, 3, 4};
	EXPECT(memset_s(b, sizeof b, 7, 2) == EOK && b[1] == 7 && b[2] == 3);
	EXPECT(memset_s(b, sizeof b, 8, 5) == ERANGE_AND_RESET && b[3] == 8);
	EXPECT(memset_s(NULL, 1, 0, 1) == EINVAL && memset_s(b, 0, 0, 0) == ERANGE);
	EXPECT(memcpy_s(b, sizeof b, "abc", 4) == EOK && strcmp(b, "abc") == 0);
	EXPECT(memmove_s(b + 1, 3, b, 2) == EOK && strcmp(b, "aab") == 0);
	EXPECT(memcpy_s(b, sizeof b, "abcde", 5) == ERANGE_AND_RESET && b[0] == 0);
	EXPECT(memcpy_s(b, sizeof b, NULL, 1) == EINVAL_AND_RESET && memcpy_s(NULL, 1, b, 1) == EINVAL);
	EXPECT(strcpy_s(b, sizeof b, "xyz") == EOK && strcmp(b, "xyz") == 0);
	EXPECT(strcpy_s(b, sizeof b, "wxyz") == ERANGE_AND_RESET && b[0] == 0);
	EXPECT(strcpy_s(b, sizeof b, NULL) == EINVAL_AND_RESET && strcpy_s(b, 0, "") == ERANGE);
	EXPECT(strncpy_s(b, sizeof b, "wxyz", 2) == EOK && strcmp(b, "wx") == 0);
	EXPECT(strcat_s(b, sizeof b, "y") == EOK && strcmp(b, "wxy") == 0);
	EXPECT(strcat_s(b, sizeof b, "z") == ERANGE_AND_RESET && b[0] == 0);
	EXPECT(strcat_s(b, 0, "z") == ERANGE && strcat_s(b, sizeof b, NULL) == EINVAL_AND_RESET);
	EXPECT(sprintf_s(b, sizeof b, "%d", 123) == 3 && strcmp(b, "123") == 0);
	EXPECT(sprintf_s(b, sizeof b, "%d", 1234) == -1 && b[0] == 0);
	EXPECT(snprintf_s(b, sizeof b, 3, "%d", 1234) == -1 && strcmp(b, "123") == 0);
	EXPECT(snprintf_s(b, sizeof b, 2, "%d", 12) == 2 && strcmp(b, "12") == 0);
	puts("bounded");
	return 0;
}
