/* The kernels of one CPU variant. A variant_*.c file sets the target, KERNEL_TABLE and
 * VECTOR_BYTES and includes this file; each header below defines static functions.
 * With OTHERS, the table of another variant, it lacks what vectors do not speed up, and with MAIN_TYPES, too, scans,
 * scattered sums, reductions of integers and products of other types than float, which larger vectors hardly do. */
#include "optimize.h"

#include "kernel.h"
#include "vector.h"
#include "convert.h"
#include "map.h"
#include "reduce.h"
#include "rows.h"
#include "fourier_body.h"
#ifndef MAIN_TYPES
#include "scan.h"
#include "index_body.h"
#include "combine_body.h"
#include "triangular_body.h"
#endif
#include "gemm_body.h"
#include "attention_forward.h"
#include "attention_backward.h"

const struct kernel_table KERNEL_TABLE = {
	.name = KERNEL_NAME,
	.gemm_rows = GEMM_MR, .pace = 1,
	.map_defined = map_defined_,
	.map = map_,
	.reduce = reduce_,
	.reduce_merge = reduce_merge_,
	.reduce_arg = reduce_arg_,
#ifndef MAIN_TYPES
	.scan = scan_,
	.index_reduce = index_reduce_,
	.combine = combine_,
	.combine_scale_grad = combine_scale_grad_,
	.triangular_solve = triangular_solve_,
#endif
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
	.fourier = fourier_,
#if VECTOR_BYTES >= 32
	.gemm_pack = gemm_pack,
#endif
	.gemm = gemm,
	.attention = {attention_forward, attention_backward},
	.attention_bf16 = {attention_forward, attention_backward},
	.attention_query_grad = attention_query_grad,
};
