package attention

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/half"
)

// preprocessCase is a call of MlaPreprocess with 3 tokens and 2 pages of 3 slots.
type preprocessCase struct {
	dt             dtype.Type
	layout         kerneltest.Layout // of what may have one
	mode           int64
	hidden, rank   int64
	heads, dim     int64
	rotates, norms bool
	second         bool // MlaPreprocessV2 with the low-rank queries
	biased         bool
}

const preprocessTokens, preprocessPages, preprocessPage, preprocessEps = 3, 2, 3, 1e-5

var preprocessSlots = []int64{4, -1, 2}

func preprocessCases() (cases []preprocessCase) {
	for _, d := range op.HalfTypes {
		for i, l := range kerneltest.Layouts {
			odd := int64(9 + 2*i)
			heads, rank, dim := int64(1), int64(32), int64(16) // a record of a call has room for these
			if i > 1 {
				heads, rank, dim = 3, 96, 48
			}
			cases = append(cases,
				preprocessCase{d, l, 0, odd, rank, heads, dim, true, true, false, true}, preprocessCase{d, l, 1, odd, rank, heads, dim, i%2 == 0, true, true, i%2 == 1},
				preprocessCase{d, l, 2, odd, rank, heads, dim, true, i%2 == 1, i%2 == 0, true}, preprocessCase{d, l, 3, odd, rank, heads, dim, i%2 == 1, false, false, true},
			)
		}
	}
	return cases
}

// cacheShape returns the shape of a cache of rows of width numbers, and tile where they are in FRACTAL_NZ.
func (c preprocessCase) cacheShape(d dtype.Type, width int64) (shape []int64, tile int64) {
	if c.mode < 2 {
		return []int64{preprocessPages, preprocessPage, 1, width}, 0
	}
	tile = op.DefaultC0(d)
	return []int64{preprocessPages, width / tile, preprocessPage, tile}, tile
}

func (c preprocessCase) args(t *testing.T) optest.Args {
	filled := func(seed uint64, d dtype.Type, shape ...int64) *op.Tensor {
		return optest.Filled(t, seed, d, c.layout, shape)
	}
	a := optest.Args{
		"input": filled(1, c.dt, preprocessTokens, c.hidden), "gamma2": filled(2, c.dt, 512), "wuk": filled(3, c.dt, c.heads, c.dim, 512), "slotMapping": optest.Tensor(t, dtype.Int32, []int64{3}, optest.Floats(preprocessSlots)...),
		"wdqDim": 1536, "qRopeDim": 64, "kRopeDim": 64, "epsilon": preprocessEps, "qRotaryCoeff": 2, "kRotaryCoeff": 2, "transeposeWdq": true, "transeposeWuq": true, "transeposeWuk": true, "cacheMode": c.mode, "doRmsNorm": c.norms, "wdkvSplitCount": 1,
	}
	rows := []int64{c.hidden, c.rank}
	for i, columns := range []int64{576 + c.rank, c.heads * (c.dim + 64)} {
		name := func(name string) string { return fmt.Sprint(name, i) }
		seed := uint64(10 * (i + 1))
		weight := optest.NZ(t, dtype.Int8, []int64{columns, rows[i]}, false, 32)
		optest.StoreNZ(t, weight, optest.Tensor(t, dtype.Int8, []int64{columns, rows[i]}, optest.Int8s(int(seed), int(columns*rows[i]))...))
		a[[]string{"wdqkv", "wuq"}[i]] = weight
		a[name("gamma")], a[name("beta")] = filled(seed+1, c.dt, rows[i]), filled(seed+2, c.dt, rows[i])
		a[name("quantScale")], a[name("quantOffset")] = optest.Tensor(t, c.dt, []int64{1}, .03125*float64(i+1)), optest.Tensor(t, dtype.Int8, []int64{1}, float64(3-7*i))
		a[name("descale")] = optest.TensorIn(t, dtype.Float32, c.layout, []int64{columns}, .0009765625, .00146484375, .0005)
		if c.dt == dtype.Float16 {
			packed, bits := optest.TensorIn(t, dtype.Int64, c.layout, []int64{columns}), make([]int64, columns)
			for j := range bits {
				bits[j] = int64(math.Float32bits([]float32{.0009765625, .00146484375, .0005}[j%3]))
			}
			require.NoError(t, indexing.SetInts(packed.View(), bits))
			a[name("descale")] = packed
		}
		if a[name("bias")] = optest.Tensor(t, dtype.Int32, []int64{0}); c.biased {
			a[name("bias")] = optest.TensorIn(t, dtype.Int32, c.layout, []int64{columns}, 100, -70, 0, 13)
		}
	}
	if c.rotates {
		a["cos"], a["sin"] = filled(4, c.dt, preprocessTokens, 64), filled(5, c.dt, preprocessTokens, 64)
	}
	types, width := [2]dtype.Type{c.dt, c.dt}, int64(512)
	if c.mode == 2 {
		types[0] = dtype.Int8
		a["ctkvScale"], a["qNopeScale"] = optest.Tensor(t, c.dt, []int64{1}, .03125), optest.Tensor(t, c.dt, []int64{c.heads}, .25, 2, 1)
	}
	if c.mode == 0 {
		width = 576
	}
	a["qOutOut"] = optest.TensorIn(t, types[0], c.layout, []int64{preprocessTokens, c.heads, width})
	shape, _ := c.cacheShape(types[0], width)
	cache := optest.Tensor(t, types[0], shape, 1, 2, 3)
	a["kvCache"], a["kvCacheOutOut"] = cache, cache
	if c.mode != 0 {
		shape, _ := c.cacheShape(c.dt, 64)
		rope := optest.Tensor(t, c.dt, shape, 4, 5, 6)
		a["kvCacheRope"], a["krCacheOutOut"] = rope, rope
		a["qRopeOutOut"] = optest.TensorIn(t, c.dt, c.layout, []int64{preprocessTokens, c.heads, 64})
	}
	if c.second {
		a["qDownOutFlag"], a["qDownOutOut"] = true, optest.TensorIn(t, c.dt, c.layout, []int64{preprocessTokens, c.rank})
	}
	return a
}

// TestMlaPreprocess compares with the norms, products and rotations of the document in float64, which are rounded where the device
// stores them.
func TestMlaPreprocess(t *testing.T) {
	for _, c := range preprocessCases() {
		a := c.args(t)
		inputs := valuesOf(a) // before the call
		get := func(name string) []float64 { return optest.Values(a[name].(*op.Tensor)) }
		wide := map[string][]float64{}
		for i, rows := range []int64{c.hidden, c.rank} {
			w := a[[]string{"wdqkv", "wuq"}[i]].(*op.Tensor)
			wide[fmt.Sprint("weight", i)] = optest.Int8s(10*(i+1), int(w.Len()))
			require.Equal(t, rows, w.Dim(1))
		}
		as := func(d dtype.Type, v float64) float64 {
			if d == dtype.Float16 {
				return float64(half.Float16FromFloat64(v).Float32())
			}
			return float64(half.BFloat16FromFloat64(v).Float32())
		}
		byte8 := func(v float64) float64 { return min(127, max(-128, math.RoundToEven(as(dtype.Float16, v)))) }
		norm := func(x, gamma, beta []float64) []float64 {
			sum, y := 0.0, make([]float64, len(x))
			for _, v := range x {
				sum += v * v
			}
			for i, v := range x {
				y[i] = v / math.Sqrt(sum/float64(len(x))+preprocessEps) * gamma[i]
				if beta != nil {
					y[i] += beta[i]
				}
			}
			return y
		}
		multiply := func(i int, x []float64) []float64 {
			w, k := wide[fmt.Sprint("weight", i)], len(x)
			y, small := make([]float64, len(w)/k), make([]float64, k)
			for e, v := range x {
				small[e] = byte8(v/inputs(fmt.Sprint("quantScale", i))[0] + inputs(fmt.Sprint("quantOffset", i))[0])
			}
			for j := range y {
				sum := 0.0
				for e, v := range small {
					sum += v * w[j*k+e]
				}
				if c.biased {
					sum += []float64{100, -70, 0, 13}[j%4]
				}
				y[j] = as(c.dt, sum*float64([]float32{.0009765625, .00146484375, .0005}[j%3]))
			}
			return y
		}
		turned := func(token int, x []float64) []float64 {
			if !c.rotates {
				return x
			}
			cos, sin, y := inputs("cos")[token*64:], inputs("sin")[token*64:], make([]float64, 64)
			for i := range y {
				other := x[(i+32)%64]
				if i < 32 {
					other = -other
				}
				y[i] = x[i]*cos[i] + other*sin[i]
			}
			return y
		}
		cacheType := a["kvCacheOutOut"].(*op.Tensor).DType
		joined := int64(512)
		if c.mode == 0 {
			joined = 576
		}
		before := func(name string, width int64) (want []float64, put func(slot int64, row []float64)) {
			want = get(name)
			_, tile := c.cacheShape(a[name].(*op.Tensor).DType, width)
			return want, func(slot int64, row []float64) {
				for i, v := range row {
					at := slot*width + int64(i)
					if tile > 0 {
						at = slot/preprocessPage*preprocessPage*width + (int64(i)/tile*preprocessPage+slot%preprocessPage)*tile + int64(i)%tile
					}
					want[at] = v
				}
			}
		}
		cache, put := before("kvCacheOutOut", joined)
		var ropeCache []float64
		putRope := func(int64, []float64) {}
		if c.mode != 0 {
			ropeCache, putRope = before("krCacheOutOut", 64)
		}
		var query, queryRope, low []float64
		for token := range preprocessTokens {
			x := optest.Row(inputs("input"), int(c.hidden), token)
			if c.norms {
				x = norm(x, inputs("gamma0"), inputs("beta0"))
			}
			down := multiply(0, x)
			key, rotated := norm(down[:512], inputs("gamma2"), nil), turned(token, down[512:576])
			if cacheType == dtype.Int8 {
				for i := range key {
					key[i] = byte8(key[i] / inputs("ctkvScale")[0])
				}
			}
			if c.mode == 0 {
				key = append(key, rotated...)
			}
			if slot := preprocessSlots[token]; slot >= 0 {
				put(slot, key)
				putRope(slot, rotated)
			}
			narrow := norm(down[576:], inputs("gamma1"), inputs("beta1"))
			low = append(low, narrow...)
			up := multiply(1, narrow)
			wuk := inputs("wuk")
			for h := range c.heads {
				q := up[h*(c.dim+64):][:c.dim+64]
				for column := range int64(512) {
					sum := 0.0
					for i := range c.dim {
						sum += q[i] * wuk[(h*c.dim+i)*512+column]
					}
					if sum = as(c.dt, sum); c.mode == 2 {
						sum = byte8(sum * inputs("qNopeScale")[h])
					}
					query = append(query, sum)
				}
				if last := turned(token, q[c.dim:]); c.mode == 0 {
					query = append(query, last...)
				} else {
					queryRope = append(queryRope, last...)
				}
			}
		}
		name := "MlaPreprocess"
		if c.second {
			name += "V2"
		}
		optest.Run(t, name, a)
		what, limit := fmt.Sprintf("%s %+v ", name, c), optest.ResultLimit(c.dt)
		closeTo := func(name string, want []float64) {
			t.Helper()
			if a[name].(*op.Tensor).DType == dtype.Int8 {
				require.Equal(t, want, get(name), what+name)
			} else {
				optest.CloseTo(t, what+name, want, get(name), limit)
			}
		}
		closeTo("qOutOut", query)
		closeTo("kvCacheOutOut", cache)
		if c.mode != 0 {
			closeTo("qRopeOutOut", queryRope)
			closeTo("krCacheOutOut", ropeCache)
		}
		if c.second {
			closeTo("qDownOutOut", low)
		}
	}
}

func TestMlaPreprocessRefuses(t *testing.T) {
	const name = "MlaPreprocess"
	c := preprocessCase{dtype.BFloat16, kerneltest.Contiguous, 1, 64, 32, 2, 16, true, true, false, true}
	a := c.args(t)
	bf, f := dtype.BFloat16, dtype.Float32
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	optest.Run(t, name, a)
	nulls := []string{"input", "gamma0", "beta0", "quantScale0", "quantOffset0", "wdqkv", "descale0", "bias0", "gamma1", "beta1", "quantScale1", "quantOffset1", "wuq", "descale1", "bias1", "gamma2", "wuk", "kvCache", "slotMapping", "qOutOut", "kvCacheOutOut", "qRopeOutOut", "krCacheOutOut"}
	for _, null := range nulls {
		optest.Refused(t, op.NullPointer, name, a.With(optest.Args{null: nil}), null+" is null")
	}
	optest.Refused(t, op.NullPointer, name, a.With(optest.Args{"cos": nil}), "both must be given, or neither")
	optest.Refused(t, op.NullPointer, name, a.With(optest.Args{"kvCacheRope": nil}), "kvCacheRope is null")
	optest.Refused(t, op.NullPointer, name, a.With(optest.Args{"cacheMode": 2}), "ctkvScale is null")
	plain := slices.Clone(a["wuq"].(*op.Tensor).Shape)
	for text, set := range map[string]optest.Args{
		"cacheMode is 4": {"cacheMode": 4}, "quantMode is 1": {"quantMode": 1}, "qRopeDim is 32": {"qRopeDim": 32}, "kRotaryCoeff is 4": {"kRotaryCoeff": 4}, "wdkvSplitCount is 2": {"wdkvSplitCount": 2}, "transeposeWuk is false": {"transeposeWuk": false}, "wdqDim is 0": {"wdqDim": 0},
		"dtypes differ": {"gamma2": x(f, 512)}, "descale1": {"descale1": x(dtype.Int64, 160)}, "FRACTAL_NZ": {"wuq": x(dtype.Int8, plain...)}, "floating-point numbers": {"wuq": x(bf, plain...)}, "the queries": {"qOutOut": x(bf, 3, 2, 576)},
		"the rotated numbers": {"qRopeOutOut": x(bf, 3, 2, 32)}, "pages of rows": {"kvCache": x(bf, 2, 3, 1, 576), "kvCacheOutOut": x(bf, 2, 3, 1, 576)}, "a slot for each token": {"slotMapping": x(dtype.Int32, 2)}, "must be equal": {"kvCache": x(bf, 3, 3, 1, 512)},
		"one number": {"quantScale1": x(bf, 2)},
	} {
		optest.Refused(t, op.InvalidParam, name, a.With(set), text)
	}
	for text, set := range map[string]optest.Args{
		"a multiple of 32": {"descale0": x(f, 600)}, "1 to 128 heads": {"wuk": x(bf, 2, 8, 512)}, "an angle": {"cos": x(bf, 2, 64)},
	} {
		optest.Refused(t, op.TilingRefused, name, a.With(set), text)
	}
	_, err := optest.PrepareIn(t, op.Env{Tiled: true}, name, a)
	require.ErrorContains(t, err, "2048 to 10240")
	require.ErrorContains(t, optest.Execute(t, name, a.With(optest.Args{"slotMapping": optest.Tensor(t, dtype.Int32, []int64{3}, 0, 1, 20)})), "slotMapping has 20")
}
