package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// int8s are n small whole numbers.
func int8s(seed, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64((i*i*7+seed*13+i)%31 - 15)
	}
	return v
}

func TestFusedQuantMatmul(t *testing.T) {
	f := dtype.Float32
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		for _, s := range []struct{ m, k, n int64 }{{3, 5, 4}, {2, 32, 33}, {1, 16, 2}, {0, 4, 4}} {
			for _, biasType := range []dtype.Type{dtype.Undefined, dtype.Int32, f} {
				for _, nz := range []bool{false, true} {
					what := fmt.Sprintf("%v %v bias %v NZ %v", d, s, biasType, nz)
					a1, a2 := int8s(1, int(s.m*s.k)), int8s(2, int(s.k*s.n))
					x2 := tensor(t, dtype.Int8, []int64{s.k, s.n}, a2...)
					name := "FusedQuantMatmul"
					if nz {
						tiled := nzTensor(t, dtype.Int8, []int64{s.k, s.n}, false, 32)
						run(t, "NpuFormatCast", args{"srcTensor": x2, "dstTensor": tiled})
						x2, name = tiled, "FusedQuantMatmulWeightNz"
					}
					rows, columns := tensor(t, f, []int64{s.m}, 0.01, 0.002, 0.03), tensor(t, f, []int64{s.n}, 0.5, 0.25)
					out := tensor(t, d, []int64{s.m, s.n})
					a := args{"x1": laid(t, dtype.Int8, kerneltest.Contiguous, a1, int(s.m), int(s.k)), "x2": x2, "x1Scale": rows, "x2Scale": columns, "fusedOpType": "gelu_erf", "out": out}
					var bias []float64
					if biasType != dtype.Undefined {
						b := tensor(t, biasType, []int64{s.n}, 3, -2, 1)
						a["biasOptional"], bias = b, values(b)
					}
					for _, op := range []string{"gelu_erf", "gelu_tanh"} {
						run(t, name, a.with(args{"fusedOpType": op}))
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
								sum *= values(rows)[i] * values(columns)[j]
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
						closeTo(t, what+op, want, values(out), 2*resultLimit(d))
					}
					refused(t, invalidParam, name, a.with(args{"fusedOpType": "relu"}), "fusedOpType")
					refused(t, nullPointer, name, a.with(args{"fusedOpType": nil}), "fusedOpType is null")
					refused(t, nullPointer, name, a.with(args{"x1Scale": nil}), "x1Scale is null")
					refused(t, invalidParam, name, a.with(args{"x3Optional": columns}), "not supported")
					refused(t, invalidParam, name, a.with(args{"groupSizeOptional": 32}), "groupSize is 32")
					refused(t, invalidParam, name, a.with(args{"out": tensor(t, dtype.Int8, []int64{s.m, s.n})}), "dtype")
				}
			}
		}
	}
}

func TestQuantMatmulReduceSum(t *testing.T) {
	for _, s := range []struct{ batch, m, k, n int64 }{{3, 2, 5, 4}, {1, 1, 2, 2}, {2, 2, 1, 2}, {2, 3, 40, 33}, {2, 0, 4, 4}} {
		a1, a2 := int8s(1, int(s.batch*s.m*s.k)), int8s(2, int(s.batch*s.k*s.n))
		weight := nzTensor(t, dtype.Int8, []int64{s.batch, s.k, s.n}, false, 32)
		run(t, "NpuFormatCast", args{"srcTensor": tensor(t, dtype.Int8, []int64{s.batch, s.k, s.n}, a2...), "dstTensor": weight})
		rows, columns := filled(t, 1, dtype.Float32, kerneltest.Contiguous, []int64{s.batch, s.m}), filled(t, 2, dtype.BFloat16, kerneltest.Contiguous, []int64{s.n})
		out := tensor(t, dtype.BFloat16, []int64{s.m, s.n})
		a := args{
			"x1": laid(t, dtype.Int8, kerneltest.Contiguous, a1, int(s.batch), int(s.m), int(s.k)), "x2": weight, "x1Scale": rows, "x2Scale": columns, "dims": []int64{0}, "out": out,
		}
		run(t, "QuantMatmulReduceSumWeightNz", a)
		want := make([]float64, s.m*s.n)
		vr, vc := values(rows), values(columns)
		for b := range s.batch {
			for i := range s.m {
				for j := range s.n {
					for k := range s.k {
						want[i*s.n+j] += a1[(b*s.m+i)*s.k+k] * a2[(b*s.k+k)*s.n+j] * vr[b*s.m+i] * vc[j]
					}
				}
			}
		}
		closeTo(t, fmt.Sprint(s), want, values(out), 2*resultLimit(dtype.BFloat16))
		for text, set := range map[string]args{
			"dims is": {"dims": []int64{1}}, "keepDims true": {"keepDims": true}, "not supported": {"bias": columns}, "one for each column": {"x2Scale": tensor(t, dtype.BFloat16, []int64{99}, 1)},
			"dtype": {"out": tensor(t, dtype.Float16, []int64{s.m, s.n})},
		} {
			refused(t, invalidParam, "QuantMatmulReduceSumWeightNz", a.with(set), text)
		}
		refused(t, nullPointer, "QuantMatmulReduceSumWeightNz", a.with(args{"x1Scale": nil}), "x1Scale is null")
	}
}

// Programs give the elements of a FRACTAL_NZ weight as its storage shape, in memory that is padded.
func TestQuantMatmulReduceSumFlatStorage(t *testing.T) {
	for _, s := range []struct{ m, k, n int64 }{{1, 1, 2}, {2, 1, 4}, {5, 1, 3}, {2, 3, 1}} {
		weight := nzTensor(t, dtype.Int8, []int64{1, s.k, s.n}, false, 32)
		run(t, "NpuFormatCast", args{"srcTensor": tensor(t, dtype.Int8, []int64{1, s.k, s.n}, 3), "dstTensor": weight})
		weight.Storage = []int64{s.k * s.n}
		out := tensor(t, dtype.BFloat16, []int64{s.m, s.n})
		run(t, "QuantMatmulReduceSumWeightNz", args{
			"x1": tensor(t, dtype.Int8, []int64{1, s.m, s.k}, 2), "x2": weight, "x1Scale": tensor(t, dtype.Float32, []int64{1, s.m}, 1),
			"x2Scale": tensor(t, dtype.BFloat16, []int64{s.n}, .5), "dims": []int64{0}, "out": out,
		})
		for _, v := range values(out) {
			require.Equal(t, float64(3*s.k), v, "%v", s)
		}
	}
}

// Sums of integers are exact, whatever units multiply them.
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
		for _, turned := range []bool{false, true} {
			x1, x2 := tensor(t, dtype.Int8, []int64{2, 1, m, k}, a...), tensor(t, dtype.Int8, []int64{3, k, n}, b...)
			if turned {
				x2 = tensor(t, dtype.Int8, []int64{3, n, k}, b...)
			}
			out := tensor(t, dtype.Int32, []int64{2, 3, m, n})
			run(t, "QuantMatmulV3", args{"x1": x1, "x2": x2, "scale": tensor(t, dtype.Float32, []int64{1}, 1), "transposeX2": turned, "out": out})
			got := values(out)
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

// An int4 weight in FRACTAL_NZ gives what it gives in row-major order.
func TestQuantMatmulInt4Nz(t *testing.T) {
	for _, s := range []struct{ m, k, n int64 }{{3, 4, 16}, {2, 18, 66}, {1, 64, 128}} {
		numbers := int8s(3, int(s.k*s.n))
		for i := range numbers {
			numbers[i] = math.Mod(numbers[i], 8)
		}
		wide := tensor(t, dtype.Int32, []int64{s.k, s.n}, numbers...)
		bytes := (s.k + 15) / 16 * 16 * ((s.n + 63) / 64 * 64) / 2
		tiled := of(tensor(t, dtype.Uint8, []int64{bytes}).View())
		tiled.DType, tiled.Shape, tiled.Strides, tiled.Format = dtype.Int4, []int64{s.k, s.n}, []int64{s.n, 1}, dtype.FractalNZ
		tiled.Storage = []int64{(s.n + 63) / 64, (s.k + 15) / 16, 16, 64}
		run(t, "ConvertWeightToINT4Pack", args{"weight": wide, "weightInt4Pack": tiled})
		plain := of(tensor(t, dtype.Uint8, []int64{s.k * s.n / 2}).View())
		plain.DType, plain.Shape, plain.Strides, plain.Storage = dtype.Int4, []int64{s.k, s.n}, []int64{s.n, 1}, []int64{s.k, s.n}
		run(t, "ConvertWeightToINT4Pack", args{"weight": wide, "weightInt4Pack": plain})
		half := make([]float64, s.m*s.k)
		for i := range half {
			half[i] = float64(i%15) - 7
		}
		x := of(tensor(t, dtype.Uint8, []int64{s.m * s.k / 2}).View())
		x.DType, x.Shape, x.Strides, x.Storage = dtype.Int4, []int64{s.m, s.k}, []int64{s.k, 1}, []int64{s.m, s.k}
		run(t, "ConvertWeightToINT4Pack", args{"weight": tensor(t, dtype.Int32, []int64{s.m, s.k}, half...), "weightInt4Pack": x})
		want, got := tensor(t, dtype.Float16, []int64{s.m, s.n}), tensor(t, dtype.Float16, []int64{s.m, s.n})
		scale := tensor(t, dtype.Int64, []int64{s.n}, float64(packScale(.25, nil, false)))
		run(t, "QuantMatmulV4", args{"x1": x, "x2": plain, "scale": scale, "out": want})
		run(t, "QuantMatmulWeightNz", args{"x1": x, "x2": tiled, "x2Scale": scale, "out": got})
		assert.Equal(t, values(want), values(got), "%v", s)
	}
}

// An int4 weight in FRACTAL_NZ, or its transpose there, gives what the same numbers give as int8.
func TestWeightQuantInt4Nz(t *testing.T) {
	for _, s := range []struct{ m, k, n int64 }{{3, 4, 16}, {2, 72, 17}, {1, 18, 66}} {
		numbers := int8s(3, int(s.k*s.n))
		for i := range numbers {
			numbers[i] = math.Mod(numbers[i], 8)
		}
		for _, d := range pairTypes {
			for _, swapped := range []bool{false, true} {
				rows, cols, stored := s.k, s.n, numbers
				if swapped {
					rows, cols, stored = s.n, s.k, transposedMatrix(numbers, s.k, s.n)
				}
				if cols%2 != 0 {
					continue // int4 elements share bytes
				}
				storage := []int64{(cols + 63) / 64, (rows + 15) / 16, 16, 64}
				tiled := of(tensor(t, dtype.Uint8, []int64{count(storage) / 2}).View())
				tiled.DType, tiled.Shape, tiled.Strides, tiled.Format, tiled.Storage = dtype.Int4, []int64{rows, cols}, []int64{cols, 1}, dtype.FractalNZ, storage
				run(t, "ConvertWeightToINT4Pack", args{"weight": tensor(t, dtype.Int32, []int64{rows, cols}, stored...), "weightInt4Pack": tiled})
				if swapped {
					tiled.Shape, tiled.Strides = []int64{s.k, s.n}, []int64{1, s.k}
				}
				want, got := tensor(t, d, []int64{s.m, s.n}), tensor(t, d, []int64{s.m, s.n})
				a := args{"x": filled(t, 1, d, kerneltest.Contiguous, []int64{s.m, s.k}), "antiquantScale": filled(t, 2, d, kerneltest.Contiguous, []int64{s.n})}
				run(t, "WeightQuantBatchMatmulV2", a.with(args{"weight": tensor(t, dtype.Int8, []int64{s.k, s.n}, numbers...), "y": want}))
				run(t, "WeightQuantBatchMatmulV2", a.with(args{"weight": tiled, "y": got}))
				assert.Equal(t, values(want), values(got), "%v %v swapped %v", s, d, swapped)
				// So it does within another operator.
				sum := tensor(t, d, []int64{s.m, s.n})
				ensemble(t, "WeightQuantMatmulAllReduce", 1, func(int) args {
					return pass(args{"x1": a["x"], "x2": tiled, "antiquantScale": a["antiquantScale"], "reduceOp": "sum", "output": sum})
				})
				assert.Equal(t, values(want), values(sum), "%v %v swapped %v, fused", s, d, swapped)
				tiled.Storage = []int64{8}
				refused(t, invalidParam, "WeightQuantBatchMatmulV2", a.with(args{"weight": tiled, "y": got}), "FRACTAL_NZ needs")
			}
		}
	}
}
