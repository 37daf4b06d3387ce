package kernel_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// TestBitsOfWords: bitwise operations go by words of 64 bits where operands are contiguous. Lengths that are no
// multiple of a word, constants of any sign and strided operands give what single elements give.
func TestBitsOfWords(t *testing.T) {
	ops := map[string]struct {
		op     kernel.Op
		inputs int
		f      func(x, y int64) int64
	}{
		"and": {kernel.BitAnd, 2, func(x, y int64) int64 { return x & y }},
		"or":  {kernel.BitOr, 2, func(x, y int64) int64 { return x | y }},
		"xor": {kernel.BitXor, 2, func(x, y int64) int64 { return x ^ y }},
		"not": {kernel.BitNot, 1, func(x, _ int64) int64 { return ^x }},
	}
	kerneltest.EachVariant(t, func(t *testing.T) {
		for _, d := range integers {
			if d == dtype.Uint32 || d == dtype.Uint64 {
				continue // float64 does not hold all of their complements
			}
			bits := 8 * d.Size()
			signed := d == dtype.Int8 || d == dtype.Int16 || d == dtype.Int32 || d == dtype.Int64
			// number is what an element of type d with the low bits of x holds.
			number := func(x int64) float64 {
				if signed {
					return float64(x << (64 - bits) >> (64 - bits))
				}
				return float64(uint64(x) << (64 - bits) >> (64 - bits))
			}
			for _, n := range []int64{1, 2, 3, 7, 8, 9, 15, 63, 65, 1031, 4099} {
				xs, ys := make([]float64, n), make([]float64, n)
				for i := range xs {
					xs[i], ys[i] = number(int64(i*37-91)), number(int64(53-i*11))
				}
				for _, layout := range []kerneltest.Layout{kerneltest.Contiguous, kerneltest.Reversed} {
					x, y := kerneltest.New(t, d, layout, []int64{n}, xs), kerneltest.New(t, d, kerneltest.Contiguous, []int64{n}, ys)
					for name, o := range ops {
						check := func(in kernel.Input, other func(i int) float64) {
							text := fmt.Sprintf("%s of %d %v, %v", name, n, d, layout)
							out := kerneltest.New(t, d, kerneltest.Contiguous, []int64{n}, nil)
							require.NoError(t, kernel.Map(o.op, d, out, []kernel.Input{kernel.Of(x), in}[:o.inputs]), text)
							for i, got := range kerneltest.Values(out) {
								require.Equal(t, number(o.f(int64(xs[i]), int64(other(i)))), got, "%s: element %d", text, i)
							}
						}
						check(kernel.Of(y), func(i int) float64 { return ys[i] })
						for _, c := range []int64{0, 1, 100, -1, -86} {
							if o.inputs == 2 {
								check(kernel.Const(kernel.Whole(c)), func(int) float64 { return float64(c) })
							}
						}
					}
				}
			}
		}
	})
}
