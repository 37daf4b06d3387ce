/* The kernels of indices of one CPU variant. A variant_*.c file sets the target, KERNELS and VECTOR_BYTES and includes this file. */
#include "optimize.h"

#include "table.h"
#include "index_body.h"
#include "combine_body.h"

const struct indexing_kernels KERNELS = {.index_reduce = index_reduce_, .combine = combine_, .combine_scale_grad = combine_scale_grad_};
