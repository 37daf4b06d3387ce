// Package embeddingbag reduces groups of rows of a table, as embedding bags do.
//
// Sums and means of bags of like size are computed in float32, others in float64. Gathering rows without reducing them
// is in kernel (Gather).
//
//	bags := embeddingbag.Bags{Mode: embeddingbag.Mean, Index: []int64{4, 1, 7}, First: []int64{0, 2}, Padding: -1}
//	_, err := bags.Into(out, table) // out has the rows (4+1)/2 and 7
package embeddingbag
