/* Running reductions along one dimension. */
#ifndef SCAN_OP_H
#define SCAN_OP_H

#include "space.h"
#include "table.h"

enum { SCAN_SUM, SCAN_PROD, SCAN_MAX, SCAN_MIN };

struct scan {
	int32_t op, class;
	int32_t exclusive; /* element i leaves out in[i] */
	int32_t by_line; /* the elements of a line are closer than those of neighbouring lines */
	struct space kept; /* the other dimensions */
	int64_t length; /* of the scanned dimension */
	struct operand in, out, index; /* strides over kept; index.data may be NULL */
	int64_t in_step, out_step, index_step; /* strides along the scanned dimension */
};

/* Scans the lines [lo, hi), one for each element of kept. */
static inline void scan_run(const struct scan *s, int64_t lo, int64_t hi) { rowwise_kernels->scan(s, lo, hi); }

#endif
