#include "library.h"

#include <dlfcn.h>
#include <stddef.h>

typedef int dnnl_gemm(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha, const void *a, int64_t lda,
		      const void *b, int64_t ldb, float beta, float *c, int64_t ldc);
typedef void blas_gemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const void *a, int lda,
		       const void *b, int ldb, float beta, float *c, int ldc);
typedef void set_threads(int n);

static dnnl_gemm *dnnl_f32, *dnnl_bf16;
static blas_gemm *blas_f32;

static void *first(const char *const *names)
{
	for (; *names; names++) {
		void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
		if (library != NULL)
			return library;
	}
	return NULL;
}

/* Calls a library's function that sets the number of threads; returns 0 if there is none. */
static int threaded(void *handle, const char *name, int threads)
{
	set_threads *set = (set_threads *)dlsym(handle, name);
	if (set != NULL)
		set(threads);
	return set != NULL;
}

int library_load(int which, int threads)
{
	if (which == LIBRARY_ONEDNN) {
		void *library = first((const char *const[]){"libdnnl.so.3", "libdnnl.so.2", NULL});
		if (library == NULL)
			return 0;
		dnnl_f32 = (dnnl_gemm *)dlsym(library, "dnnl_sgemm");
		dnnl_bf16 = (dnnl_gemm *)dlsym(library, "dnnl_gemm_bf16bf16f32");
		/* Debian builds it with OpenMP, whose functions are found through it. */
		return dnnl_f32 != NULL && threaded(library, "omp_set_num_threads", threads);
	}
	void *library = first((const char *const[]){"libopenblas.so.0", NULL});
	if (library == NULL)
		return 0;
	blas_f32 = (blas_gemm *)dlsym(library, "cblas_sgemm");
	return blas_f32 != NULL && threaded(library, "openblas_set_num_threads", threads);
}

int library_multiply(int which, int bf16, int transposed, int64_t m, int64_t n, int64_t k, const void *a, const void *b,
		   float *c)
{
	enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };
	const int64_t ldb = transposed ? k : n;
	if (which == LIBRARY_ONEDNN) {
		dnnl_gemm *gemm = bf16 ? dnnl_bf16 : dnnl_f32;
		return gemm != NULL && gemm('N', transposed ? 'T' : 'N', m, n, k, 1, a, k, b, ldb, 0, c, n) == 0;
	}
	if (bf16)
		return 0;
	blas_f32(ROW_MAJOR, NO_TRANS, transposed ? TRANS : NO_TRANS, (int)m, (int)n, (int)k, 1, a, (int)k, b, (int)ldb, 0, c, (int)n);
	return 1;
}

typedef uint64_t vector __attribute__((vector_size(64)));

#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
uint64_t library_read(const void *data, int64_t n)
{
	const vector *v = data;
	vector sum[4] = {0};
	for (; n >= (int64_t)sizeof(sum); n -= (int64_t)sizeof(sum), v += 4)
		for (int i = 0; i < 4; i++)
			sum[i] += v[i];
	uint64_t total = 0;
	for (int i = 0; i < 32; i++)
		total += sum[i / 8][i % 8];
	return total;
}
