/* The iteration space of the strided kernels, which Go plans (space.go): one shape, over which
 * each operand has its own strides. */
#ifndef SPACE_H
#define SPACE_H

#include <stddef.h>
#include <stdint.h>

#include "dtype.h"

enum { MAX_RANK = 8 };

struct space {
	int32_t rank; /* at least 1 */
	int64_t shape[MAX_RANK];
};

/* An operand is strided memory, or a constant if data is NULL. Strides count elements; stride 0
 * repeats an element. */
struct operand {
	char *data;
	int32_t dtype;
	int64_t stride[MAX_RANK];
	double f;
	int64_t i;
};

/* The arithmetic classes: float for floating-point types of up to 32 bits, double for float64,
 * uint64_t for uint64, and int64_t for other integers and bool. */
enum { CLASS_F32, CLASS_F64, CLASS_I64, CLASS_U64, CLASSES };

enum {
	CHUNK = 1024, /* elements a kernel processes at once, so that its buffers stay in L1 */
	MAX_INPUTS = 3,
};

#endif
