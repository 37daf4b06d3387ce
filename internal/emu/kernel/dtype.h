/* Element types: the values of aclDataType that kernels compute with. */
#ifndef DTYPE_H
#define DTYPE_H

enum {
	DTYPE_FLOAT32 = 0,
	DTYPE_FLOAT16 = 1,
	DTYPE_INT8 = 2,
	DTYPE_INT32 = 3,
	DTYPE_UINT8 = 4,
	DTYPE_INT16 = 6,
	DTYPE_UINT16 = 7,
	DTYPE_UINT32 = 8,
	DTYPE_INT64 = 9,
	DTYPE_UINT64 = 10,
	DTYPE_FLOAT64 = 11,
	DTYPE_BOOL = 12,
	DTYPE_COMPLEX64 = 16,
	DTYPE_COMPLEX128 = 17,
	DTYPE_BFLOAT16 = 27,
	DTYPE_INT4 = 29,
};

/* The size of one element in bytes; 0 for INT4, of which two elements share a byte. */
static inline int dtype_size(int dtype)
{
	switch (dtype) {
	case DTYPE_INT8: case DTYPE_UINT8: case DTYPE_BOOL:
		return 1;
	case DTYPE_FLOAT16: case DTYPE_BFLOAT16: case DTYPE_INT16: case DTYPE_UINT16:
		return 2;
	case DTYPE_FLOAT32: case DTYPE_INT32: case DTYPE_UINT32:
		return 4;
	case DTYPE_FLOAT64: case DTYPE_INT64: case DTYPE_UINT64: case DTYPE_COMPLEX64:
		return 8;
	case DTYPE_COMPLEX128:
		return 16;
	}
	return 0;
}

#endif
