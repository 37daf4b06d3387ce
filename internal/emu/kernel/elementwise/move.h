/* Moves elements of one size, of any type, between two strided layouts. */
#ifndef MOVE_H
#define MOVE_H

#include "space.h"

/* A zero element of the largest size. */
extern const uint64_t zero_element[2];

/* Moves the elements [lo, hi) of the space, counted in row-major order. */
void move_elements(const struct space *s, const struct operand *to, const struct operand *from, int32_t size, int64_t lo, int64_t hi);

/* The number of rows of dimension d in one strip of move_transposed. */
enum { STRIP = 64 };

/* Moves strips [lo, hi) of a transposition: to is packed along the last dimension, from along d.
 * A strip covers up to STRIP rows of d and the whole last dimension, at one index of the others.
 * Strips are counted with d innermost. */
void move_transposed(const struct space *s, const struct operand *to, const struct operand *from, int32_t size, int32_t d, int64_t lo, int64_t hi);

#endif
