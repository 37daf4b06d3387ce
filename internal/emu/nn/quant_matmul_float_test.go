package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// saturated rounds to int8.
func saturated(v float64) float64 { return min(max(math.RoundToEven(v), -128), 127) }

// transposedMatrix swaps rows and columns.
func transposedMatrix(x []float64, rows, cols int64) []float64 {
	y := make([]float64, len(x))
	for i := range rows {
		for j := range cols {
			y[j*rows+i] = x[i*cols+j]
		}
	}
	return y
}

func TestBatchMatmulQuant(t *testing.T) {
	const m, k, n = 3, 5, 18
	d := dtype.Float16
	offset := float32(-7)
	for _, l := range kerneltest.Layouts {
		for _, all := range []bool{false, true} {
			for _, swap := range []bool{false, true} {
				params, scales := []*Tensor{tensor(t, dtype.Uint64, []int64{1}), tensor(t, dtype.Uint64, []int64{32})}, []float64{8, 2, 16}
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
					packed[i] = int64(packScale(s, &offset, false))
				}
				assert.NoError(t, kernel.SetInts(p.View(), packed))
				x, w := filled(t, 1, d, l, []int64{m, k}), filled(t, 2, d, l, []int64{k, n})
				a := args{"x1": x, "x2": w, "quantParam": p, "bias": filled(t, 3, d, l, []int64{n}), "out": tensorIn(t, dtype.Int8, l, []int64{m, n})}
				want := matrixProduct(values(x), values(w), m, k, n)
				add(want, values(a["bias"].(*Tensor)))
				for i := range want {
					s := scales[0]
					if all {
						s = scales[i%n%3]
					}
					want[i] = saturated(want[i]*s - 7)
				}
				if swap {
					a["x1"], a["x2"] = tensor(t, d, []int64{k, m}, transposedMatrix(values(x), m, k)...), tensor(t, d, []int64{n, k}, transposedMatrix(values(w), k, n)...)
					a["transposeX1"], a["transposeX2"] = true, true
				}
				run(t, "BatchMatmulQuant", a)
				got := values(a["out"].(*Tensor))
				for i := range want {
					assert.InDelta(t, want[i], got[i], 1, "%v %v %v", l, all, swap)
				}
				refused(t, nullPointer, "BatchMatmulQuant", a.with(args{"quantParam": nil}), "quantParam is null")
				refused(t, invalidParam, "BatchMatmulQuant", a.with(args{"quantParam": tensor(t, dtype.Uint64, []int64{n + 1}, 0)}), "padded to sixteen")
				refused(t, invalidParam, "BatchMatmulQuant", a.with(args{"bias": tensor(t, d, []int64{n + 1}, 0)}), "one for each column")
				refused(t, invalidParam, "BatchMatmulQuant", a.with(args{"x1": tensor(t, d, []int64{0, k})}), "is empty")
			}
		}
	}
}

func TestQuantMatmulDequant(t *testing.T) {
	const m, k, n = 3, 32, 16
	d := dtype.Float16
	x, w, scales := filled(t, 1, d, kerneltest.Contiguous, []int64{m, k}), tensor(t, dtype.Int8, []int64{n, k}, normal(2, dtype.Int8, n*k)...), tensor(t, dtype.Float32, []int64{n}, .5, .25, 1)
	smooth := filled(t, 3, d, kerneltest.Contiguous, []int64{k})
	nz := tensor(t, dtype.Int8, []int64{1, 1, 16, 32})
	assert.NoError(t, kernel.ToNZ(nz.host, 32, w.View()))
	nz.Format = dtype.FractalNZ
	for _, c := range []struct {
		mode   string
		given  *Tensor
		smooth *Tensor
		weight *Tensor
	}{
		{"pertoken", nil, nil, w}, {"pertoken", nil, smooth, nz}, {"pertoken", tensor(t, dtype.Float32, []int64{m}, .0625, .03125, .125), smooth, w},
		{"pertensor", tensor(t, dtype.Float32, []int64{1}, .0625), nil, nz}, {"pertensor", tensor(t, d, []int64{1}, .0625), nil, w},
	} {
		packed := c.given != nil && c.given.DType == d
		scale := scales
		if packed { // the scale of x is part of it
			scale = tensor(t, dtype.Int64, []int64{n})
			bits := make([]int64, n)
			for i, s := range values(scales) {
				bits[i] = int64(math.Float32bits(float32(s * .0625)))
			}
			assert.NoError(t, kernel.SetInts(scale.View(), bits))
		}
		small, rows := make([]float64, m*k), make([]float64, m)
		for i := range m {
			most := 0.0
			for j := range k {
				v := values(x)[i*k+j]
				if c.smooth != nil {
					v *= values(smooth)[j]
				}
				small[i*k+j] = v
				most = max(most, math.Abs(v))
			}
			rows[i] = most / 127
			if c.given != nil {
				rows[i] = values(c.given)[i%len(values(c.given))]
			}
			for j := range k {
				small[i*k+j] = saturated(small[i*k+j] / rows[i])
			}
		}
		want := matrixProduct(small, transposedMatrix(values(w), n, k), m, k, n)
		for i := range want {
			want[i] *= rows[i/n] * values(scales)[i%n]
		}
		out := tensor(t, d, []int64{m, n})
		a := args{"x": x, "weight": c.weight, "weightScale": scale, "xScaleOptional": c.given, "smoothScaleOptional": c.smooth, "xQuantMode": c.mode, "transposeWeight": true, "out": out}
		run(t, "QuantMatmulDequant", a)
		closeTo(t, fmt.Sprintf("%s %v", c.mode, c.given), want, values(out), .01)
		refused(t, invalidParam, "QuantMatmulDequant", a.with(args{"transposeWeight": false}), "transposeWeight")
		refused(t, invalidParam, "QuantMatmulDequant", a.with(args{"xQuantMode": "perrow"}), "perrow")
		refused(t, tilingRefused, "QuantMatmulDequant", a.with(args{"weight": tensor(t, dtype.Int8, []int64{n, 16}, 0)}), "does not fit")
		refused(t, nullPointer, "QuantMatmulDequant", a.with(args{"weight": nil}), "weight is null")
	}
	refused(t, invalidParam, "QuantMatmulDequant", args{"x": x, "weight": w, "weightScale": scales, "xQuantMode": "pertensor", "transposeWeight": true, "out": tensor(t, d, []int64{m, n})}, "without xScaleOptional")
}

func TestWeightQuantBatchMatmul(t *testing.T) {
	const m, k, n = 3, 5, 4
	d := dtype.Float16
	for _, l := range kerneltest.Layouts {
		for _, swap := range []bool{false, true} {
			x, w := filled(t, 1, d, l, []int64{m, k}), tensorIn(t, dtype.Int8, l, []int64{k, n}, 3, -10, 7, 0, 12)
			scale, offset, bias := []float64{.5, .25, 1, 2}, []float64{1, -2, 0, 4}, filled(t, 3, d, kerneltest.Contiguous, []int64{n})
			dense := values(w)
			for i := range dense {
				dense[i] = ((dense[i]+3)*.5 + offset[i%n]) * scale[i%n]
			}
			want := matrixProduct(values(x), dense, m, k, n)
			add(want, values(bias))
			a := args{
				"x1": x, "x2": w, "mulScale": tensor(t, d, []int64{1, n}, scale...), "addOffset": tensor(t, d, []int64{n}, offset...), "bias": bias,
				"antiquantScale": .5, "antiquantOffset": 3.0, "out": tensorIn(t, d, l, []int64{m, n}),
			}
			if swap {
				a["x1"], a["x2"] = tensor(t, d, []int64{k, m}, transposedMatrix(values(x), m, k)...), tensor(t, dtype.Int8, []int64{n, k}, transposedMatrix(values(w), k, n)...)
				a["transposeX1"], a["transposeX2"] = true, true
			}
			run(t, "WeightQuantBatchMatmul", a)
			closeTo(t, fmt.Sprintf("%v %v", l, swap), want, values(a["out"].(*Tensor)), 4*resultLimit(d))
			run(t, "WeightQuantBatchMatmul", a.with(args{"addOffset": nil, "bias": nil, "mulScale": tensor(t, d, []int64{1}, 1)}))
			refused(t, nullPointer, "WeightQuantBatchMatmul", a.with(args{"mulScale": nil}), "mulScale is null")
			refused(t, invalidParam, "WeightQuantBatchMatmul", a.with(args{"addOffset": tensor(t, d, []int64{3}, 1)}), "one for each of 4 columns")
			refused(t, invalidParam, "WeightQuantBatchMatmul", a.with(args{"out": tensor(t, d, []int64{n, m})}), "must have shape")
		}
	}
}
