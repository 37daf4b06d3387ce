package attention

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/half"
)

// latentAttentions prepare the queries and keys of attention with a latent cache. They accept sizes
// beyond those that the device's kernels support.
var latentAttentions = op.Table{"MlaProlog": mlaProlog, "MlaPrologV2": mlaProlog, "MlaPrologV2WeightNz": mlaProlog, "MlaPrologV3": mlaProlog, "MlaPrologV3WeightNz": mlaProlog, "MlaPrologV4WeightNz": mlaProlog}.Selects()

// latent is one call. It maps tokens of width hidden to queries via rankQ numbers, and to rows of
// two caches: one with rankKey numbers, one with rope rotated numbers.
type latent struct {
	*op.Call
	x, sin, cos, index                           *op.Tensor
	down, up, absorb, keys                       *op.Tensor // weights
	gammaQ, gammaKey                             *op.Tensor
	cache, ropeCache                             *op.Tensor
	scaleX, scaleDown, scaleUp, scaleKeys        *op.Tensor // dequantization scales
	quantCache, quantRope, smooth, clip          *op.Tensor
	query, queryRope, queryScale                 *op.Tensor
	low, lowScale                                *op.Tensor // the normed low-rank queries, and their scales; nil if not asked for
	tokens, hidden, rankQ, heads, dim, rope, key int64
	batch                                        int64 // the first dimension of tokens that have two
	tiledCache, pagesOfBatch, appended           bool  // PA_NZ, PA_BLK_NZ; PA_BLK_*; BSND, TND
	tile                                         int64 // columns that share a scale in the cache, 0 unless a row of it holds all
	factorQ, factorKey                           float64
}

// The quantisation modes of the third version: for each mode of the weights those of the key-value cache.
const (
	cachePlain = iota
	cachePerTensor
	cachePerChannel
	cachePerTile
)

var cacheModesOf = [][]int64{{cachePlain}, {cachePlain, cachePerChannel, cachePerTile}, {cachePlain, cachePerTensor, cachePerTile}}

func mlaProlog(c *op.Call) (op.Run, error) {
	m := &latent{
		Call: c, x: c.Tensor("tokenX"),
		down: c.Tensor("weightDq"), up: c.Tensor("weightUqQr"), absorb: c.Tensor("weightUk"), keys: c.Tensor("weightDkvKr"), gammaQ: c.Tensor("rmsnormGammaCq"), gammaKey: c.Tensor("rmsnormGammaCkv"),
		cache: c.Tensor("kvCacheRef"), ropeCache: c.Tensor("krCacheRef"), quantCache: c.Optional("quantScaleCkvOptional"), quantRope: c.Optional("quantScaleCkrOptional"), smooth: c.Optional("smoothScalesCqOptional"),
		query: c.Tensor("queryOut"), queryRope: c.Tensor("queryRopeOut"), factorQ: 1, factorKey: 1,
	}
	third, rotates := c.Has("qcQrScale"), !c.Has("doRope") || c.Bool("doRope")
	if rotates {
		m.sin, m.cos = c.Tensor("ropeSin"), c.Tensor("ropeCos")
	} else {
		for _, name := range []string{"ropeSin", "ropeCos"} {
			if t := c.Optional(name); t != nil && t.Len() > 0 {
				c.Invalid("%v must be null or empty: doRope is false", t)
			}
		}
	}
	switch mode := c.Text("cacheModeOptional"); {
	case mode == "" || mode == "PA_BSND":
	case mode == "PA_NZ":
		m.tiledCache = true
	case !third:
		c.Invalid("cacheModeOptional is %q; use PA_BSND or PA_NZ", mode)
	case mode == "PA_BLK_BSND" || mode == "PA_BLK_NZ":
		m.pagesOfBatch, m.tiledCache = true, mode == "PA_BLK_NZ"
	case mode == "BSND" && m.x.Rank() == 3 || mode == "TND" && m.x.Rank() == 2:
		m.appended = true
	default:
		c.Invalid("cacheModeOptional is %q with %v; use PA_BSND, PA_NZ, PA_BLK_BSND, PA_BLK_NZ, BSND for 3 dimensions or TND for 2", mode, m.x)
	}
	if m.appended {
		c.NoneOf("cacheIndexOptional")
	} else {
		m.index = c.Tensor(c.Either("cacheIndex", "cacheIndexOptional"))
		c.Plain(m.index)
		c.DType(m.index, dtype.Int64)
	}
	if third {
		m.modes()
	}
	bf16 := []*op.Tensor{m.absorb, m.gammaQ, m.gammaKey, m.queryRope}
	if rotates {
		bf16 = append(bf16, m.sin, m.cos)
		c.Rank(m.sin, m.x.Rank(), m.x.Rank())
	}
	c.Plain(append(bf16, m.x, m.cache, m.ropeCache, m.query)...)
	for _, t := range bf16 {
		c.DType(t, dtype.BFloat16)
	}
	for _, t := range []*op.Tensor{m.x, m.down, m.up, m.keys, m.cache, m.ropeCache, m.query} {
		c.DType(t, dtype.BFloat16, dtype.Int8)
	}
	c.Rank(m.x, 2, 3)
	c.Rank(m.absorb, 3, 3)
	c.Rank(m.gammaQ, 1, 1)
	c.Rank(m.keys, 2, 4)
	if m.appended {
		c.Rank(m.cache, m.x.Rank()+1, m.x.Rank()+1)
	} else {
		c.Rank(m.cache, 4, 4)
	}
	c.Rank(m.queryRope, m.x.Rank()+1, m.x.Rank()+1)
	if c.Err() != nil {
		return nil, c.Err()
	}
	m.sizes()
	m.scales()
	if c.Err() != nil {
		return nil, c.Err()
	}
	m.x = c.Reshaped(c.Contiguous(m.x), m.tokens, m.hidden)
	if m.index != nil {
		m.index = c.Reshaped(c.Contiguous(m.index), m.index.Len())
	}
	if rotates {
		m.sin, m.cos = c.Reshaped(c.Contiguous(m.sin), m.tokens, 1, m.rope), c.Reshaped(c.Contiguous(m.cos), m.tokens, 1, m.rope)
	}
	return m.run, nil
}

// modes reads the additional arguments of the third version.
func (m *latent) modes() {
	m.factorQ, m.factorKey = m.Float("qcQrScale"), m.Float("kcScale")
	weights, cache := m.Int("weightQuantMode"), m.Int("kvCacheQuantMode")
	if weights < 0 || weights >= int64(len(cacheModesOf)) {
		m.Invalid("weightQuantMode is %d; use 0 (none), 1 (weightUqQr) or 2 (int8), the Ascend950 has more", weights)
		return
	}
	if modes := cacheModesOf[weights]; !slices.Contains(modes, cache) {
		m.Invalid("kvCacheQuantMode is %d; with weightQuantMode %d use one of %v", cache, weights, modes)
		return
	}
	flag := func(name string, set bool, when string) {
		want := int64(0)
		if set {
			want = 1
		}
		if got := m.Int(name); got != want {
			m.Invalid("%s is %d; pass 1 %s and 0 otherwise, here %d", name, got, when, want)
		}
	}
	flag("queryQuantMode", cache == cachePerTensor, "for a cache that is quantised with one scale (kvCacheQuantMode 1)")
	flag("ckvkrRepoMode", cache == cachePerTile, "for a cache with a scale per tile (kvCacheQuantMode 3)")
	flag("quantScaleRepoMode", cache == cachePerTile, "for a cache with a scale per tile (kvCacheQuantMode 3)")
	integers := func(t *op.Tensor, are bool, name string, mode int64) {
		want := dtype.BFloat16
		if are {
			want = dtype.Int8
		}
		if t != nil && t.DType != want {
			m.Invalid("%v: with %s %d its dtype is %v", t, name, mode, want)
		}
	}
	integers(m.x, weights == 2, "weightQuantMode", weights)
	integers(m.down, weights == 2, "weightQuantMode", weights)
	integers(m.keys, weights == 2, "weightQuantMode", weights)
	integers(m.up, weights > 0, "weightQuantMode", weights)
	integers(m.cache, cache != cachePlain, "kvCacheQuantMode", cache)
	integers(m.query, cache == cachePerTensor, "kvCacheQuantMode", cache)
	if cache == cachePerTile {
		if m.tiledCache || m.pagesOfBatch {
			m.Invalid("cacheModeOptional is %q; a cache with a scale per tile is PA_BSND, BSND or TND", m.Text("cacheModeOptional"))
		}
		if m.tile = m.Int("tileSize"); m.tile < 1 || m.absorb != nil && m.absorb.Rank() == 3 && m.absorb.Dim(2)%m.tile != 0 {
			m.Invalid("tileSize is %d; it must divide the last dimension of %v", m.tile, m.absorb)
		}
		m.clip = m.Tensor("kNopeClipAlphaOptional")
		m.DType(m.clip, dtype.Float32)
		m.Plain(m.clip)
		if m.clip != nil && m.clip.Len() != 1 {
			m.Invalid("%v must have 1 element", m.clip)
		}
	} else {
		m.NoneOf("kNopeClipAlphaOptional")
		integers(m.ropeCache, cache == cachePerChannel, "kvCacheQuantMode", cache)
	}
	m.low, m.lowScale = m.OptionalOf("queryNormOutOptional", "queryNormOut"), m.OptionalOf("dequantScaleQNormOutOptional", "dequantScaleQNormOut")
	if asked := m.low != nil; m.Has("queryNormFlag") && m.Bool("queryNormFlag") != asked {
		m.Invalid("queryNormFlag is %t; it must be true exactly when queryNormOut is given", !asked)
	}
	if want := m.low != nil && weights > 0; want != (m.lowScale != nil) {
		m.Invalid("the scales of the normed queries are given (%t) exactly when the queries are and weightQuantMode is not 0 (%t)", m.lowScale != nil, want)
	}
	if m.low != nil {
		integers(m.low, weights > 0, "weightQuantMode", weights)
		m.Plain(m.low)
	}
	if scales := m.OptionalOf("dequantScaleQNopeOutOptional", "dequantScaleQNopeOut"); (scales != nil) != (weights == 2 && cache == cachePerTensor) {
		m.Invalid("the scales of the queries are given exactly with weightQuantMode 2 and kvCacheQuantMode 1")
	}
}

// sizes derives the sizes and checks the shapes of the tensors.
func (m *latent) sizes() {
	leading := m.x.Shape[:m.x.Rank()-1]
	m.tokens, m.hidden, m.rankQ, m.rope = op.Count(leading), m.x.Dim(-1), m.gammaQ.Dim(0), m.keys.Dim(-1)
	m.batch = leading[0]
	if m.keys.Rank() == 4 { // the storage of FRACTAL_NZ
		m.rope *= m.keys.Dim(0)
	}
	m.heads, m.dim, m.key = m.absorb.Dim(0), m.absorb.Dim(1), m.absorb.Dim(2)
	m.rope -= m.key
	if m.hidden*m.rankQ*m.heads*m.dim*m.key == 0 || m.rope <= 0 || m.rope%2 != 0 {
		m.Invalid("%v, %v and %v: only the number of tokens may be 0, and the columns of %v after the keys must be pairs", m.x, m.gammaQ, m.absorb, m.keys)
		return
	}
	with := func(tail ...int64) []int64 { return append(slices.Clone(leading), tail...) }
	if m.sin != nil {
		m.Shape(m.sin, with(m.rope), "an angle for each token")
		m.Shape(m.cos, with(m.rope), "an angle for each token")
	}
	switch {
	case m.pagesOfBatch:
		m.batchPages(leading)
	case !m.appended:
		if m.Has("qcQrScale") {
			m.NoneOf("actualSeqLenOptional")
		}
		m.Shape(m.index, leading, "a place for each token")
	}
	m.Shape(m.gammaKey, []int64{m.key}, "the last dimension of weightUk")
	m.Shape(m.query, with(m.heads, m.key), "the heads and the last dimension of weightUk")
	m.Shape(m.queryRope, with(m.heads, m.rope), "the heads and the angles")
	m.weight(m.down, m.hidden, m.rankQ)
	m.weight(m.up, m.rankQ, m.heads*(m.dim+m.rope))
	m.weight(m.keys, m.hidden, m.key+m.rope)
	pages, row := m.cache.Shape[:2], m.key
	if m.appended {
		pages = leading
	}
	if m.tile > 0 {
		row += 2*m.rope + 4*(m.key/m.tile)
	}
	m.Shape(m.cache, append(slices.Clone(pages), 1, row), "pages of one head")
	if m.tile > 0 {
		if !m.cache.Contiguous() {
			m.Invalid("%v must be contiguous: a row of it has numbers of several types", m.cache)
		}
		if m.ropeCache.Len() != 0 {
			m.Invalid("%v must be empty: kvCacheRef stores the rotated keys too", m.ropeCache)
		}
		return
	}
	m.Shape(m.ropeCache, append(slices.Clone(pages), 1, m.rope), "as many pages")
	for _, t := range []*op.Tensor{m.cache, m.ropeCache} {
		if m.appended && !t.Contiguous() {
			m.Invalid("%v must be contiguous", t)
		}
		if c0 := op.DefaultC0(t.DType); m.tiledCache && (!t.Contiguous() || t.Dim(3)%c0 != 0) {
			m.Invalid("%v must be contiguous for PA_NZ, with a last dimension that is a multiple of %d", t, c0)
		}
	}
}

// batchPages checks the pages of each batch element: ceil(length / size of a page) of them.
func (m *latent) batchPages(leading []int64) {
	if len(leading) == 2 {
		m.NoneOf("actualSeqLenOptional")
		m.Shape(m.index, []int64{leading[0], (leading[1] + m.cache.Dim(1) - 1) / max(m.cache.Dim(1), 1)}, "the pages of each batch element")
		return
	}
	m.Rank(m.index, 1, 1)
	lengths := m.Tensor("actualSeqLenOptional")
	m.Plain(lengths)
	m.DType(lengths, dtype.Int32)
	m.Rank(lengths, 1, 1)
}

// weight checks a weight matrix. Its shape may be that of its FRACTAL_NZ storage.
func (m *latent) weight(t *op.Tensor, rows, cols int64) {
	if strings.HasSuffix(m.Op.Name, "WeightNz") || m.Op.Name == "MlaProlog" {
		if !op.IsNZ(t.Format) {
			m.Invalid("%v must be in FRACTAL_NZ format", t)
		}
	} else {
		m.Plain(t)
	}
	if op.IsNZ(t.Format) && t.Rank() == 4 {
		storage := op.NZShape([]int64{rows, cols}, false, op.DefaultC0(t.DType))
		m.Shape(t, storage, fmt.Sprintf("the storage of a matrix [%d,%d]", rows, cols))
		t.Shape, t.Strides, t.Storage = []int64{rows, cols}, []int64{cols, 1}, storage
	}
	m.Shape(t, []int64{rows, cols}, "that of the matrix between its factors")
	if m.Err() == nil {
		m.CheckNZ(t)
	}
}

// scales checks the scales of integer tensors.
func (m *latent) scales() {
	scale := func(name string, n int64) *op.Tensor {
		t := m.Tensor(name)
		m.Plain(t)
		m.DType(t, dtype.Float32)
		if m.Err() == nil && (t.Len() != n || !t.Contiguous()) {
			m.Invalid("%v must be contiguous, of %d elements", t, n)
		}
		return t
	}
	if m.x.DType == dtype.Int8 {
		m.SameDType(m.x, m.down, m.up, m.keys)
		m.scaleX, m.scaleDown = scale("dequantScaleXOptional", m.tokens), scale("dequantScaleWDqOptional", m.rankQ)
		m.scaleKeys = scale("dequantScaleWDkvKrOptional", m.key+m.rope)
	} else {
		m.SameDType(m.x, m.down, m.keys)
	}
	if m.up.DType == dtype.Int8 {
		m.scaleUp = scale("dequantScaleWUqQrOptional", m.heads*(m.dim+m.rope))
		if m.lowScale != nil {
			m.lowScale = scale(m.Either("dequantScaleQNormOutOptional", "dequantScaleQNormOut"), m.tokens)
		}
		if m.smooth != nil {
			m.smooth = scale("smoothScalesCqOptional", m.rankQ)
		}
	}
	if m.low != nil {
		m.Shape(m.low, append(slices.Clone(m.query.Shape[:m.query.Rank()-2]), m.rankQ), "the normed queries of each token")
		if m.Err() == nil && !m.low.Contiguous() {
			m.Invalid("%v must be contiguous", m.low)
		}
	}
	if m.cache.DType == dtype.Int8 && m.tile == 0 {
		n := m.key
		if m.Tensor("quantScaleCkvOptional").Len() == 1 {
			n = 1
		}
		m.quantCache = scale("quantScaleCkvOptional", n)
	}
	if m.ropeCache.DType == dtype.Int8 && m.tile == 0 {
		m.quantRope = scale("quantScaleCkrOptional", m.rope)
	}
	if m.query.DType == dtype.Int8 {
		if m.Op.Name == "MlaProlog" {
			m.Invalid("%v must be bfloat16; later versions give int8 with scales", m.query)
			return
		}
		m.queryScale = scale(m.Either("dequantScaleQNopeOutOptional", "dequantScaleQNopeOut"), m.tokens*m.heads)
	}
}

// product multiplies x by a weight and dequantizes the result if the weight is int8.
func (m *latent) product(out, x kernel.View, weight, columns *op.Tensor, rows kernel.View) error {
	if weight.DType != dtype.Int8 {
		return gemm.Gemm(gemm.Product{Out: out, A: x, B: weight.View(), Alpha: 1, NZ: weight.NZColumns()})
	}
	rows.Shape, rows.Strides = []int64{out.Shape[0], 1}, []int64{1, 0}
	return gemm.QuantProduct{Out: out, A: x, B: weight.View(), Scale: columns.As(out.Shape[1:], []int64{1}), Rows: rows, NZ: weight.NZColumns()}.Run()
}

// normed applies the RMS norm to rows in place and multiplies them by a factor.
func normed(x kernel.View, gamma *op.Tensor, eps, factor float64) error {
	if err := rowwise.RMSNorm(x, kernel.View{}, x, gamma.View(), eps); err != nil || factor == 1 {
		return err
	}
	return elementwise.Map(elementwise.Mul, dtype.Float32, x, []elementwise.Input{elementwise.Of(x), elementwise.Const(elementwise.Real(factor))})
}

func (m *latent) run(*op.Exec) error {
	if m.tokens == 0 {
		return nil
	}
	if err := m.queries(); err != nil {
		return err
	}
	if m.cache.Len() == 0 {
		return nil
	}
	places, err := m.places()
	if err != nil {
		return err
	}
	both, release := kernel.Temporary(m.tokens, m.key+m.rope)
	defer release()
	if err := m.product(both, m.x.View(), m.keys, m.scaleKeys, op.OptionalView(m.scaleX)); err != nil {
		return err
	}
	key := both.Narrow(1, 0, m.key)
	if err := normed(key, m.gammaKey, m.Float("rmsnormEpsilonCkv"), m.factorKey); err != nil {
		return err
	}
	rotated, releaseRotated := kernel.Temporary(m.tokens, m.rope)
	defer releaseRotated()
	if err := m.rotate(op.Divided(rotated, 1, 1), op.Divided(both.Narrow(1, m.key, m.rope), 1, 1)); err != nil {
		return err
	}
	if m.tile > 0 {
		return m.storeTiles(key, rotated, places)
	}
	if err := m.store(m.cache, key, places, m.quantCache); err != nil {
		return err
	}
	return m.store(m.ropeCache, rotated, places, m.quantRope)
}

// places returns where in the cache each token is stored; a negative place skips the token.
func (m *latent) places() ([]int64, error) {
	room := m.cache.Len() / m.cache.Dim(-1)
	places := make([]int64, m.tokens)
	switch {
	case m.appended:
		for i := range places {
			places[i] = int64(i)
		}
		return places, nil
	case m.pagesOfBatch:
		pages, err := elementwise.Indices(m.index.View())
		if err != nil {
			return nil, err
		}
		ends, err := m.ends()
		if err != nil {
			return nil, err
		}
		size, first, page := m.cache.Dim(1), int64(0), int64(0)
		for _, end := range ends {
			for i := first; i < end; i++ {
				at := page + (i-first)/size
				if at >= int64(len(pages)) {
					return nil, fmt.Errorf("%v has no page for token %d", m.index, i)
				}
				places[i] = -1
				if pages[at] >= 0 {
					places[i] = pages[at]*size + (i-first)%size
				}
			}
			page += (end - first + size - 1) / size
			first = end
		}
	default:
		var err error
		if places, err = elementwise.Indices(m.index.View()); err != nil {
			return nil, err
		}
	}
	if last := slices.Max(places); last >= room {
		return nil, fmt.Errorf("%v holds %d; the pages have %d places", m.index, last, room)
	}
	return places, nil
}

// ends returns the end of each batch element among the tokens.
func (m *latent) ends() (ends []int64, err error) {
	if t := m.Optional("actualSeqLenOptional"); t != nil {
		if ends, err = elementwise.Indices(t.View()); err != nil {
			return nil, err
		}
		if !slices.IsSorted(ends) || len(ends) == 0 || ends[0] < 0 || ends[len(ends)-1] != m.tokens {
			return nil, fmt.Errorf("%v holds %v; want cumulative lengths that end with the number of tokens, %d", t, ends, m.tokens)
		}
		return ends, nil
	}
	for i := range m.batch {
		ends = append(ends, (i+1)*m.tokens/m.batch)
	}
	return ends, nil
}

// queries computes both parts of the queries.
func (m *latent) queries() error {
	low, release := kernel.Temporary(m.tokens, m.rankQ)
	defer release()
	if err := m.product(low, m.x.View(), m.down, m.scaleDown, op.OptionalView(m.scaleX)); err != nil {
		return err
	}
	if err := normed(low, m.gammaQ, m.Float("rmsnormEpsilonCq"), m.factorQ); err != nil {
		return err
	}
	if m.low != nil && m.up.DType != dtype.Int8 {
		if err := elementwise.Copy(m.low.As(low.Shape, low.Strides), low); err != nil {
			return err
		}
	}
	rows := kernel.View{}
	if m.up.DType == dtype.Int8 {
		small, releaseSmall := kernel.TemporaryInt8(m.tokens, m.rankQ)
		defer releaseSmall()
		scales, releaseScales := kernel.Temporary(m.tokens)
		defer releaseScales()
		q := gemm.DynamicQuantizer{}
		if m.smooth != nil {
			q.Smooth = m.smooth.As([]int64{m.rankQ}, []int64{1})
		}
		if err := q.Quantize(small, scales, low); err != nil {
			return err
		}
		if m.low != nil {
			if err := elementwise.Copy(m.low.As(small.Shape, small.Strides), small); err != nil {
				return err
			}
			if err := elementwise.Copy(m.lowScale.As(scales.Shape, scales.Strides), scales); err != nil {
				return err
			}
		}
		low, rows = small, scales
	}
	width := m.dim + m.rope
	all, releaseAll := kernel.Temporary(m.tokens, m.heads*width)
	defer releaseAll()
	if err := m.product(all, low, m.up, m.scaleUp, rows); err != nil {
		return err
	}
	heads := op.Divided(all, 1, m.heads)
	rotated, releaseRotated := kernel.Temporary(m.tokens, m.heads, m.rope)
	defer releaseRotated()
	if err := m.rotate(rotated, heads.Narrow(2, m.dim, m.rope)); err != nil {
		return err
	}
	if err := elementwise.Copy(m.queryRope.View(), reshapedView(rotated, m.queryRope.Shape)); err != nil {
		return err
	}
	wide, releaseWide := kernel.Temporary(m.tokens, m.heads, m.key)
	defer releaseWide()
	if err := gemm.Gemm(gemm.Product{Out: headsLeading(wide), A: headsLeading(heads.Narrow(2, 0, m.dim)), B: m.absorb.View(), Alpha: 1}); err != nil {
		return err
	}
	if m.queryScale == nil {
		return elementwise.Copy(m.query.View(), reshapedView(wide, m.query.Shape))
	}
	shape := m.query.Shape[:m.query.Rank()-1]
	scales := m.queryScale.As(shape, op.ContiguousStrides(shape))
	if err := (gemm.DynamicQuantizer{}).Quantize(m.query.View(), scales, reshapedView(wide, m.query.Shape)); err != nil {
		return err
	}
	return m.divideRope(scales)
}

// divideRope multiplies the rotated features of the query by quantScaleCkv over the scales of its other features: attention
// adds the products of both before it applies these scales.
func (m *latent) divideRope(scales kernel.View) error {
	factor, release := kernel.Temporary(m.tokens*m.heads, 1)
	defer release()
	ckv, err := elementwise.Floats(m.quantCache.View())
	if err != nil {
		return err
	}
	of := func(v kernel.View) elementwise.Input { return elementwise.Of(v) }
	flat := kernel.View{Data: scales.Data, DType: scales.DType, Shape: factor.Shape, Strides: []int64{1, 0}}
	if err := elementwise.Map(elementwise.Div, dtype.Float32, factor, []elementwise.Input{elementwise.Const(elementwise.Real(float64(ckv[0]))), of(flat)}, elementwise.Real(1)); err != nil {
		return err
	}
	rope := m.queryRope.As([]int64{m.tokens * m.heads, m.rope}, []int64{m.rope, 1})
	return elementwise.Map(elementwise.Mul, dtype.Float32, rope, []elementwise.Input{of(rope), of(factor)}, elementwise.Real(1))
}

// rotate rotates pairs of neighbours by the angles of the tokens, and writes the first numbers of
// the pairs to the first half and the second ones to the second half. Without angles it copies.
func (m *latent) rotate(out, x kernel.View) error {
	if m.sin == nil {
		return elementwise.Copy(out, x)
	}
	return rowwise.Rotary(out, x, m.cos.View(), m.sin.View(), rowwise.RotaryInterleaveHalf)
}

// reshapedView returns a contiguous view in another shape.
func reshapedView(v kernel.View, shape []int64) kernel.View {
	return kernel.View{Data: v.Data, DType: v.DType, Shape: shape, Strides: op.ContiguousStrides(shape)}
}

// store writes rows into pages, quantised to int8 if there are factors. Rows with a negative place
// are skipped.
func (m *latent) store(cache *op.Tensor, rows kernel.View, places []int64, factors *op.Tensor) error {
	size, width, pages := cache.Dim(1), cache.Dim(-1), cache.View()
	if m.appended {
		size, pages = 1, cache.As([]int64{m.tokens, 1, 1, width}, []int64{width, width, width, 1})
	}
	for i, at := range places {
		if at < 0 {
			continue
		}
		into := pages.Select(0, at/size).Select(0, at%size).Select(0, 0)
		row := rows.Select(0, int64(i))
		if m.tiledCache {
			// A page is [columns/c0, tokens, c0].
			c0 := op.DefaultC0(cache.DType)
			tiles := cache.As([]int64{cache.Dim(0), width / c0, size, c0}, []int64{size * width, size * c0, c0, 1})
			into, row = tiles.Select(0, at/size).Select(1, at%size), op.Divided(row, 0, width/c0)
		}
		if cache.DType != dtype.Int8 {
			if err := elementwise.Copy(into, row); err != nil {
				return err
			}
			continue
		}
		factor := factors.As([]int64{factors.Len()}, []int64{1})
		if m.tiledCache && factors.Len() > 1 {
			factor = op.Divided(factor, 0, into.Shape[0])
		}
		if err := (gemm.Quantizer{Factor: factor, Round: elementwise.Round}).Quantize(into, row); err != nil {
			return err
		}
	}
	return nil
}

// storeTiles writes rows of the cache that hold all of a token: the keys in int8, clipped to clip times the largest of
// each tile, the rotated keys in bfloat16, and the float32 scale of each tile.
func (m *latent) storeTiles(key, rotated kernel.View, places []int64) error {
	clips, err := elementwise.Floats(m.clip.View())
	if err != nil {
		return err
	}
	keys, err := elementwise.Floats(key)
	if err != nil {
		return err
	}
	rotations, err := elementwise.Floats(rotated)
	if err != nil {
		return err
	}
	width := m.cache.Dim(-1)
	rows := m.cache.As([]int64{m.cache.Len() / width, width}, []int64{width, 1})
	for i, at := range places {
		if at < 0 {
			continue
		}
		row := unsafe.Slice((*byte)(rows.Select(0, at).Data), width)[:0:width]
		var scales []float32
		for tile := range slices.Chunk(keys[int64(i)*m.key:][:m.key], int(m.tile)) {
			most := float32(0)
			for _, v := range tile {
				most = max(most, max(v, -v))
			}
			most *= clips[0]
			scale := most * (1.0 / highestInt8)
			scales = append(scales, scale)
			for _, v := range tile {
				if v = min(max(v, -most), most); scale != 0 {
					v *= 1 / scale
				}
				row = append(row, byte(int8(math.RoundToEven(float64(v)))))
			}
		}
		for _, v := range rotations[int64(i)*m.rope:][:m.rope] {
			row = binary.LittleEndian.AppendUint16(row, uint16(half.BFloat16FromFloat32(v)))
		}
		for _, v := range scales {
			row = binary.LittleEndian.AppendUint32(row, math.Float32bits(v))
		}
	}
	return nil
}

// highestInt8 is the largest element that a scale of a tile gives.
const highestInt8 = 127
