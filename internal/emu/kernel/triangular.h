/* Solving with triangular matrices, by forward substitution. */
#ifndef TRIANGULAR_H
#define TRIANGULAR_H

#include <stdint.h>

/* Lower triangular l, and right-hand sides x that become the solution. Strides count
 * elements, which are double or float; those of l may be negative, so that an upper
 * triangular matrix is a lower one read from its end. Columns of x lie side by side. */
struct triangular {
	char *l, *x;
	int64_t l_row, l_col, x_row;
	int64_t rows, columns;
	int32_t wide; /* elements are double */
	int32_t unit; /* the diagonal is taken as ones and not read */
};

#endif
