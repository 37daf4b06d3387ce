package matmul

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// TestGroupedMatmul950 multiplies with the biases, scales and missing offsets that the Ascend950 alone takes.
func TestGroupedMatmul950(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 14))
	const e, k, n, name = 2, 12, 6, "GroupedMatmulV5"
	sizes := []int64{3, 2}
	const rows = 5
	const f, h, b, none = dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Undefined
	for _, c := range []struct {
		x, weight, bias, scale, out dtype.Type
		blocks                      int64
	}{
		{b, b, b, none, b, 0}, {b, b, f, none, b, 0}, {h, h, f, none, h, 0}, {f, f, f, none, f, 0},
		{b, dtype.Int8, b, none, b, 1}, {b, dtype.Int4, b, none, b, 3}, {h, dtype.Int4, h, none, h, 1}, {h, dtype.Int8, h, none, h, 1},
		{dtype.Int8, dtype.Int8, f, f, b, 0}, {dtype.Int8, dtype.Int8, dtype.Int32, f, b, 0}, {dtype.Int8, dtype.Int8, h, f, h, 0},
		{dtype.Int8, dtype.Int8, b, dtype.Uint64, b, 0}, {dtype.Int8, dtype.Int8, f, dtype.Uint64, h, 0},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			xv, wv, bias := whole(r, rows*k, 4), whole(r, e*k*n, 7), whole(r, e*n, 5)
			shape := []int64{e, k, n}
			var w *op.Tensor
			if c.weight == dtype.Int4 {
				w = int4Tensor(t, shape, wv)
			} else {
				w = optest.Tensor(t, c.weight, shape, wv...)
			}
			y := optest.Tensor(t, c.out, []int64{rows, n})
			a := groupedArgs(optest.Tensor(t, c.x, []int64{rows, k}, xv...), w, listed(t, 1, sizes...), y).With(optest.Args{
				"groupListType": 1, "biasOptional": single(optest.Tensor(t, c.bias, []int64{e, n}, bias...)),
			})
			want := reference(xv, wv, k, n, bias, sizes...)
			switch {
			case c.blocks > 0:
				shape := []int64{e, c.blocks, n}
				if c.blocks == 1 {
					shape = []int64{e, n}
				}
				count := int(op.Count(shape))
				scale := powers(r, count)
				a["antiquantScaleOptional"] = single(optest.Tensor(t, c.x, shape, scale...))
				want = reference(xv, restore(wv, scale, make([]float64, count), k, n, c.blocks), k, n, bias, sizes...)
			case c.scale != none:
				scale, row := powers(r, e*n), 0
				if a["scaleOptional"] = single(optest.Tensor(t, f, []int64{e, n}, scale...)); c.scale == dtype.Uint64 {
					a["scaleOptional"] = single(packedScales(t, c.scale, []int64{e, n}, scale))
				}
				want = reference(xv, wv, k, n, nil, sizes...)
				for g, size := range sizes {
					for range size {
						for column := range n {
							at, value := g*n+column, &want[row*n+column]
							if c.bias == dtype.Int32 { // added before the scale
								*value = (*value + bias[at]) * scale[at]
							} else {
								*value = *value*scale[at] + bias[at]
							}
						}
						row++
					}
				}
			}
			optest.RunOn(t, acceptance.Ascend950, name, a)
			near(t, c.out, want, optest.Values(y))
			if c.x == f || c.x == b && c.weight == b && c.bias == f || c.x == h && c.weight == dtype.Int4 {
				optest.Run(t, name, a)
				return
			}
			_, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend910B}, name, a)
			var refused *op.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, op.InvalidParam, refused.Code, refused.Text)
		})
	}
	x := optest.Tensor(t, h, []int64{rows, k})
	a := groupedArgs(x, optest.Tensor(t, dtype.Int8, []int64{e, k, n}), listed(t, 1, sizes...), optest.Tensor(t, h, []int64{rows, n})).With(optest.Args{"groupListType": 1})
	_, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend950}, name, a)
	require.ErrorContains(t, err, "antiquantScaleOptional is null")
	for _, bias := range []dtype.Type{f, b} {
		_, err = optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend950}, name, a.With(optest.Args{
			"antiquantScaleOptional": single(optest.Tensor(t, h, []int64{e, n})), "biasOptional": single(optest.Tensor(t, bias, []int64{e, n})),
		}))
		require.ErrorContains(t, err, "use one of [float16]")
	}
}
