/* Moving elements of one size between two strided layouts, whatever their type. */
#ifndef MOVE_H
#define MOVE_H

#include "space.h"

/* An element of zeros, as wide as the widest. */
extern const uint64_t zero_element[2];

/* Moves the elements [lo, hi) of the space, counted in row-major order. */
void move_elements(const struct space *s, const struct operand *to, const struct operand *from, int32_t size, int64_t lo, int64_t hi);

/* The rows of dimension d that make one strip of move_transposed. */
enum { STRIP = 64 };

/* Moves strips [lo, hi) of a transposition: to is packed along the last dimension, from
 * along d. A strip is up to STRIP rows of d, all of the last dimension, at one place of the
 * others; strips are counted with d innermost. */
void move_transposed(const struct space *s, const struct operand *to, const struct operand *from, int32_t size, int32_t d, int64_t lo, int64_t hi);

#endif
