/* Solves triangular systems by forward substitution. */
#ifndef TRIANGULAR_H
#define TRIANGULAR_H

#include <stdint.h>

/* A lower triangular matrix l and right-hand sides x, which are replaced by the solution. Strides
 * count elements, which are double or float. Those of l may be negative, so that an upper
 * triangular matrix is a lower one read from its end. The rows of x are contiguous. */
struct triangular {
	char *l, *x;
	int64_t l_row, l_col, x_row;
	int64_t rows, columns;
	int32_t wide; /* elements are double */
	int32_t unit; /* the diagonal is taken as ones and not read */
};

#endif
