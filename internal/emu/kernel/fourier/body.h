/* The transform of one CPU variant. A variant_*.c file sets the target, KERNELS and VECTOR_BYTES and includes this file. */
#include "optimize.h"

#include "table.h"
#include "fourier_body.h"

const struct fourier_kernels KERNELS = {.transform = fourier_};
