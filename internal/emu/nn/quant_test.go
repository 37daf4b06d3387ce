package nn

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// toInt8 rounds to even and saturates.
func toInt8(x float64) float64 { return min(max(math.RoundToEven(x), -128), 127) }

func TestStaticQuantisation(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			x := filled(t, 1, d, l, []int64{3, 5})
			scale := tensor(t, d, []int64{5}, 16, 32, 64, 128, 8)
			offset := tensor(t, d, []int64{5}, 1, -2, 0, 3, 4)
			y := tensorIn(t, dtype.Int8, l, []int64{3, 5})
			run(t, "AscendQuant", args{"x": x, "scale": scale, "offset": offset, "roundMode": "round", "dstType": dtype.Int8, "y": y})
			want := make([]float64, 15)
			for i, v := range values(x) {
				want[i] = toInt8(float64(float32(v)*float32(values(scale)[i%5])) + values(offset)[i%5])
			}
			require.Equal(t, want, values(y), "%v %v", d, l)

			rows := tensor(t, d, []int64{3}, 4, 5, 6)
			run(t, "AscendQuantV3", args{"x": x, "scale": rows, "sqrtMode": true, "roundMode": "floor", "dstType": dtype.Int8, "axis": 0, "y": y})
			for i, v := range values(x) {
				s := float32(values(rows)[i/5])
				want[i] = min(max(math.Floor(float64(float32(v)*s*s)), -128), 127)
			}
			require.Equal(t, want, values(y), "%v %v", d, l)
		}
	}
	x, one := tensor(t, dtype.Int8, []int64{2, 2}, -128, 127, 3, 0), tensor(t, dtype.Float32, []int64{1}, 0.5)
	y := tensor(t, dtype.Float16, []int64{2, 2})
	run(t, "AscendAntiQuant", args{"x": x, "scale": one, "offset": tensor(t, dtype.Float32, []int64{1}, 1), "dstType": dtype.Float16, "y": y})
	require.Equal(t, []float64{-63.5, 64, 2, 0.5}, values(y))
	zero := tensor(t, dtype.Uint8, []int64{2, 2})
	run(t, "Quantize", args{"x": y, "scales": tensor(t, dtype.Float32, []int64{2}, 0.5, 2), "zeroPoints": tensor(t, dtype.Int32, []int64{2}, 10, 20), "dtype": dtype.Uint8, "axis": 1, "out": zero})
	require.Equal(t, []float64{0, 52, 14, 20}, values(zero))
	refused(t, invalidParam, "AscendQuant", args{"x": y, "scale": one, "roundMode": "up", "dstType": dtype.Int8, "y": x}, "roundMode")
	refused(t, invalidParam, "AscendQuant", args{"x": y, "scale": tensor(t, dtype.Float32, []int64{3}, 1), "dstType": dtype.Int8, "y": x}, "one for each place")
	refused(t, nullPointer, "AscendQuant", args{"x": y, "dstType": dtype.Int8, "y": x}, "scale is null")
}

func TestDynamicQuantisation(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			x := filled(t, 2, d, l, []int64{2, 3, 7})
			smooth := filled(t, 3, d, kerneltest.Contiguous, []int64{2, 7})
			ends := []int64{2, 6}
			y, scale, offset := tensorIn(t, dtype.Int8, l, []int64{2, 3, 7}), tensorIn(t, dtype.Float32, l, []int64{2, 3}), tensorIn(t, dtype.Float32, l, []int64{2, 3})
			check := func(symmetric bool) {
				for row := range 6 {
					v := make([]float64, 7)
					for i := range v {
						v[i] = values(x)[row*7+i] * values(smooth)[map[bool]int{true: 7}[int64(row) >= ends[0]]+i]
					}
					s, o := slices.MaxFunc(v, func(a, b float64) int { return int(math.Copysign(1, math.Abs(a)-math.Abs(b))) }), 0.0
					s = math.Abs(s) / 127
					if !symmetric {
						s = (slices.Max(v) - slices.Min(v)) / 255
						o = 127 - slices.Max(v)/s
						require.InDelta(t, o, values(offset)[row], 1e-3*math.Abs(o)+1e-3)
					}
					require.InDelta(t, s, values(scale)[row], 1e-5*s)
					for i := range v {
						require.InDelta(t, v[i]/s+o, values(y)[row*7+i], 0.5001, "%v %v row %d", d, l, row)
					}
				}
			}
			a := args{"x": x, "smoothScalesOptional": smooth, "groupIndexOptional": tensor(t, dtype.Int32, []int64{2}, 2, 6), "dstType": dtype.Int8, "yOut": y, "scaleOut": scale, "offsetOut": offset}
			run(t, "DynamicQuantV2", a)
			check(false)
			a["isSymmetrical"], a["quantMode"] = true, "pertoken"
			run(t, "DynamicQuantV3", a)
			check(true)
		}
	}
	x, y := tensor(t, dtype.Float16, []int64{2, 2}, 0, 0, 4, -2), tensor(t, dtype.Int8, []int64{2, 2})
	scale := tensor(t, dtype.Float32, []int64{2})
	run(t, "DynamicQuant", args{"x": x, "yOut": y, "scaleOut": scale})
	require.Equal(t, []float64{0, 0, 127, -64}, values(y), "a row of zeros stays zero")
	whole := tensor(t, dtype.Float32, []int64{1})
	run(t, "DynamicQuantV3", args{"x": x, "dstType": dtype.Int8, "isSymmetrical": true, "quantMode": "pertensor", "yOut": y, "scaleOut": whole})
	require.InDelta(t, 4.0/127, values(whole)[0], 1e-7)
	refused(t, nullPointer, "DynamicQuantV2", args{"x": x, "groupIndexOptional": tensor(t, dtype.Int32, []int64{1}, 2), "dstType": dtype.Int8, "yOut": y, "scaleOut": scale, "offsetOut": scale}, "smoothScalesOptional")
	refused(t, invalidParam, "DynamicQuant", args{"x": x, "yOut": y, "scaleOut": whole}, "[2]")
	err := execute(t, "DynamicQuantV2", args{"x": x, "smoothScalesOptional": tensor(t, dtype.Float16, []int64{1, 2}, 1), "groupIndexOptional": tensor(t, dtype.Int32, []int64{1}, 3), "dstType": dtype.Int8, "yOut": y, "scaleOut": scale, "offsetOut": scale})
	require.ErrorContains(t, err, "not exceed the 2 rows")
}

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
		x1 := tensorIn(t, dtype.Int8, l, []int64{m, k}, a...)
		swapped := make([]float64, n*k)
		for i := range k {
			for j := range n {
				swapped[j*k+i] = b[i*n+j]
			}
		}
		x2 := tensorIn(t, dtype.Int8, l, []int64{n, k}, swapped...)
		for _, biasType := range []dtype.Type{dtype.Int32, dtype.Float32} {
			for _, d := range []dtype.Type{dtype.BFloat16, dtype.Float16, dtype.Int8} {
				out := tensorIn(t, d, l, []int64{m, n})
				args := args{"x1": x1, "x2": x2, "scale": tensor(t, dtype.Float32, []int64{n}, scales...), "bias": tensor(t, biasType, []int64{n}, bias...),
					"pertokenScaleOptional": tensor(t, dtype.Float32, []int64{m}, rows...), "transposeX2": true, "out": out}
				run(t, "QuantMatmulV4", args)
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
							want = toInt8(want)
						}
						require.Equal(t, kerneltest.Round(d, want), values(out)[i*n+j], "%v %v bias %v [%d,%d]", l, d, biasType, i, j)
					}
				}
			}
		}
	}
	x1, x2, out := tensor(t, dtype.Int8, []int64{2, 2}, 1), tensor(t, dtype.Int8, []int64{2, 2}, 1), tensor(t, dtype.Float16, []int64{2, 2})
	scale := tensor(t, dtype.Float32, []int64{1}, 1)
	refused(t, invalidParam, "QuantMatmulV4", args{"x1": x1, "x2": x2, "scale": scale, "offset": scale, "pertokenScaleOptional": tensor(t, dtype.Float32, []int64{2}, 1), "out": out}, "exclude")
	refused(t, invalidParam, "QuantMatmulV5", args{"x1": x1, "x2": x2, "x2Scale": scale, "groupSize": 32, "out": out}, "groupSize is 32")
	refused(t, invalidParam, "QuantMatmulV3", args{"x1": out, "x2": x2, "scale": scale, "out": out}, "dtype")
	refused(t, nullPointer, "QuantMatmulV3", args{"x1": x1, "x2": x2, "out": out}, "scale is null")
}

func TestProductsWithQuantisedWeights(t *testing.T) {
	const m, k, n = 2, 6, 4
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		for _, group := range []int{0, 2, 4} {
			groups := 1
			if group > 0 {
				groups = (k + group - 1) / group
			}
			x := filled(t, 4, d, kerneltest.Contiguous, []int64{m, k})
			scale, offset := filled(t, 5, d, kerneltest.Contiguous, []int64{int64(groups), n}), filled(t, 6, d, kerneltest.Contiguous, []int64{int64(groups), n})
			w := make([]float64, k*n)
			for i := range w {
				w[i] = float64(i*5%16 - 8)
			}
			int4 := make([]float64, k*n/2)
			for i := range int4 {
				int4[i] = float64(int8(uint8(int(w[2*i])&15 | int(w[2*i+1])&15<<4)))
			}
			packed := tensor(t, dtype.Int8, []int64{k * n / 2}, int4...)
			packed.DType, packed.Shape, packed.Strides = dtype.Int4, []int64{k, n}, []int64{n, 1}
			for _, weight := range []*Tensor{tensor(t, dtype.Int8, []int64{k, n}, w...), tensorIn(t, dtype.Int8, kerneltest.Transposed, []int64{k, n}, w...), packed} {
				y := tensor(t, d, []int64{m, n})
				run(t, "WeightQuantBatchMatmulV2", args{"x": x, "weight": weight, "antiquantScale": scale, "antiquantOffsetOptional": offset, "antiquantGroupSize": group,
					"biasOptional": tensor(t, d, []int64{n}, 1), "y": y})
				want := make([]float64, m*n)
				for i := range want {
					want[i] = 1
					for q := range k {
						g := 0
						if group > 0 {
							g = q / group
						}
						at := g*n + i%n
						want[i] += values(x)[i/n*k+q] * (w[q*n+i%n] + values(offset)[at]) * values(scale)[at]
					}
				}
				closeTo(t, weight.String(), want, values(y), 1e-2)
			}
			refused(t, invalidParam, "WeightQuantBatchMatmulV3", args{"x": x, "weight": packed, "antiquantScale": tensor(t, d, []int64{3}, 1), "antiquantGroupSize": group, "y": tensor(t, d, []int64{m, n})}, "must be")
		}
	}
}
