package matmul

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestFusedQuantMatmul(t *testing.T) {
	f := dtype.Float32
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		for _, s := range []struct{ m, k, n int64 }{{3, 5, 4}, {2, 32, 33}, {1, 16, 2}, {0, 4, 4}} {
			for _, biasType := range []dtype.Type{dtype.Undefined, dtype.Int32, f} {
				for _, nz := range []bool{false, true} {
					what := fmt.Sprintf("%v %v bias %v NZ %v", d, s, biasType, nz)
					a1, a2 := optest.Int8s(1, int(s.m*s.k)), optest.Int8s(2, int(s.k*s.n))
					x2 := optest.Tensor(t, dtype.Int8, []int64{s.k, s.n}, a2...)
					name := "FusedQuantMatmul"
					if nz {
						tiled := optest.NZ(t, dtype.Int8, []int64{s.k, s.n}, false, 32)
						optest.StoreNZ(t, tiled, x2)
						x2, name = tiled, "FusedQuantMatmulWeightNz"
					}
					rows, columns := optest.Tensor(t, f, []int64{s.m}, 0.01, 0.002, 0.03), optest.Tensor(t, f, []int64{s.n}, 0.5, 0.25)
					out := optest.Tensor(t, d, []int64{s.m, s.n})
					a := optest.Args{"x1": optest.Laid(t, dtype.Int8, kerneltest.Contiguous, a1, int(s.m), int(s.k)), "x2": x2, "x1Scale": rows, "x2Scale": columns, "fusedOpType": "gelu_erf", "out": out}
					var bias []float64
					if biasType != dtype.Undefined {
						b := optest.Tensor(t, biasType, []int64{s.n}, 3, -2, 1)
						a["biasOptional"], bias = b, optest.Values(b)
					}
					for _, op := range []string{"gelu_erf", "gelu_tanh"} {
						optest.Run(t, name, a.With(optest.Args{"fusedOpType": op}))
						var want []float64
						for i := range s.m {
							for j := range s.n {
								sum := 0.0
								for k := range s.k {
									sum += a1[i*s.k+k] * a2[k*s.n+j]
								}
								if biasType == dtype.Int32 {
									sum += bias[j]
								}
								sum *= optest.Values(rows)[i] * optest.Values(columns)[j]
								if biasType == f {
									sum += bias[j]
								}
								if op == "gelu_erf" {
									sum *= (1 + math.Erf(sum/math.Sqrt2)) / 2
								} else {
									sum *= (1 + math.Tanh(math.Sqrt(2/math.Pi)*(sum+0.044715*sum*sum*sum))) / 2
								}
								want = append(want, sum)
							}
						}
						optest.CloseTo(t, what+op, want, optest.Values(out), 2*optest.ResultLimit(d))
					}
					optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"fusedOpType": "relu"}), "fusedOpType")
					optest.Refused(t, op.NullPointer, name, a.With(optest.Args{"fusedOpType": nil}), "fusedOpType is null")
					optest.Refused(t, op.NullPointer, name, a.With(optest.Args{"x1Scale": nil}), "x1Scale is null")
					optest.Refused(t, op.NullPointer, name, a.With(optest.Args{"x3Optional": columns}), "not supported")
					optest.Refused(t, op.NullPointer, name, a.With(optest.Args{"groupSizeOptional": 32}), "groupSize is 32")
					optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"out": optest.Tensor(t, dtype.Int8, []int64{s.m, s.n})}), "dtype")
				}
			}
		}
	}
}

func TestQuantMatmulReduceSum(t *testing.T) {
	for _, s := range []struct{ batch, m, k, n int64 }{{3, 2, 5, 4}, {1, 1, 2, 2}, {2, 2, 1, 2}, {2, 3, 40, 33}, {2, 0, 4, 4}} {
		a1, a2 := optest.Int8s(1, int(s.batch*s.m*s.k)), optest.Int8s(2, int(s.batch*s.k*s.n))
		weight := optest.NZ(t, dtype.Int8, []int64{s.batch, s.k, s.n}, false, 32)
		optest.StoreNZ(t, weight, optest.Tensor(t, dtype.Int8, []int64{s.batch, s.k, s.n}, a2...))
		rows, columns := optest.Filled(t, 1, dtype.Float32, kerneltest.Contiguous, []int64{s.batch, s.m}), optest.Filled(t, 2, dtype.BFloat16, kerneltest.Contiguous, []int64{s.n})
		out := optest.Tensor(t, dtype.BFloat16, []int64{s.m, s.n})
		a := optest.Args{
			"x1": optest.Laid(t, dtype.Int8, kerneltest.Contiguous, a1, int(s.batch), int(s.m), int(s.k)), "x2": weight, "x1Scale": rows, "x2Scale": columns, "dims": []int64{0}, "out": out,
		}
		optest.Run(t, "QuantMatmulReduceSumWeightNz", a)
		want := make([]float64, s.m*s.n)
		vr, vc := optest.Values(rows), optest.Values(columns)
		for b := range s.batch {
			for i := range s.m {
				for j := range s.n {
					for k := range s.k {
						want[i*s.n+j] += a1[(b*s.m+i)*s.k+k] * a2[(b*s.k+k)*s.n+j] * vr[b*s.m+i] * vc[j]
					}
				}
			}
		}
		optest.CloseTo(t, fmt.Sprint(s), want, optest.Values(out), 2*optest.ResultLimit(dtype.BFloat16))
		for text, set := range map[string]optest.Args{
			"dims is": {"dims": []int64{1}}, "keepDims true": {"keepDims": true}, "not supported": {"bias": columns}, "one for each column": {"x2Scale": optest.Tensor(t, dtype.BFloat16, []int64{99}, 1)},
			"dtype": {"out": optest.Tensor(t, dtype.Float16, []int64{s.m, s.n})},
		} {
			optest.Refused(t, op.InvalidParam, "QuantMatmulReduceSumWeightNz", a.With(set), text)
		}
		optest.Refused(t, op.NullPointer, "QuantMatmulReduceSumWeightNz", a.With(optest.Args{"x1Scale": nil}), "x1Scale is null")
	}
}

// Programs may describe a FRACTAL_NZ weight by its storage shape, and its memory is padded.
func TestQuantMatmulReduceSumFlatStorage(t *testing.T) {
	for _, s := range []struct{ m, k, n int64 }{{1, 1, 2}, {2, 1, 4}, {5, 1, 3}, {2, 3, 1}} {
		weight := optest.NZ(t, dtype.Int8, []int64{1, s.k, s.n}, false, 32)
		optest.StoreNZ(t, weight, optest.Tensor(t, dtype.Int8, []int64{1, s.k, s.n}, 3))
		weight.Storage = []int64{s.k * s.n}
		out := optest.Tensor(t, dtype.BFloat16, []int64{s.m, s.n})
		optest.Run(t, "QuantMatmulReduceSumWeightNz", optest.Args{
			"x1": optest.Tensor(t, dtype.Int8, []int64{1, s.m, s.k}, 2), "x2": weight, "x1Scale": optest.Tensor(t, dtype.Float32, []int64{1, s.m}, 1),
			"x2Scale": optest.Tensor(t, dtype.BFloat16, []int64{s.n}, .5), "dims": []int64{0}, "out": out,
		})
		for _, v := range optest.Values(out) {
			require.Equal(t, float64(3*s.k), v, "%v", s)
		}
	}
}

// Integer sums are exact on every unit that computes them.
func TestQuantMatmulExact(t *testing.T) {
	for _, k := range []int64{1, 2, 1024, 1025} {
		const m, n = 17, 18
		a, b := make([]float64, m*k), make([]float64, k*n)
		for i := range a {
			a[i] = -128 + float64(i%2)
		}
		for i := range b {
			b[i] = -128
		}
		for _, transposed := range []bool{false, true} {
			x1, x2 := optest.Tensor(t, dtype.Int8, []int64{2, 1, m, k}, a...), optest.Tensor(t, dtype.Int8, []int64{3, k, n}, b...)
			if transposed {
				x2 = optest.Tensor(t, dtype.Int8, []int64{3, n, k}, b...)
			}
			out := optest.Tensor(t, dtype.Int32, []int64{2, 3, m, n})
			optest.Run(t, "QuantMatmulV3", optest.Args{"x1": x1, "x2": x2, "scale": optest.Tensor(t, dtype.Float32, []int64{1}, 1), "transposeX2": transposed, "out": out})
			got := optest.Values(out)
			for row := range int64(2 * 3 * m) {
				want := 0.0
				for q := range k {
					want += a[row%m*k+q] * -128
				}
				require.Equal(t, want, got[row*n], "k %d, row %d", k, row)
				require.Equal(t, want, got[row*n+n-1], "k %d, row %d", k, row)
			}
		}
	}
}

// An int4 weight in FRACTAL_NZ gives the same result as in row-major order.
func TestQuantMatmulInt4Nz(t *testing.T) {
	for _, s := range []struct{ m, k, n int64 }{{3, 4, 16}, {2, 18, 66}, {1, 64, 128}} {
		numbers := optest.Int8s(3, int(s.k*s.n))
		for i := range numbers {
			numbers[i] = math.Mod(numbers[i], 8)
		}
		bytes := (s.k + 15) / 16 * 16 * ((s.n + 63) / 64 * 64) / 2
		tiled := optest.Of(optest.Tensor(t, dtype.Uint8, []int64{bytes}).View())
		tiled.DType, tiled.Shape, tiled.Strides, tiled.Format = dtype.Int4, []int64{s.k, s.n}, []int64{s.n, 1}, dtype.FractalNZ
		tiled.Storage = []int64{(s.n + 63) / 64, (s.k + 15) / 16, 16, 64}
		optest.StoreInt4(t, tiled, numbers)
		plain := optest.Of(optest.Tensor(t, dtype.Uint8, []int64{s.k * s.n / 2}).View())
		plain.DType, plain.Shape, plain.Strides, plain.Storage = dtype.Int4, []int64{s.k, s.n}, []int64{s.n, 1}, []int64{s.k, s.n}
		optest.StoreInt4(t, plain, numbers)
		half := make([]float64, s.m*s.k)
		for i := range half {
			half[i] = float64(i%15) - 7
		}
		x := optest.Of(optest.Tensor(t, dtype.Uint8, []int64{s.m * s.k / 2}).View())
		x.DType, x.Shape, x.Strides, x.Storage = dtype.Int4, []int64{s.m, s.k}, []int64{s.k, 1}, []int64{s.m, s.k}
		optest.StoreInt4(t, x, half)
		want, got := optest.Tensor(t, dtype.Float16, []int64{s.m, s.n}), optest.Tensor(t, dtype.Float16, []int64{s.m, s.n})
		scale := optest.Tensor(t, dtype.Int64, []int64{s.n}, float64(op.PackScale(.25, nil, false)))
		optest.Run(t, "QuantMatmulV4", optest.Args{"x1": x, "x2": plain, "scale": scale, "out": want})
		optest.Run(t, "QuantMatmulWeightNz", optest.Args{"x1": x, "x2": tiled, "x2Scale": scale, "out": got})
		assert.Equal(t, optest.Values(want), optest.Values(got), "%v", s)
	}
}

// An int4 weight in FRACTAL_NZ, or its transpose, gives the same result as the same values in
// int8.
func TestWeightQuantInt4Nz(t *testing.T) {
	for _, s := range []struct{ m, k, n int64 }{{3, 4, 16}, {2, 72, 17}, {1, 18, 66}} {
		numbers := optest.Int8s(3, int(s.k*s.n))
		for i := range numbers {
			numbers[i] = math.Mod(numbers[i], 8)
		}
		for _, d := range op.HalfTypes {
			for _, swapped := range []bool{false, true} {
				rows, cols, stored := s.k, s.n, numbers
				if swapped {
					rows, cols, stored = s.n, s.k, optest.Transposed(numbers, s.n)
				}
				if cols%2 != 0 {
					continue // a byte holds two int4 elements
				}
				storage := []int64{(cols + 63) / 64, (rows + 15) / 16, 16, 64}
				tiled := optest.Of(optest.Tensor(t, dtype.Uint8, []int64{op.Count(storage) / 2}).View())
				tiled.DType, tiled.Shape, tiled.Strides, tiled.Format, tiled.Storage = dtype.Int4, []int64{rows, cols}, []int64{cols, 1}, dtype.FractalNZ, storage
				optest.StoreInt4(t, tiled, stored)
				if swapped {
					tiled.Shape, tiled.Strides = []int64{s.k, s.n}, []int64{1, s.k}
				}
				want, got := optest.Tensor(t, d, []int64{s.m, s.n}), optest.Tensor(t, d, []int64{s.m, s.n})
				a := optest.Args{"x": optest.Filled(t, 1, d, kerneltest.Contiguous, []int64{s.m, s.k}), "antiquantScale": optest.Filled(t, 2, d, kerneltest.Contiguous, []int64{s.n})}
				optest.Run(t, "WeightQuantBatchMatmulV2", a.With(optest.Args{"weight": optest.Tensor(t, dtype.Int8, []int64{s.k, s.n}, numbers...), "y": want}))
				optest.Run(t, "WeightQuantBatchMatmulV2", a.With(optest.Args{"weight": tiled, "y": got}))
				assert.Equal(t, optest.Values(want), optest.Values(got), "%v %v swapped %v", s, d, swapped)
				tiled.Storage = []int64{8}
				optest.Refused(t, op.InvalidParam, "WeightQuantBatchMatmulV2", a.With(optest.Args{"weight": tiled, "y": got}), "FRACTAL_NZ needs")
			}
		}
	}
}
