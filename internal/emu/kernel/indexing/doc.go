// Package indexing has kernels that read or write at places which data gives: gather and scatter, selection by masks,
// sorting and ranks, distinct elements, embeddings, and weighted sums of chosen rows.
//
// Moves of elements of any type are in index.c. Arithmetic on what is scattered is in index_body.h and combine_body.h,
// compiled for each CPU variant: a new function is declared in index.h or combine.h and entered in table.h and body.h.
package indexing
