/* Matrix products of other libraries, if they are installed. Matrices are row-major. */
#include <stdint.h>

enum { RIVAL_ONEDNN, RIVAL_OPENBLAS };

/* Loads a library and sets its number of threads; returns 0 if it or a function is missing. */
int rival_load(int rival, int threads);

/* c = a·b with a [m,k], b [k,n] or its transpose [n,k], and c [m,n] of float. The elements of a and
 * b are float, or bfloat16 where oneDNN multiplies these. Returns 0 if the library cannot. */
int rival_multiply(int rival, int bf16, int transposed, int64_t m, int64_t n, int64_t k, const void *a, const void *b,
		   float *c);

/* Reads n bytes at an address that is a multiple of 64, and returns the sum of the whole vectors' words. */
uint64_t rival_read(const void *data, int64_t n);
