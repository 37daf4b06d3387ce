package attention

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// TestMsaIndexScore compares with the largest products by definition: types, layouts of keys, masks, heads, and blocks with a score of
// their own.
func TestMsaIndexScore(t *testing.T) {
	const width, block, pages = 16, 128, 5
	i32, f := dtype.Int32, dtype.Float32
	queries, keys := []int64{2, 3, 0}, []int64{301, 130, 1}
	batch, tokens := len(queries), int64(5)
	mask := optest.Tensor(t, dtype.Int8, []int64{2048, 2048})
	lengths := func(v ...int64) *op.Tensor { return optest.Tensor(t, i32, []int64{int64(len(v))}, optest.Floats(v)...) }
	for _, types := range [][2]dtype.Type{{dtype.Float16, dtype.Float16}, {dtype.BFloat16, dtype.BFloat16}, {dtype.Float16, dtype.Int8}} {
		for _, layout := range []string{"TND", "BBND", "BNBD"} {
			for _, s := range []struct {
				heads, keyHeads int64
				mode            int
				first, nearest  int
				l               kerneltest.Layout
			}{{2, 1, 3, 0, 1, kerneltest.Contiguous}, {3, 1, 0, 0, 0, kerneltest.Transposed}, {4, 2, 3, 1, 2, kerneltest.Gapped}, {2, 2, 0, 2, 1, kerneltest.Reversed}} {
				what := fmt.Sprint(types, layout, s)
				shape := []int64{op.Total(keys), s.keyHeads, width}
				switch layout {
				case "BBND":
					shape = []int64{pages, block, s.keyHeads, width}
				case "BNBD":
					shape = []int64{pages, s.keyHeads, block, width}
				}
				start, table := []int64{2, 1, 0}, []int64{3, 0, 4, 1, 2, 0, 2, 1, 0}
				key := optest.TensorIn(t, types[1], s.l, shape, optest.Normal(3, types[1], op.Count(shape))...)
				a := optest.Args{
					"query": optest.Filled(t, 1, types[0], s.l, []int64{tokens, s.heads, width}), "key": key,
					"actualSeqQlenOptional": lengths(append([]int64{0}, ends(queries)...)...), "actualSeqKlenOptional": lengths(append([]int64{0}, ends(keys)...)...), "startLoc": lengths(start...),
					"sparseMode": s.mode, "initBlocks": s.first, "localBlocks": s.nearest, "layoutKeyOptional": layout, "score": optest.Filled(t, 2, f, s.l, []int64{s.heads, tokens, 16}),
				}
				if layout != "TND" {
					a["actualSeqKlenOptional"], a["blockTableOptional"] = lengths(keys...), optest.Tensor(t, i32, []int64{3, 3}, optest.Floats(table)...)
				}
				if s.mode == 3 {
					a["attenMaskOptional"] = mask
				}
				if types[1] == dtype.Int8 {
					of := []int64{shape[0], s.keyHeads, block}
					if layout == "TND" {
						of = of[:2]
					}
					a["scaleOptional"] = optest.TensorIn(t, f, s.l, of, .5, .25, 1, .125, .75)
				}
				optest.Run(t, "MsaIndexScore", a)

				get := valuesOf(a)
				want := slices.Repeat([]float64{-math.MaxFloat32}, int(s.heads*tokens*16))
				for b := range batch {
					from := op.Total(queries[:b])
					for i := range queries[b] {
						for h := range s.heads {
							at := (h*tokens + from + i) * 16
							for j := range keys[b] {
								if s.mode == 3 && j > keys[b]-queries[b]+i {
									continue
								}
								head, page := h/(s.heads/s.keyHeads), table[int64(b)*3+j/block]
								place := (op.Total(keys[:b])+j)*s.keyHeads + head
								scale := place
								if layout != "TND" {
									scale = (page*s.keyHeads+head)*block + j%block
								}
								switch layout {
								case "BBND":
									place = (page*block+j%block)*s.keyHeads + head
								case "BNBD":
									place = scale
								}
								product := 0.0
								for e := range int64(width) {
									product += get("query")[((from+i)*s.heads+h)*width+e] * get("key")[place*width+e]
								}
								if types[1] == dtype.Int8 {
									product *= get("scaleOptional")[scale]
								}
								want[at+j/block] = max(want[at+j/block], product)
							}
							for n := range (keys[b] + block - 1) / block {
								if n < int64(s.first) {
									want[at+n] = float64(float32(1e30))
								}
								if n <= start[b] && n > start[b]-int64(s.nearest) {
									want[at+n] = float64(float32(1e29))
								}
							}
						}
					}
				}
				optest.CloseTo(t, what, finite(want), finite(get("score")), 1e-4)
			}
		}
	}
}

// finite maps the three scores that are no products to others, whose differences a limit can see.
func finite(v []float64) []float64 {
	v = slices.Clone(v)
	for i, x := range v {
		switch {
		case x <= -1e30:
			v[i] = -1000
		case x > 5e29:
			v[i] = 3000
		case x > 5e28:
			v[i] = 2000
		}
	}
	return v
}

func TestMsaIndexScoreRefuses(t *testing.T) {
	const name = "MsaIndexScore"
	h, f, i32, i8 := dtype.Float16, dtype.Float32, dtype.Int32, dtype.Int8
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	a := optest.Args{
		"query": x(h, 2, 4, 32), "key": x(h, 3, 128, 2, 32), "blockTableOptional": optest.Tensor(t, i32, []int64{1, 3}, 0, 1, 2), "attenMaskOptional": x(i8, 2048, 2048), "actualSeqQlenOptional": optest.Tensor(t, i32, []int64{2}, 0, 2),
		"actualSeqKlenOptional": optest.Tensor(t, i32, []int64{1}, 300), "startLoc": optest.Tensor(t, i32, []int64{1}, 2), "sparseMode": 3, "localBlocks": 1, "score": x(f, 4, 2, 16),
	}
	optest.Run(t, name, a) // without a layout: BBND
	for _, null := range []string{"query", "key", "startLoc", "score"} {
		optest.Refused(t, op.NullPointer, name, a.With(optest.Args{null: nil}), null+" is null")
	}
	optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"key": x(dtype.BFloat16, 3, 128, 2, 32)}), "dtypes differ")
	optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"query": x(dtype.BFloat16, 2, 4, 32), "key": x(i8, 3, 128, 2, 32), "scaleOptional": x(f, 3, 2, 128)}), "dtype")
	optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"startLoc": x(dtype.Int64, 1)}), "dtype")
	for text, set := range map[string]optest.Args{
		"use TND, BBND or BNBD": {"layoutKeyOptional": "BSND"}, "sparseMode is 4": {"sparseMode": 4}, "attenMask is null": {"attenMaskOptional": nil}, "which has no mask": {"sparseMode": 0},
		"both must be given": {"actualSeqKlenOptional": nil}, "BBND and BNBD need it": {"blockTableOptional": nil}, "blocks of 64 tokens": {"key": x(h, 3, 64, 2, 32)}, "multiple of 16 up to 128": {"query": x(h, 2, 4, 48)},
		"must divide": {"key": x(h, 3, 128, 3, 32)}, "the block of the query": {"startLoc": x(i32, 2)}, "others none": {"scaleOptional": x(f, 3, 2, 128)}, "localBlocks 4": {"localBlocks": 4}, "initBlocks is -1": {"initBlocks": -1},
		"padded to sixteen": {"score": x(f, 4, 2, 3)}, "keys of int8 have a scale": {"key": x(i8, 3, 128, 2, 32)}, "a multiple of 16 columns": {"layoutKeyOptional": "TND", "key": x(h, 300, 2, 32), "blockTableOptional": nil, "actualSeqKlenOptional": x(i32, 2), "score": x(f, 4, 2, 3)},
	} {
		optest.Refused(t, op.TilingRefused, name, a.With(set), text)
	}
	require.ErrorContains(t, optest.Execute(t, name, a.With(optest.Args{"blockTableOptional": optest.Tensor(t, i32, []int64{1, 3}, 0, 3)})), "blockTable has 3")
	require.ErrorContains(t, optest.Execute(t, name, a.With(optest.Args{"actualSeqKlenOptional": optest.Tensor(t, i32, []int64{1}, 385)})), "385 keys")
}
