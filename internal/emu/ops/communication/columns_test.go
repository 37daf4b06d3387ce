package communication

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// whole returns an int8 or int4 tensor. transposed stores it as its transpose.
func whole(t *testing.T, d dtype.Type, rows, cols int64, transposed bool, v []float64) *op.Tensor {
	shape := []int64{rows, cols}
	if transposed {
		v, shape = optest.Transposed(v, cols), []int64{cols, rows}
	}
	if d != dtype.Int4 {
		return optest.Tensor(t, d, shape, v...)
	}
	out := optest.Of(optest.Tensor(t, dtype.Uint8, []int64{rows * cols / 2}).View())
	out.DType, out.Shape, out.Strides, out.Storage = dtype.Int4, shape, op.ContiguousStrides(shape), shape
	optest.StoreInt4(t, out, v)
	return out
}

// small returns whole numbers that int4 holds, and int8 numbers of any size.
func small(seed uint64, d dtype.Type, n int64) []float64 {
	v := optest.Int8s(int(seed), int(n))
	for i := range v {
		if d == dtype.Int4 {
			v[i] = math.Mod(v[i], 8)
		}
	}
	return v
}

// factors are positive and exact in every floating-point type.
func factors(n int64) []float64 {
	var v []float64
	for i := range n {
		v = append(v, []float64{.5, .25, 1, 2}[i%4]/64)
	}
	return v
}

// named returns the arguments of an operator's version: the second one names the engine.
func named(name, engine string, a optest.Args) optest.Args {
	if name[len(name)-2:] == "V2" {
		return a.With(optest.Args{"commMode": engine})
	}
	return a
}

func TestAlltoAllMatmul(t *testing.T) {
	const n = 5
	for _, name := range []string{"AlltoAllMatmul", "AlltoAllMatmulV2", "MatmulAlltoAll", "MatmulAlltoAllV2"} {
		before := name[0] == 'A'
		for _, d := range op.HalfTypes {
			for _, size := range []int64{2, 4} {
				for _, rows := range []int64{1, 3} {
					for _, swapped := range []bool{false, true} {
						for _, biased := range []bool{false, true} {
							bs, h, columns := rows*size, int64(7), int64(n)
							k := h * size
							if !before {
								columns, k = n*size, h
							}
							var xs []*op.Tensor
							ws, biases := make([][]float64, size), make([][]float64, size)
							outs, alls := make([]*op.Tensor, size), make([]*op.Tensor, size)
							optest.OnRanks(t, name, int(size), func(r int) optest.Args {
								x := optest.Filled(t, uint64(r+1), d, kerneltest.Contiguous, []int64{bs, h})
								xs = append(xs, x)
								ws[r] = optest.Normal(uint64(r+20), d, k*columns)
								a := named(name, "aiv", optest.Args{"x1": x, "x2": whole(t, d, k, columns, swapped, ws[r]), "transposeX2": swapped, "group": "ranks"})
								if before {
									outs[r], alls[r] = optest.Tensor(t, d, []int64{rows, n}), optest.Tensor(t, d, []int64{rows, k})
									a["alltoAllOutOptional"], a["alltoAllAxesOptional"] = alls[r], []int64{-2, -1}
								} else {
									outs[r] = optest.Tensor(t, d, []int64{size * bs, n})
								}
								a["output"] = outs[r]
								if biased {
									other := d
									if d == dtype.BFloat16 {
										other = dtype.Float32
									}
									biases[r] = optest.Normal(uint64(r+40), dtype.Float16, columns)
									a["biasOptional"] = optest.Tensor(t, other, []int64{columns}, biases[r]...)
								}
								return a
							})
							what := fmt.Sprintf("%s %v of %d, %d rows, swapped %v, bias %v", name, d, size, rows, swapped, biased)
							for r := range size {
								var want []float64
								if before {
									var mine []float64 // the block of rows of this rank, with the columns of all
									for i := range rows {
										for q := range size {
											mine = append(mine, optest.Row(optest.Values(xs[q]), int(h), int(r*rows+i))...)
										}
									}
									optest.CloseTo(t, what, mine, optest.Values(alls[r]), 0)
									want = optest.Times(mine, ws[r], k)
									optest.Add(want, biasOf(biases[r], columns))
								} else {
									for q := range size {
										all := optest.Times(optest.Values(xs[q]), ws[q], k)
										optest.Add(all, biasOf(biases[q], columns))
										for i := range bs {
											want = append(want, all[i*columns+r*n:][:n]...)
										}
									}
								}
								optest.CloseTo(t, what, want, optest.Values(outs[r]), 2*optest.ResultLimit(d))
							}
						}
					}
				}
			}
		}
	}
}

// biasOf returns a bias, or zeros for none.
func biasOf(bias []float64, n int64) []float64 {
	if bias == nil {
		return make([]float64, n)
	}
	return bias
}

func TestAlltoAllQuantMatmul(t *testing.T) {
	const n, h = 6, 8
	for _, name := range []string{"AlltoAllQuantMatmul", "AlltoAllQuantMatmulV2"} {
		for _, c := range []struct{ x, w dtype.Type }{{dtype.Float16, dtype.Int8}, {dtype.BFloat16, dtype.Int8}, {dtype.Float16, dtype.Int4}, {dtype.BFloat16, dtype.Int4}, {dtype.Int4, dtype.Int4}} {
			for _, d := range op.HalfTypes {
				if c.x != dtype.Int4 && c.x != d {
					continue
				}
				for _, size := range []int64{2, 4} {
					for _, swapped := range []bool{false, true} {
						for _, more := range []bool{false, true} { // a bias, and factors that smooth
							const rows = 3
							bs, k := rows*size, h*size
							xs, ws := make([][]float64, size), make([][]float64, size)
							outs, alls := make([]*op.Tensor, size), make([]*op.Tensor, size)
							scale, perRow, bias, smooth := factors(n), factors(bs), optest.Normal(9, d, n), factors(k)
							optest.OnRanks(t, name, int(size), func(r int) optest.Args {
								ws[r] = small(uint64(r+20), c.w, k*n)
								a := named(name, "aiv", optest.Args{
									"x2": whole(t, c.w, k, n, swapped, ws[r]), "transposeX2": swapped, "group": "ranks", "x2QuantMode": 2, "commQuantDtype": -1,
									"x2Scale": optest.Tensor(t, dtype.Float32, []int64{n}, scale...),
								})
								if c.x == dtype.Int4 {
									xs[r] = small(uint64(r+1), c.x, bs*h)
									a["x1"], a["x1QuantMode"], a["x1ScaleOptional"] = whole(t, c.x, bs, h, false, xs[r]), 3, optest.Tensor(t, dtype.Float32, []int64{bs}, perRow...)
									alls[r] = whole(t, c.x, rows, k, false, make([]float64, rows*k))
								} else {
									x := optest.Filled(t, uint64(r+1), d, kerneltest.Contiguous, []int64{bs, h})
									xs[r] = optest.Values(x)
									a["x1"], a["x1QuantMode"] = x, 7
									if !more && !swapped { // the type of x1 decides
										a["x1QuantMode"] = 3
									}
									alls[r] = optest.Tensor(t, d, []int64{rows, k})
									if more {
										a["x1ScaleOptional"] = optest.Tensor(t, d, []int64{k}, smooth...)
									}
								}
								outs[r] = optest.Tensor(t, d, []int64{rows, n})
								a["output"], a["alltoAllOutOptional"] = outs[r], alls[r]
								if more {
									a["biasOptional"] = optest.Tensor(t, []dtype.Type{d, dtype.Float32}[r%2], []int64{n}, bias...)
								}
								return a
							})
							for r := range size {
								var mine, of []float64
								for i := range rows {
									var row []float64
									for q := range size {
										row = append(row, optest.Row(xs[q], h, int(r*rows)+i)...)
									}
									by := perRow[r*rows+int64(i)]
									if c.x != dtype.Int4 {
										most, top := 0.0, 127.0
										if c.w == dtype.Int4 {
											top = 7
										}
										for j := range row {
											if more {
												row[j] *= smooth[j]
											}
											most = max(most, math.Abs(row[j]))
										}
										by = most / top
										for j := range row {
											row[j] = math.RoundToEven(float64(float32(row[j]) / float32(by)))
										}
									}
									mine, of = append(mine, row...), append(of, by)
								}
								want := optest.Times(mine, ws[r], k)
								for i := range want {
									want[i] *= scale[i%n] * of[i/n]
									if more {
										want[i] += bias[i%n]
									}
								}
								what := fmt.Sprintf("%s %v × %v to %v, rank %d of %d, swapped %v, more %v", name, c.x, c.w, d, r, size, swapped, more)
								limit := 2 * optest.ResultLimit(d)
								if c.x != dtype.Int4 {
									limit = .02 // a quotient at the middle between two numbers is rounded either way
								}
								optest.CloseTo(t, what, want, optest.Values(outs[r]), limit)
							}
						}
					}
				}
			}
		}
	}
}

func TestQuantMatmulAlltoAll(t *testing.T) {
	const n, k = 3, 9
	for _, name := range []string{"QuantMatmulAlltoAll", "QuantMatmulAlltoAllV2"} {
		for _, d := range op.HalfTypes {
			for _, size := range []int64{2, 4} {
				for _, rows := range []int64{1, 5} {
					for _, swapped := range []bool{false, true} {
						columns := n * size
						wants, outs := make([][]float64, size), make([]*op.Tensor, size)
						scale, perRow, bias := factors(columns), factors(rows), optest.Normal(9, d, columns)
						optest.OnRanks(t, name, int(size), func(r int) optest.Args {
							x, w := small(uint64(r+1), dtype.Int8, rows*k), small(uint64(r+20), dtype.Int8, k*columns)
							wants[r] = optest.Times(x, w, k)
							for i := range wants[r] {
								wants[r][i] = wants[r][i]*scale[int64(i)%columns]*perRow[int64(i)/columns] + bias[int64(i)%columns]
							}
							outs[r] = optest.Tensor(t, d, []int64{size * rows, n})
							return named(name, "aiv", optest.Args{
								"x1": whole(t, dtype.Int8, rows, k, false, x), "x2": whole(t, dtype.Int8, k, columns, swapped, w), "transposeX2": swapped, "group": "ranks", "x1QuantMode": 3, "x2QuantMode": 2,
								"commQuantDtype": -1, "x1Scale": optest.Tensor(t, dtype.Float32, []int64{rows}, perRow...), "x2Scale": optest.Tensor(t, dtype.Float32, []int64{columns}, scale...),
								"biasOptional": optest.Tensor(t, []dtype.Type{d, dtype.Float32}[r%2], []int64{columns}, bias...), "output": outs[r],
							})
						})
						for r := range size {
							var want []float64
							for q := range size {
								for i := range rows {
									want = append(want, wants[q][i*columns+r*n:][:n]...)
								}
							}
							optest.CloseTo(t, fmt.Sprintf("%s %v rank %d of %d", name, d, r, size), want, optest.Values(outs[r]), 2*optest.ResultLimit(d))
						}
					}
				}
			}
		}
	}
}

// refusedOf prepares a call on rank 0 of two, and asserts that it is refused.
func refusedOf(t *testing.T, name string, ranks int, a optest.Args, text string) {
	t.Helper()
	_, err := optest.PrepareIn(t, op.Env{Join: func(string) (op.Communicator, error) { return op.Communicator{Handle: 1, Size: ranks}, nil }}, name, a)
	require.ErrorContains(t, err, text, name)
}

func TestAlltoAllProductsRefuse(t *testing.T) {
	d := dtype.Float16
	f := func(shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape, 1) }
	plain := optest.Args{"x1": f(4, 3), "x2": f(6, 5), "output": f(2, 5), "group": "ranks", "commMode": "aiv"}
	for text, set := range map[string]optest.Args{
		`commMode is "ccu"`: {"commMode": "ccu"}, "transposeX1 is true": {"transposeX1": true}, "alltoAllAxesOptional holds": {"alltoAllAxesOptional": []int64{-1, -2}},
		"divide among 2": {"x1": f(5, 3)}, "6 rows, and": {"x1": f(4, 4)}, "a block of the rows": {"output": f(4, 5)}, "dtypes differ": {"x2": optest.Tensor(t, dtype.BFloat16, []int64{6, 5}, 1)},
		"biasOptional": {"biasOptional": optest.Tensor(t, dtype.Float32, []int64{5}, 1)}, "must be contiguous": {"x2": optest.TensorIn(t, d, kerneltest.Layouts[1], []int64{6, 5})},
		"the columns of all": {"alltoAllOutOptional": f(4, 6)}, "commMode is null": {"commMode": nil}, "x2 is null": {"x2": nil},
	} {
		refusedOf(t, "AlltoAllMatmulV2", 2, plain.With(set), text)
	}
	refusedOf(t, "AlltoAllMatmulV2", 3, plain, "3 ranks")
	i8 := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Int8, shape, 1) }
	f32 := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Float32, shape, 1) }
	quant := optest.Args{
		"x1": i8(4, 3), "x2": i8(3, 6), "x1Scale": f32(4), "x2Scale": f32(6), "biasOptional": f32(6), "output": f(8, 3), "group": "ranks", "x1QuantMode": 3, "x2QuantMode": 2, "commQuantDtype": -1,
	}
	for text, set := range map[string]optest.Args{
		"biasOptional is null": {"biasOptional": nil}, "x1QuantMode is 7": {"x1QuantMode": 7}, "x2QuantMode is 6": {"x2QuantMode": 6}, "commQuantMode is 1": {"commQuantMode": 1}, "commQuantDtype is 0": {"commQuantDtype": 0},
		"groupSize is 32": {"groupSize": 32}, "not supported": {"commScaleOptional": f32(1)}, "one for each row of x1": {"x1Scale": f32(5)}, "one for each column": {"x2Scale": f32(5)}, "divide among 2": {"x2": i8(3, 5), "x2Scale": f32(5), "biasOptional": f32(5)},
	} {
		refusedOf(t, "QuantMatmulAlltoAll", 2, quant.With(set), text)
	}
	dynamic := optest.Args{"x1": f(4, 8), "x2": i8(16, 6), "x2Scale": f32(6), "output": f(2, 6), "group": "ranks", "x1QuantMode": 7, "x2QuantMode": 2, "commQuantDtype": -1}
	for text, set := range map[string]optest.Args{
		"multiple of 16": {"x1": f(4, 7)}, "smoothed": {"x1ScaleOptional": f(15)}, "x1QuantMode is 6": {"x1QuantMode": 6}, "x1ScaleOptional is null": {"x1QuantMode": 3, "x1": whole(t, dtype.Int4, 4, 8, false, make([]float64, 32))}, "dtype": {"x1QuantMode": 3, "x1ScaleOptional": f(4)},
	} {
		refusedOf(t, "AlltoAllQuantMatmul", 2, dynamic.With(set), text)
	}
	_, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend950}, "AlltoAllQuantMatmul", dynamic)
	require.ErrorContains(t, err, "factors of float8")
}

func TestQuantisedRows(t *testing.T) {
	const m, k, n = 4, 256, 6
	for _, d := range op.HalfTypes {
		for _, whichever := range []dtype.Type{dtype.Int8, dtype.Int4} {
			for _, size := range []int64{2, 4} {
				for _, swapped := range []bool{false, true} {
					for _, byRow := range []bool{false, true} {
						wide := []int64{m * size, k}
						scale := factors(n)
						var perRow []float64
						rows := func(a optest.Args, r int) []float64 {
							if !byRow {
								return slices.Repeat([]float64{1}, m)
							}
							own := factors(m + int64(r))[r:]
							a["x1Scale"] = optest.Tensor(t, dtype.Float32, []int64{m, 1}, own...)
							return own
						}
						columns := optest.Tensor(t, dtype.Float32, []int64{1, n}, scale...)
						if !byRow && d == dtype.Float16 { // a 64-bit integer holds the bits of each scale
							columns = optest.Tensor(t, dtype.Int64, []int64{1, n})
							for i, v := range scale {
								columns.View().Ints()[i] = int64(math.Float32bits(float32(v)))
							}
						}
						w := small(7, whichever, k*n)
						weight := whole(t, whichever, k, n, swapped, w)
						if swapped {
							weight.Shape, weight.Strides = []int64{k, n}, []int64{1, k}
						}
						what := fmt.Sprintf("%v %v of %d, swapped %v, by row %v", d, whichever, size, swapped, byRow)
						var all []float64
						outs, gathered := make([]*op.Tensor, size), make([]*op.Tensor, size)
						optest.OnRanks(t, "AllGatherMatmulV2", int(size), func(r int) optest.Args {
							x := small(uint64(r+1), whichever, m*k)
							all = append(all, x...)
							outs[r], gathered[r] = optest.Tensor(t, d, []int64{wide[0], n}), whole(t, whichever, wide[0], k, false, make([]float64, wide[0]*k))
							a := pass(optest.Args{"x1": whole(t, whichever, m, k, false, x), "x2": weight, "x2Scale": columns, "output": outs[r], "gatherOut": gathered[r], "commMode": "aiv"})
							perRow = append(perRow, rows(a, r)...)
							return a
						})
						want := optest.Times(all, w, k)
						for i := range want {
							want[i] *= scale[i%n] * perRow[i/n]
						}
						for r := range size {
							optest.CloseTo(t, what, want, optest.Values(outs[r]), 2*optest.ResultLimit(d))
							if whichever == dtype.Int8 {
								optest.CloseTo(t, what, all, optest.Values(gathered[r]), 0)
							}
						}
						if whichever == dtype.Int4 {
							continue
						}
						sum, bias := make([]float64, m*n), optest.Normal(9, dtype.Float32, n)
						optest.OnRanks(t, "MatmulReduceScatterV2", int(size), func(r int) optest.Args {
							x := small(uint64(r+1), whichever, m*k)
							outs[r] = optest.Tensor(t, d, []int64{m / size, n})
							a := pass(optest.Args{"x1": whole(t, whichever, m, k, false, x), "x2": weight, "x2Scale": columns, "output": outs[r], "commMode": "aiv", "reduceOp": "sum"})
							own := optest.Times(x, w, k)
							by := rows(a, r)
							for i := range own {
								own[i] *= scale[i%n] * by[i/n]
							}
							if byRow || d == dtype.BFloat16 { // without scales of rows the kernel takes a float32 bias with bfloat16 only
								a["bias"] = optest.Tensor(t, dtype.Float32, []int64{n}, bias...)
								optest.Add(own, bias)
							}
							optest.Add(sum, own)
							return a
						})
						for r := range size {
							block := m / size * n
							optest.CloseTo(t, what, sum[r*block:(r+1)*block], optest.Values(outs[r]), 6*optest.ResultLimit(d))
						}
					}
				}
			}
		}
	}
}
