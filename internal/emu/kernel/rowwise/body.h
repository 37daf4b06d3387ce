/* The kernels of rows of one CPU variant. A variant_*.c file sets the target, KERNELS and VECTOR_BYTES and includes this file. */
#include "optimize.h"

#include "table.h"
#include "reduce.h"
#include "scan.h"
#include "rows.h"

const struct rowwise_kernels KERNELS = {
	.reduce = reduce_,
	.reduce_merge = reduce_merge_,
	.reduce_arg = reduce_arg_,
	.scan = scan_,
	.rms_norm = rms_norm_,
	.rms_norm_grad = rms_norm_grad_,
	.layer_norm = layer_norm_,
	.layer_norm_grad = layer_norm_grad_,
	.rotate = rotate_,
	.adamw = adamw_,
	.softmax = softmax_,
	.softmax_grad = softmax_grad_,
	.swiglu = swiglu_,
	.swiglu_grad = swiglu_grad_,
};
