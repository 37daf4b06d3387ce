/* Matrix products of other libraries, if they are installed. Matrices are row-major. */
#include <stdint.h>

enum { LIBRARY_ONEDNN, LIBRARY_OPENBLAS };

/* Loads a library and sets its number of threads; returns 0 if it or a function is missing. */
int library_load(int which, int threads);

/* c = a·b with a [m,k], b [k,n] or its transpose [n,k], and c [m,n] of float. The elements of a and
 * b are float, or bfloat16 where oneDNN multiplies these. Returns 0 if the library cannot. */
int library_multiply(int which, int bf16, int transposed, int64_t m, int64_t n, int64_t k, const void *a, const void *b,
		   float *c);

/* Reads n bytes at an address that is a multiple of 64, and returns the sum of the whole vectors' words. */
uint64_t library_read(const void *data, int64_t n);
