// Package decode provides attention over a cache of keys and values, and writes to it, for programs
// that generate text: contiguous caches, and caches in blocks that a table assigns to sequences.
//
//	dec, err := decode.New(reg) // reg is an *ops.Registry
//	err = dec.Write().Run(ctx, st, &decode.WriteArgs{Keys: k, Values: v, KeyCache: kc, ValueCache: vc, Slots: slots})
//	err = dec.Attention().Run(ctx, st, &decode.AttentionArgs{
//		Query: q, Layout: ops.BSND, Keys: kc, Values: vc, Blocks: table, Lengths: lengths, Scale: scale, Out: out,
//	})
//	fmt.Println(dec.Attention().Explain(&args)) // which kernel, and why not the others
//
// The operators choose among kernels as those of package ops do. On a 910B attention in 16 bits
// runs in FusedInferAttentionScore or IncreFlashAttention; other arguments are gathered from the
// blocks for the attention of package ops.
//
// A cache may be of int8, with a scale for each token and head that Write computes: a byte for a feature in place of two.
//
// The package allocates no cache and assigns no blocks: the caller decides which block a sequence
// gets. It has no gradients; training uses ops.Attention.
package decode
