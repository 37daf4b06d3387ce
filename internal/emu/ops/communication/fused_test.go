package communication

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// pass adds the communication arguments of a fused product.
func pass(a optest.Args) optest.Args {
	return optest.Args{"group": "ranks", "streamMode": 1}.With(a)
}

func TestMatmulAllReduce(t *testing.T) {
	const n = 6
	for _, d := range op.HalfTypes {
		for _, size := range []int{1, 3} {
			for _, lead := range [][]int64{{5}, {2, 3}, {0}, {1}} {
				k := int64(17)
				if lead[0] == 2 && size == 3 {
					k = 0 // the result is the sum of the biases
				}
				for _, with := range []string{"", "bias", "x3", "engine"} {
					m := optest.Elements(lead)
					shape := append(append([]int64{}, lead...), n)
					want, outs := make([]float64, m*n), make([]*op.Tensor, size)
					optest.OnRanks(t, map[string]string{"": "MatmulAllReduce", "bias": "MatmulAllReduce", "x3": "MatmulAllReduceV2", "engine": "MatmulAllReduceV3"}[with], size, func(r int) optest.Args {
						seed := uint64(10 * r)
						x := optest.Filled(t, seed+1, d, kerneltest.Contiguous, append(append([]int64{}, lead...), k))
						w := optest.Filled(t, seed+2, d, kerneltest.Layouts[r%len(kerneltest.Layouts)], []int64{k, n})
						outs[r] = optest.TensorIn(t, d, kerneltest.Layouts[r%len(kerneltest.Layouts)], shape)
						if k > 0 {
							optest.Add(want, append(optest.Times(optest.Values(x), optest.Values(w), k), 0))
						}
						a := pass(optest.Args{"x1": x, "x2": w, "output": outs[r], "reduceOp": "sum"})
						switch with {
						case "bias":
							a["bias"] = optest.Filled(t, seed+3, d, kerneltest.Contiguous, []int64{n})
							optest.Add(want, optest.Values(a["bias"].(*op.Tensor)))
						case "x3", "engine":
							if with == "engine" {
								a["commMode"] = "ai_cpu"
							}
							a["x3"] = optest.Filled(t, seed+3, d, kerneltest.Contiguous, shape)
							optest.Add(want, append(optest.Values(a["x3"].(*op.Tensor)), 0)[:max(len(want), 1)])
						}
						return a
					})
					for r, out := range outs {
						optest.CloseTo(t, fmt.Sprintf("%v %v %s rank %d of %d", d, lead, with, r, size), want, optest.Values(out), 4*optest.ResultLimit(d))
					}
				}
			}
		}
	}
}

func TestMatmulAllReduceRefuses(t *testing.T) {
	d := dtype.Float16
	a := pass(optest.Args{"x1": optest.Tensor(t, d, []int64{2, 3}, 1), "x2": optest.Tensor(t, d, []int64{3, 4}, 1), "output": optest.Tensor(t, d, []int64{2, 4}), "reduceOp": "sum"})
	for text, set := range map[string]optest.Args{
		"streamMode is 0": {"streamMode": 0}, `reduceOp is "max"`: {"reduceOp": "max"}, "dtypes differ": {"x2": optest.Tensor(t, dtype.BFloat16, []int64{3, 4}, 1)},
		"inner dimensions": {"x2": optest.Tensor(t, d, []int64{2, 4}, 1)}, "x1 with the columns of x2": {"output": optest.Tensor(t, d, []int64{4, 2})},
		"dtype": {"output": optest.Tensor(t, dtype.Float32, []int64{2, 4})},
	} {
		optest.Refused(t, op.InvalidParam, "MatmulAllReduce", a.With(set), text)
	}
	for _, name := range []string{"x1", "x2", "output", "group", "reduceOp"} {
		optest.Refused(t, op.NullPointer, "MatmulAllReduce", a.With(optest.Args{name: nil}), name+" is null")
	}
	optest.Refused(t, op.NullPointer, "MatmulAllReduceV2", a, "x3 is null")
	third := a.With(optest.Args{"x3": optest.Tensor(t, d, []int64{2, 4}, 1), "commMode": "ai_cpu"})
	optest.Refused(t, op.InvalidParam, "MatmulAllReduceV3", third.With(optest.Args{"commMode": "aiv"}), `commMode is "aiv"`)
	optest.Refused(t, op.NullPointer, "MatmulAllReduceV3", third.With(optest.Args{"commMode": nil}), "commMode is null")
	optest.Refused(t, op.NullPointer, "MatmulAllReduceV3", third.With(optest.Args{"x3": nil}), "x3 is null")
}

// int8Product returns (x·w + bias)·columns·rows.
func int8Product(t *testing.T, x, w *op.Tensor, bias, columns, rows []float64) []float64 {
	k, n := x.Dim(1), w.Dim(1)
	out := optest.Times(optest.Values(x), optest.Values(w), k)
	for i := range out {
		row, column := int64(i)/n, int64(i)%n
		out[i] = (out[i] + bias[column]) * columns[column] * rows[row%int64(len(rows))]
	}
	return out
}

func TestQuantMatmulAllReduce(t *testing.T) {
	const m, k, n, size = 5, 16, 6, 2
	scale := []float64{.5, .25, 1, .125, 2, .5}
	for _, c := range []struct {
		name string
		d    dtype.Type
		rows []float64
	}{
		{"QuantMatmulAllReduce", dtype.BFloat16, nil}, {"QuantMatmulAllReduceV2", dtype.BFloat16, []float64{.5, 1, 2, .25, 1}}, {"QuantMatmulAllReduceV3", dtype.BFloat16, nil},
		{"QuantMatmulAllReduceV4", dtype.BFloat16, nil}, {"QuantMatmulAllReduceV5", dtype.BFloat16, []float64{.5, 1, 2, .25, 1}},
		{"InplaceQuantMatmulAllReduceAddRmsNorm", dtype.BFloat16, nil}, {"QuantMatmulAllReduceAddRmsNorm", dtype.BFloat16, nil},
	} {
		sum, sink := make([]float64, m*n), make([]map[string]*op.Tensor, size)
		bias := []float64{3, 0, -7, 100, 5, 1}
		residual := optest.Normal(9, c.d, m*n)
		optest.OnRanks(t, c.name, size, func(r int) optest.Args {
			x, w := optest.Tensor(t, dtype.Int8, []int64{m, k}, optest.Normal(uint64(r), dtype.Int8, m*k)...), optest.Tensor(t, dtype.Int8, []int64{k, n}, 3, -100, 7, 0, 127)
			rows := c.rows
			if rows == nil {
				rows = []float64{1}
			}
			optest.Add(sum, int8Product(t, x, w, bias, scale, rows))
			columns, perRow := "dequantScale", "pertokenScaleOptional"
			if c.name == "QuantMatmulAllReduceV4" || c.name == "QuantMatmulAllReduceV5" {
				columns, perRow = "x2Scale", "x1ScaleOptional"
			}
			a := pass(optest.Args{"x1": x, "x2": w, columns: optest.Tensor(t, c.d, []int64{n}, scale...), "reduceOp": "sum"})
			if c.name == "QuantMatmulAllReduceV5" {
				a["commMode"] = "ai_cpu"
			}
			b := optest.Tensor(t, dtype.Int32, []int64{n}, bias...)
			if op := op.Find(c.name); op.Params[2].Name == "bias" {
				a["bias"] = b
			} else {
				a["biasOptional"] = b
			}
			if c.rows != nil {
				a[perRow] = optest.Tensor(t, dtype.Float32, []int64{m}, c.rows...)
			}
			sink[r] = map[string]*op.Tensor{}
			out := func(name string, v ...float64) {
				shape := []int64{1, m, n}
				if name == "output" {
					shape = shape[1:]
				}
				sink[r][name] = optest.Tensor(t, c.d, shape, v...)
				a[name] = sink[r][name]
			}
			switch c.name {
			case "InplaceQuantMatmulAllReduceAddRmsNorm":
				out("residual", residual...)
				out("normOut")
			case "QuantMatmulAllReduceAddRmsNorm":
				a["residual"] = optest.Tensor(t, c.d, []int64{1, m, n}, residual...)
				out("y")
				out("normOut")
			default:
				out("output")
				return a
			}
			a["gamma"], a["epsilon"] = optest.Tensor(t, c.d, []int64{n}, scale...), 1e-5
			return a
		})
		total := append([]float64{}, sum...)
		optest.Add(total, residual)
		for r, outs := range sink {
			for name, got := range outs {
				want := sum
				if name != "output" {
					want = total
				}
				if name == "normOut" {
					want = nil
					for i := range m {
						y, _ := optest.RMSNorm(total[i*n:(i+1)*n], scale)
						want = append(want, y...)
					}
				}
				optest.CloseTo(t, fmt.Sprintf("%s of %s rank %d", name, c.name, r), want, optest.Values(got), 6*optest.ResultLimit(c.d))
			}
		}
	}
}

// The products and their sum are transferred as int8, so the result is a multiple of the second
// scale.
func TestQuantMatmulAllReduceInBytes(t *testing.T) {
	const m, k, n, size = 3, 8, 2, 2
	first, second := []float64{2, 4}, []float64{8, 16}
	sum, outs := make([]float64, m*n), make([]*op.Tensor, size)
	d := dtype.BFloat16
	optest.OnRanks(t, "QuantMatmulAllReduceV3", size, func(r int) optest.Args {
		x, w := optest.Tensor(t, dtype.Int8, []int64{m, k}, optest.Normal(uint64(r), dtype.Int8, m*k)...), optest.Tensor(t, dtype.Int8, []int64{k, n}, 9, -30, 17)
		own := int8Product(t, x, w, []float64{0, 0}, []float64{1, 1}, []float64{1})
		for i, v := range own {
			sum[i] += min(max(math.RoundToEven(v/first[i%n]), -128), 127)
		}
		outs[r] = optest.Tensor(t, d, []int64{m, n})
		return pass(optest.Args{
			"x1": x, "x2": w, "dequantScale": optest.Tensor(t, d, []int64{n}, 1), "output": outs[r], "reduceOp": "sum",
			"commQuantScale1Optional": optest.Tensor(t, d, []int64{n}, first...), "commQuantScale2Optional": optest.Tensor(t, d, []int64{1, n}, second...),
		})
	})
	for i := range sum {
		sum[i] = min(max(math.RoundToEven(sum[i]*first[i%n]/second[i%n]), -128), 127) * second[i%n]
	}
	for _, out := range outs {
		optest.CloseTo(t, "in bytes", sum, optest.Values(out), optest.ResultLimit(d))
	}
}

func TestWeightQuantMatmulAllReduce(t *testing.T) {
	const m, k, n, size = 3, 16, 4, 2
	for _, d := range op.HalfTypes {
		for _, name := range []string{"WeightQuantMatmulAllReduce", "WeightQuantMatmulAllReduceV2", "WeightQuantMatmulAllReduceAddRmsNorm", "InplaceWeightQuantMatmulAllReduceAddRmsNorm"} {
			scale, offset := []float64{.5, .25, 1, .125}, []float64{1, -2, 0, 4}
			sum, outs := make([]float64, m*n), make([]*op.Tensor, size)
			optest.OnRanks(t, name, size, func(r int) optest.Args {
				x, w := optest.Filled(t, uint64(r), d, kerneltest.Contiguous, []int64{m, k}), optest.Tensor(t, dtype.Int8, []int64{k, n}, 3, -10, 7, 0, 12)
				dense := optest.Values(w)
				for i := range dense {
					dense[i] = (dense[i] + offset[i%n]) * scale[i%n]
				}
				optest.Add(sum, optest.Times(optest.Values(x), dense, k))
				a := pass(optest.Args{"x1": x, "x2": w, "antiquantScale": optest.Tensor(t, d, []int64{n}, scale...), "antiquantOffset": optest.Tensor(t, d, []int64{n}, offset...), "reduceOp": "sum"})
				if name == "WeightQuantMatmulAllReduceV2" {
					a["commMode"] = "ai_cpu"
				}
				if name == "WeightQuantMatmulAllReduce" || name == "WeightQuantMatmulAllReduceV2" {
					outs[r] = optest.Tensor(t, d, []int64{m, n})
					a["output"] = outs[r]
					return a
				}
				outs[r] = optest.Tensor(t, d, []int64{1, m, n}, 0)
				a["residual"], a["gamma"], a["normOut"] = outs[r], optest.Tensor(t, d, []int64{n}, 1), optest.Tensor(t, d, []int64{1, m, n})
				if name == "WeightQuantMatmulAllReduceAddRmsNorm" {
					a["residual"], a["y"] = optest.Tensor(t, d, []int64{1, m, n}, 0), outs[r]
				}
				return a
			})
			for _, out := range outs {
				optest.CloseTo(t, name, sum, optest.Values(out), 6*optest.ResultLimit(d))
			}
		}
	}
}

// reducedSizes are rows, the common dimension and columns that nothing divides.
var reducedSizes = [][3]int64{{1, 7, 1}, {5, 16, 6}, {9, 33, 5}, {17, 64, 3}}

// TestQuantMatmulAllReduceSizes: groups of 1 to 3 ranks, with and without a scale for each row.
func TestQuantMatmulAllReduceSizes(t *testing.T) {
	d := dtype.BFloat16
	for _, name := range []string{"QuantMatmulAllReduceV4", "QuantMatmulAllReduceV5"} {
		for i, s := range reducedSizes {
			m, k, n := s[0], s[1], s[2]
			for size := 1; size <= 3; size++ {
				perRow, rows := (i+size)%2 == 0, []float64{1}
				columns, bias := optest.Normal(1, d, n), optest.Int8s(2, int(n))
				if perRow {
					rows = optest.Normal(3, dtype.Float32, m)
				}
				sum, outs := make([]float64, m*n), make([]*op.Tensor, size)
				optest.OnRanks(t, name, size, func(r int) optest.Args {
					x, w := optest.Tensor(t, dtype.Int8, []int64{m, k}, optest.Int8s(r, int(m*k))...), optest.Tensor(t, dtype.Int8, []int64{k, n}, optest.Int8s(r+5, int(k*n))...)
					optest.Add(sum, int8Product(t, x, w, bias, columns, rows))
					outs[r] = optest.Tensor(t, d, []int64{m, n})
					a := pass(optest.Args{"x1": x, "x2": w, "x2Scale": optest.Tensor(t, d, []int64{n}, columns...), "biasOptional": optest.Tensor(t, dtype.Int32, []int64{n}, bias...), "output": outs[r], "reduceOp": "sum"})
					if perRow {
						a["x1ScaleOptional"] = optest.Tensor(t, dtype.Float32, []int64{m}, rows...)
					}
					if name == "QuantMatmulAllReduceV5" {
						a["commMode"] = "ai_cpu"
					}
					return a
				})
				for r, out := range outs {
					optest.CloseTo(t, fmt.Sprint(name, s, size, r), sum, optest.Values(out), 6*optest.ResultLimit(d))
				}
			}
		}
	}
}

// TestWeightQuantMatmulAllReduceSizes: each type and layout, groups of 1 to 3 ranks, with and without a bias.
func TestWeightQuantMatmulAllReduceSizes(t *testing.T) {
	for _, d := range op.HalfTypes {
		for i, l := range kerneltest.Layouts {
			for j, s := range reducedSizes {
				m, k, n, size := s[0], s[1], s[2], 1+(i+j)%3
				scale, offset, bias := optest.Normal(1, d, n), optest.Normal(2, d, n), optest.Normal(3, d, n)
				if j%2 == 1 {
					bias = make([]float64, n)
				}
				sum, outs := make([]float64, m*n), make([]*op.Tensor, size)
				optest.OnRanks(t, "WeightQuantMatmulAllReduceV2", size, func(r int) optest.Args {
					x, w := optest.Filled(t, uint64(r), d, l, []int64{m, k}), optest.Tensor(t, dtype.Int8, []int64{k, n}, optest.Int8s(r, int(k*n))...)
					dense := optest.Values(w)
					for i := range dense {
						dense[i] = kerneltest.Round(d, (dense[i]+offset[int64(i)%n])*scale[int64(i)%n]) // the kernel rounds weights
					}
					product := optest.Times(optest.Values(x), dense, k)
					optest.Add(product, bias)
					optest.Add(sum, product)
					outs[r] = optest.TensorIn(t, d, l, []int64{m, n})
					a := pass(optest.Args{
						"x1": x, "x2": w, "antiquantScale": optest.Tensor(t, d, []int64{n}, scale...), "antiquantOffset": optest.Tensor(t, d, []int64{n}, offset...), "output": outs[r], "reduceOp": "sum", "commMode": "ai_cpu",
					})
					if j%2 == 0 {
						a["bias"] = optest.Tensor(t, d, []int64{n}, bias...)
					}
					return a
				})
				for r, out := range outs {
					optest.CloseTo(t, fmt.Sprint(d, l, s, size, r), sum, optest.Values(out), 6*optest.ResultLimit(d))
				}
			}
		}
	}
}

func TestMatmulAllReduceAddRmsNorm(t *testing.T) {
	d := dtype.Float16
	for _, name := range []string{"MatmulAllReduceAddRmsNorm", "InplaceMatmulAllReduceAddRmsNorm"} {
		residual, y, norm := optest.Tensor(t, d, []int64{2, 3, 4}, 1, -2), optest.Tensor(t, d, []int64{2, 3, 4}), optest.Tensor(t, d, []int64{2, 3, 4})
		a := pass(optest.Args{
			"x1": optest.Tensor(t, d, []int64{6, 5}, .5, 1, -1), "x2": optest.Tensor(t, d, []int64{5, 4}, 1, 2, 0, -1), "bias": optest.Tensor(t, d, []int64{4}, .25), "reduceOp": "sum",
			"residual": residual, "gamma": optest.Tensor(t, d, []int64{4}, 2), "normOut": norm,
		})
		want := optest.Times(optest.Values(a["x1"].(*op.Tensor)), optest.Values(a["x2"].(*op.Tensor)), 5)
		optest.Add(want, []float64{.25})
		optest.Add(want, optest.Values(residual))
		got := residual
		if name == "MatmulAllReduceAddRmsNorm" {
			a["y"], got = y, y
		}
		optest.Run(t, name, a)
		optest.CloseTo(t, name, want, optest.Values(got), optest.ResultLimit(d))
		optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"residual": optest.Tensor(t, d, []int64{2, 2, 4}, 0)}), "shapes differ")
		optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"gamma": optest.Tensor(t, d, []int64{3}, 1)}), "a factor for each column")
		optest.Refused(t, op.NullPointer, name, a.With(optest.Args{"normOut": nil}), "normOut is null")
	}
}

func TestCollectivesOfRows(t *testing.T) {
	const m, k, n = 4, 257, 3
	for _, d := range op.HalfTypes {
		for _, l := range kerneltest.Layouts {
			for _, size := range []int{1, 2} {
				var rows []float64
				outs, gathered := make([]*op.Tensor, size), make([]*op.Tensor, size)
				w := optest.Filled(t, 7, d, l, []int64{k, n})
				all := []int64{int64(m * size), k}
				optest.OnRanks(t, "AllGatherMatmul", size, func(r int) optest.Args {
					x := optest.Filled(t, uint64(r), d, l, []int64{m, k})
					rows = append(rows, optest.Values(x)...)
					outs[r], gathered[r] = optest.TensorIn(t, d, l, []int64{all[0], n}), optest.TensorIn(t, d, l, all)
					return pass(optest.Args{"x1": x, "x2": w, "output": outs[r], "gatherOut": gathered[r]})
				})
				product := optest.Times(rows, optest.Values(w), k)
				again := make([]*op.Tensor, size)
				if size > 1 {
					optest.OnRanks(t, "AllGatherMatmulV2", size, func(r int) optest.Args {
						again[r] = optest.TensorIn(t, d, l, []int64{all[0], n})
						return pass(optest.Args{"x1": optest.Filled(t, uint64(r), d, l, []int64{m, k}), "x2": w, "output": again[r], "gatherOut": optest.TensorIn(t, d, l, all), "commMode": "aiv"})
					})
				}
				for r := range size {
					if size > 1 {
						optest.CloseTo(t, "product", product, optest.Values(again[r]), 2*optest.ResultLimit(d))
					}
					optest.CloseTo(t, "gathered", rows, optest.Values(gathered[r]), 0)
					optest.CloseTo(t, "product", product, optest.Values(outs[r]), 2*optest.ResultLimit(d))
				}
				sum := make([]float64, m*n)
				optest.OnRanks(t, "MatmulReduceScatter", size, func(r int) optest.Args {
					x := optest.Filled(t, uint64(20+r), d, l, []int64{m, k})
					optest.Add(sum, optest.Times(optest.Values(x), optest.Values(w), k))
					outs[r] = optest.TensorIn(t, d, l, []int64{int64(m / size), n})
					return pass(optest.Args{"x1": x, "x2": w, "output": outs[r], "reduceOp": "sum"})
				})
				biased, bias := slices.Clone(sum), optest.Filled(t, 9, d, l, []int64{n})
				if size > 1 {
					optest.OnRanks(t, "MatmulReduceScatterV2", size, func(r int) optest.Args {
						optest.Add(biased, optest.Values(bias))
						again[r] = optest.TensorIn(t, d, l, []int64{int64(m / size), n})
						return pass(optest.Args{"x1": optest.Filled(t, uint64(20+r), d, l, []int64{m, k}), "x2": w, "bias": bias, "output": again[r], "reduceOp": "sum", "commMode": "aiv"})
					})
				}
				for r := range size {
					block := m * n / size
					if size > 1 {
						optest.CloseTo(t, "block with bias", biased[r*block:(r+1)*block], optest.Values(again[r]), 4*optest.ResultLimit(d))
					}
					optest.CloseTo(t, "block", sum[r*block:(r+1)*block], optest.Values(outs[r]), 4*optest.ResultLimit(d))
				}
			}
		}
	}
	d := dtype.Float16
	a := pass(optest.Args{"x1": optest.Tensor(t, d, []int64{2, 256}, 1), "x2": optest.Tensor(t, d, []int64{256, 3}, 1), "output": optest.Tensor(t, d, []int64{2, 3})})
	optest.Run(t, "AllGatherMatmul", a)
	optest.Refused(t, op.InvalidParam, "AllGatherMatmul", a.With(optest.Args{"gatherIndex": 1}), "gatherIndex is 1")
	optest.Refused(t, op.InvalidParam, "AllGatherMatmul", a.With(optest.Args{"x1": optest.Tensor(t, d, []int64{2, 255}, 1)}), "K must be from 256")
	optest.Refused(t, op.InvalidParam, "AllGatherMatmul", a.With(optest.Args{"gatherOut": optest.Tensor(t, d, []int64{3, 256})}), "shapes differ")
	optest.Refused(t, op.NullPointer, "AllGatherMatmul", a.With(optest.Args{"output": nil}), "output is null")
	optest.Refused(t, op.InvalidParam, "MatmulReduceScatter", a.With(optest.Args{"reduceOp": "sum", "output": optest.Tensor(t, d, []int64{1, 3})}), "a block of rows")
}

// An int4 weight in FRACTAL_NZ, transposed or not, gives the same result as an int8 weight.
func TestWeightQuantMatmulAllReduceInt4Nz(t *testing.T) {
	const m, k, n = 2, 72, 18
	numbers := optest.Int8s(3, k*n)
	for i := range numbers {
		numbers[i] = math.Mod(numbers[i], 8)
	}
	for _, d := range op.HalfTypes {
		for _, swapped := range []bool{false, true} {
			rows, cols, stored := int64(k), int64(n), numbers
			if swapped {
				rows, cols, stored = n, k, optest.Transposed(numbers, n)
			}
			storage := op.NZShape([]int64{rows, cols}, false, 64)
			tiled := optest.Of(optest.Tensor(t, dtype.Uint8, []int64{op.Count(storage) / 2}).View())
			tiled.DType, tiled.Shape, tiled.Strides, tiled.Format, tiled.Storage = dtype.Int4, []int64{rows, cols}, []int64{cols, 1}, dtype.FractalNZ, storage
			optest.StoreInt4(t, tiled, stored)
			if swapped {
				tiled.Shape, tiled.Strides = []int64{k, n}, []int64{1, k}
			}
			want, got := optest.Tensor(t, d, []int64{m, n}), optest.Tensor(t, d, []int64{m, n})
			a := pass(optest.Args{"x1": optest.Filled(t, 1, d, kerneltest.Contiguous, []int64{m, k}), "antiquantScale": optest.Filled(t, 2, d, kerneltest.Contiguous, []int64{n}), "reduceOp": "sum"})
			optest.OnRanks(t, "WeightQuantMatmulAllReduce", 1, func(int) optest.Args {
				return a.With(optest.Args{"x2": optest.Tensor(t, dtype.Int8, []int64{k, n}, numbers...), "output": want})
			})
			optest.OnRanks(t, "WeightQuantMatmulAllReduce", 1, func(int) optest.Args { return a.With(optest.Args{"x2": tiled, "output": got}) })
			assert.Equal(t, optest.Values(want), optest.Values(got), "%v swapped %v", d, swapped)
		}
	}
}
