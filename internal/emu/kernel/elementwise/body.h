/* The elementwise kernels of one CPU variant. A variant_*.c file sets the target, KERNELS and VECTOR_BYTES and includes this
 * file. With OTHERS, the table of another variant, it lacks what vectors do not speed up. */
#include "optimize.h"

#include "table.h"
#include "map.h"

const struct elementwise_kernels KERNELS = {.map_defined = map_defined_, .map = map_};
