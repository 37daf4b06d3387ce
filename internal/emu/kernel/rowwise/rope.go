package rowwise

// #include "rows_op.h"
import "C"

import (
	"fmt"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// RotaryMode determines which elements of a head are rotated as a pair.
type RotaryMode int64

// Modes of aclnnRotaryPositionEmbedding, for a head of D elements.
const (
	RotaryHalf           RotaryMode = iota // i with i + D/2
	RotaryInterleave                       // 2i with 2i + 1
	RotaryQuarter                          // as RotaryHalf, within each half of the head
	RotaryInterleaveHalf                   // 2i with 2i + 1, the results in two halves
)

// pairs are rotations of n pairs: element outA of the result is a·cos − b·sin, and outB is b·cos + a·sin.
// The elements of the next pair are step or outStep later.
type pairs struct{ n, a, b, step, outA, outB, outStep int64 }

// in returns the elements of v from at on, one for each pair, and out those that are placed as the results.
func (p pairs) in(v kernel.View, at int64) kernel.View {
	return v.Part(len(v.Shape)-1, at, p.n, p.step)
}
func (p pairs) out(v kernel.View, at int64) kernel.View {
	return v.Part(len(v.Shape)-1, at, p.n, p.outStep)
}

// pairs returns the pairs of a mode for a dimension of size d.
func (m RotaryMode) pairs(d int64) ([]pairs, error) {
	h, q := d/2, d/4
	switch {
	case m == RotaryHalf && d%2 == 0:
		return []pairs{{h, 0, h, 1, 0, h, 1}}, nil
	case m == RotaryInterleave && d%2 == 0:
		return []pairs{{h, 0, 1, 2, 0, 1, 2}}, nil
	case m == RotaryInterleaveHalf && d%2 == 0:
		return []pairs{{h, 0, 1, 2, 0, h, 1}}, nil
	case m == RotaryQuarter && d%4 == 0:
		return []pairs{{q, 0, q, 1, 0, q, 1}, {q, h, h + q, 1, h, h + q, 1}}, nil
	}
	return nil, fmt.Errorf("kernel: rotary mode %d does not fit heads of %d elements", m, d)
}

// Rotary rotates the pairs of x's last dimension: aclnnRotaryPositionEmbedding. cos and sin
// broadcast to x and are indexed like the result, which may be x.
func Rotary(out, x, cos, sin kernel.View, mode RotaryMode) error {
	width := x.Shape[len(x.Shape)-1]
	all, err := mode.pairs(width)
	if err != nil || x.Len() == 0 {
		return err
	}
	if width > C.ROTATED || len(x.Shape) > kernel.MaxRank {
		return fmt.Errorf("kernel: no rotation of %v; %d dimensions and heads of %d elements at most are supported", x.Shape, kernel.MaxRank, C.ROTATED)
	}
	c := C.struct_rotation{space: cSpace(x.Shape), width: C.int64_t(width), runs: C.int32_t(len(all))}
	for i, p := range all {
		c.run[i] = C.struct_rotation_run{
			n: C.int64_t(p.n), a: C.int64_t(p.a), b: C.int64_t(p.b), step: C.int64_t(p.step), to_a: C.int64_t(p.outA), to_b: C.int64_t(p.outB), to_step: C.int64_t(p.outStep),
		}
	}
	for i, to := range [...]*C.struct_operand{&c.out, &c.x, &c.cos, &c.sin} {
		if *to, err = over([...]kernel.View{out, x, cos, sin}[i], x.Shape); err != nil {
			return err
		}
	}
	thread.Parallel(x.Len()/width, max(elementwise.PieceLen/width, 1), func(lo, hi int64) { C.rotate_rows(&c, C.int64_t(lo), C.int64_t(hi)) })
	return nil
}
