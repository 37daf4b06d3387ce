package matmul

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/fractal"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/testing/golden"
)

// listed returns the group sizes as a tensor of the given groupListType.
func listed(t testing.TB, listType int, sizes ...int64) *op.Tensor {
	t.Helper()
	switch listType {
	case 0:
		var sums []float64
		sum := int64(0)
		for _, n := range sizes {
			sum += n
			sums = append(sums, float64(sum))
		}
		return optest.Tensor(t, dtype.Int64, []int64{int64(len(sizes))}, sums...)
	case 1:
		return optest.Tensor(t, dtype.Int64, []int64{int64(len(sizes))}, optest.Floats(sizes)...)
	}
	var pairs []float64
	for _, empty := range []bool{false, true} {
		for i, n := range sizes {
			if (n == 0) == empty {
				pairs = append(pairs, float64(i), float64(n))
			}
		}
	}
	return optest.Tensor(t, dtype.Int64, []int64{int64(len(sizes)), 2}, pairs...)
}

// single returns a list of one tensor.
func single(t *op.Tensor) []*op.Tensor { return []*op.Tensor{t} }

// inNz returns a copy of a dense tensor in FRACTAL_NZ storage.
func inNz(t testing.TB, x *op.Tensor) *op.Tensor {
	t.Helper()
	nz := optest.NZ(t, x.DType, x.Shape, false, op.DefaultC0(x.DType))
	require.NoError(t, fractal.Pack(nz.Data, op.DefaultC0(x.DType), x.View()))
	return nz
}

// groupedArgs returns the arguments with one tensor in every list and one output.
func groupedArgs(x, w, list, y *op.Tensor) optest.Args {
	return optest.Args{"x": single(x), "weight": single(w), "groupListOptional": list, "splitItem": 2, "out": single(y)}
}

// This runs the three products of a training step, with plain and with FRACTAL_NZ weights:
// forward, the gradient of x by the transposed view of the same weight, and the gradient of the
// weight.
func TestGoldenGroupedMatmul(t *testing.T) {
	for _, c := range golden.Cases(t, "grouped_matmul") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			shape := func(name string) []int64 { return optest.ShapeOf(c.Shape(name)) }
			in := func(name string) *op.Tensor {
				return optest.Tensor(t, c.DType, shape(name), optest.Floats(c.Float32(name))...)
			}
			x, w, dy := in("x"), in("w"), in("dy")
			list := optest.Tensor(t, dtype.Int64, shape("group_list"), optest.Floats(c.Int64("group_list"))...)
			var sizes []int64
			for _, n := range c.Ints("sizes") {
				sizes = append(sizes, int64(n))
			}
			limit := map[dtype.Type]float64{dtype.Float32: 2e-6, dtype.Float16: 1e-3, dtype.BFloat16: 4e-3}[c.DType]
			compare := func(name string, got *op.Tensor) {
				t.Helper()
				require.NoError(t, golden.CheckRMS(optest.Values(got), c.Float32(name), limit), name)
			}
			y, dx, dw := optest.Tensor(t, c.DType, shape("y")), optest.Tensor(t, c.DType, shape("x")), optest.Tensor(t, c.DType, shape("w"))
			optest.Run(t, "GroupedMatmulV5", groupedArgs(x, w, list, y))
			compare("y", y)
			optest.Run(t, "GroupedMatmulV4", groupedArgs(dy, optest.Flipped(w), list, dx))
			compare("dx", dx)
			optest.Run(t, "GroupedMatmulV5", groupedArgs(optest.Flipped(x), dy, list, dw).With(optest.Args{"groupType": 2, "splitItem": 3}))
			compare("dw", dw)

			for _, listType := range []int{1, 2} {
				again := optest.Tensor(t, c.DType, shape("y"))
				optest.Run(t, "GroupedMatmulV5", groupedArgs(x, w, listed(t, listType, sizes...), again).With(optest.Args{"groupListType": listType}))
				require.Equal(t, optest.Values(y), optest.Values(again))
			}
			if k, n := w.Dim(1), w.Dim(2); c.DType != dtype.Float32 && k%16 == 0 && n%16 == 0 {
				nz := inNz(t, w)
				for _, op := range []string{"GroupedMatmulV5", "GroupedMatmulWeightNz"} {
					ny, ndx := optest.Tensor(t, c.DType, shape("y")), optest.Tensor(t, c.DType, shape("x"))
					optest.Run(t, op, groupedArgs(x, nz, list, ny))
					require.Equal(t, optest.Values(y), optest.Values(ny), "the storage of a weight must not change a bit")
					optest.Run(t, op, groupedArgs(dy, optest.Flipped(nz), list, ndx))
					require.Equal(t, optest.Values(dx), optest.Values(ndx))
				}
			}
			if c.DType != dtype.Float32 {
				sum := optest.Tensor(t, dtype.Float32, shape("w"), 1)
				for range 2 {
					optest.Run(t, "GroupedMatmulAdd", optest.Args{"x": x, "weight": dy, "groupList": list, "yRef": sum, "transposeX": true, "groupType": 2})
				}
				got := optest.Values(sum)
				for i, want := range c.Float32("dw") {
					require.InDelta(t, 1+2*want, got[i], 1e-4*max(1, math.Abs(float64(want))))
				}
			}
		})
	}
}

// reference computes the list of y[rows(g)] = x[rows(g)]·w[g] (+ bias[g]).
func reference(x, w []float64, k, n int64, bias []float64, sizes ...int64) []float64 {
	var out []float64
	first := int64(0)
	for g, rows := range sizes {
		for i := first; i < first+rows; i++ {
			for j := range n {
				sum := 0.0
				for p := range k {
					sum += x[i*k+p] * w[(int64(g)*k+p)*n+j]
				}
				if bias != nil {
					sum += bias[int64(g)*n+j]
				}
				out = append(out, sum)
			}
		}
		first += rows
	}
	return out
}

func TestGroupedMatmulForms(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	const k, n = 20, 13
	for _, sizes := range [][]int64{{3}, {2, 0, 5}, {0, 0, 4}, {4, 1, 0}} {
		rows := int64(0)
		for _, s := range sizes {
			rows += s
		}
		e := int64(len(sizes))
		for _, d := range op.FloatTypes {
			biasType := d
			if d == dtype.BFloat16 {
				biasType = dtype.Float32
			}
			t.Run(fmt.Sprintf("%v/%v", sizes, d), func(t *testing.T) {
				x := optest.Tensor(t, d, []int64{rows, k}, random(r, d, []int64{rows, k})...)
				w := optest.Tensor(t, d, []int64{e, k, n}, random(r, d, []int64{e, k, n})...)
				bias := optest.Tensor(t, biasType, []int64{e, n}, random(r, d, []int64{e, n})...)
				want := reference(optest.Values(x), optest.Values(w), k, n, optest.Values(bias), sizes...)
				part := func(v *op.Tensor, i int64) *op.Tensor {
					view := v.View().Select(0, i)
					return optest.Of(view)
				}
				var ws, biases, xs, ys []*op.Tensor
				var sums []int64
				sum := int64(0)
				for i, s := range sizes {
					ws, biases = append(ws, part(w, int64(i))), append(biases, part(bias, int64(i)))
					xs = append(xs, optest.Of(x.View().Narrow(0, sum, s)))
					ys = append(ys, optest.Tensor(t, d, []int64{s, n}))
					sum += s
					sums = append(sums, sum)
				}
				out := func() *op.Tensor { return optest.Tensor(t, d, []int64{rows, n}) }
				joined := func(list []*op.Tensor) (all []float64) {
					for _, y := range list {
						all = append(all, optest.Values(y)...)
					}
					return all
				}

				y := out()
				optest.Run(t, "GroupedMatmulV3", optest.Args{"x": single(x), "weight": single(w), "biasOptional": single(bias), "groupListOptional": listed(t, 0, sizes...), "splitItem": 3, "y": single(y)})
				near(t, d, want, optest.Values(y), "s-s-s")

				y = out()
				optest.Run(t, "GroupedMatmulV2", optest.Args{"x": single(x), "weight": ws, "biasOptional": biases, "groupListOptional": sums, "splitItem": 2, "y": single(y)})
				near(t, d, want, optest.Values(y), "s-m-s")

				optest.Run(t, "GroupedMatmulV2", optest.Args{"x": single(x), "weight": ws, "biasOptional": biases, "groupListOptional": sums, "splitItem": 0, "y": ys})
				near(t, d, want, joined(ys), "s-m-m")

				if e > 1 {
					y = out()
					optest.Run(t, "GroupedMatmulV5", optest.Args{"x": xs, "weight": ws, "biasOptional": biases, "splitItem": 2, "out": single(y)})
					near(t, d, want, optest.Values(y), "m-m-s")
					if d != dtype.Float32 {
						y = out()
						optest.Run(t, "GroupedMatmul", optest.Args{"x": single(x), "weight": ws, "biasOptional": biases, "groupListOptional": sums, "splitItem": 2, "y": single(y)})
						near(t, d, want, optest.Values(y), "V1")
					}
				}
				var each []*op.Tensor
				for _, s := range sizes {
					each = append(each, optest.Tensor(t, d, []int64{s, n}))
				}
				optest.Run(t, "GroupedMatmulV4", optest.Args{"x": xs, "weight": ws, "biasOptional": biases, "groupType": -1, "out": each})
				near(t, d, want, joined(each), "m-m-m")

				// Grouped along the sum: y[g] = x[:, cols(g)]·w[cols(g)].
				tall := optest.Tensor(t, d, []int64{rows, 7}, random(r, d, []int64{rows, 7})...)
				slabs := optest.Tensor(t, d, []int64{e, k, 7})
				optest.Run(t, "GroupedMatmulV4", optest.Args{"x": single(optest.Flipped(x)), "weight": single(tall), "groupListOptional": listed(t, 1, sizes...), "groupListType": 1, "groupType": 2, "splitItem": 3, "out": single(slabs)})
				var cut, outs []*op.Tensor
				first := int64(0)
				for _, s := range sizes {
					cut, outs = append(cut, optest.Of(tall.View().Narrow(0, first, s))), append(outs, optest.Tensor(t, d, []int64{k, 7}))
					first += s
				}
				optest.Run(t, "GroupedMatmulV4", optest.Args{"x": single(optest.Flipped(x)), "weight": cut, "groupType": 2, "splitItem": 0, "out": outs})
				require.Equal(t, optest.Values(slabs), joined(outs))
				for i := range sizes {
					xt := kerneltest.Values(optest.Flipped(xs[i]).View())
					product, _ := naiveMatmul(xt, []int64{k, sizes[i]}, optest.Values(cut[i]), []int64{sizes[i], 7})
					near(t, d, product, optest.Values(outs[i]), "split K", i)
				}
			})
		}
	}
}

// Without groups x may be a batch with up to six dimensions.
func TestGroupedMatmulBatch(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	xs, w := []int64{2, 3, 4, 5}, []int64{5, 6}
	x, weight := optest.Tensor(t, dtype.Float32, xs, random(r, dtype.Float32, xs)...), optest.Tensor(t, dtype.Float32, w, random(r, dtype.Float32, w)...)
	y := optest.Tensor(t, dtype.Float32, []int64{2, 3, 4, 6})
	want, _ := naiveMatmul(optest.Values(x), xs, optest.Values(weight), w)
	optest.Run(t, "GroupedMatmulV2", optest.Args{"x": single(x), "weight": single(weight), "biasOptional": single(optest.Tensor(t, dtype.Float32, []int64{6}, 1)), "groupType": -1, "y": single(y)})
	for i := range want {
		want[i]++
	}
	near(t, dtype.Float32, want, optest.Values(y))
}

// Rows after the last group keep their contents, and so does the whole output when x is empty.
func TestGroupedMatmulLeavesTheTail(t *testing.T) {
	x, w := optest.Tensor(t, dtype.Float16, []int64{4, 2}, 1), optest.Tensor(t, dtype.Float16, []int64{2, 2, 1}, 1)
	y := optest.Tensor(t, dtype.Float16, []int64{4, 1}, 9)
	optest.Run(t, "GroupedMatmulV5", groupedArgs(x, w, listed(t, 1, 1, 2), y).With(optest.Args{"groupListType": 1}))
	require.Equal(t, []float64{2, 2, 2, 9}, optest.Values(y))

	empty := optest.Tensor(t, dtype.Float16, []int64{0, 2})
	slabs := optest.Tensor(t, dtype.Float16, []int64{2, 2, 1}, 7)
	optest.Run(t, "GroupedMatmulV5", groupedArgs(optest.Flipped(empty), optest.Tensor(t, dtype.Float16, []int64{0, 1}), listed(t, 0, 0, 0), slabs).With(optest.Args{"groupType": 2}))
	require.Equal(t, []float64{7, 7, 7, 7}, optest.Values(slabs))

	// With no terms to sum, the product of a group is zero.
	optest.Run(t, "GroupedMatmulV5", groupedArgs(optest.Flipped(optest.Tensor(t, dtype.Float16, []int64{3, 2}, 1)), optest.Tensor(t, dtype.Float16, []int64{3, 1}, 1), listed(t, 0, 0, 3), slabs).With(optest.Args{"groupType": 2}))
	require.Equal(t, []float64{0, 0, 3, 3}, optest.Values(slabs))
}

// Errors that the host cannot detect fail on the stream instead of accessing other memory.
func TestGroupedMatmulFaults(t *testing.T) {
	x, w := optest.Tensor(t, dtype.Float16, []int64{4, 2}, 1), optest.Tensor(t, dtype.Float16, []int64{3, 2, 1}, 1)
	for name, c := range map[string]struct {
		listType int
		list     []float64
		text     string
	}{
		"too long":         {1, []float64{1, 2, 2}, "only 4"},
		"running too long": {0, []float64{1, 2, 5}, "only 4"},
		"decreasing":       {0, []float64{3, 2, 4}, "-1 elements"},
		"negative":         {1, []float64{3, -1, 1}, "-1 elements"},
		"unknown group":    {2, []float64{0, 1, 3, 1, 1, 0}, "group 3 of 3"},
		"twice":            {2, []float64{0, 1, 0, 1, 1, 0}, "group 0 twice"},
	} {
		t.Run(name, func(t *testing.T) {
			shape := []int64{3}
			if c.listType == 2 {
				shape = []int64{3, 2}
			}
			list := optest.Tensor(t, dtype.Int64, shape, c.list...)
			err := optest.Execute(t, "GroupedMatmulV5", groupedArgs(x, w, list, optest.Tensor(t, dtype.Float16, []int64{4, 1}, 0)).With(optest.Args{"groupListType": c.listType}))
			require.ErrorContains(t, err, c.text)
			require.ErrorContains(t, err, "aclnnGroupedMatmulV5")
		})
	}
}

func TestGroupedMatmulRefuses(t *testing.T) {
	bf, i8 := dtype.BFloat16, dtype.Int8
	b := func(shape ...int64) *op.Tensor { return optest.Tensor(t, bf, shape) }
	x, w, y, list := b(4, 16), b(2, 16, 16), b(4, 16), listed(t, 0, 2, 2)
	good := groupedArgs(x, w, list, y)
	many := func(n int, s ...int64) []*op.Tensor { return slices.Repeat(single(b(s...)), n) }
	for _, c := range []struct {
		name string
		op   string
		code int32
		args optest.Args
		text string
	}{
		{"null x", "GroupedMatmulV5", op.NullPointer, good.With(optest.Args{"x": nil}), "x is null"},
		{"empty weight", "GroupedMatmulV5", op.NullPointer, good.With(optest.Args{"weight": []*op.Tensor{}}), "weight is null or empty"},
		{"null y", "GroupedMatmulV5", op.NullPointer, good.With(optest.Args{"out": nil}), "out is null"},
		{"groupType 1", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"groupType": 1}), "not 1"},
		{"split -1", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"groupType": -1}), "splitItem must be 0 or 1"},
		{"splitItem", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"splitItem": 4}), "splitItem must be 0 to 3"},
		{"one output", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"out": many(2, 2, 16)}), "writes one output"},
		{"act 3", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"actType": 3}), "actType"},
		{"act of floats", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"actType": 1}), "needs int8"},
		{"listType", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"groupListType": 3}), "groupListType must be"},
		{"list rank", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"groupListType": 2}), "[groups,2]"},
		{"list int32", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"groupListOptional": optest.Tensor(t, dtype.Int32, []int64{2})}), "must be int64"},
		{"list empty", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"groupListOptional": listed(t, 1)}), "empty"},
		{"list length", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"groupListOptional": listed(t, 1, 1, 1, 1)}), "3 groups, but there are 2"},
		{"list 1025", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"weight": single(b(1025, 16, 16)), "groupListOptional": optest.Tensor(t, dtype.Int64, []int64{1025})}), "at most 1024"},
		{"list null", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"groupListOptional": nil}), "groupListOptional is null"},
		{"list without groups", "GroupedMatmulV5", op.InvalidParam, optest.Args{"x": single(x), "weight": single(b(16, 16)), "out": single(y), "groupType": -1, "groupListOptional": list}, "must be null"},
		{"129 tensors", "GroupedMatmulV5", op.InvalidParam, optest.Args{"x": many(129, 1, 16), "weight": many(129, 16, 16), "splitItem": 2, "out": single(b(129, 16))}, "at most 128"},
		{"reserved", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"activationInputOptional": single(x)}), "reserved"},
		{"types", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"x": single(optest.Tensor(t, dtype.Float16, []int64{4, 16}))}), "no grouped product"},
		{"list types", "GroupedMatmulV5", op.InvalidParam, optest.Args{"x": single(x), "weight": []*op.Tensor{b(16, 16), optest.Tensor(t, dtype.Float16, []int64{16, 16})}, "groupListOptional": list, "splitItem": 2, "out": single(y)}, "dtypes differ"},
		{"out type", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"out": single(optest.Tensor(t, dtype.Float32, []int64{4, 16}))}), "dtypes differ"},
		{"bias type", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"biasOptional": single(b(2, 16))}), "float32"},
		{"bias shape", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"biasOptional": single(optest.Tensor(t, dtype.Float32, []int64{16}))}), "[2,16]"},
		{"bias count", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"biasOptional": []*op.Tensor{optest.Tensor(t, dtype.Float32, []int64{2, 16}), optest.Tensor(t, dtype.Float32, []int64{2, 16})}}), "2 tensors for 1"},
		{"scale", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"scaleOptional": single(b(2, 16))}), "must be null"},
		{"antiquant", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"antiquantScaleOptional": single(b(2, 16))}), "must be null"},
		{"both transposed", "GroupedMatmulV5", op.InvalidParam, optest.Args{"x": single(optest.Flipped(x)), "weight": single(optest.Flipped(b(2, 16, 4))), "splitItem": 2, "out": single(y), "groupListOptional": list}, "both transposed"},
		{"x transposed", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"x": single(optest.Flipped(b(16, 4)))}), "must not be transposed"},
		{"x not transposed", "GroupedMatmulV5", op.InvalidParam, optest.Args{"x": single(x), "weight": single(b(16, 8)), "groupType": 2, "splitItem": 2, "groupListOptional": list, "out": single(b(2, 4, 8))}, "must be transposed"},
		{"bias of split K", "GroupedMatmulV5", op.InvalidParam, optest.Args{"x": single(optest.Flipped(b(16, 4))), "weight": single(b(16, 8)), "biasOptional": single(optest.Tensor(t, dtype.Float32, []int64{8})), "groupType": 2, "splitItem": 2, "groupListOptional": list, "out": single(b(2, 4, 8))}, "must be null with groupType 2"},
		{"inner", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"x": single(b(4, 15))}), "inner dimensions are 15 and 16"},
		{"columns", "GroupedMatmulV5", op.InvalidParam, optest.Args{"x": single(x), "weight": []*op.Tensor{b(16, 16), b(16, 15)}, "groupListOptional": list, "splitItem": 2, "out": single(y)}, "same number of columns"},
		{"out shape", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"out": single(b(5, 16))}), "[4,16]"},
		{"several outputs", "GroupedMatmulV5", op.InvalidParam, optest.Args{"x": single(x), "weight": many(2, 16, 16), "groupListOptional": list, "splitItem": 0, "out": many(2, 2, 16)}, "host array"},
		{"long rows", "GroupedMatmulV5", op.InvalidParam, optest.Args{"x": single(b(1, 65536)), "weight": single(b(1, 65536, 1)), "splitItem": 2, "out": single(b(1, 1))}, "at most 65535"},
		{"tuning", "GroupedMatmulV5", op.InvalidParam, good.With(optest.Args{"tuningConfigOptional": []int64{5}}), "0 to 4"},
		{"NZ of K", "GroupedMatmulWeightNz", op.InvalidParam, optest.Args{"x": single(b(4, 24)), "weight": single(b(2, 24, 16)), "groupListOptional": list, "splitItem": 2, "out": single(y)}, "multiple of 16"},
		{"NZ of fp32", "GroupedMatmulWeightNz", op.InvalidParam, optest.Args{"x": single(optest.Tensor(t, dtype.Float32, []int64{4, 16})), "weight": single(optest.Tensor(t, dtype.Float32, []int64{2, 16, 16})), "groupListOptional": list, "splitItem": 2, "out": single(optest.Tensor(t, dtype.Float32, []int64{4, 16}))}, "use ND"},
		{"NZ of split K", "GroupedMatmulWeightNz", op.InvalidParam, optest.Args{"x": single(optest.Flipped(b(16, 4))), "weight": single(b(16, 8)), "groupType": 2, "splitItem": 2, "groupListOptional": list, "out": single(b(2, 4, 8))}, "groupType 2"},
		{"host sum", "GroupedMatmulV2", op.InvalidParam, optest.Args{"x": single(x), "weight": many(2, 16, 16), "groupListOptional": []int64{2, 3}, "splitItem": 2, "y": single(y)}, "ends at 3"},
		{"host order", "GroupedMatmulV2", op.InvalidParam, optest.Args{"x": single(x), "weight": many(2, 16, 16), "groupListOptional": []int64{5, 4}, "splitItem": 2, "y": single(y)}, "must not decrease"},
		{"host empty", "GroupedMatmulV2", op.InvalidParam, optest.Args{"x": single(x), "weight": many(2, 16, 16), "groupListOptional": []int64{}, "splitItem": 2, "y": single(y)}, "empty"},
		{"V1 fp32", "GroupedMatmul", op.InvalidParam, optest.Args{"x": single(optest.Tensor(t, dtype.Float32, []int64{4, 16})), "weight": single(optest.Tensor(t, dtype.Float32, []int64{16, 16})), "y": single(optest.Tensor(t, dtype.Float32, []int64{4, 16}))}, "no float32"},
		{"V1 single weight", "GroupedMatmul", op.InvalidParam, optest.Args{"x": []*op.Tensor{x, x}, "weight": single(w), "splitItem": 2, "y": single(y)}, "2 dimensions per group"},
		{"int8 lists", "GroupedMatmulWeightNz", op.InvalidParam, optest.Args{"x": single(optest.Tensor(t, i8, []int64{4, 16})), "weight": []*op.Tensor{optest.Tensor(t, i8, []int64{16, 16})}, "splitItem": 2, "out": single(optest.Tensor(t, dtype.Int32, []int64{4, 16}))}, "one weight [E,K,N]"},
		{"int8 lists of x", "GroupedMatmulV5", op.InvalidParam, optest.Args{"x": slices.Repeat(single(optest.Tensor(t, i8, []int64{2, 16})), 2), "weight": slices.Repeat(single(optest.Tensor(t, i8, []int64{16, 16})), 2), "splitItem": 2, "out": single(optest.Tensor(t, dtype.Int32, []int64{4, 16}))}, "one x"},
		{"int8 by the summed axis", "GroupedMatmulV2", op.InvalidParam, optest.Args{"x": single(optest.Tensor(t, i8, []int64{4, 16})), "weight": single(optest.Tensor(t, i8, []int64{16, 16})), "splitItem": 2, "groupType": 2, "y": single(optest.Tensor(t, i8, []int64{1, 4, 16}))}, "groupType 2 takes no quantised"},
	} {
		t.Run(c.name, func(t *testing.T) { optest.Refused(t, c.code, c.op, c.args, c.text) })
	}
}

func TestGroupedMatmulAdd(t *testing.T) {
	bf := dtype.BFloat16
	x := optest.Tensor(t, bf, []int64{3, 2}, 1, 2, 3, 4, 5, 6)
	w := optest.Tensor(t, bf, []int64{3, 2}, 1, 1, 1, 1, 1, 1)
	y := optest.Tensor(t, dtype.Float32, []int64{6, 2}, 100)
	a := optest.Args{"x": x, "weight": w, "groupList": listed(t, 0, 1, 0, 2), "yRef": y, "transposeX": true, "groupType": 2}
	optest.Run(t, "GroupedMatmulAdd", a)
	require.Equal(t, []float64{101, 101, 102, 102, 100, 100, 100, 100, 108, 108, 110, 110}, optest.Values(y))
	optest.Run(t, "GroupedMatmulAdd", a.With(optest.Args{"x": optest.Tensor(t, bf, []int64{0, 2}), "weight": optest.Tensor(t, bf, []int64{0, 2})}))
	require.EqualValues(t, 101, optest.Values(y)[0])

	for name, c := range map[string]struct {
		code int32
		more optest.Args
		text string
	}{
		"null":        {op.NullPointer, optest.Args{"groupList": nil}, "groupList is null"},
		"flags":       {op.InvalidParam, optest.Args{"transposeX": false}, "only true, false and 2"},
		"groupType":   {op.InvalidParam, optest.Args{"groupType": 0}, "only true, false and 2"},
		"y type":      {op.InvalidParam, optest.Args{"yRef": optest.Tensor(t, bf, []int64{6, 2})}, "float32"},
		"x type":      {op.InvalidParam, optest.Args{"x": optest.Tensor(t, dtype.Float32, []int64{3, 2})}, "not supported"},
		"rows":        {op.InvalidParam, optest.Args{"x": optest.Tensor(t, bf, []int64{4, 2})}, "same number of rows"},
		"strided x":   {op.InvalidParam, optest.Args{"x": optest.Flipped(optest.Tensor(t, bf, []int64{2, 3}))}, "contiguous"},
		"y size":      {op.InvalidParam, optest.Args{"yRef": optest.Tensor(t, dtype.Float32, []int64{5, 2})}, "[3,2,2]"},
		"list type":   {op.InvalidParam, optest.Args{"groupList": optest.Tensor(t, dtype.Int32, []int64{3})}, "int64"},
		"list length": {op.InvalidParam, optest.Args{"groupList": listed(t, 0, 1, 2)}, "[2,2,2]"},
	} {
		t.Run(name, func(t *testing.T) { optest.Refused(t, c.code, "GroupedMatmulAdd", a.With(c.more), c.text) })
	}
	require.ErrorContains(t, optest.Execute(t, "GroupedMatmulAdd", a.With(optest.Args{"groupList": listed(t, 0, 1, 0, 3)})), "only 3")

	// The second version also accepts sizes; the first accepts only running sums.
	for _, listType := range []int{0, 1} {
		again := optest.Tensor(t, dtype.Float32, []int64{3, 2, 2}, 100)
		optest.Run(t, "GroupedMatmulAddV2", a.With(optest.Args{"groupList": listed(t, listType, 1, 0, 2), "groupListType": listType, "yRef": again}))
		require.Equal(t, []float64{101, 101, 102, 102, 100, 100, 100, 100, 108, 108, 110, 110}, optest.Values(again))
	}
	optest.Refused(t, op.InvalidParam, "GroupedMatmulAddV2", a.With(optest.Args{"groupListType": 2}), "groupListType must be 0 (running sums) or 1 (sizes)")
}

// The test covers the documented limits: the longest list for one weight and for many, and the
// widest rows.
func TestGroupedMatmulLargest(t *testing.T) {
	const groups = 1024
	sizes := make([]int64, groups)
	sizes[0], sizes[groups-1] = 1, 2
	w := make([]float64, groups)
	w[0], w[groups-1] = 3, 5
	for listType := range 3 {
		y := optest.Tensor(t, dtype.Float32, []int64{3, 1})
		optest.Run(t, "GroupedMatmulV5", groupedArgs(optest.Tensor(t, dtype.Float32, []int64{3, 1}, 1, 2, 3), optest.Tensor(t, dtype.Float32, []int64{groups, 1, 1}, w...), listed(t, listType, sizes...), y).With(optest.Args{"groupListType": listType}))
		require.Equal(t, []float64{3, 10, 15}, optest.Values(y))
	}
	xs, ws := make([]*op.Tensor, 128), make([]*op.Tensor, 128)
	for i := range xs {
		xs[i], ws[i] = optest.Tensor(t, dtype.Float16, []int64{1, 1}, float64(i)), optest.Tensor(t, dtype.Float16, []int64{1, 1}, 2)
	}
	y := optest.Tensor(t, dtype.Float16, []int64{128, 1})
	optest.Run(t, "GroupedMatmulV5", optest.Args{"x": xs, "weight": ws, "splitItem": 2, "out": single(y)})
	require.EqualValues(t, 2*127, optest.Values(y)[127])

	wide := optest.Tensor(t, dtype.Float16, []int64{1, 1})
	optest.Run(t, "GroupedMatmulV5", optest.Args{"x": single(optest.Tensor(t, dtype.Float16, []int64{1, 65535}, make([]float64, 65535)...)), "weight": single(optest.Tensor(t, dtype.Float16, []int64{1, 65535, 1}, 1)), "splitItem": 2, "out": single(wide)})
	require.Equal(t, []float64{0}, optest.Values(wide))
}
