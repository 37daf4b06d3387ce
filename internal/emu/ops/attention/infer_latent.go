package attention

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	attentionkernel "github.com/goascend/cann/internal/emu/kernel/attention"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// tiled reports whether the cache is [blocks, heads, D/C0, tokens of a block, C0], with 32 bytes of C0 elements.
func (a *inference) tiled() bool { return a.blocks != nil && a.key.Rank() == 5 }

// checkTiles checks the shape of a tiled cache, which only one key head for all query heads has.
func (a *inference) checkTiles(c *op.Call, t *op.Tensor, dim int64) {
	c0 := op.DefaultC0(t.DType)
	switch want := []int64{t.Dim(0), a.keyHeads, dim / c0, a.blockSize, c0}; {
	case !slices.Equal(t.Shape, want) || a.key.Rank() != a.value.Rank():
		c.Unfit("%v must be [blocks, numKeyValueHeads, D/%d, blockSize, %d] with blockSize %d and %d heads, keys and values alike", t, c0, c0, a.blockSize, a.keyHeads)
	case a.queryRope == nil:
		c.Unfit("%v: without queryRope the emulator computes caches [blocks, blockSize, numKeyValueHeads*D] and [blocks, numKeyValueHeads, blockSize, D] only", t)
	}
}

// gatherTiles gives an item the keys, values and rotated features that its blocks hold. release frees their memory.
func (a *inference) gatherTiles(k *attentionkernel.Inference) (release func(), err error) {
	var held []func()
	release = func() {
		for _, free := range held {
			free()
		}
	}
	for _, p := range []struct {
		to  *kernel.View
		t   *op.Tensor
		dim int64
	}{{&k.Key, a.key, a.dim}, {&k.Value, a.value, a.valDim}, {&k.KeyRope, a.keyRope, a.ropeDim}} {
		dense, free := kernel.TemporaryOf(p.t.DType, a.keyHeads, k.Tokens, p.dim)
		held = append(held, free)
		*p.to = dense
		pages, err := attentionkernel.UsedPages(k.Pages, k.Tokens, kernel.View{Shape: []int64{p.t.Dim(0), a.keyHeads, a.blockSize, p.dim}})
		if err != nil {
			return release, err
		}
		for i, page := range pages {
			first := int64(i) * a.blockSize
			n, s := min(a.blockSize, k.Tokens-first), p.t.Strides
			tiles := part(p.t, page*s[0], []int64{a.keyHeads, n, p.t.Dim(2), p.t.Dim(4)}, []int64{s[1], s[3], s[2], s[4]})
			if err := elementwise.Copy(op.Divided(dense.Narrow(1, first, n), 2, p.t.Dim(2)), tiles); err != nil {
				return release, err
			}
		}
	}
	k.Pages = nil
	return release, nil
}

// latentScales are the scales of a query, keys and values in int8, where all query heads share a key head whose rotated
// features lie apart in bfloat16: one for each token and head of the query, one for all keys and one for all values.
type latentScales struct{ query, key, value *op.Tensor }

// latentInt8 reports whether the query is int8 and has rotated features apart.
func (a *inference) latentInt8() bool { return a.query.DType == dtype.Int8 && a.queryRope != nil }

// Values of the quantisation modes that an int8 query takes with rotated features apart.
const queryPerTokenHead = 3

// readLatentScales reads dequantScaleQuery and what belongs to it.
func (a *inference) readLatentScales(c *op.Call) {
	scale := optionalNamed(c, "dequantScaleQuery")
	switch {
	case a.latentInt8() && !hasNamed(c, "dequantScaleQuery"):
		c.Unfit("%v: %s takes no int8 query with queryRope; FusedInferAttentionScoreV4 does", a.query, c.Name())
		return
	case !a.latentInt8() && scale != nil:
		c.Unfit("when the dtype of query is not int8, or there is no queryRope, the query's dequant scale should be null: %v is given, and the query is %v", scale, a.query)
		return
	case !a.latentInt8():
		if mode := c.IntOr("queryQuantMode", 0); mode != 0 {
			c.Unfit("queryQuantMode is %d; only an int8 query with queryRope has a mode", mode)
		}
		return
	}
	s := &latentScales{scale, optionalNamed(c, "keyAntiquantScale"), optionalNamed(c, "valueAntiquantScale")}
	for _, name := range []string{"deqScale1", "quantScale1", "deqScale2", "quantScale2", "quantOffset2", "antiquantScale", "antiquantOffset", "keyAntiquantOffset", "valueAntiquantOffset"} {
		if t := optionalNamed(c, name); t != nil {
			c.Unfit("when the dtype of query is int8 in MLA, %s should be null: it is %v", name, t)
		}
	}
	switch {
	case s.query == nil || s.key == nil || s.value == nil:
		c.Unfit("%v with queryRope needs dequantScaleQuery, keyAntiquantScale and valueAntiquantScale", a.query)
	case !a.tiled():
		c.Unfit("when the dtype of query is int8 in MLA, PageAttention should be enabled and KV layout must be NZ: blockTable, and a cache [blocks, 1, D/32, 128, 32], not %v", a.key)
	case a.layout.name == "BNSD":
		c.Unfit("when the dtype of query is int8 in MLA, layout BNSD is not supported; use BSH, BSND or TND")
	case c.Int("queryQuantMode") != queryPerTokenHead:
		c.Unfit("when the dtype of query is int8, the query's quant mode should be %d: queryQuantMode is %d", queryPerTokenHead, c.Int("queryQuantMode"))
	case c.Int("keyAntiquantMode") != scalePerChannel || c.Int("valueAntiquantMode") != scalePerChannel:
		c.Unfit("when the dtype of query is int8, the key's quant mode and the value's quant mode should be 0: they are %d and %d", c.Int("keyAntiquantMode"), c.Int("valueAntiquantMode"))
	case c.Int("antiquantMode") != 0:
		c.Unfit("antiquantMode is %d; it must be 0 with an int8 query", c.Int("antiquantMode"))
	case a.bias != nil:
		c.Unfit("%v: there is no pseShift with queryRope and D of %d", a.bias, latentDims)
	case !a.layout.packed() && a.rows == 1 && (a.mask.mode != sparseDense || a.mask.tensor != nil):
		c.Unfit("when queryS = 1, sparseMode(%d) only support 0 without attenMask in MLA when full quant situation", a.mask.mode)
	case !a.layout.packed() && a.rows > 1 && a.mask.mode != sparseRight, a.layout.packed() && a.mask.mode == sparseBand:
		c.Unfit("sparseMode is %d; several int8 query tokens of a sequence take 3 with an attenMask (the emulator does not compute trees, sparseMode 9)", a.mask.mode)
	}
	if c.Err() != nil {
		return
	}
	want := a.query.Shape[:a.query.Rank()-1]
	if !a.layout.heads {
		want = append(slices.Clone(want), a.heads)
	}
	for _, p := range []struct {
		t    *op.Tensor
		want []int64
	}{{s.query, want}, {s.key, []int64{1}}, {s.value, []int64{1}}} {
		c.Plain(p.t)
		if p.t.DType != dtype.Float32 || !slices.Equal(p.t.Shape, p.want) {
			c.Unfit("%v must be float32 %s when the dtype of query is int8", p.t, op.Dims(p.want))
		}
	}
	a.latentScales = s
}

// Steps of the kernel of a 910B for an int8 query with rotated features apart.
const (
	latentKeys   = 512           // whose probabilities are quantised together
	leastMost    = 0x1p-52       // is added to the largest probability, so that it is not 0
	perWhole     = 0.0078740157  // of a quantised probability: 1/127 in float32
	productScale = 1.0 / 1024    // of the products with values, which are float16
	lowestSingle = -3.4028235e38 // the score of a hidden key
)

// latentRun computes attention with an int8 query and rotated features apart, with the steps and roundings of CANN's kernel.
// Where that kernel divides the keys of a sequence among cores, it joins their results in float32; here one core has all keys.
type latentRun struct {
	*inference
	steps
	valueScale float64
	one, small kernel.View // numbers
}

func (a *inference) runLatentInt8(table []int64) error {
	for _, it := range a.items {
		if it.rows == 0 || it.cols == 0 {
			continue
		}
		if err := a.latentItem(a.inferItem(it, table), it); err != nil {
			return fmt.Errorf("attention: %w", err)
		}
	}
	return nil
}

func (a *inference) latentItem(k attentionkernel.Inference, it attentionItem) error {
	release, err := a.gatherTiles(&k)
	defer release()
	if err != nil {
		return err
	}
	r := &latentRun{inference: a}
	defer r.free()
	key, err := elementwise.Floats(a.latentScales.key.View())
	if err != nil {
		return err
	}
	value, err := elementwise.Floats(a.latentScales.value.View())
	if err != nil {
		return err
	}
	r.valueScale = float64(float32(value[0]) * float32(perWhole))
	r.one, r.small = r.number(dtype.Float32, elementwise.Real(1)), r.number(dtype.Float32, elementwise.Real(productScale))
	scale := r.temporary(dtype.Float32, it.rows, 1)
	for head := range a.heads {
		given := a.scaleView(it, head)
		r.set(elementwise.Mul, scale, elementwise.Of(given), elementwise.Const(elementwise.Real(float64(key[0]))))
		r.set(elementwise.Mul, scale, elementwise.Of(scale), elementwise.Const(elementwise.Real(float64(a.scale))))
		r.attend(&k, head, scale)
	}
	return r.err
}

// scaleView returns the scales of the queries of a head as [rows, 1].
func (a *inference) scaleView(it attentionItem, head int64) kernel.View {
	t := a.latentScales.query
	s := t.Strides
	if a.layout.packed() {
		return part(t, it.row*s[0]+head*s[1], []int64{it.rows, 1}, []int64{s[0], 0})
	}
	return part(t, it.batch*s[0]+it.row*s[1]+head*s[2], []int64{it.rows, 1}, []int64{s[1], 0})
}

// attend computes the queries of a head.
func (r *latentRun) attend(k *attentionkernel.Inference, head int64, scale kernel.View) {
	single, half := dtype.Float32, dtype.Float16
	rows, tokens := scale.Shape[0], k.Tokens
	size := min(latentKeys, tokens)
	scores, turned, whole, rounded := r.temporary(single, rows, size), r.temporary(single, rows, size), r.temporary(dtype.Int8, rows, size), r.temporary(half, rows, size)
	sums, now := r.temporary(half, rows, r.valDim), r.temporary(half, rows, r.valDim)
	most, before, partMost, total, partial := r.temporary(single, rows, 1), r.temporary(single, rows, 1), r.temporary(single, rows, 1), r.temporary(single, rows, 1), r.temporary(single, rows, 1)
	fade, largest, factor := r.temporary(half, rows, 1), r.temporary(half, rows, 1), r.temporary(single, rows, 1)
	transposed := func(v kernel.View) kernel.View {
		v.Shape, v.Strides = []int64{v.Shape[1], v.Shape[0]}, []int64{v.Strides[1], v.Strides[0]}
		return v
	}
	for col := int64(0); col < tokens && r.err == nil; col += size {
		n := min(size, tokens-col)
		s, u, w, h := scores.Narrow(1, 0, n), turned.Narrow(1, 0, n), whole.Narrow(1, 0, n), rounded.Narrow(1, 0, n)
		r.multiply(s, k.Query.Select(0, head), transposed(k.Key.Select(0, 0).Narrow(0, col, n)), r.one)
		if r.err == nil {
			r.err = gemm.Gemm(gemm.Product{Out: u, A: k.QueryRope.Select(0, head), B: transposed(k.KeyRope.Select(0, 0).Narrow(0, col, n)), Alpha: 1})
		}
		r.set(elementwise.Add, s, elementwise.Of(s), elementwise.Of(u))
		r.set(elementwise.Mul, s, elementwise.Of(s), elementwise.Of(scale))
		for i := range rows {
			if last := max(min(i+k.Last+1-col, n), 0); last < n {
				r.set(elementwise.Identity, s.Narrow(0, i, 1).Narrow(1, last, n-last), elementwise.Const(elementwise.Real(lowestSingle)))
			}
		}
		r.reduce(rowwise.ReduceMax, partMost, s)
		if col == 0 {
			r.set(elementwise.Identity, most, elementwise.Of(partMost))
		} else {
			r.set(elementwise.Identity, before, elementwise.Of(most))
			r.set(elementwise.Max, most, elementwise.Of(most), elementwise.Of(partMost))
		}
		r.less(s, s, most)
		r.set(elementwise.Exp, s, elementwise.Of(s))
		r.reduce(rowwise.ReduceSum, partial, s)
		r.less(partMost, partMost, most)
		r.set(elementwise.Exp, partMost, elementwise.Of(partMost))
		r.set(elementwise.Add, partMost, elementwise.Of(partMost), elementwise.Const(elementwise.Real(leastMost)))
		r.set(elementwise.Div, factor, elementwise.Const(elementwise.Real(127)), elementwise.Of(partMost))
		r.set(elementwise.Mul, h, elementwise.Of(s), elementwise.Of(factor))
		r.set(elementwise.Round, w, elementwise.Of(h))
		r.multiply(now, w, k.Value.Select(0, 0).Narrow(0, col, n), r.small)
		r.set(elementwise.Identity, largest, elementwise.Of(partMost))
		r.set(elementwise.Mul, now, elementwise.Of(now), elementwise.Of(largest))
		if col == 0 {
			r.set(elementwise.Identity, total, elementwise.Of(partial))
			r.set(elementwise.Identity, sums, elementwise.Of(now))
			continue
		}
		r.less(before, before, most)
		r.set(elementwise.Exp, before, elementwise.Of(before))
		r.set(elementwise.Mul, total, elementwise.Of(total), elementwise.Of(before))
		r.set(elementwise.Add, total, elementwise.Of(total), elementwise.Of(partial))
		r.set(elementwise.Identity, fade, elementwise.Of(before))
		r.set(elementwise.Mul, sums, elementwise.Of(sums), elementwise.Of(fade))
		r.set(elementwise.Add, sums, elementwise.Of(sums), elementwise.Of(now))
	}
	result := r.temporary(single, rows, r.valDim)
	r.set(elementwise.Mul, result, elementwise.Of(sums), elementwise.Const(elementwise.Real(1/productScale)))
	r.set(elementwise.Div, result, elementwise.Of(result), elementwise.Of(total))
	r.set(elementwise.Mul, k.Out.Select(0, head), elementwise.Of(result), elementwise.Const(elementwise.Real(r.valueScale)))
	if k.LogSumExp.Data != nil {
		log := k.LogSumExp.Select(0, head)
		log.Shape, log.Strides = []int64{rows, 1}, []int64{log.Strides[0], 0}
		r.set(elementwise.Log, total, elementwise.Of(total))
		r.set(elementwise.Add, log, elementwise.Of(total), elementwise.Of(most))
	}
}
