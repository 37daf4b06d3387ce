package kernel

import "fmt"

// RotaryMode says which elements of a head are rotated as a pair.
type RotaryMode int64

// Modes of aclnnRotaryPositionEmbedding, for a head of D elements.
const (
	RotaryHalf           RotaryMode = iota // i with i + D/2
	RotaryInterleave                       // 2i with 2i + 1
	RotaryQuarter                          // as RotaryHalf, within each half of the head
	RotaryInterleaveHalf                   // 2i with 2i + 1, the results in two halves
)

// pair selects the operands of one rotation: outA = a·cos − b·sin and outB = b·cos + a·sin.
type pair struct{ a, b, outA, outB func(View) View }

// pairs returns the pairs of a mode for a dimension of size d. Each pair covers many rotations.
func (m RotaryMode) pairs(d int64, axis int) ([]pair, error) {
	part := func(start, n, step int64) func(View) View {
		return func(v View) View { return v.Part(axis, start, n, step) }
	}
	first, second := part(0, d/2, 1), part(d/2, d/2, 1)
	even, odd := part(0, d/2, 2), part(1, d/2, 2)
	q := d / 4
	switch {
	case m == RotaryHalf && d%2 == 0:
		return []pair{{first, second, first, second}}, nil
	case m == RotaryInterleave && d%2 == 0:
		return []pair{{even, odd, even, odd}}, nil
	case m == RotaryInterleaveHalf && d%2 == 0:
		return []pair{{even, odd, first, second}}, nil
	case m == RotaryQuarter && d%4 == 0:
		return []pair{
			{part(0, q, 1), part(q, q, 1), part(0, q, 1), part(q, q, 1)},
			{part(2*q, q, 1), part(3*q, q, 1), part(2*q, q, 1), part(3*q, q, 1)},
		}, nil
	}
	return nil, fmt.Errorf("kernel: rotary mode %d does not fit heads of %d elements", m, d)
}

// Rotary rotates the pairs of x's last dimension: aclnnRotaryPositionEmbedding. cos and sin
// broadcast to x and are indexed like the result.
func Rotary(out, x, cos, sin View, mode RotaryMode) error {
	axis := len(x.Shape) - 1
	pairs, err := mode.pairs(x.Shape[axis], axis)
	if err != nil {
		return err
	}
	dims := axis
	if len(cos.Shape) != len(x.Shape) || len(sin.Shape) != len(x.Shape) {
		dims = 0
	}
	return newPieces(x.Shape, dims, []View{out}, x, cos, sin).run(func(_ int64, of func(View) View) error {
		out, x, cos, sin := of(out), of(x), of(cos), of(sin)
		c := newChain(x)
		for _, p := range pairs {
			a, b := p.a(x), p.b(x)
			newA, newB := c.temp(a.Shape), c.temp(a.Shape)
			c.mul(newA, a, p.outA(cos))
			c.addTimes(newA, newA, -1, b, p.outA(sin))
			c.mul(newB, b, p.outB(cos))
			c.addTimes(newB, newB, 1, a, p.outB(sin))
			c.set(p.outA(out), Identity, nil, Of(newA))
			c.set(p.outB(out), Identity, nil, Of(newB))
		}
		return c.end()
	})
}
