// Package mask describes which keys a query of attention sees. A mask type replaces a byte tensor
// and five numbers that must agree with it.
//
//	d, err := mask.Decide(mask.Padding{Lengths: lengths, Causal: true}, mask.Shape{
//		Layout: mask.BSND, Batch: 8, Heads: 32, Queries: 4096, Keys: 4096,
//	})
//	fmt.Println(d) // sparseMode 2, triangle [2048,2048]: right padding, no valid query sees a padding key
//
// Decide converts a mask to the arguments of FlashAttentionScore: sparse mode, mask tensor, window,
// prefix and sequence ends. It refuses arguments that the device would refuse, and those for which
// the device would silently compute something else, with the reason and the remedy. It is a pure
// function: it launches nothing and reads no device memory.
//
// The package builds no tensors; package ops does that for its attention operator. Position bias
// and dropout are arguments of attention and not part of this package.
package mask
