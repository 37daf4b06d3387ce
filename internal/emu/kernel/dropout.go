package kernel

import "github.com/goascend/cann/internal/dtype"

// KeepBits sets the first n bits of a contiguous view of bytes, least significant bit first, to
// 0 with probability drop and else to 1. The remaining bits of the view become 0.
func (p Philox) KeepBits(out View, n int64, drop float64) {
	to := out.bytes()
	clear(to)
	Parallel((n+7)/8, grain/64, func(lo, hi int64) {
		for i := lo * 8; i < min(hi*8, n); i++ {
			if unit(p.Bits(i), 53) >= drop {
				to[i/8] |= 1 << (i % 8)
			}
		}
	})
}

// Dropout sets out to x times scale where the element's bit in keep is set, and to 0 elsewhere.
// keep is a contiguous view of bytes with one bit per element in row-major order.
func Dropout(out, x, keep View, scale float64) error {
	mask, release := temporary(dtype.Uint8, x.Shape)
	defer release()
	from, to := keep.bytes(), mask.bytes()
	for i := range to {
		to[i] = from[i/8] >> (i % 8) & 1
	}
	c := newChain(x)
	scaled := c.temp(x.Shape)
	c.set(scaled, Mul, nil, Of(x), Const(Real(scale)))
	c.set(out, Where, nil, Of(mask), Of(scaled), Const(Real(0)))
	return c.end()
}
