package ops

import "math/rand/v2"

// DropMask draws a dropout mask for B·N·Sq·Skv probabilities, each kept with probability keep, in
// the format of AttentionArgs.DropMask. A seed gives the same mask on every machine; forward and
// backward pass must use the same mask.
func DropMask(seed uint64, keep float64, probabilities int64) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	bytes := make([]byte, (probabilities+7)/8)
	for i := range probabilities {
		if r.Float64() < keep {
			bytes[i/8] |= 1 << (i % 8)
		}
	}
	return bytes
}

// Kept reports whether a dropout mask keeps probability i, counted in the order of [B,N,Sq,Skv].
func Kept(mask []byte, i int64) bool { return mask[i/8]>>(i%8)&1 == 1 }
