/* Reading and writing of elements at the indices in an integer tensor. */
#ifndef INDEX_H
#define INDEX_H

#include "space.h"
#include "table.h"

/* out[c] = in[c with one coordinate replaced by index[c]]. The space is that of out. For the
 * replaced coordinate in has stride 0, and step is its actual stride. */
struct index_read {
	struct space space;
	struct operand out, in, index; /* index is int64 */
	int64_t step;
};

/* Reads the elements [lo, hi) of the space; an element has size bytes. */
void index_gather(const struct index_read *g, int32_t size, int64_t lo, int64_t hi);

enum { SCATTER_SET, SCATTER_ADD, SCATTER_MUL, SCATTER_MAX, SCATTER_MIN };

/* into[c with one coordinate replaced by index[c]] op= src[c], in order along that coordinate.
 * kept is the space of the other coordinates. */
struct index_write {
	int32_t op, class;
	struct space kept;
	int64_t length; /* of src and index along the coordinate */
	struct operand into, src, index; /* strides over kept; index is int64 */
	int64_t into_step, src_step, index_step; /* strides along the coordinate */
	int32_t by_line; /* elements along the coordinate are closer than those along kept */
};

/* SCATTER_SET for the elements [lo, hi) of kept; an element has size bytes. */
void index_set(const struct index_write *w, int32_t size, int64_t lo, int64_t hi);

/* The other operators; into is float, double, int64_t or uint64_t, by class. */
static inline void index_reduce(const struct index_write *w, int64_t lo, int64_t hi) { indexing_kernels->index_reduce(w, lo, hi); }

#endif
