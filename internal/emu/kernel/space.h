/* The iteration space that the strided kernels share, as Go plans it (space.go): one shape,
 * each operand with its own strides over it. */
#ifndef SPACE_H
#define SPACE_H

#include "dtype.h"
#include "kernel.h"

struct space {
	int32_t rank; /* at least 1 */
	int64_t shape[MAX_RANK];
};

/* An operand is strided memory, or with data NULL a constant. Strides count elements; 0
 * repeats. */
struct operand {
	char *data;
	int32_t dtype;
	int64_t stride[MAX_RANK];
	double f;
	int64_t i;
};

/* Arithmetic is done in one of four types: the floats up to 32 bits in float, the integers
 * and bool in int64_t, uint64_t in itself. */
enum { CLASS_F32, CLASS_F64, CLASS_I64, CLASS_U64, CLASSES };

enum {
	CHUNK = 1024, /* elements a kernel handles at once, so that its buffers stay in L1 */
	MAX_INPUTS = 3,
};

#endif
