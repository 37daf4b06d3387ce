package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// matrixProduct is x·w of row-major matrices.
func matrixProduct(x, w []float64, m, k, n int64) []float64 {
	out := make([]float64, m*n)
	for i := range m {
		for j := range n {
			for l := range k {
				out[i*n+j] += x[i*k+l] * w[l*n+j]
			}
		}
	}
	return out
}

// add adds y, which repeats, to x.
func add(x, y []float64) {
	for i := range x {
		x[i] += y[i%len(y)]
	}
}

// pass are the arguments of a fused product that say how, not what.
func pass(a args) args {
	return args{"group": "ranks", "streamMode": 1}.with(a)
}

func TestMatmulAllReduce(t *testing.T) {
	const k, n = 17, 6
	for _, d := range pairTypes {
		for _, size := range []int{1, 3} {
			for _, lead := range [][]int64{{5}, {2, 3}, {0}, {1}} {
				for _, with := range []string{"", "bias", "x3"} {
					m := elements(lead)
					shape := append(append([]int64{}, lead...), n)
					want, outs := make([]float64, m*n), make([]*Tensor, size)
					ensemble(t, map[string]string{"": "MatmulAllReduce", "bias": "MatmulAllReduce", "x3": "MatmulAllReduceV2"}[with], size, func(r int) args {
						seed := uint64(10 * r)
						x := filled(t, seed+1, d, kerneltest.Contiguous, append(append([]int64{}, lead...), k))
						w := filled(t, seed+2, d, kerneltest.Layouts[r%len(kerneltest.Layouts)], []int64{k, n})
						outs[r] = tensorIn(t, d, kerneltest.Layouts[r%len(kerneltest.Layouts)], shape)
						add(want, append(matrixProduct(values(x), values(w), m, k, n), 0))
						a := pass(args{"x1": x, "x2": w, "output": outs[r], "reduceOp": "sum"})
						switch with {
						case "bias":
							a["bias"] = filled(t, seed+3, d, kerneltest.Contiguous, []int64{n})
							add(want, values(a["bias"].(*Tensor)))
						case "x3":
							a["x3"] = filled(t, seed+3, d, kerneltest.Contiguous, shape)
							add(want, append(values(a["x3"].(*Tensor)), 0)[:max(len(want), 1)])
						}
						return a
					})
					for r, out := range outs {
						closeTo(t, fmt.Sprintf("%v %v %s rank %d of %d", d, lead, with, r, size), want, values(out), 4*resultLimit(d))
					}
				}
			}
		}
	}
}

func TestMatmulAllReduceRefuses(t *testing.T) {
	d := dtype.Float16
	a := pass(args{"x1": tensor(t, d, []int64{2, 3}, 1), "x2": tensor(t, d, []int64{3, 4}, 1), "output": tensor(t, d, []int64{2, 4}), "reduceOp": "sum"})
	for text, set := range map[string]args{
		"streamMode is 0": {"streamMode": 0}, `reduceOp is "max"`: {"reduceOp": "max"}, "dtypes differ": {"x2": tensor(t, dtype.BFloat16, []int64{3, 4}, 1)},
		"inner dimensions": {"x2": tensor(t, d, []int64{2, 4}, 1)}, "x1 with the columns of x2": {"output": tensor(t, d, []int64{4, 2})},
		"K must not be 0": {"x1": tensor(t, d, []int64{2, 0}), "x2": tensor(t, d, []int64{0, 4})}, "dtype": {"output": tensor(t, dtype.Float32, []int64{2, 4})},
	} {
		refused(t, invalidParam, "MatmulAllReduce", a.with(set), text)
	}
	for _, name := range []string{"x1", "x2", "output", "group", "reduceOp"} {
		refused(t, nullPointer, "MatmulAllReduce", a.with(args{name: nil}), name+" is null")
	}
	refused(t, nullPointer, "MatmulAllReduceV2", a, "x3 is null")
}

// int8Product is (x·w + bias)·columns·rows.
func int8Product(t *testing.T, x, w *Tensor, bias, columns, rows []float64) []float64 {
	m, k, n := x.Dim(0), x.Dim(1), w.Dim(1)
	out := matrixProduct(values(x), values(w), m, k, n)
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
		{"InplaceQuantMatmulAllReduceAddRmsNorm", dtype.BFloat16, nil}, {"QuantMatmulAllReduceAddRmsNorm", dtype.BFloat16, nil},
	} {
		sum, sink := make([]float64, m*n), make([]map[string]*Tensor, size)
		bias := []float64{3, 0, -7, 100, 5, 1}
		residual := normal(9, c.d, m*n)
		ensemble(t, c.name, size, func(r int) args {
			x, w := tensor(t, dtype.Int8, []int64{m, k}, normal(uint64(r), dtype.Int8, m*k)...), tensor(t, dtype.Int8, []int64{k, n}, 3, -100, 7, 0, 127)
			rows := c.rows
			if rows == nil {
				rows = []float64{1}
			}
			add(sum, int8Product(t, x, w, bias, scale, rows))
			a := pass(args{"x1": x, "x2": w, "dequantScale": tensor(t, c.d, []int64{n}, scale...), "reduceOp": "sum"})
			b := tensor(t, dtype.Int32, []int64{n}, bias...)
			if op := find(c.name); op.params[2].name == "bias" {
				a["bias"] = b
			} else {
				a["biasOptional"] = b
			}
			if c.rows != nil {
				a["pertokenScaleOptional"] = tensor(t, dtype.Float32, []int64{m}, c.rows...)
			}
			sink[r] = map[string]*Tensor{}
			out := func(name string, v ...float64) {
				shape := []int64{1, m, n}
				if name == "output" {
					shape = shape[1:]
				}
				sink[r][name] = tensor(t, c.d, shape, v...)
				a[name] = sink[r][name]
			}
			switch c.name {
			case "InplaceQuantMatmulAllReduceAddRmsNorm":
				out("residual", residual...)
				out("normOut")
			case "QuantMatmulAllReduceAddRmsNorm":
				a["residual"] = tensor(t, c.d, []int64{1, m, n}, residual...)
				out("y")
				out("normOut")
			default:
				out("output")
				return a
			}
			a["gamma"], a["epsilon"] = tensor(t, c.d, []int64{n}, scale...), 1e-5
			return a
		})
		total := append([]float64{}, sum...)
		add(total, residual)
		for r, outs := range sink {
			for name, got := range outs {
				want := sum
				if name != "output" {
					want = total
				}
				if name == "normOut" {
					want = nil
					for i := range m {
						y, _ := rmsNormDefinition(total[i*n:(i+1)*n], scale)
						want = append(want, y...)
					}
				}
				closeTo(t, fmt.Sprintf("%s of %s rank %d", name, c.name, r), want, values(got), 6*resultLimit(c.d))
			}
		}
	}
}

// Bytes on the way to the sum and from it: what arrives is a multiple of the second scale.
func TestQuantMatmulAllReduceInBytes(t *testing.T) {
	const m, k, n, size = 3, 8, 2, 2
	first, second := []float64{2, 4}, []float64{8, 16}
	sum, outs := make([]float64, m*n), make([]*Tensor, size)
	d := dtype.BFloat16
	ensemble(t, "QuantMatmulAllReduceV3", size, func(r int) args {
		x, w := tensor(t, dtype.Int8, []int64{m, k}, normal(uint64(r), dtype.Int8, m*k)...), tensor(t, dtype.Int8, []int64{k, n}, 9, -30, 17)
		own := int8Product(t, x, w, []float64{0, 0}, []float64{1, 1}, []float64{1})
		for i, v := range own {
			sum[i] += min(max(math.RoundToEven(v/first[i%n]), -128), 127)
		}
		outs[r] = tensor(t, d, []int64{m, n})
		return pass(args{
			"x1": x, "x2": w, "dequantScale": tensor(t, d, []int64{n}, 1), "output": outs[r], "reduceOp": "sum",
			"commQuantScale1Optional": tensor(t, d, []int64{n}, first...), "commQuantScale2Optional": tensor(t, d, []int64{1, n}, second...),
		})
	})
	for i := range sum {
		sum[i] = min(max(math.RoundToEven(sum[i]*first[i%n]/second[i%n]), -128), 127) * second[i%n]
	}
	for _, out := range outs {
		closeTo(t, "in bytes", sum, values(out), resultLimit(d))
	}
}

func TestWeightQuantMatmulAllReduce(t *testing.T) {
	const m, k, n, size = 3, 16, 4, 2
	for _, d := range pairTypes {
		for _, name := range []string{"WeightQuantMatmulAllReduce", "WeightQuantMatmulAllReduceAddRmsNorm", "InplaceWeightQuantMatmulAllReduceAddRmsNorm"} {
			scale, offset := []float64{.5, .25, 1, .125}, []float64{1, -2, 0, 4}
			sum, outs := make([]float64, m*n), make([]*Tensor, size)
			ensemble(t, name, size, func(r int) args {
				x, w := filled(t, uint64(r), d, kerneltest.Contiguous, []int64{m, k}), tensor(t, dtype.Int8, []int64{k, n}, 3, -10, 7, 0, 12)
				dense := values(w)
				for i := range dense {
					dense[i] = (dense[i] + offset[i%n]) * scale[i%n]
				}
				add(sum, matrixProduct(values(x), dense, m, k, n))
				a := pass(args{"x1": x, "x2": w, "antiquantScale": tensor(t, d, []int64{n}, scale...), "antiquantOffset": tensor(t, d, []int64{n}, offset...), "reduceOp": "sum"})
				if name == "WeightQuantMatmulAllReduce" {
					outs[r] = tensor(t, d, []int64{m, n})
					a["output"] = outs[r]
					return a
				}
				outs[r] = tensor(t, d, []int64{1, m, n}, 0)
				a["residual"], a["gamma"], a["normOut"] = outs[r], tensor(t, d, []int64{n}, 1), tensor(t, d, []int64{1, m, n})
				if name == "WeightQuantMatmulAllReduceAddRmsNorm" {
					a["residual"], a["y"] = tensor(t, d, []int64{1, m, n}, 0), outs[r]
				}
				return a
			})
			for _, out := range outs {
				closeTo(t, name, sum, values(out), 6*resultLimit(d))
			}
		}
	}
}

func TestMatmulAllReduceAddRmsNorm(t *testing.T) {
	d := dtype.Float16
	for _, name := range []string{"MatmulAllReduceAddRmsNorm", "InplaceMatmulAllReduceAddRmsNorm"} {
		residual, y, norm := tensor(t, d, []int64{2, 3, 4}, 1, -2), tensor(t, d, []int64{2, 3, 4}), tensor(t, d, []int64{2, 3, 4})
		a := pass(args{
			"x1": tensor(t, d, []int64{6, 5}, .5, 1, -1), "x2": tensor(t, d, []int64{5, 4}, 1, 2, 0, -1), "bias": tensor(t, d, []int64{4}, .25), "reduceOp": "sum",
			"residual": residual, "gamma": tensor(t, d, []int64{4}, 2), "normOut": norm,
		})
		want := matrixProduct(values(a["x1"].(*Tensor)), values(a["x2"].(*Tensor)), 6, 5, 4)
		add(want, []float64{.25})
		add(want, values(residual))
		got := residual
		if name == "MatmulAllReduceAddRmsNorm" {
			a["y"], got = y, y
		}
		run(t, name, a)
		closeTo(t, name, want, values(got), resultLimit(d))
		refused(t, invalidParam, name, a.with(args{"residual": tensor(t, d, []int64{2, 2, 4}, 0)}), "shapes differ")
		refused(t, invalidParam, name, a.with(args{"gamma": tensor(t, d, []int64{3}, 1)}), "a factor for each column")
		refused(t, nullPointer, name, a.with(args{"normOut": nil}), "normOut is null")
	}
}

func TestCollectivesOfRows(t *testing.T) {
	const m, k, n = 4, 257, 3
	for _, d := range pairTypes {
		for _, l := range kerneltest.Layouts {
			for _, size := range []int{1, 2} {
				var rows []float64
				outs, gathered := make([]*Tensor, size), make([]*Tensor, size)
				w := filled(t, 7, d, l, []int64{k, n})
				all := []int64{int64(m * size), k}
				ensemble(t, "AllGatherMatmul", size, func(r int) args {
					x := filled(t, uint64(r), d, l, []int64{m, k})
					rows = append(rows, values(x)...)
					outs[r], gathered[r] = tensorIn(t, d, l, []int64{all[0], n}), tensorIn(t, d, l, all)
					return pass(args{"x1": x, "x2": w, "output": outs[r], "gatherOut": gathered[r]})
				})
				product := matrixProduct(rows, values(w), all[0], k, n)
				for r := range size {
					closeTo(t, "gathered", rows, values(gathered[r]), 0)
					closeTo(t, "product", product, values(outs[r]), 2*resultLimit(d))
				}
				sum := make([]float64, m*n)
				ensemble(t, "MatmulReduceScatter", size, func(r int) args {
					x := filled(t, uint64(20+r), d, l, []int64{m, k})
					add(sum, matrixProduct(values(x), values(w), m, k, n))
					outs[r] = tensorIn(t, d, l, []int64{int64(m / size), n})
					return pass(args{"x1": x, "x2": w, "output": outs[r], "reduceOp": "sum"})
				})
				for r := range size {
					block := m * n / size
					closeTo(t, "block", sum[r*block:(r+1)*block], values(outs[r]), 4*resultLimit(d))
				}
			}
		}
	}
	d := dtype.Float16
	a := pass(args{"x1": tensor(t, d, []int64{2, 256}, 1), "x2": tensor(t, d, []int64{256, 3}, 1), "output": tensor(t, d, []int64{2, 3})})
	run(t, "AllGatherMatmul", a)
	refused(t, invalidParam, "AllGatherMatmul", a.with(args{"gatherIndex": 1}), "gatherIndex is 1")
	refused(t, invalidParam, "AllGatherMatmul", a.with(args{"x1": tensor(t, d, []int64{2, 255}, 1)}), "K must be from 256")
	refused(t, invalidParam, "AllGatherMatmul", a.with(args{"gatherOut": tensor(t, d, []int64{3, 256})}), "shapes differ")
	refused(t, nullPointer, "AllGatherMatmul", a.with(args{"output": nil}), "output is null")
	refused(t, invalidParam, "MatmulReduceScatter", a.with(args{"reduceOp": "sum", "output": tensor(t, d, []int64{1, 3})}), "a block of rows")
}
