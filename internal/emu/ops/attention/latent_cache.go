package attention

import (
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// latentCaches write and read caches of keys and values.
var latentCaches = op.Table{
	"KvRmsNormRopeCache": kvRMSNormRope, "KvRmsNormRopeCacheV2": kvRMSNormRope, "QkvRmsNormRopeCache": qkvRMSNormRope, "GatherPaKvCache": gatherPages,
}.Selects()

// latentPlaces are the forms of a cache in which kvRMSNormRope writes rows.
type latentPlaces struct {
	paged, blocks, tiled bool // pages; index has a place for each page and not for each token; FRACTAL_NZ within a page
}

var latentModes = map[string]latentPlaces{
	"Norm": {}, "PA": {paged: true}, "PA_BNSD": {paged: true}, "PA_NZ": {paged: true, tiled: true},
	"PA_BLK_BNSD": {paged: true, blocks: true}, "PA_BLK_NZ": {paged: true, blocks: true, tiled: true},
}

// kvRMSNormRope writes keys and values of tokens into a cache each. Of latent rows [B,1,S,Dv+Dk] it normalises the first part, the
// values, and rotates the second, the keys. With vOptional, kv [B,N,S,Dk] are keys, which it normalises and of which it then
// rotates the first columns, and vOptional are the values as they are. It rotates the pairs (0,1), (2,3), … and stores first
// all their first numbers and then the second ones. A cache of int8 gets round(scale·x + offset).
func kvRMSNormRope(c *op.Call) (op.Run, error) {
	kv, gamma, cos, sin, index := c.Tensor("kv"), c.Tensor("gamma"), c.Tensor("cos"), c.Tensor("sin"), c.Tensor("index")
	keys, values := c.Tensor("kCacheRef"), c.Tensor("ckvCacheRef")
	places, known := latentModes[c.Text("cacheModeOptional")]
	var separate *op.Tensor
	if c.Has("vOptional") {
		separate = c.Optional("vOptional")
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Plain(kv, gamma, cos, sin, index, keys, values)
	c.DType(kv, op.HalfTypes...)
	c.SameDType(kv, gamma, cos, sin)
	c.DType(index, dtype.Int64)
	for _, t := range []*op.Tensor{keys, values} {
		c.DType(t, dtype.Int8, kv.DType)
	}
	if !known {
		c.Unfit("cacheMode is %q; use one of %v", c.Text("cacheModeOptional"), []string{"Norm", "PA", "PA_BNSD", "PA_NZ", "PA_BLK_BNSD", "PA_BLK_NZ"})
	}
	four := []*op.Tensor{kv, cos, sin, keys, values}
	if separate != nil {
		c.Plain(separate)
		c.SameDType(kv, separate)
		four = append(four, separate)
	}
	for _, t := range four {
		if t.Rank() != 4 {
			c.Unfit("%v must have 4 dimensions", t)
		}
	}
	if gamma.Rank() != 1 {
		c.Unfit("%v must have 1 dimension", gamma)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	r := latentSizes{batch: kv.Dim(0), heads: kv.Dim(1), tokens: kv.Dim(2), normed: gamma.Dim(0), rope: cos.Dim(3)}
	if separate == nil {
		r.heads, r.keyWidth, r.valueWidth = 1, r.rope, r.normed
		c.Fits(kv, []int64{r.batch, 1, r.tokens, r.normed + r.rope}, "one head, with the elements of gamma and those of cos")
	} else {
		r.keyWidth, r.valueWidth = kv.Dim(3), separate.Dim(3)
		c.Fits(separate, []int64{r.batch, r.heads, r.tokens, 128}, "a value of 128 for each key")
		if r.keyWidth != 192 || r.normed != 192 || r.rope != 64 || !slices.Contains([]int64{1, 2, 4, 8}, r.heads) {
			c.Unfit("%v, %v and %v: with vOptional there are 1, 2, 4 or 8 heads, 192 elements of a key and of gamma, and 64 angles", kv, gamma, cos)
		}
	}
	c.Fits(cos, []int64{r.batch, r.heads, cos.Dim(2), r.rope}, "angles of each sequence and head")
	c.Fits(sin, cos.Shape, "that of cos")
	if n := cos.Dim(2); n != r.tokens && n != 1 || r.rope%2 != 0 || kv.Len() == 0 {
		c.Unfit("%v and %v: want rows, an even number of angles, and angles for each token or for all", kv, cos)
	}
	for _, w := range []struct {
		cache *op.Tensor
		width int64
	}{{keys, r.keyWidth}, {values, r.valueWidth}} {
		t, line := w.cache, int64(32/w.cache.DType.Size())
		if places.paged {
			c.Fits(t, []int64{keys.Dim(0), keys.Dim(1), r.heads, w.width}, "pages [BlockNum,BlockSize,N,D]")
			if t.Dim(1)%line != 0 || t.Dim(1) == 0 {
				c.Unfit("%v: a page must have a multiple of %d rows, 32 bytes", t, line)
			}
			if places.tiled && (w.width%line != 0 || !t.Contiguous()) {
				c.Unfit("%v must be contiguous for FRACTAL_NZ, with rows of a multiple of %d elements", t, line)
			}
		} else {
			c.Fits(t, []int64{keys.Dim(0), r.heads, keys.Dim(2), w.width}, "a cache [B,N,S,D]")
		}
	}
	want := []int64{r.batch, r.tokens}
	switch {
	case places.blocks:
		want = []int64{r.batch * ((r.tokens + max(keys.Dim(1), 1) - 1) / max(keys.Dim(1), 1))}
	case places.paged:
		want = []int64{r.batch * r.tokens}
	case keys.Dim(0) < r.batch:
		c.Unfit("%v has fewer sequences than %v", keys, kv)
	}
	c.Fits(index, want, "a place for each token, or with PA_BLK for each page of a sequence")
	shapes := func(width int64) [][]int64 {
		switch {
		case separate != nil:
			return [][]int64{{r.heads, width}}
		case c.Chip() != acceptance.Ascend950:
			return [][]int64{{width}, {1, width}}
		}
		return [][]int64{{1}, {width}, {1, width}}
	}
	steps := [2]quantStep{
		readQuantStep(c, keys, "kRopeScaleOptional", "kRopeOffsetOptional", shapes(r.keyWidth)...),
		readQuantStep(c, values, "cKvScaleOptional", "cKvOffsetOptional", shapes(r.valueWidth)...),
	}
	if separate == nil && c.Chip() != acceptance.Ascend950 {
		r.checkLatent(c, places, steps)
	}
	var keyOut, valueOut *op.Tensor
	// Without pages, only quantised keys and values of separate tensors are returned too.
	if c.Bool("isOutputKv") && (places.paged || separate != nil && (steps[0].scale != nil || steps[1].scale != nil)) {
		keyOut, valueOut = c.Tensor("kRopeOut"), c.Tensor("cKvOut")
		if c.Err() != nil {
			return nil, c.Err()
		}
		c.SameDType(kv, keyOut, valueOut)
		c.Plain(keyOut, valueOut)
		c.Fits(keyOut, []int64{r.batch, r.heads, r.tokens, r.keyWidth}, "the rotated rows")
		c.Fits(valueOut, []int64{r.batch, r.heads, r.tokens, r.valueWidth}, "the normed rows, or those of vOptional")
	}
	eps := c.Float("epsilon")
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		key, value, err := r.compute([4]kernel.View{kv.View(), gamma.View(), cos.View(), sin.View()}, op.OptionalView(separate), eps)
		if err != nil {
			return err
		}
		if keyOut != nil {
			if err := elementwise.SetFloats(keyOut.View(), key); err != nil {
				return err
			}
			if err := elementwise.SetFloats(valueOut.View(), value); err != nil {
				return err
			}
		}
		slots, err := elementwise.Indices(index.View())
		if err != nil {
			return err
		}
		for i, w := range []struct {
			cache  *op.Tensor
			values []float64
			width  int64
		}{{keys, key, r.keyWidth}, {values, value, r.valueWidth}} {
			rows := cacheRows{values: w.values, batch: r.batch, heads: r.heads, tokens: r.tokens, width: w.width, page: w.cache.Dim(1), step: steps[i]}
			if err := places.write(w.cache, rows, slots); err != nil {
				return fmt.Errorf("%s: %w", c.Name(), err)
			}
		}
		return nil
	}, nil
}

// latentSizes are the sizes of a call of kvRMSNormRope.
type latentSizes struct {
	batch, heads, tokens int64
	normed, rope         int64 // columns that are normalised, and rotated
	keyWidth, valueWidth int64
}

// checkLatent refuses what the tiling of the 910B refuses of latent rows, and offsets, which its kernels do not add to them.
func (r latentSizes) checkLatent(c *op.Call, places latentPlaces, steps [2]quantStep) {
	if c.Tiled() && (r.normed != 512 || r.rope != 64) {
		c.Unfit("gamma has %d elements and cos rows of %d; on this chip they must have 512 and 64", r.normed, r.rope)
	}
	key, value := steps[0].scale, steps[1].scale
	if !places.paged && (key != nil || value != nil) {
		c.Unfit("caches of int8 need pages on this chip; use another cacheMode than Norm")
	}
	if key != nil && value != nil && key.Rank() != value.Rank() {
		c.Unfit("%v and %v must have the same number of dimensions", key, value)
	}
	for _, s := range steps {
		if s.offset != nil {
			c.Unfit("%v: kernels of this chip leave the offset of latent rows out; pass none", s.offset)
		}
	}
}

// compute returns keys and values, [batch, heads, tokens, width], from kv, gamma, cos and sin, and separate values if there are any.
func (r latentSizes) compute(from [4]kernel.View, separate kernel.View, eps float64) (key, value []float64, err error) {
	var read [4][]float64
	for i, v := range from {
		if read[i], err = elementwise.Doubles(v); err != nil {
			return nil, nil, err
		}
	}
	if separate.Data != nil {
		if value, err = elementwise.Doubles(separate); err != nil {
			return nil, nil, err
		}
	}
	rows, width, angles := r.batch*r.heads*r.tokens, from[0].Shape[3], from[2].Shape[2]
	for n := range rows {
		row := read[0][n*width:][:width]
		angle := (n/r.tokens*angles + n%r.tokens%angles) * r.rope
		cos, sin := read[2][angle:][:r.rope], read[3][angle:][:r.rope]
		normed := normedRow(row[:r.normed], read[1], eps)
		if separate.Data == nil {
			value = append(value, normed...)
			key = append(key, interleavedTurn(row[r.normed:], cos, sin)...)
			continue
		}
		key = append(key, interleavedTurn(normed[:r.rope], cos, sin)...)
		key = append(key, normed[r.rope:]...)
	}
	return key, value, nil
}

// normedRow returns x divided by its root mean square, times gamma.
func normedRow(x, gamma []float64, eps float64) []float64 {
	rms, normed := math.Sqrt(dotted(x, x)/float64(len(x))+eps), make([]float64, len(x))
	for i, v := range x {
		normed[i] = v / rms * gamma[i]
	}
	return normed
}

// interleavedTurn rotates the pairs (0,1), (2,3), … and returns all their first numbers, then the second ones.
func interleavedTurn(x, cos, sin []float64) []float64 {
	half, turned := len(x)/2, make([]float64, len(x))
	for i := range half {
		a, b := x[2*i], x[2*i+1]
		turned[i] = float64(a*cos[i]) - float64(b*sin[i])
		turned[half+i] = float64(b*cos[half+i]) + float64(a*sin[half+i])
	}
	return turned
}

// halfTurn rotates the pairs of number i of the first half and number i of the second one.
func halfTurn(x, cos, sin []float64) []float64 {
	half, turned := len(x)/2, make([]float64, len(x))
	for i := range half {
		a, b := x[i], x[half+i]
		turned[i] = float64(a*cos[i]) - float64(b*sin[i])
		turned[half+i] = float64(b*cos[half+i]) + float64(a*sin[half+i])
	}
	return turned
}

// quantStep is how numbers become those of an int8 cache.
type quantStep struct {
	scale, offset *op.Tensor // offset may be nil; scale is nil for a cache of floats
	divide        bool       // by scale, in place of multiplying
}

// readQuantStep reads scale and offset of a cache, of one of the shapes. A cache of floats does not have them.
func readQuantStep(c *op.Call, cache *op.Tensor, scale, offset string, shapes ...[]int64) quantStep {
	if cache.DType != dtype.Int8 {
		c.NoneOf(scale, offset)
		return quantStep{}
	}
	q := quantStep{scale: c.Tensor(scale), offset: c.Optional(offset)}
	for _, t := range []*op.Tensor{q.scale, q.offset} {
		if t == nil || c.Err() != nil {
			continue
		}
		c.DType(t, dtype.Float32)
		c.Plain(t)
		if !slices.ContainsFunc(shapes, func(s []int64) bool { return slices.Equal(s, t.Shape) }) {
			c.Unfit("%v must have a shape of %v", t, shapes)
		}
	}
	return q
}

// quantiser returns a function that quantises row of a head in place.
func (q quantStep) quantiser() (func(row []float64, head int64), error) {
	if q.scale == nil {
		return func([]float64, int64) {}, nil
	}
	scale, err := elementwise.Doubles(q.scale.View())
	if err != nil {
		return nil, err
	}
	offset := []float64{0}
	if q.offset != nil {
		if offset, err = elementwise.Doubles(q.offset.View()); err != nil {
			return nil, err
		}
	}
	return func(row []float64, head int64) {
		for i, x := range row {
			column := int(head)*len(row) + i
			if s := scale[column%len(scale)]; q.divide {
				x /= s
			} else {
				x *= s
			}
			row[i] = max(-128, min(127, math.RoundToEven(float64(x)+offset[column%len(offset)])))
		}
	}, nil
}

// cacheRows are rows for a cache.
type cacheRows struct {
	values               []float64 // [batch, heads, tokens, width]
	batch, heads, tokens int64
	width, page          int64 // page is the number of tokens of a page
	step                 quantStep
}

// write writes the rows of each token where slots says. A negative slot leaves a token out.
func (p latentPlaces) write(cache *op.Tensor, r cacheRows, slots []int64) error {
	quantise, err := r.step.quantiser()
	if err != nil {
		return err
	}
	for n := range r.batch * r.heads * r.tokens {
		b, head, token := n/r.tokens/r.heads, n/r.tokens%r.heads, n%r.tokens
		var slot int64
		switch {
		case p.blocks:
			slot = slots[b*((r.tokens+r.page-1)/r.page)+token/r.page]
			if slot >= 0 {
				slot = slot/r.page*r.page + token%r.page
			}
		default:
			slot = slots[b*r.tokens+token]
		}
		if slot < 0 {
			continue
		}
		var to kernel.View
		switch {
		case !p.paged && slot < cache.Dim(2):
			to = cache.View().Select(0, b).Select(0, head).Select(0, slot)
		case p.paged && slot < cache.Dim(0)*r.page && p.tiled:
			line := int64(32 / cache.DType.Size())
			first := (slot/r.page*r.heads+head)*r.page*r.width + slot%r.page*line
			to = part(cache, first, []int64{r.width / line, line}, []int64{r.page * line, 1})
		case p.paged && slot < cache.Dim(0)*r.page:
			to = cache.View().Select(0, slot/r.page).Select(0, slot%r.page).Select(0, head)
		default:
			return fmt.Errorf("index has %d for %v", slot, cache)
		}
		row := r.values[n*r.width:][:r.width]
		quantise(row, head)
		if err := elementwise.SetFloats(to, row); err != nil {
			return err
		}
	}
	return nil
}

// qkvRMSNormRope splits rows into the heads of queries, keys and values, normalises and rotates queries and keys, and writes
// keys and values into caches in pages of FRACTAL_NZ. A cache of int8 gets round(x/scale + offset).
func qkvRMSNormRope(c *op.Call) (op.Run, error) {
	qkv, cos, sin, index := c.Tensor("qkv"), c.Tensor("cos"), c.Tensor("sin"), c.Tensor("index")
	gammas := []*op.Tensor{c.Tensor("qGamma"), c.Tensor("kGamma")}
	queries, caches := c.Tensor("qOut"), []*op.Tensor{c.Tensor("kCache"), c.Tensor("vCache")}
	sizes, heads := c.RequiredInts("qkvSize"), c.RequiredInts("headNums")
	before := []*op.Tensor{c.Optional("qOutBeforeQuant"), c.Optional("kOutBeforeQuant"), c.Optional("vOutBeforeQuant")}
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Plain(append(append([]*op.Tensor{qkv, cos, sin, index, queries}, gammas...), caches...)...)
	c.DType(qkv, op.HalfTypes...)
	c.SameDType(qkv, append(gammas, cos, sin, queries)...)
	c.DType(index, dtype.Int64)
	for _, t := range caches {
		c.DType(t, dtype.Int8, qkv.DType)
	}
	if mode := c.Text("cacheModeOptional"); mode != "PA_NZ" {
		c.Unfit("cacheMode is %q; only PA_NZ is supported", mode)
	}
	const width = 128
	if len(sizes) != 4 || slices.Min(sizes) < 1 || sizes[3] != width {
		c.Unfit("qkvSize is %s; it must be [B,S,N,%d], above 0", op.Dims(sizes), width)
	}
	if len(heads) != 3 || slices.Min(heads) < 1 || c.Err() == nil && op.Total(heads) != sizes[2] || heads[1] != heads[2] || heads[0]%heads[1] != 0 {
		c.Unfit("headNums is %s; it must be [Nq,Nk,Nv] with the sum of qkvSize %s, as many keys as values, and a multiple of them of queries", op.Dims(heads), op.Dims(sizes))
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	batch, tokens := sizes[0], sizes[1]
	rows := batch * tokens
	c.Fits(qkv, []int64{rows, sizes[2] * width}, "the sizes of qkvSize")
	for _, t := range gammas {
		c.Fits(t, []int64{width}, "one for each element of a head")
	}
	if cos.Rank() != 2 || cos.Dim(1) != width || cos.Dim(0) != rows && cos.Dim(0) != batch {
		c.Unfit("%v must be [%d,%d], or have a row for each sequence", cos, rows, width)
	}
	c.Fits(sin, cos.Shape, "that of cos")
	c.Fits(index, []int64{rows}, "a place for each token")
	c.Fits(queries, []int64{rows, heads[0] * width}, "the queries of qkv")
	var steps [2]quantStep
	for i, t := range caches {
		line := int64(32 / t.DType.Size())
		if t.Rank() != 4 || t.Dim(0) != caches[0].Dim(0) || t.Dim(2) != caches[0].Dim(2) {
			c.Unfit("%v must be [BlockNum,Nk·%d/%d,BlockSize,%d], with the pages of %v", t, width, line, line, caches[0])
			break
		}
		size := t.Dim(2)
		c.Fits(t, []int64{t.Dim(0), heads[1] * width / line, size, line}, "pages of FRACTAL_NZ")
		if size%32 != 0 || size == 0 || t.Dim(0) < batch*((tokens+size-1)/size) || !t.Contiguous() {
			c.Unfit("%v must be contiguous, with pages of a multiple of 32 tokens, and room for %d sequences of %d", t, batch, tokens)
		}
		names := [2][2]string{{"kScaleOptional", "kOffsetOptional"}, {"vScaleOptional", "vOffsetOptional"}}[i]
		steps[i] = readQuantStep(c, t, names[0], names[1], []int64{heads[1], width})
		steps[i].divide = true
	}
	if before[0] != nil && c.Err() == nil {
		for i, t := range before {
			if t == nil {
				c.Fail(op.NullPointer, "qOutBeforeQuant is given; kOutBeforeQuant and vOutBeforeQuant must be too")
				break
			}
			c.Plain(t)
			c.SameDType(qkv, t)
			c.Fits(t, []int64{rows, heads[i] * width}, "the heads of qkv")
		}
	}
	eps := c.Float("epsilon")
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		var read [5][]float64
		for i, t := range []*op.Tensor{qkv, cos, sin, gammas[0], gammas[1]} {
			var err error
			if read[i], err = elementwise.Doubles(t.View()); err != nil {
				return err
			}
		}
		slots, err := elementwise.Indices(index.View())
		if err != nil {
			return err
		}
		first := int64(0)
		for part, n := range heads {
			flat, cached := make([]float64, rows*n*width), make([]float64, rows*n*width) // [B,S,N,D] and [B,N,S,D]
			for r := range rows {
				angle := r / (rows / cos.Dim(0)) * width
				for h := range n {
					x := read[0][(r*sizes[2]+first+h)*width:][:width]
					if part < 2 {
						x = halfTurn(normedRow(x, read[3+part], eps), read[1][angle:][:width], read[2][angle:][:width])
					}
					copy(flat[(r*n+h)*width:], x)
					copy(cached[((r/tokens*n+h)*tokens+r%tokens)*width:], x)
				}
			}
			first += n
			if before[0] != nil {
				if err := elementwise.SetFloats(before[part].View(), flat); err != nil {
					return err
				}
			}
			if part == 0 {
				if err := elementwise.SetFloats(queries.View(), flat); err != nil {
					return err
				}
				continue
			}
			cache := caches[part-1]
			r := cacheRows{values: cached, batch: batch, heads: n, tokens: tokens, width: width, page: cache.Dim(2), step: steps[part-1]}
			if err := (latentPlaces{paged: true, tiled: true}).write(cache, r, slots); err != nil {
				return fmt.Errorf("%s: %w", c.Name(), err)
			}
		}
		return nil
	}, nil
}

// gatherPages copies the tokens of sequences from a paged cache into packed keys and values. The pages of sequence b are
// those of row b of blockTables, from seqOffset[b] / blockSize on.
func gatherPages(c *op.Call) (op.Run, error) {
	caches := []*op.Tensor{c.Tensor("keyCache"), c.Tensor("valueCache")}
	tables, lengths, offsets := c.Tensor("blockTables"), c.Tensor("seqLens"), c.Optional("seqOffsetOptional")
	outs := []*op.Tensor{c.Tensor("keyRef"), c.Tensor("valueRef")}
	mode, sums := c.Text("cacheMode"), c.Bool("isSeqLensCumsum")
	if c.Err() != nil {
		return nil, c.Err()
	}
	if mode != "Norm" && mode != "PA_NZ" {
		c.Invalid("cacheMode is %q; use Norm or PA_NZ", mode)
	}
	for i, t := range caches {
		c.DType(t, dtype.Int8, dtype.Float16, dtype.BFloat16)
		c.SameDType(t, outs[i])
		c.Rank(t, 4, 4)
		if mode == "Norm" {
			c.Plain(t)
			c.Rank(outs[i], 3, 3)
		} else {
			c.Rank(outs[i], 2, 2)
		}
		c.Plain(outs[i])
	}
	c.SameDType(caches[0], caches[1])
	for _, t := range []*op.Tensor{tables, lengths, offsets} {
		if t != nil {
			c.Plain(t)
			c.DType(t, dtype.Int32)
		}
	}
	c.Rank(tables, 2, 2)
	c.Rank(lengths, 1, 1)
	if c.Err() != nil {
		return nil, c.Err()
	}
	batch := tables.Dim(0)
	entries := batch
	if sums {
		entries++
	}
	c.Shape(lengths, []int64{entries}, "the length of each sequence, or their sums from 0 on")
	if offsets != nil {
		c.Shape(offsets, []int64{batch}, "one for each sequence")
	}
	row := 1 // the dimension of a cache that counts tokens of a page
	if mode == "PA_NZ" {
		row = 2
	}
	for i, t := range caches {
		if mode == "PA_NZ" {
			line := int64(32 / t.DType.Size())
			if t.Dim(3) != line || !t.Contiguous() {
				c.Invalid("%v must be contiguous, with a last dimension of %d: 32 bytes", t, line)
			}
			c.Shape(outs[i], []int64{outs[0].Dim(0), t.Dim(1) * t.Dim(3)}, "tokens of all heads")
		} else {
			c.Shape(outs[i], []int64{outs[0].Dim(0), t.Dim(2), t.Dim(3)}, "tokens of the heads of the cache")
		}
		if t.Dim(0) != caches[0].Dim(0) || t.Dim(row) != caches[0].Dim(row) || t.Dim(row) == 0 {
			c.Invalid("%v and %v must have as many pages, of as many tokens", caches[0], caches[1])
		}
	}
	if batch == 0 || tables.Dim(1) == 0 {
		c.Invalid("%v must have sequences and pages", tables)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	size := caches[0].Dim(row)
	return func(*op.Exec) error {
		pages, err := elementwise.Indices(tables.View())
		if err != nil {
			return err
		}
		counts, err := elementwise.Indices(lengths.View())
		if err != nil {
			return err
		}
		first := make([]int64, batch)
		if offsets != nil {
			if first, err = elementwise.Indices(offsets.View()); err != nil {
				return err
			}
		}
		at := int64(0)
		for b := range batch {
			n := counts[b]
			if sums {
				n = counts[b+1] - counts[b]
			}
			if n < 0 || n > outs[0].Dim(0)-at || first[b] < 0 || first[b]/size > tables.Dim(1)-(n+size-1)/size {
				return fmt.Errorf("%s: sequence %d has %d tokens from %d on, for %v and %v", c.Name(), b, n, first[b], tables, outs[0])
			}
			for done := int64(0); done < n; done += size {
				page := pages[b*tables.Dim(1)+first[b]/size+done/size]
				if page < 0 || page >= caches[0].Dim(0) {
					return fmt.Errorf("%s: blockTables has %d for %v", c.Name(), page, caches[0])
				}
				some := min(size, n-done)
				for i, t := range caches {
					from, to := t.View().Select(0, page), outs[i].View().Narrow(0, at+done, some)
					if mode == "PA_NZ" {
						from = from.Permuted([]int{1, 0, 2})
						to.Shape, to.Strides = []int64{some, t.Dim(1), t.Dim(3)}, []int64{to.Strides[0], t.Dim(3) * to.Strides[1], to.Strides[1]}
					}
					if err := elementwise.Copy(to, from.Narrow(0, 0, some)); err != nil {
						return err
					}
				}
			}
			at += n
		}
		return nil
	}, nil
}
