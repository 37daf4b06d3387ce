// Package attention has flash attention: [FlashAttention], its gradients, and attention over paged caches ([Infer]). No
// kernel holds the matrix of scores.
//
// forward.h and backward.h walk over tiles of rows and keys; score.h has masks, biases and dropout; the products of a tile are
// in forward_floats.h and backward_floats.h, and for units that multiply pairs of bfloat16 in forward_pairs.h and
// backward_pairs.h. A new mask or bias is a field of struct attention (attention.h), set in attention.go and read in score.h.
package attention
