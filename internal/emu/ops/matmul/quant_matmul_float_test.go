package matmul

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/fractal"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// saturated rounds to int8.
func saturated(v float64) float64 { return min(max(math.RoundToEven(v), -128), 127) }

func TestBatchMatmulQuant(t *testing.T) {
	const m, k, n = 3, 5, 18
	d := dtype.Float16
	offset := float32(-7)
	for _, l := range kerneltest.Layouts {
		for _, all := range []bool{false, true} {
			for _, swap := range []bool{false, true} {
				params, scales := []*op.Tensor{optest.Tensor(t, dtype.Uint64, []int64{1}), optest.Tensor(t, dtype.Uint64, []int64{32})}, []float64{8, 2, 16}
				p := params[0]
				if all {
					p = params[1]
				}
				packed := make([]int64, p.Len())
				for i := range packed {
					s := float32(scales[0])
					if all {
						s = float32(scales[i%3])
					}
					packed[i] = int64(op.PackScale(s, &offset, false))
				}
				assert.NoError(t, indexing.SetInts(p.View(), packed))
				x, w := optest.Filled(t, 1, d, l, []int64{m, k}), optest.Filled(t, 2, d, l, []int64{k, n})
				a := optest.Args{"x1": x, "x2": w, "quantParam": p, "bias": optest.Filled(t, 3, d, l, []int64{n}), "out": optest.TensorIn(t, dtype.Int8, l, []int64{m, n})}
				want := optest.Times(optest.Values(x), optest.Values(w), k)
				optest.Add(want, optest.Values(a["bias"].(*op.Tensor)))
				for i := range want {
					s := scales[0]
					if all {
						s = scales[i%n%3]
					}
					want[i] = saturated(want[i]*s - 7)
				}
				if swap {
					a["x1"], a["x2"] = optest.Tensor(t, d, []int64{k, m}, optest.Transposed(optest.Values(x), k)...), optest.Tensor(t, d, []int64{n, k}, optest.Transposed(optest.Values(w), n)...)
					a["transposeX1"], a["transposeX2"] = true, true
				}
				optest.Run(t, "BatchMatmulQuant", a)
				got := optest.Values(a["out"].(*op.Tensor))
				for i := range want {
					assert.InDelta(t, want[i], got[i], 1, "%v %v %v", l, all, swap)
				}
				optest.Refused(t, op.NullPointer, "BatchMatmulQuant", a.With(optest.Args{"quantParam": nil}), "quantParam is null")
				optest.Refused(t, op.InvalidParam, "BatchMatmulQuant", a.With(optest.Args{"quantParam": optest.Tensor(t, dtype.Uint64, []int64{n + 1}, 0)}), "padded to sixteen")
				optest.Refused(t, op.InvalidParam, "BatchMatmulQuant", a.With(optest.Args{"bias": optest.Tensor(t, d, []int64{n + 1}, 0)}), "one for each column")
				optest.Refused(t, op.InvalidParam, "BatchMatmulQuant", a.With(optest.Args{"x1": optest.Tensor(t, d, []int64{0, k})}), "is empty")
			}
		}
	}
}

func TestQuantMatmulDequant(t *testing.T) {
	const m, k, n = 3, 32, 16
	d := dtype.Float16
	x, w, scales := optest.Filled(t, 1, d, kerneltest.Contiguous, []int64{m, k}), optest.Tensor(t, dtype.Int8, []int64{n, k}, optest.Normal(2, dtype.Int8, n*k)...), optest.Tensor(t, dtype.Float32, []int64{n}, .5, .25, 1)
	smooth := optest.Filled(t, 3, d, kerneltest.Contiguous, []int64{k})
	nz := optest.Tensor(t, dtype.Int8, []int64{1, 1, 16, 32})
	assert.NoError(t, fractal.Pack(nz.Data, 32, w.View()))
	nz.Format = dtype.FractalNZ
	for _, c := range []struct {
		mode   string
		given  *op.Tensor
		smooth *op.Tensor
		weight *op.Tensor
	}{
		{"pertoken", nil, nil, w}, {"pertoken", nil, smooth, nz}, {"pertoken", optest.Tensor(t, dtype.Float32, []int64{m}, .0625, .03125, .125), smooth, w},
		{"pertensor", optest.Tensor(t, dtype.Float32, []int64{1}, .0625), nil, nz}, {"pertensor", optest.Tensor(t, d, []int64{1}, .0625), nil, w},
		{"pertoken", optest.Tensor(t, d, []int64{m}, .0625, .0625, .0625), smooth, nz}, // CANN's documents do not want it, its checks take it
	} {
		packed := c.given != nil && c.given.DType == d
		scale := scales
		if packed { // the scale of x is included
			scale = optest.Tensor(t, dtype.Int64, []int64{n})
			bits := make([]int64, n)
			for i, s := range optest.Values(scales) {
				bits[i] = int64(math.Float32bits(float32(s * .0625)))
			}
			assert.NoError(t, indexing.SetInts(scale.View(), bits))
		}
		small, rows := make([]float64, m*k), make([]float64, m)
		for i := range m {
			most := 0.0
			for j := range k {
				v := optest.Values(x)[i*k+j]
				if c.smooth != nil {
					v *= optest.Values(smooth)[j]
				}
				small[i*k+j] = v
				most = max(most, math.Abs(v))
			}
			rows[i] = most / 127
			if c.given != nil {
				rows[i] = optest.Values(c.given)[i%len(optest.Values(c.given))]
			}
			for j := range k {
				small[i*k+j] = saturated(small[i*k+j] / rows[i])
			}
		}
		want := optest.Times(small, optest.Transposed(optest.Values(w), k), k)
		for i := range want {
			want[i] *= rows[i/n] * optest.Values(scales)[i%n]
		}
		out := optest.Tensor(t, d, []int64{m, n})
		a := optest.Args{"x": x, "weight": c.weight, "weightScale": scale, "xScaleOptional": c.given, "smoothScaleOptional": c.smooth, "xQuantMode": c.mode, "transposeWeight": true, "out": out}
		optest.Run(t, "QuantMatmulDequant", a)
		optest.CloseTo(t, fmt.Sprintf("%s %v", c.mode, c.given), want, optest.Values(out), .01)
		optest.Refused(t, op.InvalidParam, "QuantMatmulDequant", a.With(optest.Args{"transposeWeight": false}), "transposeWeight")
		optest.Refused(t, op.InvalidParam, "QuantMatmulDequant", a.With(optest.Args{"xQuantMode": "perrow"}), "perrow")
		optest.Refused(t, op.TilingRefused, "QuantMatmulDequant", a.With(optest.Args{"weight": optest.Tensor(t, dtype.Int8, []int64{n, 16}, 0)}), "does not fit")
		optest.Refused(t, op.NullPointer, "QuantMatmulDequant", a.With(optest.Args{"weight": nil}), "weight is null")
		optest.Refused(t, op.InvalidParam, "QuantMatmulDequant", a.With(optest.Args{"weight": optest.Tensor(t, dtype.Int8, []int64{1, n, k}, 0)}), "must be [N,32]")
		optest.Refused(t, op.InvalidParam, "QuantMatmulDequant", a.With(optest.Args{"weight": optest.Tensor(t, dtype.Int8, []int64{n - 1, k}, 0)}), "multiples of 16")
		for _, name := range []string{"biasOptional", "xOffsetOptional"} {
			optest.Refused(t, op.NullPointer, "QuantMatmulDequant", a.With(optest.Args{name: x}), "must be null")
		}
		_, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend910B}, "QuantMatmulDequant", a)
		var e *op.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, op.InvalidParam, e.Code, "the checks of the types know the Ascend310P alone: %s", e.Text)
	}
	optest.Refused(t, op.InvalidParam, "QuantMatmulDequant", optest.Args{"x": x, "weight": w, "weightScale": scales, "xQuantMode": "pertensor", "transposeWeight": true, "out": optest.Tensor(t, d, []int64{m, n})}, "without xScaleOptional")
}

func TestWeightQuantBatchMatmul(t *testing.T) {
	const m, k, n = 3, 5, 4
	d := dtype.Float16
	for _, l := range kerneltest.Layouts {
		for _, swap := range []bool{false, true} {
			x, w := optest.Filled(t, 1, d, l, []int64{m, k}), optest.TensorIn(t, dtype.Int8, l, []int64{k, n}, 3, -10, 7, 0, 12)
			scale, offset, bias := []float64{.5, .25, 1, 2}, []float64{1, -2, 0, 4}, optest.Filled(t, 3, d, kerneltest.Contiguous, []int64{n})
			dense := optest.Values(w)
			for i := range dense {
				dense[i] = ((dense[i]+3)*.5 + offset[i%n]) * scale[i%n]
			}
			want := optest.Times(optest.Values(x), dense, k)
			optest.Add(want, optest.Values(bias))
			a := optest.Args{
				"x1": x, "x2": w, "mulScale": optest.Tensor(t, d, []int64{1, n}, scale...), "addOffset": optest.Tensor(t, d, []int64{n}, offset...), "bias": bias,
				"antiquantScale": .5, "antiquantOffset": 3.0, "out": optest.TensorIn(t, d, l, []int64{m, n}),
			}
			if swap {
				a["x1"], a["x2"] = optest.Tensor(t, d, []int64{k, m}, optest.Transposed(optest.Values(x), k)...), optest.Tensor(t, dtype.Int8, []int64{n, k}, optest.Transposed(optest.Values(w), n)...)
				a["transposeX1"], a["transposeX2"] = true, true
			}
			optest.Run(t, "WeightQuantBatchMatmul", a)
			optest.CloseTo(t, fmt.Sprintf("%v %v", l, swap), want, optest.Values(a["out"].(*op.Tensor)), 4*optest.ResultLimit(d))
			optest.Run(t, "WeightQuantBatchMatmul", a.With(optest.Args{"addOffset": nil, "bias": nil, "mulScale": optest.Tensor(t, d, []int64{1}, 1)}))
			optest.Refused(t, op.NullPointer, "WeightQuantBatchMatmul", a.With(optest.Args{"mulScale": nil}), "mulScale is null")
			optest.Refused(t, op.InvalidParam, "WeightQuantBatchMatmul", a.With(optest.Args{"addOffset": optest.Tensor(t, d, []int64{3}, 1)}), "one for each of 4 columns")
			optest.Refused(t, op.InvalidParam, "WeightQuantBatchMatmul", a.With(optest.Args{"out": optest.Tensor(t, d, []int64{n, m})}), "must have shape")
		}
	}
}
