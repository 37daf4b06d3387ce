package matmul

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// restore returns the numbers that the codes of a weight [k, n] stand for, in float64.
func restore(codes, scale, offset []float64, k, n, blocks int64) []float64 {
	values := make([]float64, len(codes))
	for at := range int64(len(codes)) {
		i, j := at/n%k, at%n
		s := (at/(k*n)*blocks+i/(k/blocks))*n + j
		values[at] = (codes[at] + offset[s]) * scale[s]
	}
	return values
}

// TestGroupedMatmulAntiquantOdd multiplies by int4 weights in int32 elements, with blocks of odd sizes and a group without rows.
func TestGroupedMatmulAntiquantOdd(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 11))
	sizes := []int64{3, 0, 4, 1}
	const e, rows, k, n = 4, 8, 45, 24
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		for _, blocks := range []int64{1, 5, 9, 45} {
			t.Run(fmt.Sprintf("%v/%d", d, blocks), func(t *testing.T) {
				shape := []int64{e, blocks, n}
				if blocks == 1 {
					shape = []int64{e, n}
				}
				count := int(op.Count(shape))
				xv, wv, scale, offset := whole(r, rows*k, 4), whole(r, e*k*n, 8), powers(r, count), whole(r, count, 9)
				w := int4Tensor(t, []int64{e, k, n}, wv)
				asInt32(w)
				biasType := d
				if d == dtype.BFloat16 {
					biasType = dtype.Float32
				}
				bias := whole(r, e*n, 4)
				for _, name := range []string{"GroupedMatmulV4", "GroupedMatmulV5"} {
					y := optest.Tensor(t, d, []int64{rows, n})
					optest.Run(t, name, groupedArgs(optest.Tensor(t, d, []int64{rows, k}, xv...), w, listed(t, 1, sizes...), y).With(optest.Args{
						"groupListType": 1, "biasOptional": single(optest.Tensor(t, biasType, []int64{e, n}, bias...)),
						"antiquantScaleOptional": single(optest.Tensor(t, d, shape, scale...)), "antiquantOffsetOptional": single(optest.Tensor(t, d, shape, offset...)),
					}))
					near(t, d, reference(xv, restore(wv, scale, offset, k, n, blocks), k, n, bias, sizes...), optest.Values(y))
				}
			})
		}
	}
}

// TestGroupedMatmulAntiquantLists multiplies by int4 weights that are tensors of their own, of several sizes, with blocks of one size.
func TestGroupedMatmulAntiquantLists(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 12))
	const d, size = dtype.Float16, 6
	shapes := [][3]int64{{3, 12, 10}, {1, 30, 4}, {5, 6, 14}}
	for _, transposed := range []bool{false, true} {
		for _, blocked := range []bool{false, true} {
			a := optest.Args{"splitItem": 0, "groupType": -1}
			lists := map[string][]*op.Tensor{}
			add := func(name string, x *op.Tensor) { lists[name] = append(lists[name], x) }
			var wants [][]float64
			for _, s := range shapes {
				m, k, n := s[0], s[1], s[2]
				blocks, shape := int64(1), []int64{n}
				if blocked {
					blocks, shape = k/size, []int64{k / size, n}
				}
				count := int(op.Count(shape))
				xv, wv, scale, offset := whole(r, int(m*k), 4), whole(r, int(k*n), 8), powers(r, count), whole(r, count, 9)
				w := int4Tensor(t, []int64{k, n}, wv)
				if transposed {
					stored := make([]float64, len(wv))
					for i, v := range wv {
						stored[int64(i)%n*k+int64(i)/n] = v
					}
					w = optest.Flipped(int4Tensor(t, []int64{n, k}, stored))
				}
				add("x", optest.Tensor(t, d, []int64{m, k}, xv...))
				add("weight", w)
				add("antiquantScaleOptional", optest.Tensor(t, d, shape, scale...))
				add("antiquantOffsetOptional", optest.Tensor(t, d, shape, offset...))
				add("out", optest.Tensor(t, d, []int64{m, n}))
				wants = append(wants, reference(xv, restore(wv, scale, offset, k, n, blocks), k, n, nil, m))
			}
			for name, list := range lists {
				a[name] = list
			}
			optest.Run(t, "GroupedMatmulV5", a)
			for i, want := range wants {
				near(t, d, want, optest.Values(lists["out"][i]), transposed, blocked, i)
			}
		}
	}
}

// TestGroupedMatmulAntiquantRefused: what the checks of CANN's sources refuse of scales and offsets of int4 weights.
func TestGroupedMatmulAntiquantRefused(t *testing.T) {
	const d = dtype.BFloat16
	of := func(shape ...int64) []*op.Tensor { return single(optest.Tensor(t, d, shape)) }
	good := optest.Args{
		"x": of(4, 30), "weight": single(int4Tensor(t, []int64{2, 30, 6}, make([]float64, 360))), "antiquantScaleOptional": of(2, 5, 6), "antiquantOffsetOptional": of(2, 5, 6),
		"groupListOptional": listed(t, 0, 2, 2), "splitItem": 2, "out": of(4, 6),
	}
	optest.Run(t, "GroupedMatmulV5", good)
	optest.Run(t, "GroupedMatmulV5", good.With(optest.Args{"antiquantOffsetOptional": nil}))
	transposed := good.With(optest.Args{"weight": single(optest.Flipped(int4Tensor(t, []int64{2, 6, 30}, make([]float64, 360))))})
	optest.Run(t, "GroupedMatmulV5", transposed)
	for name, c := range map[string]struct {
		a    optest.Args
		text string
	}{
		"other blocks of the offset": {good.With(optest.Args{"antiquantOffsetOptional": of(2, 3, 6)}), "into blocks of 10, and"},
		"no blocks of the offset":    {good.With(optest.Args{"antiquantOffsetOptional": of(2, 6)}), "into blocks of 30, and"},
		"blocks in part":             {good.With(optest.Args{"antiquantScaleOptional": of(2, 4, 6), "antiquantOffsetOptional": of(2, 4, 6)}), "into 4 blocks; they must be equal"},
		"no block":                   {good.With(optest.Args{"antiquantScaleOptional": of(2, 0, 6), "antiquantOffsetOptional": of(2, 0, 6)}), "into 0 blocks"},
		"odd block of a transpose":   {transposed.With(optest.Args{"antiquantScaleOptional": of(2, 2, 6), "antiquantOffsetOptional": of(2, 2, 6)}), "into blocks of 15; that must be even"},
		"no offset of int8":          {good.With(optest.Args{"antiquantOffsetOptional": nil, "antiquantScaleOptional": of(2, 6), "weight": single(optest.Tensor(t, dtype.Int8, []int64{2, 30, 6}))}), "needs antiquantScaleOptional and antiquantOffsetOptional"},
		"no scale":                   {good.With(optest.Args{"antiquantScaleOptional": nil}), "needs antiquantScaleOptional"},
		"float32":                    {good.With(optest.Args{"antiquantOffsetOptional": single(optest.Tensor(t, dtype.Float32, []int64{2, 5, 6}))}), "bfloat16"},
	} {
		t.Run(name, func(t *testing.T) { optest.Refused(t, op.InvalidParam, "GroupedMatmulV5", c.a, c.text) })
	}
}
