// Package convolution has kernels over windows of images and sequences: convolutions by products of unfolded windows, causal
// convolutions of sequences, pooling and its inverse, and resampling by taps.
//
// All are made of other kernels, in Go. A new one describes its windows by [Window], [Span] or [Taps].
package convolution
