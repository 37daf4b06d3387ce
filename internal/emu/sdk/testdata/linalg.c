/* Calls the libraries of linear algebra and of Fourier transforms. Prints results that the test compares. Compiles as C and C++. */
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"
#include "cann_ops_blas.h"
#include "cann_ops_fft.h"

#define CHECK(call) \
	do { \
		int code_ = (int)(call); \
		if (code_ != 0) { \
			const char *text_ = aclGetRecentErrMsg(); \
			fprintf(stderr, "%s: %d: %s\n", #call, code_, text_ ? text_ : ""); \
			exit(1); \
		} \
	} while (0)

int main(void)
{
	aclblasComplex x[3] = {{1, 2}, {3, -4}, {0, 1}}, alpha = {0, 2};
	aclfftComplex wave[4] = {{1, 0}, {0, 0}, {-1, 0}, {0, 0}}, spectrum[4];
	float m[4] = {1, 2, 3, 4}, norm;
	float factor = 2;
	aclblasHandle_t handle = NULL;
	aclrtStream stream;
	aclfftHandle plan;
	void *vector, *result, *matrix;
	int i;

	CHECK(aclInit(NULL));
	CHECK(aclrtSetDevice(0));
	CHECK(aclrtCreateStream(&stream));
	CHECK(aclrtMalloc(&vector, sizeof x, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMalloc(&result, sizeof norm, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMalloc(&matrix, sizeof m, ACL_MEM_MALLOC_HUGE_FIRST));
	CHECK(aclrtMemcpy(vector, sizeof x, x, sizeof x, ACL_MEMCPY_HOST_TO_DEVICE));
	CHECK(aclrtMemcpy(matrix, sizeof m, m, sizeof m, ACL_MEMCPY_HOST_TO_DEVICE));

	printf("null %d\n", (int)aclblasDestroy(NULL));
	CHECK(aclblasCreate(&handle));
	printf("again %d\n", (int)aclblasCreate(&handle));
	CHECK(aclblasSetStream(handle, stream));
	CHECK(aclblasCscal(handle, 3, alpha, (aclblasComplex *)vector, 1)); /* a record by value */
	CHECK(aclblasScnrm2(handle, 3, (aclblasComplex *)vector, 1, (float *)result));
	CHECK(aclblasSscal(handle, 4, &factor, (float *)matrix, 1));
	printf("other chip %d\n", (int)aclblasSgemmEx(handle, ACLBLAS_OP_N, ACLBLAS_OP_N, 2, 2, 2, &factor, (float *)matrix, 2,
		(float *)matrix, 2, &factor, (float *)matrix, 2, ACLBLAS_GEMM_DEFAULT));
	CHECK(aclrtSynchronizeStream(stream));
	CHECK(aclrtMemcpy(x, sizeof x, vector, sizeof x, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(aclrtMemcpy(&norm, sizeof norm, result, sizeof norm, ACL_MEMCPY_DEVICE_TO_HOST));
	CHECK(aclrtMemcpy(m, sizeof m, matrix, sizeof m, ACL_MEMCPY_DEVICE_TO_HOST));
	for (i = 0; i < 3; i++)
		printf("scaled %g %g\n", x[i].real, x[i].imag);
	printf("norm %.4f, last %g\n", norm, m[3]);
	CHECK(aclblasDestroy(handle));

	CHECK(aclfftPlan1d(&plan, 4, ACLFFT_C2C, 1, ACLFFT_HORIZONTAL));
	CHECK(aclfftSetStream(plan, stream));
	CHECK(aclfftExecC2C(plan, wave, spectrum, ACLFFT_FORWARD));
	for (i = 0; i < 4; i++)
		printf("bin %.3f %.3f\n", spectrum[i].x, spectrum[i].y);
	printf("doubles: %s\n", aclfftGetErrorString(aclfftExecZ2Z(plan, NULL, NULL, ACLFFT_FORWARD)));
	CHECK(aclfftDestroy(plan));

	CHECK(aclrtFree(vector));
	CHECK(aclrtFree(result));
	CHECK(aclrtFree(matrix));
	CHECK(aclrtDestroyStream(stream));
	CHECK(aclrtResetDevice(0));
	CHECK(aclFinalize());
	return 0;
}
