package attention

import (
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// latentCaches write and read caches of keys and values.
var latentCaches = op.Table{"KvRmsNormRopeCache": kvRMSNormRope, "GatherPaKvCache": gatherPages}.Selects()

// latentPlaces are the forms of a cache in which kvRMSNormRope writes rows.
type latentPlaces struct {
	paged, blocks, tiled bool // pages; index has a place for each page and not for each token; FRACTAL_NZ within a page
}

var latentModes = map[string]latentPlaces{
	"Norm": {}, "PA": {paged: true}, "PA_BNSD": {paged: true}, "PA_NZ": {paged: true, tiled: true},
	"PA_BLK_BNSD": {paged: true, blocks: true}, "PA_BLK_NZ": {paged: true, blocks: true, tiled: true},
}

// kvRMSNormRope splits rows [B,1,S,Dv+Dk] into a part that it normalises and a part that it rotates, and writes each into a
// cache. It rotates the pairs (0,1), (2,3), … and stores first all their first numbers and then the second ones. A cache of
// int8 gets round(scale·x + offset).
func kvRMSNormRope(c *op.Call) (op.Run, error) {
	kv, gamma, cos, sin, index := c.Tensor("kv"), c.Tensor("gamma"), c.Tensor("cos"), c.Tensor("sin"), c.Tensor("index")
	ropes, latents := c.Tensor("kCacheRef"), c.Tensor("ckvCacheRef")
	places, known := latentModes[c.Text("cacheModeOptional")]
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Plain(kv, gamma, cos, sin, index, ropes, latents)
	c.DType(kv, op.HalfTypes...)
	c.SameDType(kv, gamma, cos, sin)
	c.DType(index, dtype.Int64)
	for _, t := range []*op.Tensor{ropes, latents} {
		c.DType(t, dtype.Int8, kv.DType)
	}
	if !known {
		c.Unfit("cacheMode is %q; use one of %v", c.Text("cacheModeOptional"), []string{"Norm", "PA", "PA_BNSD", "PA_NZ", "PA_BLK_BNSD", "PA_BLK_NZ"})
	}
	for _, t := range []*op.Tensor{kv, cos, sin, ropes, latents} {
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
	batch, tokens, latent, rope := kv.Dim(0), kv.Dim(2), gamma.Dim(0), cos.Dim(3)
	c.Fits(kv, []int64{batch, 1, tokens, latent + rope}, "one head, with the elements of gamma and those of cos")
	c.Fits(cos, []int64{batch, 1, cos.Dim(2), rope}, "angles of each sequence")
	c.Fits(sin, cos.Shape, "that of cos")
	if n := cos.Dim(2); n != tokens && n != 1 || rope%2 != 0 || kv.Len() == 0 {
		c.Unfit("%v and %v: want rows, an even number of angles, and angles for each token or for all", kv, cos)
	}
	for _, w := range []struct {
		cache *op.Tensor
		width int64
	}{{ropes, rope}, {latents, latent}} {
		t, line := w.cache, int64(32/w.cache.DType.Size())
		if places.paged {
			c.Fits(t, []int64{ropes.Dim(0), ropes.Dim(1), 1, w.width}, "pages [BlockNum,BlockSize,1,D]")
			if t.Dim(1)%line != 0 || t.Dim(1) == 0 {
				c.Unfit("%v: a page must have a multiple of %d rows, 32 bytes", t, line)
			}
			if places.tiled && (w.width%line != 0 || !t.Contiguous()) {
				c.Unfit("%v must be contiguous for FRACTAL_NZ, with rows of a multiple of %d elements", t, line)
			}
		} else {
			c.Fits(t, []int64{ropes.Dim(0), 1, ropes.Dim(2), w.width}, "a cache [B,1,S,D]")
		}
	}
	want := []int64{batch, tokens}
	switch {
	case places.blocks:
		want = []int64{batch * ((tokens + max(ropes.Dim(1), 1) - 1) / max(ropes.Dim(1), 1))}
	case places.paged:
		want = []int64{batch * tokens}
	case ropes.Dim(0) < batch:
		c.Unfit("%v has fewer sequences than %v", ropes, kv)
	}
	c.Fits(index, want, "a place for each token, or with PA_BLK for each page of a sequence")
	steps := [2]quantStep{readQuantStep(c, ropes, "kRopeScaleOptional", "kRopeOffsetOptional"), readQuantStep(c, latents, "cKvScaleOptional", "cKvOffsetOptional")}
	var ropeOut, latentOut *op.Tensor
	if c.Bool("isOutputKv") {
		ropeOut, latentOut = c.Tensor("kRopeOut"), c.Tensor("cKvOut")
		if c.Err() != nil {
			return nil, c.Err()
		}
		c.SameDType(kv, ropeOut, latentOut)
		c.Plain(ropeOut, latentOut)
		c.Fits(ropeOut, []int64{batch, 1, tokens, rope}, "the rotated rows")
		c.Fits(latentOut, []int64{batch, 1, tokens, latent}, "the normed rows")
	}
	eps := c.Float("epsilon")
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		rows, width := batch*tokens, latent+rope
		rotated, normed := make([]float64, rows*rope), make([]float64, rows*latent)
		if err := splitLatent(rotated, normed, [4]kernel.View{kv.View(), gamma.View(), cos.View(), sin.View()}, rows, width, tokens, eps); err != nil {
			return err
		}
		if ropeOut != nil {
			if err := elementwise.SetFloats(ropeOut.View(), rotated); err != nil {
				return err
			}
			if err := elementwise.SetFloats(latentOut.View(), normed); err != nil {
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
		}{{ropes, rotated}, {latents, normed}} {
			if err := places.write(w.cache, w.values, slots, batch, tokens, steps[i]); err != nil {
				return fmt.Errorf("%s: %w", c.Name(), err)
			}
		}
		return nil
	}, nil
}

// splitLatent computes the rotated and the normed part of each row of kv, from kv, gamma, cos and sin.
func splitLatent(rotated, normed []float64, from [4]kernel.View, rows, width, tokens int64, eps float64) error {
	var read [4][]float64
	for i, v := range from {
		var err error
		if read[i], err = elementwise.Doubles(v); err != nil {
			return err
		}
	}
	latent, rope := int64(len(read[1])), width-int64(len(read[1]))
	perSequence := from[2].Shape[2]
	for r := range rows {
		row := read[0][r*width:][:width]
		angle := (r/tokens*perSequence + r%tokens%perSequence) * rope
		for i := range rope / 2 {
			a, b, to := row[latent+2*i], row[latent+2*i+1], rotated[r*rope:][:rope]
			to[i] = float64(a*read[2][angle+i]) - float64(b*read[3][angle+i])
			to[rope/2+i] = float64(b*read[2][angle+rope/2+i]) + float64(a*read[3][angle+rope/2+i])
		}
		squares := 0.0
		for _, x := range row[:latent] {
			squares += float64(x * x)
		}
		rms := math.Sqrt(squares/float64(latent) + eps)
		for i, x := range row[:latent] {
			normed[r*latent+int64(i)] = x / rms * read[1][i]
		}
	}
	return nil
}

// quantStep is how numbers become those of an int8 cache.
type quantStep struct {
	scale, offset *op.Tensor // of 1 or all columns; offset may be nil; scale is nil for a cache of floats
}

// readQuantStep reads scale and offset of a cache, which one of floats does not have.
func readQuantStep(c *op.Call, cache *op.Tensor, scale, offset string) quantStep {
	if cache.DType != dtype.Int8 {
		c.NoneOf(scale, offset)
		return quantStep{}
	}
	q := quantStep{c.Tensor(scale), c.Optional(offset)}
	for _, t := range []*op.Tensor{q.scale, q.offset} {
		if t == nil || c.Err() != nil {
			continue
		}
		c.DType(t, dtype.Float32)
		c.Plain(t)
		if n := cache.Dim(3); !slices.Equal(t.Shape, []int64{1}) && !slices.Equal(t.Shape, []int64{n}) && !slices.Equal(t.Shape, []int64{1, n}) {
			c.Unfit("%v must have shape [1], [%d] or [1,%d]", t, n, n)
		}
	}
	return q
}

// apply quantises rows of the width of a cache in place.
func (q quantStep) apply(rows []float64, width int64) error {
	if q.scale == nil {
		return nil
	}
	scale, err := elementwise.Doubles(q.scale.View())
	if err != nil {
		return err
	}
	offset := []float64{0}
	if q.offset != nil {
		if offset, err = elementwise.Doubles(q.offset.View()); err != nil {
			return err
		}
	}
	for i := range rows {
		column := i % int(width)
		x := float64(rows[i]*scale[column%len(scale)]) + offset[column%len(offset)]
		rows[i] = max(-128, min(127, math.RoundToEven(x)))
	}
	return nil
}

// write writes rows, token by token of each sequence, where slots says. A negative slot leaves a row out.
func (p latentPlaces) write(cache *op.Tensor, rows []float64, slots []int64, batch, tokens int64, q quantStep) error {
	width := cache.Dim(3)
	if err := q.apply(rows, width); err != nil {
		return err
	}
	page := cache.Dim(1)
	for r := range batch * tokens {
		var slot int64
		switch {
		case p.blocks:
			slot = slots[r/tokens*((tokens+page-1)/page)+r%tokens/page]
			if slot >= 0 {
				slot = slot/page*page + r%tokens%page
			}
		default:
			slot = slots[r]
		}
		if slot < 0 {
			continue
		}
		var to kernel.View
		switch {
		case !p.paged && slot < cache.Dim(2):
			to = cache.View().Select(0, r/tokens).Select(0, 0).Select(0, slot)
		case p.paged && slot < cache.Dim(0)*page && p.tiled:
			line := int64(32 / cache.DType.Size())
			to = part(cache, (slot/page)*page*width+slot%page*line, []int64{width / line, line}, []int64{page * line, 1})
		case p.paged && slot < cache.Dim(0)*page:
			to = cache.View().Select(0, slot/page).Select(0, slot%page).Select(0, 0)
		default:
			return fmt.Errorf("index has %d for %v", slot, cache)
		}
		if err := elementwise.SetFloats(to, rows[r*width:][:width]); err != nil {
			return err
		}
	}
	return nil
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
			if n < 0 || first[b] < 0 || first[b]/size+(n+size-1)/size > tables.Dim(1) || at+n > outs[0].Dim(0) {
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
