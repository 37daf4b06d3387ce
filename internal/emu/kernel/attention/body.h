/* Attention of one CPU variant. A variant_*.c file sets the target, KERNELS and VECTOR_BYTES and includes this file. */
#include "optimize.h"

#include "table.h"
#include "forward.h"
#include "backward.h"

const struct attention_kernels KERNELS = {attention_forward, attention_backward, attention_query_grad};
