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

// sharedCase is a call of SparseFlashMla with heads of 8 numbers.
type sharedCase struct {
	dt            dtype.Type
	query, key    string // layouts
	queries, keys []int64
	merged        []int64 // lengths of merged keys, or nil
	residual      []int64
	heads         int64
	chosen        bool // merged keys are listed
	listed        bool // tokens are listed
	used          bool // lengths of merged keys are given where the layout does not need them
	chip          acceptance.Chip
	mode          int64
	left, right   int64
	ratio         int64
	whole         bool // on the Ascend950: no mask of merged keys
}

const sharedWidth, sharedPage, sharedListed, sharedScale = 8, 16, 5, 0.5

func sharedCases() (cases []sharedCase) {
	b, other := acceptance.Ascend910B, acceptance.Ascend950
	for n, d := range op.HalfTypes {
		long := []int64{140, int64(17 + n)}
		cases = append(cases,
			sharedCase{dt: d, query: "BSND", key: "BSND", queries: []int64{3, 3}, keys: []int64{140, 140}, heads: 4, chip: b, mode: 4, left: 127, ratio: 1},
			sharedCase{dt: d, query: "TND", key: "TND", queries: []int64{2, 0, 5}, keys: []int64{133, 3, 2}, heads: 1, chip: b, mode: 4, left: 127, ratio: 1},
			sharedCase{dt: d, query: "TND", key: "PA_BBND", queries: []int64{1, 4}, keys: long, heads: 2, chip: b, mode: 4, left: 127, ratio: 1},
			sharedCase{dt: d, query: "BSND", key: "BSND", queries: []int64{5, 5}, keys: []int64{9, 9}, merged: []int64{2, 2}, residual: []int64{1, 3}, heads: 2, chosen: true, chip: b, mode: 4, left: 127, ratio: 4},
			sharedCase{dt: d, query: "TND", key: "TND", queries: []int64{3, 2}, keys: []int64{26, 7}, merged: []int64{6, 1}, residual: []int64{2, 3}, heads: 4, chosen: true, chip: b, mode: 4, left: 127, ratio: 4},
			sharedCase{dt: d, query: "TND", key: "PA_BBND", queries: []int64{3, 2}, keys: long, merged: []int64{35, 4}, residual: []int64{0, int64(1 + n)}, heads: 1, chosen: true, chip: b, mode: 4, left: 127, ratio: 4},
			sharedCase{dt: d, query: "BSND", key: "PA_BBND", queries: []int64{3, 3}, keys: []int64{261, 20}, merged: []int64{2, 0}, residual: []int64{5, 20}, heads: 2, chip: b, mode: 4, left: 127, ratio: 128},
			sharedCase{dt: d, query: "TND", key: "TND", queries: []int64{7, 1}, keys: []int64{131, 128}, merged: []int64{1, 1}, residual: []int64{3, 0}, heads: 2, chip: b, mode: 4, left: 127, ratio: 128},
			sharedCase{dt: d, query: "BSND", key: "BSND", queries: []int64{3, 3}, keys: []int64{300, 300}, merged: []int64{2, 1}, residual: []int64{44, 90}, used: true, heads: 4, chip: b, mode: 4, left: 127, ratio: 128},
			sharedCase{dt: d, query: "BSND", key: "BSND", queries: []int64{3, 3}, keys: []int64{9, 9}, heads: 2, listed: true, chip: b, ratio: 1},
			sharedCase{dt: d, query: "TND", key: "PA_BBND", queries: []int64{3, 1}, keys: []int64{40, 6}, heads: 4, listed: true, chip: b, left: 7, right: 2, ratio: 1},
			sharedCase{dt: d, query: "TND", key: "TND", queries: []int64{4, 2}, keys: []int64{9, 3}, merged: []int64{3, 1}, residual: []int64{0, 0}, heads: 2, chip: other, mode: 4, left: 2, right: 1, ratio: 3},
			sharedCase{dt: d, query: "BSND", key: "BSND", queries: []int64{4, 4}, keys: []int64{9, 9}, heads: 2, chip: other, mode: 4, left: -1, right: 3, ratio: 1},
			sharedCase{dt: d, query: "TND", key: "TND", queries: []int64{5, 2}, keys: []int64{2, 9}, heads: 2, chip: other, mode: 4, left: math.MaxInt64, right: math.MaxInt64, ratio: 1},
			sharedCase{dt: d, query: "TND", key: "TND", queries: []int64{5, 2}, keys: []int64{2, 9}, heads: 2, chip: other, mode: 4, left: 1, right: math.MaxInt64 - 1, ratio: 1},
			sharedCase{dt: d, query: "BSND", key: "BSND", queries: []int64{4, 4}, keys: []int64{9, 9}, merged: []int64{4, 4}, heads: 2, chip: other, mode: 3, left: -1, right: -1, ratio: 2, whole: true},
			sharedCase{dt: d, query: "TND", key: "TND", queries: []int64{4, 2}, keys: []int64{5, 8}, heads: 2, chip: other, mode: 0, left: -1, right: -1, ratio: 1},
		)
	}
	return cases
}

// room returns the shape of the tensor of tokens, and a function that gives the row of a token.
func room(layout string, lengths []int64, heads int64) ([]int64, func(b int, i int64) int64) {
	switch batch := int64(len(lengths)); layout {
	case "TND":
		return []int64{op.Total(lengths), heads, sharedWidth}, func(b int, i int64) int64 { return op.Total(lengths[:b]) + i }
	case "BSND":
		n := max(slices.Max(lengths), 1)
		return []int64{batch, n, heads, sharedWidth}, func(b int, i int64) int64 { return int64(b)*n + i }
	default:
		most := pagesOf(lengths)
		return []int64{batch * most, sharedPage, heads, sharedWidth}, func(b int, i int64) int64 {
			return (batch*most-1-int64(b)*most-i/sharedPage)*sharedPage + i%sharedPage // from the last page to the first
		}
	}
}

func pagesOf(lengths []int64) int64 { return max(1, (slices.Max(lengths)+sharedPage-1)/sharedPage) }

// sees returns whether query i of a sequence sees token j.
func (c sharedCase) sees(b int, i, j int64) bool {
	own := c.keys[b] - c.queries[b] + i
	switch c.mode {
	case 3:
		return j <= own
	case 4:
		return (c.left < 0 || own-j <= c.left) && (c.right < 0 || j-own <= c.right)
	}
	return true
}

// seesMerged returns whether query i of a sequence sees merged key j: it is not before the last token of the key.
func (c sharedCase) seesMerged(b int, i, j int64) bool {
	if c.whole {
		return true
	}
	all := c.merged[b]*c.ratio + c.residual[b]
	return (j+1)*c.ratio-1 <= all-c.queries[b]+i
}

// list returns the places that query i of a sequence lists among n keys, −1 at the end. Odd queries list fewer.
func (c sharedCase) list(b int, i, n int64) []float64 {
	row := slices.Repeat([]float64{-1}, sharedListed)
	for k := range min(n, sharedListed-i%2) {
		row[k] = float64((3*k + i + int64(b)) % n)
	}
	kept := row[:min(n, sharedListed-i%2)]
	slices.Sort(kept)
	kept = slices.Compact(kept)
	return append(slices.Clone(kept), slices.Repeat([]float64{-1}, sharedListed-len(kept))...)
}

func (c sharedCase) args(t *testing.T) optest.Args {
	q, _ := room(c.query, c.queries, c.heads)
	k, _ := room(c.key, c.keys, 1)
	i := dtype.Int32
	whole := func(v ...int64) *op.Tensor { return optest.Tensor(t, i, []int64{int64(len(v))}, optest.Floats(v)...) }
	sums := func(v []int64) *op.Tensor { return whole(append([]int64{0}, ends(v)...)...) }
	a := optest.Args{
		"q": optest.Filled(t, 1, c.dt, kerneltest.Contiguous, q), "oriKvOptional": optest.Filled(t, 2, c.dt, kerneltest.Contiguous, k), "sinksOptional": optest.Filled(t, 3, dtype.Float32, kerneltest.Contiguous, []int64{c.heads}),
		"metadataOptional": optest.Tensor(t, i, []int64{1024}), "softmaxScale": sharedScale, "cmpRatio": c.ratio, "oriMaskMode": c.mode, "oriWinLeft": c.left, "oriWinRight": c.right, "layoutQOptional": c.query, "layoutKvOptional": c.key, "topkValueMode": 1,
	}
	table := func(lengths []int64) *op.Tensor {
		most, batch := pagesOf(lengths), int64(len(lengths))
		var v []float64
		for n := range batch * most {
			v = append(v, float64(batch*most-1-n))
		}
		return optest.Tensor(t, i, []int64{batch, most}, v...)
	}
	if c.query == "TND" {
		a["cuSeqlensQOptional"] = sums(c.queries)
	}
	switch c.key {
	case "TND":
		a["cuSeqlensOriKvOptional"] = sums(c.keys)
	case "PA_BBND":
		a["sequsedOriKvOptional"], a["oriBlockTableOptional"] = whole(c.keys...), table(c.keys)
	}
	rows := func(n ...int64) []int64 { return append(append(slices.Clone(q[:len(q)-2]), 1), n...) }
	lists := func(lengths []int64) (v, counts []float64) {
		_, at := room(c.query, c.queries, 1)
		total := optest.Elements(q[:len(q)-2])
		v, counts = slices.Repeat([]float64{-1}, int(total*sharedListed)), make([]float64, total)
		for b, n := range c.queries {
			for j := range n {
				row := c.list(b, j, lengths[b])
				copy(v[at(b, j)*sharedListed:], row)
				counts[at(b, j)] = float64(len(row) - len(slices.DeleteFunc(slices.Clone(row), func(x float64) bool { return x >= 0 })))
			}
		}
		return v, counts
	}
	if c.listed {
		v, counts := lists(c.keys)
		a["oriSparseIndicesOptional"], a["oriTopkLengthOptional"] = optest.Tensor(t, i, rows(sharedListed), v...), optest.Tensor(t, i, rows(), counts...)
	}
	if c.merged == nil {
		return a
	}
	m, _ := room(c.key, c.merged, 1)
	a["cmpKvOptional"], a["cmpMaskMode"] = optest.Filled(t, 4, c.dt, kerneltest.Contiguous, m), 3
	if c.whole {
		a["cmpMaskMode"] = 0
	}
	if c.residual != nil {
		a["cmpResidualKvOptional"] = whole(c.residual...)
	}
	if c.key == "TND" {
		a["cuSeqlensCmpKvOptional"] = sums(c.merged)
	}
	if c.key == "PA_BBND" {
		a["cmpBlockTableOptional"] = table(c.merged)
	}
	if c.key == "PA_BBND" || c.used {
		a["sequsedCmpKvOptional"] = whole(c.merged...)
	}
	if c.chosen {
		v, _ := lists(c.merged)
		a["cmpSparseIndicesOptional"] = optest.Tensor(t, i, rows(sharedListed), v...)
	}
	return a
}

// define returns attention by definition, the logarithms of the sums, and the mean share over the heads of each place of a list.
func (c sharedCase) define(q, k, m, sinks []float64) (out, lse, shares []float64) {
	_, at := room(c.query, c.queries, 1)
	_, keyAt := room(c.key, c.keys, 1)
	total := int64(len(q)) / sharedWidth / c.heads
	out, lse, shares = make([]float64, len(q)), make([]float64, total*c.heads), make([]float64, total*sharedListed)
	for b, n := range c.queries {
		for i := range n {
			var rows [][]float64
			var places []int64
			add := func(from []float64, row, place int64) {
				rows, places = append(rows, from[row*sharedWidth:][:sharedWidth]), append(places, place)
			}
			if c.listed {
				for _, j := range c.list(b, i, c.keys[b]) {
					if j >= 0 {
						add(k, keyAt(b, int64(j)), -1)
					}
				}
			}
			for j := range c.keys[b] {
				if !c.listed && c.sees(b, i, j) {
					add(k, keyAt(b, j), -1)
				}
			}
			if c.merged != nil {
				_, mergedAt := room(c.key, c.merged, 1)
				if c.chosen {
					for place, j := range c.list(b, i, c.merged[b]) {
						if j >= 0 && c.seesMerged(b, i, int64(j)) {
							add(m, mergedAt(b, int64(j)), int64(place))
						}
					}
				} else {
					for j := range c.merged[b] {
						if c.seesMerged(b, i, j) {
							add(m, mergedAt(b, j), -1)
						}
					}
				}
			}
			for h := range c.heads {
				row := at(b, i)*c.heads + h
				sum := math.Exp(sinks[h])
				weights := make([]float64, len(rows))
				for n, key := range rows {
					score := 0.0
					for d, x := range key {
						score += x * q[row*sharedWidth+int64(d)] * sharedScale
					}
					weights[n] = math.Exp(score)
					sum += weights[n]
				}
				for n, key := range rows {
					for d, x := range key {
						out[row*sharedWidth+int64(d)] += weights[n] / sum * x
					}
					if places[n] >= 0 {
						shares[at(b, i)*sharedListed+places[n]] += weights[n] / sum / float64(c.heads)
					}
				}
				lse[row] = math.Log(sum)
			}
		}
	}
	return out, lse, shares
}

// run runs an operator on the chip of the case.
func (c sharedCase) run(t *testing.T, name string, a optest.Args) {
	if c.chip == acceptance.Ascend950 {
		optest.RunOn(t, c.chip, name, a)
		return
	}
	optest.Run(t, name, a)
}

func (c sharedCase) stats() []int64 {
	q, _ := room(c.query, c.queries, c.heads)
	if c.query == "TND" {
		return []int64{1, q[0], c.heads}
	}
	return []int64{q[0], 1, q[1], c.heads}
}

func (c sharedCase) values(get func(string) []float64, query string) (q, k, m, sinks []float64) {
	if c.merged != nil {
		m = get("cmpKvOptional")
	}
	return get(query), get("oriKvOptional"), m, get("sinksOptional")
}

func TestSparseFlashMLA(t *testing.T) {
	for _, c := range sharedCases() {
		a := c.args(t)
		q, _ := room(c.query, c.queries, c.heads)
		a = a.With(optest.Args{"returnSoftmaxLse": true, "attnOutOut": optest.Tensor(t, c.dt, q), "softmaxLseOutOptional": optest.Tensor(t, dtype.Float32, c.stats())})
		c.run(t, "SparseFlashMla", a)
		get := valuesOf(a)
		want, lse, _ := c.define(c.values(get, "q"))
		optest.CloseTo(t, fmt.Sprintf("out %+v", c), want, get("attnOutOut"), optest.ResultLimit(c.dt))
		optest.CloseTo(t, fmt.Sprintf("lse %+v", c), lse, get("softmaxLseOutOptional"), optest.ResultLimit(dtype.Float32))
	}
}

// TestSparseFlashMLAGrad compares with difference quotients of the definition.
func TestSparseFlashMLAGrad(t *testing.T) {
	for _, c := range sharedCases() {
		if c.key == "PA_BBND" || c.listed || c.used {
			continue
		}
		a := c.args(t)
		get := valuesOf(a)
		q, k, m, sinks := c.values(get, "q")
		out, lse, shares := c.define(q, k, m, sinks)
		like := func(name string) *op.Tensor {
			return optest.Tensor(t, a[name].(*op.Tensor).DType, a[name].(*op.Tensor).Shape)
		}
		a["query"], a["scaleValue"] = a["q"], a["softmaxScale"]
		shape := a["q"].(*op.Tensor).Shape
		a = a.With(optest.Args{
			"dOut": optest.Filled(t, 5, c.dt, kerneltest.Contiguous, shape), "out": optest.Tensor(t, c.dt, shape, out...), "lse": optest.Tensor(t, dtype.Float32, c.stats(), lse...),
			"dQueryOut": like("q"), "dOriKvOutOptional": like("oriKvOptional"), "dSinksOutOptional": like("sinksOptional"),
		})
		if c.merged != nil {
			a["dCmpKvOutOptional"] = like("cmpKvOptional")
		}
		if c.chosen {
			a["cmpSoftmaxL1NormOptional"] = optest.Tensor(t, dtype.Float32, a["cmpSparseIndicesOptional"].(*op.Tensor).Shape)
		}
		for _, name := range []string{"q", "softmaxScale", "topkValueMode"} {
			delete(a, name)
		}
		c.run(t, "SparseFlashMlaGrad", a)
		got := valuesOf(a)
		for i, name := range []string{"dQueryOut", "dOriKvOutOptional", "dCmpKvOutOptional", "dSinksOutOptional"} {
			v := [][]float64{q, k, m, sinks}
			if v[i] == nil {
				continue
			}
			f := func(x []float64) []float64 {
				w := slices.Clone(v)
				w[i] = x
				y, _, _ := c.define(w[0], w[1], w[2], w[3])
				return y
			}
			optest.CloseTo(t, fmt.Sprintf("%s %+v", name, c), optest.Gradient(f, got("dOut"), v[i]), got(name), 12*optest.ResultLimit(c.dt)) // out is rounded
		}
		if c.chosen {
			optest.CloseTo(t, fmt.Sprintf("shares %+v", c), shares, got("cmpSoftmaxL1NormOptional"), optest.ResultLimit(dtype.Float32))
		}
	}
}

func TestSparseFlashMLARefuses(t *testing.T) {
	i, f := dtype.Int32, dtype.Float32
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	c := sharedCases()[3]
	a := c.args(t)
	a["attnOutOut"] = x(c.dt, 2, 5, 2, sharedWidth)
	for text, set := range map[string]optest.Args{
		"what the operator":             {"metadataOptional": x(i, 512)},
		"one for each head":             {"sinksOptional": x(f, 4)},
		"a power of two":                {"q": x(c.dt, 2, 5, 3, sharedWidth), "sinksOptional": x(f, 3), "attnOutOut": x(c.dt, 2, 5, 3, sharedWidth)},
		"topkValueMode is 2":            {"topkValueMode": 2},
		"cmpRatio is 129":               {"cmpRatio": 129},
		"cmpRatio is 5":                 {"cmpRatio": 5},
		"and 128 without":               {"cmpSparseIndicesOptional": nil},
		"use 4, 127 and 0":              {"oriWinLeft": 64},
		"use 0, 3 or 4":                 {"oriMaskMode": 2},
		"cmpResidualKv is null":         {"cmpResidualKvOptional": nil},
		"places of keys for each query": {"cmpSparseIndicesOptional": x(i, 2, 4, 1, 5)},
		"is given; it is not supported": {"cmpTopkLengthOptional": x(i, 2, 5, 1)},
		"sequsedQOptional":              {"sequsedQOptional": x(i, 2)},
		"without cmpKv":                 {"cmpKvOptional": nil, "cmpRatio": 1},
		"oriTopkLength must be too":     {"oriSparseIndicesOptional": x(i, 2, 5, 1, 3)},
		"without oriSparseIndices":      {"oriTopkLengthOptional": x(i, 2, 5, 1)},
		"cmpMaskMode is 4":              {"cmpMaskMode": 4},
		"cuSeqlensOriKvOptional":        {"cuSeqlensOriKvOptional": x(i, 3)},
		"cuSeqlensCmpKvOptional":        {"cuSeqlensCmpKvOptional": x(i, 3)},
		"cmpResidualKvOptional":         {"cmpKvOptional": nil, "cmpRatio": 1},
		"cmpBlockTableOptional":         {"cmpKvOptional": nil, "cmpResidualKvOptional": nil, "cmpBlockTableOptional": x(i, 2, 2)},
		"lengths are in cuSeqlensOriKv": {"layoutKvOptional": "TND", "sequsedOriKvOptional": x(i, 2)},
		"must be equal, or":             {"layoutKvOptional": "TND", "oriKvOptional": x(c.dt, 9, 1, sharedWidth), "cuSeqlensOriKvOptional": x(i, 3)},
		"must be as wide":               {"cmpKvOptional": x(c.dt, 2, 2, 1, 4)},
	} {
		optest.Refused(t, op.InvalidParam, "SparseFlashMla", a.With(set), text)
	}
	for _, missing := range []string{"q", "oriKvOptional", "sinksOptional", "metadataOptional", "attnOutOut"} {
		optest.Refused(t, op.NullPointer, "SparseFlashMla", a.With(optest.Args{missing: nil}), missing+" is null")
	}
	optest.Refused(t, op.NullPointer, "SparseFlashMla", a.With(optest.Args{"returnSoftmaxLse": true}), "softmaxLseOutOptional is null")
	_, err := optest.PrepareIn(t, op.Env{Tiled: true}, "SparseFlashMla", a)
	require.ErrorContains(t, err, "a head dimension of 512")
	listed := sharedCases()[9]
	a = listed.args(t)
	a["attnOutOut"] = x(listed.dt, 2, 3, 2, sharedWidth)
	require.ErrorContains(t, optest.Execute(t, "SparseFlashMla", a.With(optest.Args{"oriTopkLengthOptional": optest.Tensor(t, i, []int64{2, 3, 1}, 6)})), "oriTopkLength has 6 for rows of 5")
	like := func(name string) *op.Tensor { return x(a[name].(*op.Tensor).DType, a[name].(*op.Tensor).Shape...) }
	a = c.args(t)
	a["query"], a["scaleValue"] = a["q"], a["softmaxScale"]
	a = a.With(optest.Args{
		"dOut": like("q"), "out": like("q"), "lse": x(f, c.stats()...), "dQueryOut": like("q"), "dOriKvOutOptional": like("oriKvOptional"), "dCmpKvOutOptional": like("cmpKvOptional"),
		"dSinksOutOptional": like("sinksOptional"), "cmpSoftmaxL1NormOptional": x(f, a["cmpSparseIndicesOptional"].(*op.Tensor).Shape...),
	})
	for _, name := range []string{"q", "softmaxScale", "topkValueMode"} {
		delete(a, name)
	}
	for name, given := range map[string]*op.Tensor{
		"oriSoftmaxL1NormOptional": x(f, 2, 5, 1, 3), "sequsedOriKvOptional": x(i, 2), "sequsedCmpKvOptional": x(i, 2), "sequsedQOptional": x(i, 2), "cmpTopkLengthOptional": x(i, 2, 5, 1),
	} {
		optest.Refused(t, op.InvalidParam, "SparseFlashMlaGrad", a.With(optest.Args{name: given}), name, "is given")
	}
	pages := sharedCases()[6]
	a = pages.args(t)
	a["attnOutOut"] = x(pages.dt, 2, 3, 2, sharedWidth)
	require.ErrorContains(t, optest.Execute(t, "SparseFlashMla", a.With(optest.Args{"sequsedCmpKvOptional": optest.Tensor(t, i, []int64{2}, 17, 0)})), "sequence 0 has 3 queries and 17 keys")
}
