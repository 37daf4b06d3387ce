package order

import "math/bits"

// Ranked returns the place of the key with the given rank. It looks at the bits in which the keys
// differ from the highest on, and keeps only the keys that agree with the one it looks for. scratch
// has the length of keys.
func Ranked(keys []uint64, rank int64, scratch []uint64) int64 {
	left := scratch[:copy(scratch, keys)]
	const digit = 11
	mask := varying(left)
	for top := bits.Len64(mask); len(left) > 1 && top > 0; top -= digit {
		shift := max(top-digit, 0)
		low := uint64(1)<<(top-shift) - 1
		var counts [1 << digit]int64
		for _, k := range left {
			counts[k>>shift&low]++
		}
		d := uint64(0)
		for ; rank >= counts[d]; d++ {
			rank -= counts[d]
		}
		same := left[:0]
		for _, k := range left {
			if k>>shift&low == d {
				same = append(same, k)
			}
		}
		left = same
	}
	for i, k := range keys {
		if k == left[0] {
			if rank == 0 {
				return int64(i)
			}
			rank--
		}
	}
	panic("order: a rank beyond the number of keys")
}
