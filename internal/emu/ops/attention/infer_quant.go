package attention

import (
	"fmt"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	attentionkernel "github.com/goascend/cann/internal/emu/kernel/attention"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/op"
)

// readOutScale reads the scale and the offset of an int8 result.
func (a *inference) readOutScale(c *op.Call) {
	scale, offset := optionalNamed(c, "quantScale2"), optionalNamed(c, "quantOffset2")
	if a.out.DType != dtype.Int8 {
		if scale != nil || offset != nil {
			c.Unfit("quantScale2 or quantOffset2 is given; the result is %v, not int8", a.out)
		}
		return
	}
	width := a.heads * a.valDim
	switch {
	case scale == nil:
		c.Unfit("%v needs quantScale2", a.out)
		return
	case scale.DType != dtype.Float32 && (scale.DType != dtype.BFloat16 || a.query.DType != dtype.BFloat16):
		c.Unfit("%v must be float32, or bfloat16 like the query", scale)
	case scale.Len() != 1 && scale.Len() != width:
		c.Unfit("%v must have one element, or one for each of %d heads and %d positions", scale, a.heads, a.valDim)
	case offset != nil && (offset.DType != scale.DType || offset.Len() != scale.Len()):
		c.Unfit("%v must have the dtype and the size of %v", offset, scale)
	case a.layout.packed() || a.queryRope != nil:
		c.Unfit("%v: the result is not quantised with inputLayout TND or queryRope", a.out)
	case a.key.DType == dtype.Int4:
		c.Unfit("%v: the result of an int4 cache is not quantised", a.out)
	case !a.incremental() && scale.Len() != 1 && a.valDim%int8Dims != 0:
		c.Unfit("D should be %d elements aligned with a quantScale2 for each position; it is %d", int8Dims, a.valDim)
	case !a.incremental() && a.mask.mode == sparseBand && (a.mask.pre < 0 || a.mask.next < 0):
		c.Unfit("preTokens %d and nextTokens %d must not be negative with sparseMode 4 and %v", a.mask.pre, a.mask.next, a.out)
	case offset != nil && a.leavesRows():
		c.Unfit("the mask hides all keys from some queries; %v has no quantOffset2 then", a.out)
	}
	c.Plain(scale)
	a.outScale = c.Contiguous(scale)
	if offset != nil {
		c.Plain(offset)
		a.outOffset = c.Contiguous(offset)
	}
}

// leavesRows reports whether the window leaves out query tokens, which then have no result to quantise.
func (a *inference) leavesRows() bool {
	m := a.mask
	for _, it := range a.items {
		more := it.rows - it.cols
		switch {
		case a.incremental():
		case m.mode == sparseDense && m.tensor != nil && (more > m.pre || m.next < 0),
			m.mode == sparseRight && more > 0,
			m.mode == sparseBand && more > m.next:
			return true
		}
	}
	return false
}

// unpacked returns the call with int8 tensors in place of int4 ones. release frees them.
func (a *inference) unpacked() (b *inference, release func(), err error) {
	if a.key.DType != dtype.Int4 {
		return a, func() {}, nil
	}
	var held []func()
	release = func() {
		for _, free := range held {
			free()
		}
	}
	widen := func(list []*op.Tensor) (wide []*op.Tensor) {
		for _, t := range list {
			v, free := kernel.TemporaryInt8(t.Shape...)
			held = append(held, free)
			if err == nil && t.Len() > 0 {
				err = gemm.UnpackInt4(v, t.Data)
			}
			whole := *t
			whole.DType, whole.Data = v.DType, v.Data
			wide = append(wide, &whole)
		}
		return wide
	}
	call := *a
	call.keys, call.values = widen(a.keys), widen(a.values)
	call.key, call.value = call.keys[0], call.values[0]
	return &call, release, err
}

// runQuantised computes the sequences one after the other, since each needs memory for the float32 numbers
// of its tokens.
func (a *inference) runQuantised(table []int64) error {
	a, release, err := a.unpacked()
	defer release()
	for _, it := range a.items {
		if err == nil && it.rows > 0 && it.cols > 0 {
			err = a.inferQuantised(a.inferItem(it, table), it.batch)
		}
	}
	if err != nil {
		return fmt.Errorf("attention: %w", err)
	}
	return nil
}

// inferQuantised computes an item in float32, and quantises or rounds the result.
func (a *inference) inferQuantised(k attentionkernel.Inference, item int64) error {
	var held []func()
	defer func() {
		for _, free := range held {
			free()
		}
	}()
	temporary := func(shape ...int64) kernel.View {
		v, free := kernel.Temporary(shape...)
		held = append(held, free)
		return v
	}
	for _, v := range []*kernel.View{&k.Query, &k.Bias} {
		if v.Data == nil {
			continue
		}
		wide := temporary(v.Shape...)
		if err := elementwise.Copy(wide, *v); err != nil {
			return err
		}
		*v = wide
	}
	for _, cache := range []struct {
		view  *kernel.View
		scale *cacheScale
		dim   int64
	}{{&k.Key, a.keyScale, a.dim}, {&k.Value, a.valueScale, a.valDim}} {
		dense := temporary(a.keyHeads, k.Tokens, cache.dim)
		if err := cache.scale.gather(dense, *cache.view, item, k.Pages); err != nil {
			return err
		}
		*cache.view = dense
	}
	out := k.Out
	k.Pages, k.Out = nil, temporary(out.Shape...)
	if err := attentionkernel.Infer([]attentionkernel.Inference{k}); err != nil {
		return err
	}
	if a.outScale == nil {
		return elementwise.Copy(out, k.Out)
	}
	q := gemm.Quantizer{Factor: a.perPosition(a.outScale), Round: elementwise.Round}
	if a.outOffset != nil {
		q.Offset = a.perPosition(a.outOffset)
	}
	return q.Quantize(out, k.Out)
}

// gather sets dense [heads, tokens, dim] to the numbers of a sequence: those of cache, which has the same
// shape, or those of the named pages of a cache [blocks, heads, tokens of a block, dim].
func (s *cacheScale) gather(dense, cache kernel.View, item int64, pages []int64) error {
	if pages == nil {
		return s.fill(dense, cache, item, 0)
	}
	tokens, size := dense.Shape[1], cache.Shape[2]
	pages, err := attentionkernel.UsedPages(pages, tokens, cache)
	if err != nil {
		return err
	}
	for i, page := range pages {
		first := int64(i) * size
		n := min(size, tokens-first)
		at, from := item, first
		if s != nil && s.paged {
			at, from = page, 0
		}
		if err := s.fill(dense.Narrow(1, first, n), cache.Select(0, page).Narrow(1, 0, n), at, from); err != nil {
			return err
		}
	}
	return nil
}

// perPosition views a scale of the result as one that broadcasts to [heads, tokens, dim].
func (a *inference) perPosition(t *op.Tensor) kernel.View {
	if t.Len() == 1 {
		return t.As([]int64{1, 1, 1}, []int64{0, 0, 0})
	}
	return t.As([]int64{a.heads, 1, a.valDim}, []int64{a.valDim, 0, 1})
}
