#include "call.h"

#include <pthread.h>

#include "../export.h"
#include "../testdata/zz_functions.h"

static int recent(char *text, int size)
{
	const char *message = aclGetRecentErrMsg();
	snprintf(text, size, "%s", message ? message : "");
	return message != 0;
}

int exporttest_unsupported(char *text, int size)
{
	int code = aclmdlQuerySize("model.om", 0, 0);
	recent(text, size);
	return code;
}

static pthread_barrier_t together;

static void *fail(void *number)
{
	char text[512], want[32];
	int odd = (int)(intptr_t)number % 2;
	const char *mine = odd ? "aclmdlQuerySize" : "aclmdlLoadFromFile", *other = odd ? "aclmdlLoadFromFile" : "aclmdlQuerySize";
	pthread_barrier_wait(&together);
	for (int i = 0; i < 100; i++) {
		if (odd)
			aclmdlQuerySize("", 0, 0);
		else
			aclmdlLoadFromFile("", 0);
		snprintf(want, sizeof want, "%s:", mine);
		if (!recent(text, sizeof text) || !strstr(text, want) || strstr(text, other) || recent(text, sizeof text))
			return 0;
	}
	return number;
}

int exporttest_threads(int n)
{
	pthread_t threads[64];
	int good = 0, started = 0;
	if (n > 64)
		n = 64;
	pthread_barrier_init(&together, 0, n);
	for (; started < n; started++)
		if (pthread_create(&threads[started], 0, fail, (void *)(intptr_t)(started + 1)))
			return -1; /* the others wait for ever; the test fails */
	for (int i = 0; i < n; i++) {
		void *result;
		pthread_join(threads[i], &result);
		good += result != 0;
	}
	pthread_barrier_destroy(&together);
	return good;
}

float exporttest_half(unsigned short bits) { return aclFloat16ToFloat(bits); }
