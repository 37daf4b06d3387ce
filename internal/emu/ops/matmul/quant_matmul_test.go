package matmul

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestQuantisedProducts(t *testing.T) {
	const m, k, n = 3, 5, 4
	whole := func(seed int, size int) []float64 {
		v := make([]float64, size)
		for i := range v {
			v[i] = float64((i*37+seed*11)%200 - 100)
		}
		return v
	}
	a, b := whole(1, m*k), whole(2, k*n)
	scales, rows, bias := []float64{0.5, 0.25, 1, 2}, []float64{1, 0.5, 2}, []float64{10, -20, 30, 40}
	for _, l := range kerneltest.Layouts {
		x1 := optest.TensorIn(t, dtype.Int8, l, []int64{m, k}, a...)
		swapped := make([]float64, n*k)
		for i := range k {
			for j := range n {
				swapped[j*k+i] = b[i*n+j]
			}
		}
		x2 := optest.TensorIn(t, dtype.Int8, l, []int64{n, k}, swapped...)
		for _, biasType := range []dtype.Type{dtype.Int32, dtype.Float32} {
			for _, d := range []dtype.Type{dtype.BFloat16, dtype.Float16, dtype.Int8} {
				out := optest.TensorIn(t, d, l, []int64{m, n})
				args := optest.Args{"x1": x1, "x2": x2, "scale": optest.Tensor(t, dtype.Float32, []int64{n}, scales...), "bias": optest.Tensor(t, biasType, []int64{n}, bias...),
					"pertokenScaleOptional": optest.Tensor(t, dtype.Float32, []int64{m}, rows...), "transposeX2": true, "out": out}
				rows := rows
				if d == dtype.Int8 { // the scales of an int8 result are packed, and there are none of rows
					if biasType != dtype.Int32 {
						continue
					}
					packed := make([]float64, n)
					for j, v := range scales {
						packed[j] = float64(op.PackScale(float32(v), nil, false))
					}
					rows = []float64{1, 1, 1}
					args["scale"], args["pertokenScaleOptional"] = optest.Tensor(t, dtype.Int64, []int64{n}, packed...), nil
				}
				optest.Run(t, "QuantMatmulV4", args)
				for i := range m {
					for j := range n {
						want := 0.0
						for q := range k {
							want += a[i*k+q] * b[q*n+j]
						}
						if biasType == dtype.Int32 {
							want = (want + bias[j]) * scales[j] * rows[i]
						} else {
							want = want*scales[j]*rows[i] + bias[j]
						}
						if d == dtype.Int8 {
							want = optest.ToInt8(want)
						}
						require.Equal(t, kerneltest.Round(d, want), optest.Values(out)[i*n+j], "%v %v bias %v [%d,%d]", l, d, biasType, i, j)
					}
				}
			}
		}
	}
	x1, x2, out := optest.Tensor(t, dtype.Int8, []int64{2, 2}, 1), optest.Tensor(t, dtype.Int8, []int64{2, 2}, 1), optest.Tensor(t, dtype.Float16, []int64{2, 2})
	scale := optest.Tensor(t, dtype.Float32, []int64{1}, 1)
	optest.Refused(t, op.InvalidParam, "QuantMatmulV4", optest.Args{"x1": x1, "x2": x2, "scale": scale, "offset": scale, "pertokenScaleOptional": optest.Tensor(t, dtype.Float32, []int64{2}, 1), "out": out}, "exclude")
	optest.Refused(t, op.InvalidParam, "QuantMatmulV5", optest.Args{"x1": x1, "x2": x2, "x2Scale": scale, "groupSize": 32, "out": out}, "groupSize is 32")
	optest.Refused(t, op.InvalidParam, "QuantMatmulV4", optest.Args{"x1": x1, "x2": x2, "scale": scale, "out": out}, "float32 scale without scales of rows")
	optest.Refused(t, op.InvalidParam, "QuantMatmulV3", optest.Args{"x1": x1, "x2": x2, "scale": scale, "bias": optest.Tensor(t, dtype.Float32, []int64{2}, 1), "out": optest.Tensor(t, dtype.Int32, []int64{2, 2})}, "int32 bias")
	optest.Refused(t, op.InvalidParam, "QuantMatmulV3", optest.Args{"x1": out, "x2": x2, "scale": scale, "out": out}, "dtype")
	optest.Refused(t, op.NullPointer, "QuantMatmulV3", optest.Args{"x1": x1, "x2": x2, "out": out}, "scale is null")
}

func TestProductsWithQuantisedWeights(t *testing.T) {
	const m, k, n = 2, 6, 4
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		for _, group := range []int{0, 2, 4} {
			groups := 1
			if group > 0 {
				groups = (k + group - 1) / group
			}
			x := optest.Filled(t, 4, d, kerneltest.Contiguous, []int64{m, k})
			scale, offset := optest.Filled(t, 5, d, kerneltest.Contiguous, []int64{int64(groups), n}), optest.Filled(t, 6, d, kerneltest.Contiguous, []int64{int64(groups), n})
			w := make([]float64, k*n)
			for i := range w {
				w[i] = float64(i*5%16 - 8)
			}
			int4 := make([]float64, k*n/2)
			for i := range int4 {
				int4[i] = float64(int8(uint8(int(w[2*i])&15 | int(w[2*i+1])&15<<4)))
			}
			packed := optest.Tensor(t, dtype.Int8, []int64{k * n / 2}, int4...)
			packed.DType, packed.Shape, packed.Strides = dtype.Int4, []int64{k, n}, []int64{n, 1}
			transposed := make([]float64, k*n)
			for i := range transposed {
				transposed[i] = w[i%k*n+i/k]
			}
			down := optest.Tensor(t, dtype.Int8, []int64{k * n / 2}, 0)
			down.DType, down.Shape, down.Strides = dtype.Int4, []int64{k, n}, []int64{1, k}
			optest.StoreInt4(t, down, transposed)
			for _, weight := range []*op.Tensor{optest.Tensor(t, dtype.Int8, []int64{k, n}, w...), optest.TensorIn(t, dtype.Int8, kerneltest.Transposed, []int64{k, n}, w...), packed, down} {
				y := optest.Tensor(t, d, []int64{m, n})
				a := optest.Args{"x": x, "weight": weight, "antiquantScale": scale, "antiquantOffsetOptional": offset, "antiquantGroupSize": group,
					"biasOptional": optest.Tensor(t, d, []int64{n}, 1), "y": y}
				optest.Run(t, "WeightQuantBatchMatmulV2", a)
				want := make([]float64, m*n)
				for i := range want {
					want[i] = 1
					for q := range k {
						g := 0
						if group > 0 {
							g = q / group
						}
						at := g*n + i%n
						want[i] += optest.Values(x)[i/n*k+q] * (w[q*n+i%n] + optest.Values(offset)[at]) * optest.Values(scale)[at]
					}
				}
				optest.CloseTo(t, weight.String(), want, optest.Values(y), 1e-2)
				same := optest.Tensor(t, d, []int64{m, n})
				optest.Run(t, "WeightQuantBatchMatmulV3", a.With(optest.Args{"y": same}))
				require.Equal(t, optest.Values(y), optest.Values(same), weight.String())
			}
			odd := *down
			odd.Shape, odd.Strides = []int64{k - 1, n}, []int64{1, k - 1}
			optest.Refused(t, op.InvalidParam, "WeightQuantBatchMatmulV2", optest.Args{"x": optest.Tensor(t, d, []int64{m, k - 1}, 1), "weight": &odd, "antiquantScale": optest.Tensor(t, d, []int64{1}, 1), "y": optest.Tensor(t, d, []int64{m, n})}, "even number of rows")
			optest.Refused(t, op.InvalidParam, "WeightQuantBatchMatmulV3", optest.Args{"x": x, "weight": packed, "antiquantScale": optest.Tensor(t, d, []int64{3}, 1), "antiquantGroupSize": group, "y": optest.Tensor(t, d, []int64{m, n})}, "must be")
		}
	}
}

// Numbers of four bits, alone or eight of them in an int32, have the products that they have as int8.
func TestQuantisedProductsOfInt4(t *testing.T) {
	v := make([]float64, 128)
	for i := range v {
		v[i] = float64(i*7%16 - 8)
	}
	of := func(d dtype.Type, rows, columns int64) *op.Tensor {
		return integers(t, d, v[:rows*columns], rows, columns)
	}
	scales, rows := optest.Tensor(t, dtype.Float32, []int64{8}, 0.5, 0.25, 1, 2), optest.Tensor(t, dtype.Float32, []int64{2}, 0.125, 1)
	for name, a := range map[string]optest.Args{
		"QuantMatmulV3":    {"scale": packedScales(t, dtype.Uint64, []int64{8}, optest.Values(scales))},
		"QuantMatmulV4":    {"scale": scales, "pertokenScaleOptional": rows},
		"QuantMatmulV5":    {"x2Scale": scales, "x1Scale": rows},
		"FusedQuantMatmul": {"x2Scale": scales, "x1Scale": rows, "fusedOpType": "gelu_tanh"},
	} {
		var want []float64
		for _, d := range []dtype.Type{dtype.Int8, dtype.Int4, dtype.Int32} {
			out := optest.Tensor(t, dtype.Float16, []int64{2, 8})
			right := d
			if name == "QuantMatmulV4" && d == dtype.Int32 {
				right = dtype.Int4 // as CANN's rules want it
			}
			optest.Run(t, name, a.With(optest.Args{"x1": of(d, 2, 16), "x2": of(right, 16, 8), "out": out}))
			if d == dtype.Int8 {
				want = optest.Values(out)
				require.NotZero(t, want[0])
				continue
			}
			require.Equal(t, want, optest.Values(out), "%s %v", name, d)
		}
	}
}
