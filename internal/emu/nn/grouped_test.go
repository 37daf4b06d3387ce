package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/golden"
)

// listed writes group sizes as a tensor of the given groupListType.
func listed(t testing.TB, listType int, sizes ...int64) *Tensor {
	t.Helper()
	switch listType {
	case 0:
		var sums []float64
		sum := int64(0)
		for _, n := range sizes {
			sum += n
			sums = append(sums, float64(sum))
		}
		return tensor(t, dtype.Int64, []int64{int64(len(sizes))}, sums...)
	case 1:
		return tensor(t, dtype.Int64, []int64{int64(len(sizes))}, floats(sizes)...)
	}
	var pairs []float64
	for _, empty := range []bool{false, true} {
		for i, n := range sizes {
			if (n == 0) == empty {
				pairs = append(pairs, float64(i), float64(n))
			}
		}
	}
	return tensor(t, dtype.Int64, []int64{int64(len(sizes)), 2}, pairs...)
}

// single is a list of one tensor.
func single(t *Tensor) []*Tensor { return []*Tensor{t} }

// flipped is the view with the last two dimensions swapped.
func flipped(t *Tensor) *Tensor {
	f := *t
	n := len(t.Shape)
	f.Shape, f.Strides = slices.Clone(t.Shape), slices.Clone(t.Strides)
	f.Shape[n-1], f.Shape[n-2] = f.Shape[n-2], f.Shape[n-1]
	f.Strides[n-1], f.Strides[n-2] = f.Strides[n-2], f.Strides[n-1]
	return &f
}

// inNz is a copy of a dense tensor in FRACTAL_NZ storage.
func inNz(t testing.TB, x *Tensor) *Tensor {
	t.Helper()
	nz := nzTensor(t, x.DType, x.Shape, false, defaultC0(x.DType))
	require.NoError(t, kernel.ToNZ(nz.host, defaultC0(x.DType), x.View()))
	return nz
}

// groupedArgs are the arguments with one tensor in every list and one output.
func groupedArgs(x, w, list, y *Tensor) args {
	return args{"x": single(x), "weight": single(w), "groupListOptional": list, "splitItem": 2, "out": single(y)}
}

func (a args) with(more args) args {
	out := args{}
	for k, v := range a {
		out[k] = v
	}
	for k, v := range more {
		out[k] = v
	}
	return out
}

// The three products of a training step: forward, the gradient of x by the swapped view of
// the same weight, and the gradient of the weight, with plain and with FRACTAL_NZ weights.
func TestGoldenGroupedMatmul(t *testing.T) {
	for _, c := range golden.Cases(t, "grouped_matmul") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			shape := func(name string) []int64 { return shapeOf(c.Shape(name)) }
			in := func(name string) *Tensor { return tensor(t, c.DType, shape(name), floats(c.Float32(name))...) }
			x, w, dy := in("x"), in("w"), in("dy")
			list := tensor(t, dtype.Int64, shape("group_list"), floats(c.Int64("group_list"))...)
			var sizes []int64
			for _, n := range c.Ints("sizes") {
				sizes = append(sizes, int64(n))
			}
			limit := map[dtype.Type]float64{dtype.Float32: 2e-6, dtype.Float16: 1e-3, dtype.BFloat16: 4e-3}[c.DType]
			compare := func(name string, got *Tensor) {
				t.Helper()
				require.NoError(t, golden.CheckRMS(values(got), c.Float32(name), limit), name)
			}
			y, dx, dw := tensor(t, c.DType, shape("y")), tensor(t, c.DType, shape("x")), tensor(t, c.DType, shape("w"))
			run(t, "GroupedMatmulV5", groupedArgs(x, w, list, y))
			compare("y", y)
			run(t, "GroupedMatmulV4", groupedArgs(dy, flipped(w), list, dx))
			compare("dx", dx)
			run(t, "GroupedMatmulV5", groupedArgs(flipped(x), dy, list, dw).with(args{"groupType": 2, "splitItem": 3}))
			compare("dw", dw)

			for _, listType := range []int{1, 2} {
				again := tensor(t, c.DType, shape("y"))
				run(t, "GroupedMatmulV5", groupedArgs(x, w, listed(t, listType, sizes...), again).with(args{"groupListType": listType}))
				require.Equal(t, values(y), values(again))
			}
			if k, n := w.Dim(1), w.Dim(2); c.DType != dtype.Float32 && k%16 == 0 && n%16 == 0 {
				nz := inNz(t, w)
				for _, op := range []string{"GroupedMatmulV5", "GroupedMatmulWeightNz"} {
					ny, ndx := tensor(t, c.DType, shape("y")), tensor(t, c.DType, shape("x"))
					run(t, op, groupedArgs(x, nz, list, ny))
					require.Equal(t, values(y), values(ny), "the storage of a weight must not change a bit")
					run(t, op, groupedArgs(dy, flipped(nz), list, ndx))
					require.Equal(t, values(dx), values(ndx))
				}
			}
			if c.DType != dtype.Float32 {
				sum := tensor(t, dtype.Float32, shape("w"), 1)
				for range 2 {
					run(t, "GroupedMatmulAdd", args{"x": x, "weight": dy, "groupList": list, "yRef": sum, "transposeX": true, "groupType": 2})
				}
				got := values(sum)
				for i, want := range c.Float32("dw") {
					require.InDelta(t, 1+2*want, got[i], 1e-4*max(1, math.Abs(float64(want))))
				}
			}
		})
	}
}

// reference is the list of y[rows(g)] = x[rows(g)]·w[g] (+ bias[g]).
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
		for _, d := range cubeTypes {
			biasType := d
			if d == dtype.BFloat16 {
				biasType = dtype.Float32
			}
			t.Run(fmt.Sprintf("%v/%v", sizes, d), func(t *testing.T) {
				x := tensor(t, d, []int64{rows, k}, random(r, d, []int64{rows, k})...)
				w := tensor(t, d, []int64{e, k, n}, random(r, d, []int64{e, k, n})...)
				bias := tensor(t, biasType, []int64{e, n}, random(r, d, []int64{e, n})...)
				want := reference(values(x), values(w), k, n, values(bias), sizes...)
				part := func(v *Tensor, i int64) *Tensor {
					view := v.View().Select(0, i)
					return of(view)
				}
				var ws, biases, xs, ys []*Tensor
				var sums []int64
				sum := int64(0)
				for i, s := range sizes {
					ws, biases = append(ws, part(w, int64(i))), append(biases, part(bias, int64(i)))
					xs = append(xs, of(x.View().Narrow(0, sum, s)))
					ys = append(ys, tensor(t, d, []int64{s, n}))
					sum += s
					sums = append(sums, sum)
				}
				out := func() *Tensor { return tensor(t, d, []int64{rows, n}) }
				joined := func(list []*Tensor) (all []float64) {
					for _, y := range list {
						all = append(all, values(y)...)
					}
					return all
				}

				y := out()
				run(t, "GroupedMatmulV3", args{"x": single(x), "weight": single(w), "biasOptional": single(bias), "groupListOptional": listed(t, 0, sizes...), "splitItem": 3, "y": single(y)})
				near(t, d, want, values(y), "s-s-s")

				y = out()
				run(t, "GroupedMatmulV2", args{"x": single(x), "weight": ws, "biasOptional": biases, "groupListOptional": sums, "splitItem": 2, "y": single(y)})
				near(t, d, want, values(y), "s-m-s")

				run(t, "GroupedMatmulV2", args{"x": single(x), "weight": ws, "biasOptional": biases, "groupListOptional": sums, "splitItem": 0, "y": ys})
				near(t, d, want, joined(ys), "s-m-m")

				if e > 1 {
					y = out()
					run(t, "GroupedMatmulV5", args{"x": xs, "weight": ws, "biasOptional": biases, "splitItem": 2, "out": single(y)})
					near(t, d, want, values(y), "m-m-s")
					if d != dtype.Float32 {
						y = out()
						run(t, "GroupedMatmul", args{"x": single(x), "weight": ws, "biasOptional": biases, "groupListOptional": sums, "splitItem": 2, "y": single(y)})
						near(t, d, want, values(y), "V1")
					}
				}
				var each []*Tensor
				for _, s := range sizes {
					each = append(each, tensor(t, d, []int64{s, n}))
				}
				run(t, "GroupedMatmulV4", args{"x": xs, "weight": ws, "biasOptional": biases, "groupType": -1, "out": each})
				near(t, d, want, joined(each), "m-m-m")

				// Along the sum: y[g] = x[:, cols(g)]·w[cols(g)].
				tall := tensor(t, d, []int64{rows, 7}, random(r, d, []int64{rows, 7})...)
				slabs := tensor(t, d, []int64{e, k, 7})
				run(t, "GroupedMatmulV4", args{"x": single(flipped(x)), "weight": single(tall), "groupListOptional": listed(t, 1, sizes...), "groupListType": 1, "groupType": 2, "splitItem": 3, "out": single(slabs)})
				var cut, outs []*Tensor
				first := int64(0)
				for _, s := range sizes {
					cut, outs = append(cut, of(tall.View().Narrow(0, first, s))), append(outs, tensor(t, d, []int64{k, 7}))
					first += s
				}
				run(t, "GroupedMatmulV4", args{"x": single(flipped(x)), "weight": cut, "groupType": 2, "splitItem": 0, "out": outs})
				require.Equal(t, values(slabs), joined(outs))
				for i := range sizes {
					xt := kerneltest.Values(flipped(xs[i]).View())
					product, _ := naiveMatmul(xt, []int64{k, sizes[i]}, values(cut[i]), []int64{sizes[i], 7})
					near(t, d, product, values(outs[i]), "split K", i)
				}
			})
		}
	}
}

// A batch of rows: without groups x may have up to six dimensions.
func TestGroupedMatmulBatch(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	xs, w := []int64{2, 3, 4, 5}, []int64{5, 6}
	x, weight := tensor(t, dtype.Float32, xs, random(r, dtype.Float32, xs)...), tensor(t, dtype.Float32, w, random(r, dtype.Float32, w)...)
	y := tensor(t, dtype.Float32, []int64{2, 3, 4, 6})
	want, _ := naiveMatmul(values(x), xs, values(weight), w)
	run(t, "GroupedMatmulV2", args{"x": single(x), "weight": single(weight), "biasOptional": single(tensor(t, dtype.Float32, []int64{6}, 1)), "groupType": -1, "y": single(y)})
	for i := range want {
		want[i]++
	}
	near(t, dtype.Float32, want, values(y))
}

// Rows past the groups keep what they held; so does everything when x is empty.
func TestGroupedMatmulLeavesTheTail(t *testing.T) {
	x, w := tensor(t, dtype.Float16, []int64{4, 2}, 1), tensor(t, dtype.Float16, []int64{2, 2, 1}, 1)
	y := tensor(t, dtype.Float16, []int64{4, 1}, 9)
	run(t, "GroupedMatmulV5", groupedArgs(x, w, listed(t, 1, 1, 2), y).with(args{"groupListType": 1}))
	require.Equal(t, []float64{2, 2, 2, 9}, values(y))

	empty := tensor(t, dtype.Float16, []int64{0, 2})
	slabs := tensor(t, dtype.Float16, []int64{2, 2, 1}, 7)
	run(t, "GroupedMatmulV5", groupedArgs(flipped(empty), tensor(t, dtype.Float16, []int64{0, 1}), listed(t, 0, 0, 0), slabs).with(args{"groupType": 2}))
	require.Equal(t, []float64{7, 7, 7, 7}, values(slabs))

	// A group without elements of the sum is a product of zeros.
	run(t, "GroupedMatmulV5", groupedArgs(flipped(tensor(t, dtype.Float16, []int64{3, 2}, 1)), tensor(t, dtype.Float16, []int64{3, 1}, 1), listed(t, 0, 0, 3), slabs).with(args{"groupType": 2}))
	require.Equal(t, []float64{0, 0, 3, 3}, values(slabs))
}

// What the host cannot see fails on the stream instead of touching other memory.
func TestGroupedMatmulFaults(t *testing.T) {
	x, w := tensor(t, dtype.Float16, []int64{4, 2}, 1), tensor(t, dtype.Float16, []int64{3, 2, 1}, 1)
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
			list := tensor(t, dtype.Int64, shape, c.list...)
			err := execute(t, "GroupedMatmulV5", groupedArgs(x, w, list, tensor(t, dtype.Float16, []int64{4, 1}, 0)).with(args{"groupListType": c.listType}))
			require.ErrorContains(t, err, c.text)
			require.ErrorContains(t, err, "aclnnGroupedMatmulV5")
		})
	}
}

func TestGroupedMatmulRefuses(t *testing.T) {
	bf, i8 := dtype.BFloat16, dtype.Int8
	b := func(shape ...int64) *Tensor { return tensor(t, bf, shape) }
	x, w, y, list := b(4, 16), b(2, 16, 16), b(4, 16), listed(t, 0, 2, 2)
	good := groupedArgs(x, w, list, y)
	many := func(n int, s ...int64) []*Tensor { return slices.Repeat(single(b(s...)), n) }
	for _, c := range []struct {
		name string
		op   string
		code int32
		args args
		text string
	}{
		{"null x", "GroupedMatmulV5", nullPointer, good.with(args{"x": nil}), "x is null"},
		{"empty weight", "GroupedMatmulV5", nullPointer, good.with(args{"weight": []*Tensor{}}), "weight is null or empty"},
		{"null y", "GroupedMatmulV5", nullPointer, good.with(args{"out": nil}), "out is null"},
		{"groupType 1", "GroupedMatmulV5", invalidParam, good.with(args{"groupType": 1}), "not 1"},
		{"split -1", "GroupedMatmulV5", invalidParam, good.with(args{"groupType": -1}), "splitItem must be 0 or 1"},
		{"splitItem", "GroupedMatmulV5", invalidParam, good.with(args{"splitItem": 4}), "splitItem must be 0 to 3"},
		{"one output", "GroupedMatmulV5", invalidParam, good.with(args{"out": many(2, 2, 16)}), "writes one output"},
		{"act 3", "GroupedMatmulV5", invalidParam, good.with(args{"actType": 3}), "actType"},
		{"act of floats", "GroupedMatmulV5", invalidParam, good.with(args{"actType": 1}), "needs int8"},
		{"listType", "GroupedMatmulV5", invalidParam, good.with(args{"groupListType": 3}), "groupListType must be"},
		{"list rank", "GroupedMatmulV5", invalidParam, good.with(args{"groupListType": 2}), "[groups,2]"},
		{"list int32", "GroupedMatmulV5", invalidParam, good.with(args{"groupListOptional": tensor(t, dtype.Int32, []int64{2})}), "must be int64"},
		{"list empty", "GroupedMatmulV5", invalidParam, good.with(args{"groupListOptional": listed(t, 1)}), "empty"},
		{"list length", "GroupedMatmulV5", invalidParam, good.with(args{"groupListOptional": listed(t, 1, 1, 1, 1)}), "3 groups, but there are 2"},
		{"list 1025", "GroupedMatmulV5", invalidParam, good.with(args{"weight": single(b(1025, 16, 16)), "groupListOptional": tensor(t, dtype.Int64, []int64{1025})}), "at most 1024"},
		{"list null", "GroupedMatmulV5", invalidParam, good.with(args{"groupListOptional": nil}), "groupListOptional is null"},
		{"list without groups", "GroupedMatmulV5", invalidParam, args{"x": single(x), "weight": single(b(16, 16)), "out": single(y), "groupType": -1, "groupListOptional": list}, "must be null"},
		{"129 tensors", "GroupedMatmulV5", invalidParam, args{"x": many(129, 1, 16), "weight": many(129, 16, 16), "splitItem": 2, "out": single(b(129, 16))}, "at most 128"},
		{"reserved", "GroupedMatmulV5", invalidParam, good.with(args{"activationInputOptional": single(x)}), "reserved"},
		{"types", "GroupedMatmulV5", invalidParam, good.with(args{"x": single(tensor(t, dtype.Float16, []int64{4, 16}))}), "no grouped product"},
		{"list types", "GroupedMatmulV5", invalidParam, args{"x": single(x), "weight": []*Tensor{b(16, 16), tensor(t, dtype.Float16, []int64{16, 16})}, "groupListOptional": list, "splitItem": 2, "out": single(y)}, "dtypes differ"},
		{"out type", "GroupedMatmulV5", invalidParam, good.with(args{"out": single(tensor(t, dtype.Float32, []int64{4, 16}))}), "dtypes differ"},
		{"bias type", "GroupedMatmulV5", invalidParam, good.with(args{"biasOptional": single(b(2, 16))}), "float32"},
		{"bias shape", "GroupedMatmulV5", invalidParam, good.with(args{"biasOptional": single(tensor(t, dtype.Float32, []int64{16}))}), "[2,16]"},
		{"bias count", "GroupedMatmulV5", invalidParam, good.with(args{"biasOptional": []*Tensor{tensor(t, dtype.Float32, []int64{2, 16}), tensor(t, dtype.Float32, []int64{2, 16})}}), "2 tensors for 1"},
		{"scale", "GroupedMatmulV5", invalidParam, good.with(args{"scaleOptional": single(b(2, 16))}), "must be null"},
		{"antiquant", "GroupedMatmulV5", invalidParam, good.with(args{"antiquantScaleOptional": single(b(2, 16))}), "must be null"},
		{"both transposed", "GroupedMatmulV5", invalidParam, args{"x": single(flipped(x)), "weight": single(flipped(b(2, 16, 4))), "splitItem": 2, "out": single(y), "groupListOptional": list}, "both transposed"},
		{"x transposed", "GroupedMatmulV5", invalidParam, good.with(args{"x": single(flipped(b(16, 4)))}), "must not be transposed"},
		{"x not transposed", "GroupedMatmulV5", invalidParam, args{"x": single(x), "weight": single(b(16, 8)), "groupType": 2, "splitItem": 2, "groupListOptional": list, "out": single(b(2, 4, 8))}, "must be transposed"},
		{"bias of split K", "GroupedMatmulV5", invalidParam, args{"x": single(flipped(b(16, 4))), "weight": single(b(16, 8)), "biasOptional": single(tensor(t, dtype.Float32, []int64{8})), "groupType": 2, "splitItem": 2, "groupListOptional": list, "out": single(b(2, 4, 8))}, "must be null with groupType 2"},
		{"inner", "GroupedMatmulV5", invalidParam, good.with(args{"x": single(b(4, 15))}), "inner dimensions are 15 and 16"},
		{"columns", "GroupedMatmulV5", invalidParam, args{"x": single(x), "weight": []*Tensor{b(16, 16), b(16, 15)}, "groupListOptional": list, "splitItem": 2, "out": single(y)}, "same number of columns"},
		{"out shape", "GroupedMatmulV5", invalidParam, good.with(args{"out": single(b(5, 16))}), "[4,16]"},
		{"several outputs", "GroupedMatmulV5", invalidParam, args{"x": single(x), "weight": many(2, 16, 16), "groupListOptional": list, "splitItem": 0, "out": many(2, 2, 16)}, "host array"},
		{"long rows", "GroupedMatmulV5", invalidParam, args{"x": single(b(1, 65536)), "weight": single(b(1, 65536, 1)), "splitItem": 2, "out": single(b(1, 1))}, "at most 65535"},
		{"tuning", "GroupedMatmulV5", invalidParam, good.with(args{"tuningConfigOptional": []int64{5}}), "0 to 4"},
		{"NZ of K", "GroupedMatmulWeightNz", invalidParam, args{"x": single(b(4, 24)), "weight": single(b(2, 24, 16)), "groupListOptional": list, "splitItem": 2, "out": single(y)}, "multiple of 16"},
		{"NZ of fp32", "GroupedMatmulWeightNz", invalidParam, args{"x": single(tensor(t, dtype.Float32, []int64{4, 16})), "weight": single(tensor(t, dtype.Float32, []int64{2, 16, 16})), "groupListOptional": list, "splitItem": 2, "out": single(tensor(t, dtype.Float32, []int64{4, 16}))}, "use ND"},
		{"NZ of split K", "GroupedMatmulWeightNz", invalidParam, args{"x": single(flipped(b(16, 4))), "weight": single(b(16, 8)), "groupType": 2, "splitItem": 2, "groupListOptional": list, "out": single(b(2, 4, 8))}, "groupType 2"},
		{"host sum", "GroupedMatmulV2", invalidParam, args{"x": single(x), "weight": many(2, 16, 16), "groupListOptional": []int64{2, 3}, "splitItem": 2, "y": single(y)}, "ends at 3"},
		{"host order", "GroupedMatmulV2", invalidParam, args{"x": single(x), "weight": many(2, 16, 16), "groupListOptional": []int64{5, 4}, "splitItem": 2, "y": single(y)}, "must not decrease"},
		{"host empty", "GroupedMatmulV2", invalidParam, args{"x": single(x), "weight": many(2, 16, 16), "groupListOptional": []int64{}, "splitItem": 2, "y": single(y)}, "empty"},
		{"V1 fp32", "GroupedMatmul", invalidParam, args{"x": single(tensor(t, dtype.Float32, []int64{4, 16})), "weight": single(tensor(t, dtype.Float32, []int64{16, 16})), "y": single(tensor(t, dtype.Float32, []int64{4, 16}))}, "no float32"},
		{"V1 single weight", "GroupedMatmul", invalidParam, args{"x": []*Tensor{x, x}, "weight": single(w), "splitItem": 2, "y": single(y)}, "2 dimensions per group"},
		{"int8 lists", "GroupedMatmulV5", invalidParam, args{"x": single(tensor(t, i8, []int64{4, 16})), "weight": []*Tensor{tensor(t, i8, []int64{16, 16})}, "splitItem": 2, "out": single(tensor(t, dtype.Int32, []int64{4, 16}))}, "one weight [E,K,N]"},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, c.code, c.op, c.args, c.text) })
	}
}

func TestGroupedMatmulAdd(t *testing.T) {
	bf := dtype.BFloat16
	x := tensor(t, bf, []int64{3, 2}, 1, 2, 3, 4, 5, 6)
	w := tensor(t, bf, []int64{3, 2}, 1, 1, 1, 1, 1, 1)
	y := tensor(t, dtype.Float32, []int64{6, 2}, 100)
	a := args{"x": x, "weight": w, "groupList": listed(t, 0, 1, 0, 2), "yRef": y, "transposeX": true, "groupType": 2}
	run(t, "GroupedMatmulAdd", a)
	require.Equal(t, []float64{101, 101, 102, 102, 100, 100, 100, 100, 108, 108, 110, 110}, values(y))
	run(t, "GroupedMatmulAdd", a.with(args{"x": tensor(t, bf, []int64{0, 2}), "weight": tensor(t, bf, []int64{0, 2})}))
	require.EqualValues(t, 101, values(y)[0])

	for name, c := range map[string]struct {
		code int32
		more args
		text string
	}{
		"null":        {nullPointer, args{"groupList": nil}, "groupList is null"},
		"flags":       {invalidParam, args{"transposeX": false}, "only true, false and 2"},
		"groupType":   {invalidParam, args{"groupType": 0}, "only true, false and 2"},
		"y type":      {invalidParam, args{"yRef": tensor(t, bf, []int64{6, 2})}, "float32"},
		"x type":      {invalidParam, args{"x": tensor(t, dtype.Float32, []int64{3, 2})}, "not supported"},
		"rows":        {invalidParam, args{"x": tensor(t, bf, []int64{4, 2})}, "same number of rows"},
		"strided x":   {invalidParam, args{"x": flipped(tensor(t, bf, []int64{2, 3}))}, "contiguous"},
		"y size":      {invalidParam, args{"yRef": tensor(t, dtype.Float32, []int64{5, 2})}, "[3,2,2]"},
		"list type":   {invalidParam, args{"groupList": tensor(t, dtype.Int32, []int64{3})}, "int64"},
		"list length": {invalidParam, args{"groupList": listed(t, 0, 1, 2)}, "[2,2,2]"},
	} {
		t.Run(name, func(t *testing.T) { refused(t, c.code, "GroupedMatmulAdd", a.with(c.more), c.text) })
	}
	require.ErrorContains(t, execute(t, "GroupedMatmulAdd", a.with(args{"groupList": listed(t, 0, 1, 0, 3)})), "only 3")

	// The second version takes sizes too, the first knows running sums alone.
	for _, listType := range []int{0, 1} {
		again := tensor(t, dtype.Float32, []int64{3, 2, 2}, 100)
		run(t, "GroupedMatmulAddV2", a.with(args{"groupList": listed(t, listType, 1, 0, 2), "groupListType": listType, "yRef": again}))
		require.Equal(t, []float64{101, 101, 102, 102, 100, 100, 100, 100, 108, 108, 110, 110}, values(again))
	}
	refused(t, invalidParam, "GroupedMatmulAddV2", a.with(args{"groupListType": 2}), "groupListType must be 0 (running sums) or 1 (sizes)")
}

// The limits of the family are what they are said to be: the longest list of one weight and
// of many, and rows of the greatest width.
func TestGroupedMatmulLargest(t *testing.T) {
	const groups = 1024
	sizes := make([]int64, groups)
	sizes[0], sizes[groups-1] = 1, 2
	w := make([]float64, groups)
	w[0], w[groups-1] = 3, 5
	for listType := range 3 {
		y := tensor(t, dtype.Float32, []int64{3, 1})
		run(t, "GroupedMatmulV5", groupedArgs(tensor(t, dtype.Float32, []int64{3, 1}, 1, 2, 3), tensor(t, dtype.Float32, []int64{groups, 1, 1}, w...), listed(t, listType, sizes...), y).with(args{"groupListType": listType}))
		require.Equal(t, []float64{3, 10, 15}, values(y))
	}
	xs, ws := make([]*Tensor, 128), make([]*Tensor, 128)
	for i := range xs {
		xs[i], ws[i] = tensor(t, dtype.Float16, []int64{1, 1}, float64(i)), tensor(t, dtype.Float16, []int64{1, 1}, 2)
	}
	y := tensor(t, dtype.Float16, []int64{128, 1})
	run(t, "GroupedMatmulV5", args{"x": xs, "weight": ws, "splitItem": 2, "out": single(y)})
	require.EqualValues(t, 2*127, values(y)[127])

	wide := tensor(t, dtype.Float16, []int64{1, 1})
	run(t, "GroupedMatmulV5", args{"x": single(tensor(t, dtype.Float16, []int64{1, 65535}, make([]float64, 65535)...)), "weight": single(tensor(t, dtype.Float16, []int64{1, 65535, 1}, 1)), "splitItem": 2, "out": single(wide)})
	require.Equal(t, []float64{0}, values(wide))
}
