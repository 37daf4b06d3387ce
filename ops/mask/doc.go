// Package mask says which keys a query of attention sees, as a type instead of a byte
// tensor and five numbers that must agree with it.
//
//	d, err := mask.Decide(mask.Padding{Lengths: lengths, Causal: true}, mask.Shape{
//		Layout: mask.BSND, Batch: 8, Heads: 32, Queries: 4096, Keys: 4096,
//	})
//	fmt.Println(d) // sparseMode 2, triangle [2048,2048]: right padding, no valid query sees a padding key
//
// Decide turns a mask into what FlashAttentionScore is called with: sparse mode, mask
// tensor, window, prefix and sequence ends. It refuses what the device would refuse, and
// what the device would silently compute otherwise than meant, with the reason and the
// remedy. It is pure: it launches nothing and looks at no device memory.
//
// The package builds no tensors; package ops does that for its attention operator. It says
// nothing about position bias and dropout, which are arguments of attention.
package mask
