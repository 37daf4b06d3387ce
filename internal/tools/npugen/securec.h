// Copies and formatting that know the size of their target, as CANN's programs call them. On a
// failure the target of strings is the empty one, so that what follows reads no rest.

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#ifndef EOK
#define EOK 0
#endif
#ifndef EINVAL_AND_RESET
#define EINVAL_AND_RESET 150 // EINVAL, and the target was cleared
#define ERANGE_AND_RESET 162
#endif
#ifndef SECUREC_MEM_MAX_LEN
#define SECUREC_MEM_MAX_LEN 0x7fffffffUL
#endif

typedef int errno_t;

static inline errno_t memset_s(void *dest, size_t destMax, int c, size_t count)
{
	if (!dest)
		return EINVAL;
	if (destMax == 0 || destMax > SECUREC_MEM_MAX_LEN)
		return ERANGE;
	memset(dest, c, count < destMax ? count : destMax);
	return count > destMax ? ERANGE_AND_RESET : EOK;
}

static inline errno_t memmove_s(void *dest, size_t destMax, const void *src, size_t count)
{
	if (!dest)
		return EINVAL;
	if (destMax == 0 || destMax > SECUREC_MEM_MAX_LEN)
		return ERANGE;
	if (!src || count > destMax) {
		memset(dest, 0, destMax);
		return src ? ERANGE_AND_RESET : EINVAL_AND_RESET;
	}
	memmove(dest, src, count);
	return EOK;
}

static inline errno_t memcpy_s(void *dest, size_t destMax, const void *src, size_t count)
{
	return memmove_s(dest, destMax, src, count);
}

// Of a text that may go on behind max. C11 by itself has no strnlen.
static inline size_t securec_length(const char *text, size_t max)
{
	const char *end = (const char *)memchr(text, 0, max);
	return end ? (size_t)(end - text) : max;
}

static inline errno_t strncpy_s(char *dest, size_t destMax, const char *src, size_t count)
{
	if (!dest)
		return EINVAL;
	if (destMax == 0)
		return ERANGE;
	size_t n = src ? securec_length(src, count) : destMax;
	if (n >= destMax) {
		dest[0] = 0;
		return src ? ERANGE_AND_RESET : EINVAL_AND_RESET;
	}
	memmove(dest, src, n);
	dest[n] = 0;
	return EOK;
}

static inline errno_t strcpy_s(char *dest, size_t destMax, const char *src)
{
	return strncpy_s(dest, destMax, src, destMax);
}

static inline errno_t strcat_s(char *dest, size_t destMax, const char *src)
{
	if (!dest)
		return EINVAL;
	if (destMax == 0)
		return ERANGE;
	size_t used = securec_length(dest, destMax);
	errno_t code = used < destMax ? strcpy_s(dest + used, destMax - used, src) : EINVAL_AND_RESET;
	if (code != EOK)
		dest[0] = 0;
	return code;
}

// The formatting functions return the length, or -1.
static inline int vsnprintf_s(char *dest, size_t destMax, size_t count, const char *format, va_list rest)
{
	if (!dest || destMax == 0 || !format)
		return -1;
	size_t room = count < destMax ? count + 1 : destMax;
	int n = vsnprintf(dest, room, format, rest);
	if (n < 0 || (size_t)n >= room) {
		if (count >= destMax) // else what fits is wanted
			dest[0] = 0;
		return -1;
	}
	return n;
}

__attribute__((format(printf, 4, 5))) static inline int snprintf_s(char *dest, size_t destMax, size_t count, const char *format, ...)
{
	va_list rest;
	va_start(rest, format);
	int n = vsnprintf_s(dest, destMax, count, format, rest);
	va_end(rest);
	return n;
}

__attribute__((format(printf, 3, 4))) static inline int sprintf_s(char *dest, size_t destMax, const char *format, ...)
{
	va_list rest;
	va_start(rest, format);
	int n = vsnprintf_s(dest, destMax, destMax, format, rest);
	va_end(rest);
	return n;
}
