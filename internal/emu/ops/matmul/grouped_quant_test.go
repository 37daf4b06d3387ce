package matmul

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// packedScales returns float32 scales as 64-bit integers, the format that requantisation reads.
func packedScales(t testing.TB, d dtype.Type, shape []int64, scales []float64) *op.Tensor {
	t.Helper()
	bits := make([]float64, len(scales))
	for i, s := range scales {
		bits[i] = float64(math.Float32bits(float32(s)))
	}
	return optest.Tensor(t, d, shape, bits...)
}

// int4Tensor packs values from -8 to 7, two per byte.
func int4Tensor(t testing.TB, shape []int64, values []float64) *op.Tensor {
	t.Helper()
	x := optest.Int4(t, shape...)
	optest.StoreInt4(t, x, values)
	return x
}

// int4Nz is like int4Tensor, in FRACTAL_NZ.
func int4Nz(t testing.TB, shape []int64, values []float64) *op.Tensor {
	t.Helper()
	x := optest.Int4(t, shape...)
	x.Format, x.Storage = dtype.FractalNZ, op.NZShape(shape, false, op.DefaultC0(dtype.Int4))
	optest.StoreInt4(t, x, values)
	return x
}

// asInt32 describes a tensor of int4 as one of int32 that hold eight elements each.
func asInt32(x *op.Tensor) {
	for _, s := range []*[]int64{&x.Shape, &x.Storage} {
		*s = slices.Clone(*s)
		(*s)[len(*s)-1] /= 8
	}
	x.DType, x.Strides = dtype.Int32, op.ContiguousStrides(x.Shape)
}

func whole(r *rand.Rand, n, limit int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(r.IntN(2*limit) - limit)
	}
	return v
}

func powers(r *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = math.Ldexp(1, -r.IntN(4)-3)
	}
	return v
}

// Activations of the fused operators, by actType.
var activationOf = map[int]func(float64) float64{
	0: func(x float64) float64 { return x },
	1: activations["relu"],
	2: activations["gelu"],
	4: activations["fastgelu"],
	5: activations["silu"],
}

func TestGroupedMatmulA8W8(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	sizes := []int64{3, 0, 4}
	const e, rows, k, n = 3, 7, 32, 64
	xv, wv := whole(r, rows*k, 20), whole(r, e*k*n, 20)
	biasv, scalev, tokenv := whole(r, e*n, 50), powers(r, e*n), powers(r, rows)
	products := reference(xv, wv, k, n, nil, sizes...)
	for _, c := range []struct {
		out         dtype.Type
		scale, bias dtype.Type
		token       bool
		act         int
	}{
		{dtype.Int32, dtype.Undefined, dtype.Undefined, false, 0},
		{dtype.Int32, dtype.Undefined, dtype.Int32, false, 0},
		{dtype.Int8, dtype.Uint64, dtype.Int32, false, 0},
		{dtype.Int8, dtype.Int64, dtype.Undefined, false, 0},
		{dtype.Float16, dtype.Float32, dtype.Int32, true, 0},
		{dtype.Float16, dtype.Float32, dtype.Undefined, false, 1},
		{dtype.BFloat16, dtype.BFloat16, dtype.Int32, true, 2},
		{dtype.BFloat16, dtype.Float32, dtype.BFloat16, true, 4},
		{dtype.BFloat16, dtype.BFloat16, dtype.Undefined, false, 5},
	} {
		for _, form := range []string{"ND", "transposed", "NZ", "NZ transposed"} {
			if form[0] == 'N' && form != "ND" && c.out == dtype.Int8 {
				continue // requantisation supports ND weights only
			}
			t.Run(fmt.Sprintf("%v/%v/%v/token %t/act %d/%s", c.out, c.scale, c.bias, c.token, c.act, form), func(t *testing.T) {
				w := optest.Tensor(t, dtype.Int8, []int64{e, k, n}, wv...)
				if form == "transposed" || form == "NZ transposed" {
					w = optest.Flipped(optest.Tensor(t, dtype.Int8, []int64{e, n, k}, kerneltest.Values(optest.Flipped(w).View())...))
				}
				op := "GroupedMatmulV5"
				switch form {
				case "ND":
					op = "GroupedMatmulV4"
				case "NZ":
					w = inNz(t, w)
				case "NZ transposed":
					w, op = optest.Flipped(inNz(t, optest.Flipped(w))), "GroupedMatmulWeightNz"
				}
				y := optest.Tensor(t, c.out, []int64{rows, n})
				a := groupedArgs(optest.Tensor(t, dtype.Int8, []int64{rows, k}, xv...), w, listed(t, 1, sizes...), y).With(optest.Args{"groupListType": 1, "actType": c.act})
				want := make([]float64, len(products))
				copy(want, products)
				each := func(f func(i int, group, row, col int64)) {
					i, row := 0, int64(0)
					for g, size := range sizes {
						for range size {
							for col := range int64(n) {
								f(i, int64(g), row, col)
								i++
							}
							row++
						}
					}
				}
				if c.bias == dtype.Int32 {
					a["biasOptional"] = single(optest.Tensor(t, c.bias, []int64{e, n}, biasv...))
					each(func(i int, g, _, col int64) { want[i] += biasv[g*n+col] })
				}
				switch c.scale {
				case dtype.Uint64, dtype.Int64:
					a["scaleOptional"] = single(packedScales(t, c.scale, []int64{e, n}, scalev))
				case dtype.Undefined:
				default:
					a["scaleOptional"] = single(optest.Tensor(t, c.scale, []int64{e, n}, scalev...))
				}
				if c.scale != dtype.Undefined {
					each(func(i int, g, _, col int64) { want[i] *= scalev[g*n+col] })
				}
				if c.token {
					a["perTokenScaleOptional"] = single(optest.Tensor(t, dtype.Float32, []int64{rows}, tokenv...))
					each(func(i int, _, row, _ int64) { want[i] *= tokenv[row] })
				}
				if c.bias == dtype.BFloat16 {
					a["biasOptional"] = single(optest.Tensor(t, c.bias, []int64{e, n}, biasv...))
					each(func(i int, g, _, col int64) { want[i] += biasv[g*n+col] })
				}
				for i := range want {
					want[i] = activationOf[c.act](want[i])
					if c.out == dtype.Int8 {
						want[i] = min(max(math.RoundToEven(want[i]), -128), 127)
					}
				}
				optest.Run(t, op, a)
				if c.out == dtype.Int8 { // the first versions have it, too
					sums := []int64{3, 3, 7}
					for _, op := range []string{"GroupedMatmulV2", "GroupedMatmulV3"} {
						z := optest.Tensor(t, c.out, y.Shape)
						b := optest.Args{"x": a["x"], "weight": a["weight"], "biasOptional": a["biasOptional"], "scaleOptional": a["scaleOptional"], "groupListOptional": sums, "splitItem": 2, "y": single(z)}
						if op == "GroupedMatmulV3" {
							b["groupListOptional"] = listed(t, 0, sizes...)
						}
						optest.Run(t, op, b)
						require.Equal(t, want, optest.Values(z), op)
					}
				}
				if c.out.IsInteger() {
					require.Equal(t, want, optest.Values(y))
				} else {
					near(t, c.out, want, optest.Values(y))
				}
			})
		}
	}
}

// Quantised products of lists: without groups, of rows of one x, and of several x to one or several outputs. The
// later versions take rows of one x to one output alone, and scales of the rows.
func TestGroupedMatmulA8W8Lists(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 11))
	sizes := []int64{4, 1, 2}
	const e, rows, k, n = 3, 7, 5, 6
	xv, wv := whole(r, rows*k, 20), whole(r, e*k*n, 20)
	biasv, scalev, tokenv := whole(r, e*n, 50), powers(r, e*n), powers(r, rows)
	parts := func(d dtype.Type, v []float64, shape func(g int64) []int64) (list []*op.Tensor) {
		for g := range int64(e) {
			count := op.Count(shape(g))
			list = append(list, optest.Tensor(t, d, shape(g), v[:count]...))
			v = v[count:]
		}
		return list
	}
	ofGroup := func(width int64) func(g int64) []int64 {
		return func(g int64) []int64 { return []int64{sizes[g], width} }
	}
	perColumn := func(int64) []int64 { return []int64{n} }
	for _, c := range []struct {
		out, scale, bias dtype.Type
	}{
		{dtype.Int8, dtype.Uint64, dtype.Int32}, {dtype.Int8, dtype.Uint64, dtype.Undefined},
		{dtype.BFloat16, dtype.BFloat16, dtype.BFloat16}, {dtype.BFloat16, dtype.BFloat16, dtype.Int32}, {dtype.Float16, dtype.Float32, dtype.Int32},
	} {
		for _, form := range []struct {
			manyX, manyY bool
		}{{true, true}, {false, false}, {false, true}, {true, false}} {
			for _, name := range []string{"GroupedMatmul", "GroupedMatmulV2", "GroupedMatmulV5"} {
				late := name == "GroupedMatmulV5"
				if late && (form.manyX || form.manyY) {
					continue
				}
				x, y := single(optest.Tensor(t, dtype.Int8, []int64{rows, k}, xv...)), single(optest.Tensor(t, c.out, []int64{rows, n}))
				if form.manyX {
					x = parts(dtype.Int8, xv, ofGroup(k))
				}
				if form.manyY {
					y = parts(c.out, make([]float64, rows*n), ofGroup(n))
				}
				a := optest.Args{"x": x, "weight": parts(dtype.Int8, wv, func(int64) []int64 { return []int64{k, n} })}
				byRow := late && c.out != dtype.Int8
				if byRow {
					a["perTokenScaleOptional"] = single(optest.Tensor(t, dtype.Float32, []int64{rows}, tokenv...))
				}
				if late {
					a["out"] = y
				} else {
					a["y"] = y
				}
				if !form.manyX {
					a["groupListOptional"] = []int64{4, 5, 7}
					if late {
						a["groupListOptional"] = listed(t, 0, sizes...)
					}
				}
				if !form.manyY {
					a["splitItem"] = 2
				}
				if form.manyX && form.manyY && name != "GroupedMatmul" {
					a["groupType"] = -1
				}
				if c.bias != dtype.Undefined {
					a["biasOptional"] = parts(c.bias, biasv, perColumn)
				}
				a["scaleOptional"] = parts(c.scale, scalev, perColumn)
				if c.scale == dtype.Uint64 {
					list := make([]*op.Tensor, e)
					for g := range list {
						list[g] = packedScales(t, c.scale, []int64{n}, scalev[g*n:(g+1)*n])
					}
					a["scaleOptional"] = list
				}
				optest.Run(t, name, a)
				want, row := reference(xv, wv, k, n, nil, sizes...), 0
				for g, size := range sizes {
					for range size {
						for column := range n {
							at, value := g*n+column, &want[row*n+column]
							if c.bias == dtype.Int32 {
								*value += biasv[at]
							}
							*value *= scalev[at]
							if byRow {
								*value *= tokenv[row]
							}
							if c.bias == dtype.BFloat16 {
								*value += biasv[at]
							}
							if c.out == dtype.Int8 {
								*value = min(max(math.RoundToEven(*value), -128), 127)
							}
						}
						row++
					}
				}
				var got []float64
				for _, part := range y {
					got = append(got, optest.Values(part)...)
				}
				if c.out == dtype.Int8 {
					require.Equal(t, want, got, "%s %+v %+v", name, c, form)
				} else {
					near(t, c.out, want, got)
				}
				short := []*op.Tensor{a["scaleOptional"].([]*op.Tensor)[0]}
				optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"scaleOptional": short}), "1 tensors for 3 weights")
				optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"scaleOptional": nil}), "needs scaleOptional")
			}
		}
	}
}

func TestGroupedMatmulAntiquant(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	sizes := []int64{2, 3}
	const e, rows, k, n = 2, 5, 8, 16
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		for _, weight := range []dtype.Type{dtype.Int8, dtype.Int4} {
			for _, blocks := range []int64{1, 4} {
				for _, transposed := range []bool{false, true} {
					if weight == dtype.Int8 && blocks > 1 {
						continue
					}
					t.Run(fmt.Sprintf("%v·%v/%d/%t", d, weight, blocks, transposed), func(t *testing.T) {
						xv, wv := whole(r, rows*k, 4), whole(r, e*k*n, 8)
						shape := []int64{e, n}
						if blocks > 1 {
							shape = []int64{e, blocks, n}
						}
						scale, offset := powers(r, int(op.Count(shape))), whole(r, int(op.Count(shape)), 3)
						restored := make([]float64, len(wv))
						stored := make([]float64, len(wv))
						for g := range int64(e) {
							for i := range int64(k) {
								for j := range int64(n) {
									at, s := (g*k+i)*n+j, (g*blocks+i/(k/blocks))*n+j
									restored[at] = (wv[at] + offset[s]) * scale[s]
									if transposed {
										stored[(g*n+j)*k+i] = wv[at]
									} else {
										stored[at] = wv[at]
									}
								}
							}
						}
						physical := []int64{e, k, n}
						if transposed {
							physical = []int64{e, n, k}
						}
						w := optest.Tensor(t, dtype.Int8, physical, stored...)
						if weight == dtype.Int4 {
							w = int4Tensor(t, physical, stored)
						}
						if transposed {
							w = optest.Flipped(w)
						}
						y := optest.Tensor(t, d, []int64{rows, n})
						optest.Run(t, "GroupedMatmulV4", groupedArgs(optest.Tensor(t, d, []int64{rows, k}, xv...), w, listed(t, 0, sizes...), y).With(optest.Args{
							"antiquantScaleOptional":  single(optest.Tensor(t, d, shape, scale...)),
							"antiquantOffsetOptional": single(optest.Tensor(t, d, shape, offset...)),
						}))
						near(t, d, reference(xv, restored, k, n, nil, sizes...), optest.Values(y))
					})
				}
			}
		}
	}
}

func TestGroupedMatmulQuantisedRefuses(t *testing.T) {
	of := func(d dtype.Type, shape ...int64) []*op.Tensor { return single(optest.Tensor(t, d, shape)) }
	const i8, i32, f32, bf = dtype.Int8, dtype.Int32, dtype.Float32, dtype.BFloat16
	a8w8 := optest.Args{
		"x": of(i8, 4, 32), "weight": of(i8, 2, 32, 32), "scaleOptional": of(bf, 2, 32),
		"groupListOptional": listed(t, 1, 2, 2), "groupListType": 1, "splitItem": 2, "out": of(bf, 4, 32),
	}
	w4 := func() []*op.Tensor { return single(int4Tensor(t, []int64{2, 32, 64}, make([]float64, 2*32*64))) }
	a8w4 := optest.Args{
		"x": of(i8, 4, 32), "weight": w4(), "scaleOptional": of(dtype.Uint64, 2, 1, 64), "biasOptional": of(f32, 2, 64),
		"perTokenScaleOptional": of(f32, 4), "groupListOptional": listed(t, 1, 2, 2), "groupListType": 1, "splitItem": 2, "out": of(bf, 4, 64),
	}
	a16w8 := optest.Args{
		"x": of(bf, 4, 32), "weight": of(i8, 2, 32, 32), "antiquantScaleOptional": of(bf, 2, 32), "antiquantOffsetOptional": of(bf, 2, 32),
		"groupListOptional": listed(t, 0, 2, 2), "splitItem": 2, "out": of(bf, 4, 32),
	}
	optest.Run(t, "GroupedMatmulV5", a8w8)
	optest.Run(t, "GroupedMatmulV5", a8w4)
	optest.Run(t, "GroupedMatmulV5", a16w8)
	for name, c := range map[string]struct {
		a    optest.Args
		text string
	}{
		"no scale":           {a8w8.With(optest.Args{"scaleOptional": nil}), "needs scaleOptional"},
		"offset":             {a8w8.With(optest.Args{"offsetOptional": of(f32, 2, 32)}), "offsetOptional must be null"},
		"scale of int32":     {a8w8.With(optest.Args{"out": of(i32, 4, 32)}), "must be null"},
		"scale type":         {a8w8.With(optest.Args{"out": of(dtype.Float16, 4, 32)}), "float32"},
		"scale shape":        {a8w8.With(optest.Args{"scaleOptional": of(bf, 32)}), "[2,32]"},
		"bias type":          {a8w8.With(optest.Args{"biasOptional": of(f32, 2, 32)}), "int32"},
		"bias and scale":     {a8w8.With(optest.Args{"biasOptional": of(i32, 2, 32), "scaleOptional": of(f32, 2, 32)}), "bfloat16"},
		"token shape":        {a8w8.With(optest.Args{"perTokenScaleOptional": of(f32, 3)}), "[4]"},
		"token type":         {a8w8.With(optest.Args{"perTokenScaleOptional": of(bf, 4)}), "float32"},
		"token of int8":      {a8w8.With(optest.Args{"out": of(i8, 4, 32), "scaleOptional": of(dtype.Uint64, 2, 32), "perTokenScaleOptional": of(f32, 4)}), "must be null"},
		"act of int8":        {a8w8.With(optest.Args{"out": of(i8, 4, 32), "scaleOptional": of(dtype.Uint64, 2, 32), "actType": 1}), "needs a float16"},
		"out type":           {a8w8.With(optest.Args{"out": of(f32, 4, 32)}), "not supported"},
		"no bias":            {a8w4.With(optest.Args{"biasOptional": nil}), "need biasOptional"},
		"no token":           {a8w4.With(optest.Args{"perTokenScaleOptional": nil}), "perTokenScaleOptional"},
		"running sums":       {a8w4.With(optest.Args{"groupListType": 0}), "groupListType 1"},
		"blocks":             {a8w4.With(optest.Args{"scaleOptional": of(dtype.Uint64, 2, 5, 64)}), "must be equal"},
		"offset of blocks":   {a8w4.With(optest.Args{"offsetOptional": of(f32, 2, 1, 64), "scaleOptional": of(dtype.Uint64, 2, 2, 64), "out": of(dtype.Float16, 4, 64)}), "[2,1,64]"},
		"offset of bfloat16": {a8w4.With(optest.Args{"offsetOptional": of(f32, 2, 1, 64)}), "float16"},
		"offset type":        {a8w4.With(optest.Args{"offsetOptional": of(bf, 2, 1, 64), "out": of(dtype.Float16, 4, 64)}), "float32"},
		"act":                {a8w4.With(optest.Args{"actType": 5}), "needs int8"},
		"no antiquant scale": {a16w8.With(optest.Args{"antiquantScaleOptional": nil}), "needs antiquantScaleOptional"},
		"antiquant type":     {a16w8.With(optest.Args{"antiquantScaleOptional": of(f32, 2, 32)}), "bfloat16"},
		"antiquant scale":    {a16w8.With(optest.Args{"scaleOptional": of(bf, 2, 32)}), "must be null"},
		"antiquant blocks":   {a16w8.With(optest.Args{"antiquantScaleOptional": of(bf, 2, 2, 32)}), "[2,32]"},
	} {
		t.Run(name, func(t *testing.T) { optest.Refused(t, op.InvalidParam, "GroupedMatmulV5", c.a, c.text) })
	}
	optest.Refused(t, op.InvalidParam, "GroupedMatmulWeightNz", a16w8, "FRACTAL_NZ")
	optest.Refused(t, op.InvalidParam, "GroupedMatmulWeightNz", a8w8.With(optest.Args{"out": of(i8, 4, 32), "scaleOptional": of(dtype.Uint64, 2, 32)}), "FRACTAL_NZ")
}
