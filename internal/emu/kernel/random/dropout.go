package random

import (
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// KeepBits sets the first n bits of a contiguous view of bytes, least significant bit first, to
// 0 with probability drop and else to 1. The remaining bits of the view become 0.
func (p Philox) KeepBits(out kernel.View, n int64, drop float64) {
	to := bytes(out)
	clear(to)
	thread.Parallel((n+7)/8, grain/8, func(lo, hi int64) {
		p.each(lo*8, min(hi*8, n), func(i int64, x uint64) {
			if unit(x, 53) >= drop {
				to[i/8] |= 1 << (i % 8)
			}
		})
	})
}

// Dropout sets out to x times scale where the element's bit in keep is set, and to 0 elsewhere.
// keep is a contiguous view of bytes with one bit per element in row-major order.
func Dropout(out, x, keep kernel.View, scale float64) error {
	mask, release := kernel.TemporaryOf(dtype.Uint8, x.Shape...)
	defer release()
	from, to := bytes(keep), bytes(mask)
	thread.Parallel(int64(len(to)), grain, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			to[i] = from[i/8] >> (i % 8) & 1
		}
	})
	compute := dtype.Float32
	if x.DType == dtype.Float64 {
		compute = dtype.Float64
	}
	scaled, releaseScaled := kernel.TemporaryOf(compute, x.Shape...)
	defer releaseScaled()
	if err := elementwise.Map(elementwise.Mul, compute, scaled, []elementwise.Input{elementwise.Of(x), elementwise.Const(elementwise.Real(scale))}); err != nil {
		return err
	}
	return elementwise.Map(elementwise.Where, compute, out, []elementwise.Input{elementwise.Of(mask), elementwise.Of(scaled), elementwise.Const(elementwise.Real(0))})
}

// bytes returns the memory of a contiguous view of one-byte elements as a slice.
func bytes(v kernel.View) []byte { return unsafe.Slice((*byte)(v.Data), v.Len()) }
