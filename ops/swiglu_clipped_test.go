package ops_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
)

// TestClippedSwiGLU compares every kernel with the definition in float64, in odd sizes, with elements beyond the limit.
func TestClippedSwiGLU(t *testing.T) {
	for _, dt := range opstest.FloatTypes {
		for _, shape := range [][]int64{{3, 8}, {2, 3, 14}, {1, 2}, {5, 66}} {
			for _, interleaved := range []bool{false, true} {
				for _, kernel := range [][2]string{{"ClippedSwiglu", "ClippedSwigluGrad"}, {"composite", "composite"}} {
					t.Run(fmt.Sprint(dt, shape, interleaved, kernel[0]), func(t *testing.T) {
						b := opstest.New(t)
						require.NoError(t, b.ClippedSwiGLU().Pin(kernel[0]))
						require.NoError(t, b.ClippedSwiGLUGrad().Pin(kernel[1]))
						half := append(append([]int64(nil), shape[:len(shape)-1]...), shape[len(shape)-1]/2)
						x, values := b.Input(dt, 1, shape...)
						dy, dvalues := b.Input(dt, 2, half...)
						a := ops.ClippedSwiGLUArgs{X: x, Interleaved: interleaved, Alpha: 1.702, Limit: 0.75, Offset: 1, Out: b.Empty(dt, half...)}
						width := int(half[len(half)-1])
						want, dwant := make([]float32, a.Out.Len()), make([]float32, x.Len())
						for i := range want {
							row, column := i/width, i%width
							at, other := row*2*width+column, row*2*width+width+column
							if interleaved {
								at, other = row*2*width+2*column, row*2*width+2*column+1
							}
							gate, up, d := float64(values[at]), float64(values[other]), float64(dvalues[i])
							g, u := math.Min(gate, a.Limit), math.Max(math.Min(up, a.Limit), -a.Limit)+1
							sigmoid := 1 / (1 + math.Exp(-1.702*g))
							want[i] = float32(g * sigmoid * u)
							if gate <= a.Limit {
								dwant[at] = float32(d * u * (sigmoid + 1.702*g*sigmoid*(1-sigmoid)))
							}
							if math.Abs(up) <= a.Limit {
								dwant[other] = float32(d * g * sigmoid)
							}
						}
						opstest.Run(b, b.ClippedSwiGLU(), &a)
						b.Near("out", a.Out, want, opstest.Tolerance(dt))
						g := ops.ClippedSwiGLUGradArgs{ClippedSwiGLUArgs: a, DOut: dy, DX: b.Empty(dt, shape...)}
						opstest.Run(b, b.ClippedSwiGLUGrad(), &g)
						b.Near("dx", g.DX, dwant, opstest.Tolerance(dt))
					})
				}
			}
		}
	}
}

func TestClippedSwiGLURefusals(t *testing.T) {
	b := opstest.New(t)
	f := func(shape ...int64) *aclnn.Tensor { return b.Empty(aclnn.Float32, shape...) }
	for text, a := range map[string]ops.ClippedSwiGLUArgs{
		"Limit 0":        {X: f(2, 4), Alpha: 1, Out: f(2, 2)},
		"Alpha is 0":     {X: f(2, 4), Limit: 1, Out: f(2, 2)},
		"Offset is NaN":  {X: f(2, 4), Alpha: 1, Limit: 1, Offset: math.NaN(), Out: f(2, 2)},
		"must be even":   {X: f(2, 3), Alpha: 1, Limit: 1, Out: f(2, 1)},
		"Out is float32": {X: f(2, 4), Alpha: 1, Limit: 1, Out: f(2, 4)},
	} {
		err := b.ClippedSwiGLU().Check(&a)
		require.ErrorIs(t, err, ops.ErrInvalid, text)
		require.ErrorContains(t, err, text)
	}
	spaced := f(2, 8).Narrow(1, 0, 4)
	require.Contains(t, b.ClippedSwiGLU().Explain(&ops.ClippedSwiGLUArgs{X: spaced, Alpha: 1, Limit: 1, Out: f(2, 2)}).String(), "ClippedSwiglu: it takes contiguous tensors only")
}
