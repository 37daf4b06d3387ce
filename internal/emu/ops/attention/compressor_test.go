package attention

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

// compressorCase is a call of Compressor with rows of 5 numbers and keys of 3.
type compressorCase struct {
	dt           dtype.Type
	layout       kerneltest.Layout // of what may have one
	packed       bool
	ratio, coff  int64
	tokens, used []int64 // of each sequence; used is nil if all count
	start        []int64 // nil for 0
	size         int64   // tokens of a page
	ring         bool
	chip         acceptance.Chip
	without      bool // the first page of the first sequence is not written
}

const compressorHidden, compressorWidth = 5, 3

func TestCompressor(t *testing.T) {
	var cases []compressorCase
	third, other := acceptance.Ascend910B, acceptance.Ascend950
	for _, d := range op.HalfTypes {
		for _, l := range kerneltest.Layouts {
			cases = append(cases,
				compressorCase{dt: d, layout: l, packed: true, ratio: 4, coff: 2, tokens: []int64{9, 1, 0, 6}, start: []int64{0, 11, 5, 7}, size: 5, chip: third},
				compressorCase{dt: d, layout: l, packed: true, ratio: 2, coff: 1, tokens: []int64{3, 4}, used: []int64{3, 2}, size: 3, chip: third, without: true},
				compressorCase{dt: d, layout: l, ratio: 4, coff: 2, tokens: []int64{7, 7}, used: []int64{7, 5}, start: []int64{2, 9}, size: 16, chip: third},
				compressorCase{dt: d, layout: l, ratio: 8, coff: 1, tokens: []int64{5, 5}, start: []int64{13, 3}, size: 4, chip: third},
				compressorCase{dt: d, layout: l, packed: true, ratio: 3, coff: 2, tokens: []int64{8, 2}, start: []int64{4, 9}, size: 13, ring: true, chip: other},
			)
		}
	}
	for _, c := range cases {
		c.run(t)
	}
}

func (c compressorCase) run(t *testing.T) {
	const hidden, width = compressorHidden, compressorWidth
	what := fmt.Sprintf("%+v", c)
	i32, f, all := dtype.Int32, dtype.Float32, c.coff*width
	batch, total := int64(len(c.tokens)), op.Total(c.tokens)
	used, start := c.used, c.start
	if used == nil {
		used = c.tokens
	}
	if start == nil {
		start = make([]int64, batch)
	}
	shape, outShape := []int64{total, hidden}, []int64{min(total, total/c.ratio+batch), width}
	if !c.packed {
		shape, outShape = []int64{batch, c.tokens[0], hidden}, []int64{batch, (c.tokens[0] + c.ratio - 1) / c.ratio, width}
	}
	perSequence := int64(5)
	tableShape := []int64{batch, perSequence}
	if c.ring {
		perSequence, tableShape = 1, []int64{batch}
	}
	pages := batch*perSequence + 1
	var table []int64 // from the last page to the second, since page 0 is not written
	for n := range batch * perSequence {
		table = append(table, pages-1-n)
	}
	if c.without {
		table[0] = 0
	}
	filled := func(seed uint64, d dtype.Type, shape ...int64) *op.Tensor {
		return optest.Filled(t, seed, d, c.layout, shape)
	}
	whole := func(v []int64) *op.Tensor { return optest.Tensor(t, i32, []int64{int64(len(v))}, optest.Floats(v)...) }
	state := optest.Filled(t, 6, f, kerneltest.Contiguous, []int64{pages, c.size, 2 * all})
	a := optest.Args{
		"x": optest.Filled(t, 1, c.dt, c.layout, shape), "wkv": filled(2, c.dt, all, hidden), "wgate": filled(3, c.dt, all, hidden), "ape": filled(4, f, c.ratio, all), "stateCacheRef": state,
		"stateBlockTableOptional": optest.Tensor(t, i32, tableShape, optest.Floats(table)...), "cmpRatio": c.ratio, "coff": c.coff, "cacheMode": 1, "stateCacheStrideDim0": state.Strides[0],
		"cmpKvOut": optest.Filled(t, 5, c.dt, c.layout, outShape),
	}
	if c.ring {
		a["cacheMode"] = 2
	}
	if c.packed {
		a["cuSeqlensOptional"] = whole(append([]int64{0}, ends(c.tokens)...))
	}
	if c.used != nil {
		a["sequsedOptional"] = whole(c.used)
	}
	if c.start != nil {
		a["startPosOptional"] = whole(c.start)
	}
	before, out := optest.Values(state), optest.Values(a["cmpKvOut"].(*op.Tensor))
	if c.chip == acceptance.Ascend950 {
		optest.RunOn(t, c.chip, "Compressor", a)
	} else {
		optest.Run(t, "Compressor", a)
	}

	get := valuesOf(a)
	// place returns where the cache has a token.
	place := func(b, token int64) int64 {
		if c.ring {
			return (table[b]*c.size + token%c.size) * 2 * all
		}
		return (table[b*perSequence+token/c.size]*c.size + token%c.size) * 2 * all
	}
	// number returns a key (side 0) or score (1) of a token in a column.
	number := func(b, token, side, column int64) float64 {
		if token < start[b] {
			return before[place(b, token)+side*all+column]
		}
		row, sum := op.Total(c.tokens[:b])+token-start[b], 0.0
		weights := get([]string{"wkv", "wgate"}[side])
		for e := range int64(hidden) {
			sum += get("x")[row*hidden+e] * weights[column*hidden+e]
		}
		if side == 1 {
			sum += get("ape")[token%c.ratio*all+column]
		}
		return sum
	}
	after, next := slices.Clone(before), int64(0)
	for b := range batch {
		end := start[b] + used[b]
		if !c.packed {
			next = b * outShape[1]
		}
		for group := range end / c.ratio {
			if (group+1)*c.ratio <= start[b] {
				continue
			}
			for column := range int64(width) {
				sum, weighted := 0.0, 0.0
				for token := max(0, (group-c.coff+1)*c.ratio); token < (group+1)*c.ratio; token++ {
					at := column
					if c.coff == 2 && token >= group*c.ratio {
						at += width
					}
					w := math.Exp(number(b, token, 1, at))
					sum += w
					weighted += w * number(b, token, 0, at)
				}
				out[next*width+column] = weighted / sum
			}
			next++
		}
		for token := start[b]; token < end; token++ {
			if at := place(b, token); (c.ring || at >= c.size*2*all) && (!c.ring || token >= (end/c.ratio-c.coff+1)*c.ratio) {
				for column := range all {
					after[at+column], after[at+all+column] = number(b, token, 0, column), number(b, token, 1, column)
				}
			}
		}
	}
	optest.CloseTo(t, "cmpKv "+what, out, get("cmpKvOut"), optest.ResultLimit(c.dt))
	optest.CloseTo(t, "stateCache "+what, after, get("stateCacheRef"), 1e-5)
}

func TestCompressorRefuses(t *testing.T) {
	const name = "Compressor"
	bf, f, i32, third := dtype.BFloat16, dtype.Float32, dtype.Int32, acceptance.Ascend910_93
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	a := optest.Args{
		"x": x(bf, 1, 6, 1024), "wkv": x(bf, 256, 1024), "wgate": x(bf, 256, 1024), "ape": x(f, 4, 256), "stateCacheRef": x(f, 3, 8, 512), "stateBlockTableOptional": optest.Tensor(t, i32, []int64{1, 2}, 1, 2),
		"cmpRatio": 4, "coff": 2, "cacheMode": 1, "stateCacheStrideDim0": 4096, "cmpKvOut": x(bf, 1, 2, 128),
	}
	refused := func(code int32, set optest.Args, text string) {
		t.Helper()
		_, err := optest.PrepareIn(t, op.Env{Chip: third, Tiled: true}, name, a.With(set))
		var e *op.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, code, e.Code, e.Text)
		require.Contains(t, e.Text, text)
	}
	_, err := optest.PrepareIn(t, op.Env{Chip: third, Tiled: true}, name, a)
	require.NoError(t, err)
	for _, null := range []string{"x", "wkv", "wgate", "ape", "stateCacheRef", "cmpKvOut"} {
		refused(op.NullPointer, optest.Args{null: nil}, null+" is null")
	}
	for text, set := range map[string]optest.Args{
		"dtypes differ": {"wkv": x(dtype.Float16, 256, 1024)}, "dtype": {"ape": x(bf, 4, 256)}, "cacheMode is 2": {"cacheMode": 2}, "coff is 3": {"coff": 3}, "cmpRatio is 3": {"cmpRatio": 3}, "gradEnabled is true": {"gradEnabled": true},
		"int64": {"startPosOptional": x(dtype.Int64, 1)},
	} {
		refused(op.InvalidParam, set, text)
	}
	for text, set := range map[string]optest.Args{
		"need it": {"x": x(bf, 6, 1024)}, "that of wkv": {"wgate": x(bf, 128, 1024)}, "a row for each token": {"ape": x(f, 3, 256)}, "pages of 1 to 1024": {"stateCacheRef": x(f, 3, 8, 256)}, "one for each sequence": {"startPosOptional": x(i32, 2)},
		"stateBlockTable is null": {"stateBlockTableOptional": nil}, "a row of pages": {"stateBlockTableOptional": x(i32, 2, 2)}, "a key for each group": {"cmpKvOut": x(bf, 1, 1, 128)}, "stateCacheStrideDim0 is 5": {"stateCacheStrideDim0": 5},
		"keys of 128 or 512": {"wkv": x(bf, 254, 1024), "wgate": x(bf, 254, 1024), "ape": x(f, 4, 254), "stateCacheRef": x(f, 3, 8, 508), "stateCacheStrideDim0": 8 * 508, "cmpKvOut": x(bf, 1, 2, 127)},
	} {
		refused(op.TilingRefused, set, text)
	}
	e := func(set optest.Args) error { return optest.Execute(t, name, a.With(set)) }
	require.ErrorContains(t, e(optest.Args{"startPosOptional": optest.Tensor(t, i32, []int64{1}, 11)}), "token 16 of sequence 0 is beyond the pages")
	require.ErrorContains(t, e(optest.Args{"stateBlockTableOptional": optest.Tensor(t, i32, []int64{1, 2}, 3, 1)}), "stateBlockTable has 3")
	require.ErrorContains(t, e(optest.Args{"sequsedOptional": optest.Tensor(t, i32, []int64{1}, 7)}), "7 of 6 tokens")
}
