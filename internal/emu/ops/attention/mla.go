package attention

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// latentAttentions prepare the queries and keys of attention with a latent cache. They accept sizes
// beyond those that the device's kernels support.
var latentAttentions = op.Table{"MlaProlog": mlaProlog, "MlaPrologV2": mlaProlog, "MlaPrologV2WeightNz": mlaProlog, "MlaPrologV3": mlaProlog, "MlaPrologV3WeightNz": mlaProlog}.Selects()

// latent is one call. It maps tokens of width hidden to queries via rankQ numbers, and to rows of
// two caches: one with rankKey numbers, one with rope rotated numbers.
type latent struct {
	*op.Call
	x, sin, cos, index                           *op.Tensor
	down, up, absorb, keys                       *op.Tensor // weights
	gammaQ, gammaKey                             *op.Tensor
	cache, ropeCache                             *op.Tensor
	scaleX, scaleDown, scaleUp, scaleKeys        *op.Tensor // dequantization scales
	quantCache, quantRope, smooth                *op.Tensor
	query, queryRope, queryScale                 *op.Tensor
	tokens, hidden, rankQ, heads, dim, rope, key int64
	tiledCache                                   bool
	factorQ, factorKey                           float64
}

func mlaProlog(c *op.Call) (op.Run, error) {
	m := &latent{
		Call: c, x: c.Tensor("tokenX"), sin: c.Tensor("ropeSin"), cos: c.Tensor("ropeCos"), index: c.Tensor(c.Either("cacheIndex", "cacheIndexOptional")),
		down: c.Tensor("weightDq"), up: c.Tensor("weightUqQr"), absorb: c.Tensor("weightUk"), keys: c.Tensor("weightDkvKr"), gammaQ: c.Tensor("rmsnormGammaCq"), gammaKey: c.Tensor("rmsnormGammaCkv"),
		cache: c.Tensor("kvCacheRef"), ropeCache: c.Tensor("krCacheRef"), quantCache: c.Optional("quantScaleCkvOptional"), quantRope: c.Optional("quantScaleCkrOptional"), smooth: c.Optional("smoothScalesCqOptional"),
		query: c.Tensor("queryOut"), queryRope: c.Tensor("queryRopeOut"), factorQ: 1, factorKey: 1,
	}
	switch mode := c.Text("cacheModeOptional"); mode {
	case "PA_NZ":
		m.tiledCache = true
	case "", "PA_BSND":
	default:
		c.Invalid("cacheModeOptional is %q; use PA_BSND or PA_NZ", mode)
	}
	if c.Has("qcQrScale") {
		m.reserved()
	}
	bf16 := []*op.Tensor{m.absorb, m.gammaQ, m.gammaKey, m.sin, m.cos, m.queryRope}
	c.Plain(append(bf16, m.x, m.index, m.cache, m.ropeCache, m.query)...)
	for _, t := range bf16 {
		c.DType(t, dtype.BFloat16)
	}
	for _, t := range []*op.Tensor{m.x, m.down, m.up, m.keys, m.cache, m.ropeCache, m.query} {
		c.DType(t, dtype.BFloat16, dtype.Int8)
	}
	c.DType(m.index, dtype.Int64)
	c.Rank(m.x, 2, 3)
	c.Rank(m.absorb, 3, 3)
	c.Rank(m.gammaQ, 1, 1)
	c.Rank(m.cache, 4, 4)
	c.Rank(m.sin, m.x.Rank(), m.x.Rank())
	if c.Err() != nil {
		return nil, c.Err()
	}
	m.sizes()
	m.scales()
	if c.Err() != nil {
		return nil, c.Err()
	}
	m.x, m.index = c.Reshaped(c.Contiguous(m.x), m.tokens, m.hidden), c.Reshaped(c.Contiguous(m.index), m.tokens)
	m.sin, m.cos = c.Reshaped(c.Contiguous(m.sin), m.tokens, 1, m.rope), c.Reshaped(c.Contiguous(m.cos), m.tokens, 1, m.rope)
	return m.run, nil
}

// reserved reads the additional arguments of the third version, most of which are reserved.
func (m *latent) reserved() {
	m.factorQ, m.factorKey = m.Float("qcQrScale"), m.Float("kcScale")
	m.NoneOf("actualSeqLenOptional")
	for _, name := range []string{"weightQuantMode", "kvCacheQuantMode", "queryQuantMode", "ckvkrRepoMode", "quantScaleRepoMode"} {
		if mode := m.Int(name); mode != 0 {
			m.Invalid("%s is %d; it is reserved, pass 0", name, mode)
		}
	}
	if m.Bool("queryNormFlag") {
		m.Invalid("queryNormFlag is true; it is reserved, pass false")
	}
}

// sizes derives the sizes and checks the shapes of the tensors.
func (m *latent) sizes() {
	leading := m.x.Shape[:m.x.Rank()-1]
	m.tokens, m.hidden, m.rankQ, m.rope = op.Count(leading), m.x.Dim(-1), m.gammaQ.Dim(0), m.sin.Dim(-1)
	m.heads, m.dim, m.key = m.absorb.Dim(0), m.absorb.Dim(1), m.absorb.Dim(2)
	if m.hidden*m.rankQ*m.heads*m.dim*m.key*m.rope == 0 || m.rope%2 != 0 {
		m.Invalid("%v, %v, %v and %v: only the number of tokens may be 0, and %v must have pairs", m.x, m.gammaQ, m.absorb, m.sin, m.sin)
		return
	}
	with := func(tail ...int64) []int64 { return append(slices.Clone(leading), tail...) }
	m.Shape(m.sin, with(m.rope), "an angle for each token")
	m.Shape(m.cos, with(m.rope), "an angle for each token")
	m.Shape(m.index, leading, "a place for each token")
	m.Shape(m.gammaKey, []int64{m.key}, "the last dimension of weightUk")
	m.Shape(m.query, with(m.heads, m.key), "the heads and the last dimension of weightUk")
	m.Shape(m.queryRope, with(m.heads, m.rope), "the heads and the angles")
	m.weight(m.down, m.hidden, m.rankQ)
	m.weight(m.up, m.rankQ, m.heads*(m.dim+m.rope))
	m.weight(m.keys, m.hidden, m.key+m.rope)
	m.Shape(m.cache, []int64{m.cache.Dim(0), m.cache.Dim(1), 1, m.key}, "pages of one head")
	m.Shape(m.ropeCache, []int64{m.cache.Dim(0), m.cache.Dim(1), 1, m.rope}, "as many pages")
	for _, t := range []*op.Tensor{m.cache, m.ropeCache} {
		if c0 := op.DefaultC0(t.DType); m.tiledCache && (!t.Contiguous() || t.Dim(3)%c0 != 0) {
			m.Invalid("%v must be contiguous for PA_NZ, with a last dimension that is a multiple of %d", t, c0)
		}
	}
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
		if m.smooth != nil {
			m.smooth = scale("smoothScalesCqOptional", m.rankQ)
		}
	}
	if m.cache.DType == dtype.Int8 {
		if m.quantCache = m.Tensor("quantScaleCkvOptional"); m.quantCache.Len() != 1 {
			m.quantCache = scale("quantScaleCkvOptional", m.key)
		}
	}
	if m.ropeCache.DType == dtype.Int8 {
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
	places, err := elementwise.Indices(m.index.View())
	if err != nil || m.cache.Len() == 0 {
		return err
	}
	room := m.cache.Dim(0) * m.cache.Dim(1)
	if last := slices.Max(places); last >= room {
		return fmt.Errorf("%v holds %d; the pages have %d places", m.index, last, room)
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
	if err := m.store(m.cache, key, places, m.quantCache); err != nil {
		return err
	}
	return m.store(m.ropeCache, rotated, places, m.quantRope)
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
	return gemm.DynamicQuantizer{}.Quantize(m.query.View(), m.queryScale.As(shape, op.ContiguousStrides(shape)), reshapedView(wide, m.query.Shape))
}

// rotate rotates pairs of neighbours by the angles of the tokens, and writes the first numbers of
// the pairs to the first half and the second ones to the second half.
func (m *latent) rotate(out, x kernel.View) error {
	return rowwise.Rotary(out, x, m.cos.View(), m.sin.View(), rowwise.RotaryInterleaveHalf)
}

// reshapedView returns a contiguous view in another shape.
func reshapedView(v kernel.View, shape []int64) kernel.View {
	return kernel.View{Data: v.Data, DType: v.DType, Shape: shape, Strides: op.ContiguousStrides(shape)}
}

// store writes rows into pages, quantised to int8 if there are factors. Rows with a negative place
// are skipped.
func (m *latent) store(cache *op.Tensor, rows kernel.View, places []int64, factors *op.Tensor) error {
	size, width := cache.Dim(1), cache.Dim(3)
	for i, at := range places {
		if at < 0 {
			continue
		}
		into := cache.View().Select(0, at/size).Select(0, at%size).Select(0, 0)
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
