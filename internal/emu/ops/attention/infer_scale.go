package attention

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/op"
)

// Modes of the scales of a cache, as CANN numbers them.
const (
	scalePerChannel = iota // one for each head and position, or one in all
	scalePerToken
	scalePerHead
	scalePerTokenHead
	scalePerTokenPaged // stored in blocks, as the cache is
	scalePerTokenHeadPaged
)

// Limits of quantised caches.
const (
	int4Dims     = 64 // features of a head of an int4 cache are a multiple of it
	separateRows = 16 // query tokens when keys and values have scales of their own
)

// cacheScale dequantises a cache: a number x becomes (x + offset) · scale.
type cacheScale struct {
	scale, offset           *op.Tensor // offset may be nil
	first                   int64      // index of the first number of these keys or values
	item, head, token, feat int64      // strides, 0 where numbers are shared; feat is that of the head dimension
	paged                   bool       // item is a block, in which tokens are counted
}

// view returns the numbers of t for tokens of an item, or of a block, as [heads, tokens, dim]. It is empty
// for an absent offset.
func (s *cacheScale) view(t *op.Tensor, item, token int64, shape []int64) kernel.View {
	if t == nil {
		return kernel.View{}
	}
	return part(t, s.first+item*s.item+token*s.token, shape, []int64{s.head, s.token, s.feat})
}

// fill sets tokens from first on of dense [heads, tokens, dim] to numbers of the cache, which are those of
// an item, or of a block if the scales are paged. Without scales the numbers are copied.
func (s *cacheScale) fill(dense, cache kernel.View, item, first int64) error {
	if s == nil {
		return elementwise.Copy(dense, cache)
	}
	return gemm.Dequantize(dense, cache, s.view(s.scale, item, first, dense.Shape), s.view(s.offset, item, first, dense.Shape), false)
}

// checkCacheType checks the element type of keys or values, which may be quantised if the operator has
// scales for them. An int32 holds eight int4.
func (a *inference) checkCacheType(c *op.Call, t *op.Tensor) {
	switch {
	case !hasNamed(c, "antiquantScale") || a.query.DType == dtype.Int8:
		c.SameDType(a.query, t)
		return
	case !hasNamed(c, "keyAntiquantScale"):
		c.DType(t, a.query.DType, dtype.Int8)
	default:
		c.DType(t, a.query.DType, dtype.Int8, dtype.Int4, dtype.Int32)
	}
	t.SplitInt32()
	c.SameDType(a.key, t)
	if (t.DType == dtype.Int4 || t.DType == dtype.Int32) && !t.Contiguous() {
		c.Invalid("%v must be contiguous: int4 elements share bytes", t)
	}
}

// readCacheScales reads the scales of a quantised cache, either one tensor for keys and values or one for
// each.
func (a *inference) readCacheScales(c *op.Call) {
	if a.latentInt8() {
		return // its scales are latentScales
	}
	quantised := a.key.DType != a.query.DType
	shared, separate := optionalNamed(c, "antiquantScale"), optionalNamed(c, "keyAntiquantScale")
	for _, name := range []string{"antiquantScale", "antiquantOffset", "keyAntiquantScale", "keyAntiquantOffset", "valueAntiquantScale", "valueAntiquantOffset"} {
		if t := optionalNamed(c, name); t != nil && !quantised {
			c.Unfit("%v is given, but the cache is of %v: only an int8 or int4 cache has scales", t, a.key.DType)
		}
	}
	if !quantised {
		return
	}
	for _, name := range []string{"AntiquantScale", "AntiquantOffset"} {
		if k, v := optionalNamed(c, "key"+name), optionalNamed(c, "value"+name); (k == nil) != (v == nil) {
			c.Unfit("key%s and value%s must be given together", name, name)
		}
	}
	switch {
	case a.layout.packed():
		c.Unfit("%v: the cache is not quantised with inputLayout TND", a.key)
	case a.dim != a.valDim:
		c.Unfit("the head dimension is %d in %v and %d in %v; it must be the same in a quantised cache", a.dim, a.key, a.valDim, a.value)
	case a.queryRope != nil:
		c.Unfit("%v: the cache is not quantised if there is queryRope", a.key)
	case separate == nil && shared == nil:
		c.Unfit("%v is quantised; it needs antiquantScale, or keyAntiquantScale and valueAntiquantScale", a.key)
	}
	a.checkInt4(c, separate != nil)
	if c.Err() != nil {
		return
	}
	if separate != nil {
		a.readSeparateScales(c)
		return
	}
	if mode := c.IntOr("antiquantMode", scalePerChannel); mode != scalePerChannel && mode != scalePerToken {
		c.Unfit("antiquantMode is %d; use 0 (per channel or tensor) or 1 (per token)", mode)
	} else if !a.incremental() && a.query.DType != dtype.Float16 {
		c.Unfit("%v must be float16 for several query tokens and antiquantScale", a.query)
	} else {
		offset := optionalNamed(c, "antiquantOffset")
		a.keyScale = a.newCacheScale(c, shared, offset, mode, 0, 2)
		a.valueScale = a.newCacheScale(c, shared, offset, mode, 1, 2)
	}
}

// checkInt4 checks what an int4 cache has to be.
func (a *inference) checkInt4(c *op.Call, separate bool) {
	if a.key.DType != dtype.Int4 {
		return
	}
	switch {
	case !a.incremental():
		c.Unfit("%v: an int4 cache takes one query token", a.key)
	case a.blocks != nil:
		c.Unfit("%v: an int4 cache has no blocks", a.key)
	case !separate:
		c.Unfit("%v: an int4 cache needs keyAntiquantScale and valueAntiquantScale", a.key)
	case a.dim%int4Dims != 0:
		c.Unfit("D should be %d elements aligned in an int4 cache; it is %d in %v", int4Dims, a.dim, a.key)
	}
}

// readSeparateScales reads the scales of a cache whose keys and values have scales of their own. The modes
// are equal, or keys have them per channel and values per token.
func (a *inference) readSeparateScales(c *op.Call) {
	keyMode, valueMode := c.Int("keyAntiquantMode"), c.Int("valueAntiquantMode")
	mixed := keyMode == scalePerChannel && valueMode == scalePerToken
	four := a.key.DType == dtype.Int4
	switch {
	case keyMode != valueMode && !mixed:
		c.Unfit("keyAntiquantMode is %d and valueAntiquantMode %d; they must be equal, or 0 and 1", keyMode, valueMode)
	case keyMode < scalePerChannel || keyMode > scalePerTokenHeadPaged:
		c.Unfit("keyAntiquantMode is %d; use 0 to 5", keyMode)
	case four && !mixed && keyMode != scalePerChannel && keyMode != scalePerToken && keyMode != scalePerTokenHead:
		c.Unfit("keyAntiquantMode is %d; use 0, 1 or 3 with an int4 cache", keyMode)
	case keyMode >= scalePerTokenPaged && a.blocks == nil:
		c.Unfit("keyAntiquantMode %d keeps scales in blocks; it needs a block table", keyMode)
	case mixed && !four && (a.query.DType != dtype.Float16 || a.out.DType != dtype.Float16):
		c.Unfit("%v and %v must be float16 for keys per channel and values per token of int8", a.query, a.out)
	case !a.incremental() && (a.rows > separateRows || keyMode != valueMode || keyMode > scalePerToken || a.blocks != nil || len(a.keys) > 1 ||
		a.query.DType != dtype.BFloat16 || a.out.DType != dtype.BFloat16):
		c.Unfit("with several query tokens, up to %d, keyAntiquantScale needs bfloat16, equal modes 0 or 1, one key tensor and no blocks: %v, %v, modes %d and %d",
			separateRows, a.query, a.out, keyMode, valueMode)
	}
	if c.Err() != nil {
		return
	}
	a.keyScale = a.newCacheScale(c, optionalNamed(c, "keyAntiquantScale"), optionalNamed(c, "keyAntiquantOffset"), keyMode, 0, 1)
	a.valueScale = a.newCacheScale(c, optionalNamed(c, "valueAntiquantScale"), optionalNamed(c, "valueAntiquantOffset"), valueMode, 0, 1)
}

// newCacheScale checks scales and offsets. parts is 2 if they are those of keys and values, and which then
// distinguishes 1 for values from 0 for keys.
func (a *inference) newCacheScale(c *op.Call, scale, offset *op.Tensor, mode, which, parts int64) *cacheScale {
	if c.Rank(scale, 1, 4); c.Err() != nil {
		return nil
	}
	s := &cacheScale{scale: c.Contiguous(scale)}
	n, dim, shape := a.keyHeads, a.dim, scale.Shape
	if mode == scalePerChannel || mode == scalePerHead {
		a.sameForScale(c, scale, a.query.DType)
	} else {
		a.sameForScale(c, scale, dtype.Float32)
	}
	fits := func(forms ...[]int64) {
		if !slices.ContainsFunc(forms, func(f []int64) bool { return slices.Equal(f, shape) }) {
			c.Unfit("%v has the wrong shape for antiquantisation mode %d; it can be %v", scale, mode, forms)
		}
	}
	last := scale.Dim(-1)
	switch tokens := max(last, a.cols); {
	case mode == scalePerChannel && len(shape) == 1:
		fits([]int64{parts})
		s.first = which
	case mode == scalePerChannel:
		fits([]int64{parts, n, 1, dim}, []int64{parts, 1, n, dim}, []int64{parts, n, dim}, []int64{parts, n * dim})
		s.first, s.head, s.feat = which*n*dim, dim, 1
	case mode == scalePerToken && parts == 1:
		fits([]int64{1, a.batch, tokens}, []int64{a.batch, tokens})
		s.item, s.token = last, 1
	case mode == scalePerToken:
		fits([]int64{parts, a.batch, tokens})
		s.first, s.item, s.token = which*a.batch*last, last, 1
	case mode == scalePerHead:
		fits([]int64{n})
		s.head = 1
	case mode == scalePerTokenHead:
		fits([]int64{a.batch, n, tokens})
		s.item, s.head, s.token = n*last, last, 1
	case mode == scalePerTokenPaged:
		fits([]int64{a.key.Dim(0), a.blockSize})
		s.item, s.token, s.paged = last, 1, true
	default:
		fits([]int64{a.key.Dim(0), n, a.blockSize})
		s.item, s.head, s.token, s.paged = n*last, last, 1, true
	}
	if offset != nil {
		a.sameForScale(c, offset, scale.DType)
		if !slices.Equal(offset.Shape, shape) {
			c.Unfit("%v must have the shape of %v", offset, scale)
		}
		s.offset = c.Contiguous(offset)
	}
	return s
}

// sameForScale checks the type of a scale or an offset.
func (a *inference) sameForScale(c *op.Call, t *op.Tensor, d dtype.Type) {
	c.Plain(t)
	if t.DType != d {
		c.Unfit("%v must be %v", t, d)
	}
}
