package attention

import (
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/fractal"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/half"
)

// quantLatents lists the operators that prepare the queries and keys of attention with a latent cache by int8 products. They accept sizes beyond
// those that the device's kernels support.
var quantLatents = op.Table{"MlaPreprocess": mlaPreprocess, "MlaPreprocessV2": mlaPreprocess}.Selects().Omits()

// The columns of the first product are those of a key, normalised and rotated, and then those of the low-rank query.
const quantLatentKey, quantLatentRope = 512, 64

// The modes of the cache of mlaPreprocess.
const (
	cacheJoined      = iota // the rotated numbers follow the others
	cacheSplit              // they have a tensor of their own, of queries too
	cacheInt8NZ             // as cacheSplit, but the other numbers are quantised, in FRACTAL_NZ
	quantLatentModes = 4    // the last one is cacheSplit in FRACTAL_NZ
)

// latentFactor is a step of mlaPreprocess: numbers are normalised, quantised and multiplied by an int8 weight.
type latentFactor struct {
	gamma, beta, scale, offset *op.Tensor
	weight, descale, bias      *op.Tensor
	rows, columns              int64
}

// quantLatent is a call of mlaPreprocess.
type quantLatent struct {
	*op.Call
	x, gammaKey, cos, sin, absorb, slots    *op.Tensor
	factors                                 [2]latentFactor
	keyScale, queryScale                    *op.Tensor
	query, cache, queryRope, ropeCache, low *op.Tensor // results; queryRope and ropeCache are nil for cacheJoined, low unless asked for
	mode, tokens, heads, dim                int64
	eps                                     float64
	normalises                              bool
}

// mlaPreprocess normalises and quantises tokens, multiplies them by an int8 weight whose first columns make a key for the cache, makes
// queries of the others by a second norm and product, and multiplies the queries by the key's weight of each head.
func mlaPreprocess(c *op.Call) (op.Run, error) {
	m := &quantLatent{
		Call: c, x: c.Tensor("input"), gammaKey: c.Tensor("gamma2"), cos: c.Optional("cos"), sin: c.Optional("sin"), absorb: c.Tensor("wuk"), slots: c.Tensor("slotMapping"),
		mode: c.Int("cacheMode"), eps: c.Float("epsilon"), normalises: c.Bool("doRmsNorm"), query: c.Tensor("qOutOut"), cache: c.Tensor("kvCacheOutOut"),
	}
	for i := range m.factors {
		name := func(name string) *op.Tensor { return c.Tensor(fmt.Sprintf("%s%d", name, i)) }
		m.factors[i] = latentFactor{
			gamma: name("gamma"), beta: name("beta"), scale: name("quantScale"), offset: name("quantOffset"),
			weight: c.Tensor([]string{"wdqkv", "wuq"}[i]), descale: name("descale"), bias: name("bias"),
		}
	}
	before := c.Tensor("kvCache")
	if (m.cos == nil) != (m.sin == nil) {
		c.Fail(op.NullPointer, "cos is %v and sin %v; both must be given, or neither, for tokens that are not rotated", m.cos, m.sin)
	}
	if m.mode != cacheJoined {
		m.queryRope, m.ropeCache = c.Tensor("qRopeOutOut"), c.Tensor("krCacheOutOut")
	}
	ropeBefore := c.Optional("kvCacheRope")
	if m.mode == cacheInt8NZ {
		m.keyScale, m.queryScale = c.Tensor("ctkvScale"), c.Tensor("qNopeScale")
	}
	if c.Has("qDownOutFlag") && c.Bool("qDownOutFlag") {
		m.low = c.Tensor("qDownOutOut")
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	m.checkModes()
	c.Plain(m.x, m.gammaKey, m.absorb, m.slots, m.query)
	c.DType(m.x, op.HalfTypes...)
	c.SameDType(m.x, m.gammaKey, m.absorb)
	c.DType(m.slots, dtype.Int32)
	for _, t := range []*op.Tensor{m.cos, m.sin, m.keyScale, m.queryScale, m.queryRope, m.low} {
		if t != nil {
			c.Plain(t)
			c.SameDType(m.x, t)
		}
	}
	c.Rank(m.x, 2, 2)
	c.Rank(m.absorb, 3, 3)
	if c.Err() != nil {
		return nil, c.Err()
	}
	m.checkSizes()
	if c.Err() == nil {
		m.checkCache(m.cache, before, m.mode == cacheInt8NZ, quantLatentKey)
		if m.ropeCache != nil {
			m.checkCache(m.ropeCache, ropeBefore, false, quantLatentRope)
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return m.run, nil
}

// checkModes refuses attributes of which the kernel has one value alone.
func (m *quantLatent) checkModes() {
	if m.mode < 0 || m.mode >= quantLatentModes {
		m.Invalid("cacheMode is %d; use 0 to 3", m.mode)
	}
	if n := m.Int("quantMode"); n != 0 {
		m.Invalid("quantMode is %d; CANN implements 0 alone, one scale and offset for all tokens", n)
	}
	for _, a := range []struct {
		name string
		want int64
	}{{"qRopeDim", quantLatentRope}, {"kRopeDim", quantLatentRope}, {"qRotaryCoeff", 2}, {"kRotaryCoeff", 2}, {"wdkvSplitCount", 1}} {
		if n := m.Int(a.name); n != a.want {
			m.Invalid("%s is %d; only %d is supported", a.name, n, a.want)
		}
	}
	for _, name := range []string{"transeposeWdq", "transeposeWuq", "transeposeWuk"} {
		if !m.Bool(name) {
			m.Invalid("%s is false; only true is supported", name)
		}
	}
	if n := m.Int("wdqDim"); n <= 0 {
		m.Invalid("wdqDim is %d; it is the width of the low-rank query, which wdqkv decides", n)
	}
}

func (m *quantLatent) checkSizes() {
	m.tokens, m.heads, m.dim = m.x.Dim(0), m.absorb.Dim(0), m.absorb.Dim(1)
	rank := m.factors[0].descale.Len() - quantLatentKey - quantLatentRope
	if m.factors[0].descale.Rank() != 1 || rank < 32 || rank > 4096 || rank%32 != 0 {
		m.Unfit("%v must have 576 numbers for the key and then 32 to 4096 for the low-rank query, a multiple of 32", m.factors[0].descale)
		return
	}
	if m.heads < 1 || m.heads > 128 || m.dim < 16 || m.dim > 256 || m.dim%16 != 0 || m.absorb.Dim(2) != quantLatentKey {
		m.Unfit("%v must have 1 to 128 heads, 16 to 256 rows, a multiple of 16, and %d columns", m.absorb, quantLatentKey)
		return
	}
	hidden := m.x.Dim(1)
	m.factors[0].rows, m.factors[0].columns = hidden, quantLatentKey+quantLatentRope+rank
	m.factors[1].rows, m.factors[1].columns = rank, m.heads*(m.dim+quantLatentRope)
	for i := range m.factors {
		m.checkFactor(&m.factors[i])
	}
	m.Shape(m.gammaKey, []int64{quantLatentKey}, "one for each column of a key")
	m.Shape(m.slots, []int64{m.tokens}, "a slot for each token")
	for _, t := range []*op.Tensor{m.cos, m.sin} {
		if t != nil {
			m.Fits(t, []int64{m.tokens, quantLatentRope}, "an angle for each rotated number of each token")
		}
	}
	width := int64(quantLatentKey)
	if m.mode == cacheJoined {
		width += quantLatentRope
	}
	if m.mode == cacheInt8NZ {
		m.DType(m.query, dtype.Int8)
		m.Shape(m.keyScale, []int64{1}, "a scale for all keys")
		m.Shape(m.queryScale, []int64{m.heads}, "a scale for each head")
	} else {
		m.SameDType(m.x, m.query)
	}
	m.Shape(m.query, []int64{m.tokens, m.heads, width}, "the queries")
	if m.queryRope != nil {
		m.Shape(m.queryRope, []int64{m.tokens, m.heads, quantLatentRope}, "the rotated numbers of the queries")
	}
	if m.low != nil {
		m.Shape(m.low, []int64{m.tokens, rank}, "the low-rank queries")
	}
	if m.Tiled() && (hidden < 2048 || hidden > 10240 || hidden%256 != 0 || m.tokens > 256) {
		m.Unfit("%v must have up to 256 tokens of 2048 to 10240 numbers, a multiple of 256", m.x)
	}
}

func (m *quantLatent) checkFactor(f *latentFactor) {
	m.Plain(f.gamma, f.beta, f.scale, f.offset, f.descale, f.bias)
	m.SameDType(m.x, f.gamma, f.beta, f.scale)
	m.DType(f.offset, dtype.Int8)
	m.DType(f.bias, dtype.Int32)
	descale := dtype.Float32
	if m.x.DType == dtype.Float16 {
		descale = dtype.Int64
	}
	m.DType(f.descale, descale)
	if f.weight.DType != dtype.Int8 {
		m.Invalid("%v must be int8; CANN does not implement the products of floating-point numbers", f.weight)
	}
	m.Shape(f.gamma, []int64{f.rows}, "one for each column that is normalised")
	m.Shape(f.beta, []int64{f.rows}, "one for each column that is normalised")
	m.Shape(f.scale, []int64{1}, "one number")
	m.Shape(f.offset, []int64{1}, "one number")
	m.Shape(f.descale, []int64{f.columns}, "one for each column of the product")
	if f.bias.Len() > 0 {
		m.Shape(f.bias, []int64{f.columns}, "one for each column of the product, or none")
	}
	if !op.IsNZ(f.weight.Format) {
		m.Invalid("%v must be in FRACTAL_NZ format", f.weight)
		return
	}
	shape := []int64{f.columns, f.rows}
	if f.weight.Rank() == 4 { // the program gave the shape of the storage
		storage := op.NZShape(shape, false, op.DefaultC0(dtype.Int8))
		m.Shape(f.weight, storage, fmt.Sprintf("the storage of a matrix %s", op.Dims(shape)))
		f.weight.Shape, f.weight.Strides, f.weight.Storage = shape, op.ContiguousStrides(shape), storage
	}
	if m.Shape(f.weight, shape, "the transposed matrix"); m.Err() == nil && f.weight.Swapped() {
		m.Invalid("%v must be dense", f.weight)
	}
	if m.Err() == nil {
		m.CheckNZ(f.weight)
	}
}

// checkCache checks a cache of pages against the tensor that the program gave as its content before the call. Its first dimension may
// have gaps.
func (m *quantLatent) checkCache(t, before *op.Tensor, quantised bool, width int64) {
	for _, t := range []*op.Tensor{t, before} {
		if t == nil {
			continue
		}
		if op.IsNZ(t.Format) && slices.Equal(t.Shape, t.Storage) {
			t.Format = dtype.ND // the dimensions are those of the storage
		}
		m.Plain(t)
		m.Rank(t, 4, 4)
		if m.Err() != nil {
			return
		}
		if quantised {
			m.DType(t, dtype.Int8)
		} else {
			m.SameDType(m.x, t)
		}
		want := []int64{t.Dim(0), t.Dim(1), 1, width}
		switch {
		case m.mode == cacheJoined:
			want[3] = quantLatentKey + quantLatentRope
		case m.mode != cacheSplit:
			tile := op.DefaultC0(t.DType)
			want = []int64{t.Dim(0), width / tile, t.Dim(2), tile}
		}
		m.Shape(t, want, "pages of rows of the cache")
		page := *t
		page.Shape, page.Strides = t.Shape[1:], t.Strides[1:]
		if !page.Contiguous() {
			m.Unfit("%v may have gaps between its pages alone", t)
		}
	}
	if before == nil {
		m.Fail(op.NullPointer, "kvCacheRope is null; it must be the tensor of %v", t)
		return
	}
	m.Same(t, before)
}

// roundedTo rounds a number to the element type of the call, in which intermediate results are stored.
func (m *quantLatent) roundedTo(v float64) float64 {
	if m.x.DType == dtype.Float16 {
		return halfOf(v)
	}
	return float64(half.BFloat16FromFloat64(v).Float32())
}

// halfOf rounds to float16, from which the device converts to int8.
func halfOf(v float64) float64 { return float64(half.Float16FromFloat64(v).Float32()) }

func toInt8(v float64) float64 { return max(-128, min(127, math.RoundToEven(halfOf(v)))) }

// latentNumbers are the numbers of a latentFactor.
type latentNumbers struct{ gamma, beta, scale, offset, weight, descale, bias []float64 }

func (f *latentFactor) read() (n latentNumbers, err error) {
	columns := f.descale.View()
	if columns.DType == dtype.Int64 { // float32 in the low half
		columns.DType, columns.Strides = dtype.Float32, []int64{2 * columns.Strides[0]}
	}
	dense, release := kernel.TemporaryInt8(f.columns, f.rows)
	defer release()
	if err := fractal.Unpack(dense, f.weight.Data, f.weight.NZColumns()); err != nil {
		return n, err
	}
	for _, r := range []struct {
		to   *[]float64
		from kernel.View
	}{{&n.gamma, f.gamma.View()}, {&n.beta, f.beta.View()}, {&n.scale, f.scale.View()}, {&n.offset, f.offset.View()}, {&n.weight, dense}, {&n.descale, columns}, {&n.bias, f.bias.View()}} {
		if *r.to, err = elementwise.Doubles(r.from); err != nil {
			return n, err
		}
	}
	if len(n.bias) == 0 {
		n.bias = make([]float64, f.columns)
	}
	return n, nil
}

// normalised returns the normalised numbers of a row, plus beta.
func (n *latentNumbers) normalised(row []float64, eps float64) []float64 {
	normed := normedRow(row, n.gamma, eps)
	for i := range normed {
		normed[i] += n.beta[i]
	}
	return normed
}

// product quantises a row, multiplies it by the weight and dequantises the sums.
func (n *latentNumbers) product(row []float64, rounded func(float64) float64) []float64 {
	small, out := make([]float64, len(row)), make([]float64, len(n.descale))
	for i, v := range row {
		small[i] = toInt8(float64(v/n.scale[0]) + n.offset[0])
	}
	for j := range out {
		out[j] = rounded((dotted(small, n.weight[j*len(row):][:len(row)]) + n.bias[j]) * n.descale[j])
	}
	return out
}

func (m *quantLatent) run(*op.Exec) error {
	v, err := read(m.x, m.gammaKey, m.cos, m.sin, m.absorb, m.keyScale, m.queryScale)
	if err != nil {
		return err
	}
	slots, err := elementwise.Indices(m.slots.View())
	if err != nil {
		return err
	}
	var numbers [2]latentNumbers
	for i := range m.factors {
		if numbers[i], err = m.factors[i].read(); err != nil {
			return err
		}
	}
	turn := func(token int64, row []float64) []float64 {
		if m.cos == nil {
			return row
		}
		return halfTurn(row, v[2][token*quantLatentRope:][:quantLatentRope], v[3][token*quantLatentRope:][:quantLatentRope])
	}
	var query, queryRope, low []float64
	hidden := m.x.Dim(1)
	for token := range m.tokens {
		row := v[0][token*hidden:][:hidden]
		if m.normalises {
			row = numbers[0].normalised(row, m.eps)
		}
		down := numbers[0].product(row, m.roundedTo)
		key := normedRow(down[:quantLatentKey], v[1], m.eps)
		if m.mode == cacheInt8NZ {
			for i := range key {
				key[i] = toInt8(key[i] / v[5][0])
			}
		}
		if err := m.store(slots[token], key, turn(token, down[quantLatentKey:][:quantLatentRope])); err != nil {
			return err
		}
		narrow := numbers[1].normalised(down[quantLatentKey+quantLatentRope:], m.eps)
		low = append(low, narrow...)
		up := numbers[1].product(narrow, m.roundedTo)
		for h := range m.heads {
			head := up[h*(m.dim+quantLatentRope):][:m.dim+quantLatentRope]
			absorbed := make([]float64, quantLatentKey)
			for i, q := range head[:m.dim] {
				addTimes(absorbed, v[4][(h*m.dim+int64(i))*quantLatentKey:][:quantLatentKey], q)
			}
			for i := range absorbed {
				if absorbed[i] = m.roundedTo(absorbed[i]); m.mode == cacheInt8NZ {
					absorbed[i] = toInt8(absorbed[i] * v[6][h])
				}
			}
			query = append(query, absorbed...)
			if rotated := turn(token, head[m.dim:]); m.mode == cacheJoined {
				query = append(query, rotated...)
			} else {
				queryRope = append(queryRope, rotated...)
			}
		}
	}
	return write([][]float64{query, queryRope, low}, m.query, m.queryRope, m.low)
}

// store writes a key and its rotated numbers into the caches. Slot −1 leaves the token out.
func (m *quantLatent) store(slot int64, key, rotated []float64) error {
	if slot == -1 {
		return nil
	}
	put := func(t *op.Tensor, row []float64) error {
		axis, size := 0, t.Dim(1)
		if m.mode > cacheSplit {
			axis, size = 1, t.Dim(2)
		}
		if slot < 0 || slot >= t.Dim(0)*size {
			return fmt.Errorf("%s: slotMapping has %d for %v", m.Name(), slot, t)
		}
		return elementwise.SetFloats(t.View().Select(0, slot/size).Select(axis, slot%size), row)
	}
	if m.mode == cacheJoined {
		return put(m.cache, append(slices.Clone(key), rotated...))
	}
	if err := put(m.cache, key); err != nil {
		return err
	}
	return put(m.ropeCache, rotated)
}
