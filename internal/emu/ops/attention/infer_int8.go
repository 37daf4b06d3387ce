package attention

import (
	"fmt"
	"math"
	"strings"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	attentionkernel "github.com/goascend/cann/internal/emu/kernel/attention"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// Keys are attended to in parts. A part's probabilities are quantised by the largest score up to its end, so that
// the sizes of parts show in the results. They are those of CANN's tiling for a 910B.
const (
	int8Keys     = 1024
	int8LongKeys = 2048 // with few queries, more keys than that and no mask
	int8Few      = 16   // queries
	oddKeys      = 128  // with a head dimension that is no multiple of int8Dims
	oddWideKeys  = 256  // with a narrow one and no mask
	oddNarrow    = 64   // features of a narrow head
	int8Rows     = 128  // queries that are computed together, which changes no result
)

// lowestHalf is the score of a hidden key.
const lowestHalf = -65504

// int8Scales are the scales of attention in int8: those that make float16 of the products with keys and of those
// with values, and the one that makes integers of probabilities.
type int8Scales struct{ scores, probabilities, values *op.Tensor }

// readInt8Scales checks a call with an int8 query and reads its scales.
func (a *inference) readInt8Scales(c *op.Call) {
	if a.latentInt8() {
		return
	}
	s := &int8Scales{optionalNamed(c, "deqScale1"), optionalNamed(c, "quantScale1"), optionalNamed(c, "deqScale2")}
	all := []*op.Tensor{s.scores, s.probabilities, s.values}
	if a.query.DType != dtype.Int8 {
		for _, t := range all {
			if t != nil {
				c.Unfit("%v is given; only an int8 query has it, and the query is %v", t, a.query.DType)
			}
		}
		return
	}
	switch {
	case s.scores == nil || s.probabilities == nil || s.values == nil:
		c.Unfit("%v needs deqScale1, quantScale1 and deqScale2", a.query)
	case strings.HasPrefix(c.Op.Name, "Fused") && a.incremental():
		c.Unfit("%v: %s takes an int8 query of several tokens only; PromptFlashAttentionV3 takes one token too", a.query, c.Name())
	case a.layout.packed() || a.blocks != nil || a.queryRope != nil:
		c.Unfit("%v: the query is not int8 with inputLayout TND, a block table or queryRope", a.query)
	case a.query.Len() == 0 || a.cols == 0 || a.out.Len() == 0:
		c.Unfit("when input or output is empty tensor, input datatype should not be int8: %v, %v and %v", a.query, a.key, a.out)
	}
	if c.Err() != nil {
		return
	}
	for _, t := range all {
		c.Plain(t)
		if t.Len() != 1 {
			c.Unfit("%v must have one element", t)
		}
	}
	c.DType(s.scores, dtype.Uint64, dtype.Float32)
	c.DType(s.probabilities, dtype.Float32)
	c.DType(s.values, dtype.Uint64, dtype.Float32)
	a.integers = s
}

// keysOfPart returns how many keys a part has.
func (a *inference) keysOfPart() int64 {
	plain := a.mask.tensor == nil
	switch {
	case a.dim%int8Dims != 0 && plain && a.dim <= oddNarrow:
		return oddWideKeys
	case a.dim%int8Dims != 0:
		return oddKeys
	case plain && a.rows <= int8Few && a.cols > int8LongKeys:
		return int8LongKeys
	}
	return int8Keys
}

// upperBits returns a scale without the 13 low bits of its float32, which the device does not read. The float32 is
// the low half of a uint64.
func upperBits(t *op.Tensor) (elementwise.Number, error) {
	scale, err := elementwise.Floats(kernel.View{Data: t.View().Data, DType: dtype.Float32})
	if err != nil {
		return elementwise.Number{}, err
	}
	return elementwise.Real(float64(math.Float32frombits(uint32(op.PackScale(scale[0], nil, false))))), nil
}

// int8Run computes attention in int8 in the steps and with the roundings of CANN's kernel: scores, their
// probabilities, the sums of values and the result are float16, the maxima and the sums of probabilities float32.
type int8Run struct {
	*inference
	steps

	scoreScale, valueScale, factor, weightScale kernel.View // of one element; factor is scaleValue
	outFactor, outShift                         kernel.View // [heads, 1, dim], of an int8 result

	scores, scaled kernel.View // [rows, keys] in float16
	weights        kernel.View // [rows, keys] in float32
	whole          kernel.View // [rows, keys] in int8
	sums, part     kernel.View // [rows, dim] in float16
	most, before   kernel.View // [rows, 1] in float32: the largest score up to this part, and up to the last
	total, partial kernel.View // [rows, 1] in float32: sums of probabilities
	fading         kernel.View // [rows, 1] in float16: by which earlier sums shrink
}

func (a *inference) runInt8() error {
	r := &int8Run{inference: a}
	defer r.free()
	r.prepare()
	for _, it := range a.items {
		if it.rows == 0 || it.cols == 0 {
			continue
		}
		k := a.inferItem(it, nil)
		for head := range a.heads {
			for row := int64(0); row < it.rows && r.err == nil; row += int8Rows {
				r.attend(&k, head, row, min(int8Rows, it.rows-row))
			}
		}
	}
	if r.err != nil {
		return fmt.Errorf("attention: %w", r.err)
	}
	return nil
}

// prepare reads the scales and takes the memory.
func (r *int8Run) prepare() {
	s := r.integers
	scores, err := upperBits(s.scores)
	values, err2 := upperBits(s.values)
	weightScale, err3 := elementwise.Floats(s.probabilities.View())
	for _, e := range []error{err, err2, err3} {
		if r.err = e; e != nil {
			return
		}
	}
	half, single, keys := dtype.Float16, dtype.Float32, r.keysOfPart()
	r.scoreScale, r.valueScale = r.number(single, scores), r.number(single, values)
	r.factor, r.weightScale = r.number(half, elementwise.Real(float64(r.scale))), r.number(half, elementwise.Real(float64(weightScale[0])))
	r.scores, r.scaled = r.temporary(half, int8Rows, keys), r.temporary(half, int8Rows, keys)
	r.weights, r.whole = r.temporary(single, int8Rows, keys), r.temporary(dtype.Int8, int8Rows, keys)
	r.sums, r.part = r.temporary(half, int8Rows, r.valDim), r.temporary(half, int8Rows, r.valDim)
	for _, v := range []*kernel.View{&r.most, &r.before, &r.total, &r.partial} {
		*v = r.temporary(single, int8Rows, 1)
	}
	r.fading = r.temporary(half, int8Rows, 1)
	for _, v := range []struct {
		to *kernel.View
		of *op.Tensor
	}{{&r.outFactor, r.outScale}, {&r.outShift, r.outOffset}} {
		if v.of != nil {
			*v.to = r.temporary(half, r.heads, 1, r.valDim)
			r.set(elementwise.Identity, *v.to, elementwise.Of(r.perPosition(v.of)))
		}
	}
}

// attend computes queries of a head from row on.
func (r *int8Run) attend(k *attentionkernel.Inference, head, row, rows int64) {
	b := *r
	for _, v := range []*kernel.View{&b.scores, &b.scaled, &b.weights, &b.whole, &b.sums, &b.part, &b.most, &b.before, &b.total, &b.partial, &b.fading} {
		*v = v.Narrow(0, 0, rows)
	}
	size, keys := b.keysOfPart(), k.Key.Shape[1]
	lo, hi := row+k.First, row+rows-1+k.Last // the keys that the queries see
	first := true
	for col := int64(0); col < keys; col += size {
		n := min(size, keys-col)
		if lo < keys && hi >= 0 && (col+n <= lo || col > hi) {
			continue
		}
		b.attendPart(k, head, row, col, n, first)
		first = false
	}
	b.finish(k, head, row)
	r.err = b.err
}

// attendPart attends to n keys from col on. first means that there is no part before.
func (r *int8Run) attendPart(k *attentionkernel.Inference, head, row, col, n int64, first bool) {
	rows, keyHead := r.scores.Shape[0], head/(r.heads/r.keyHeads)
	scores, scaled, weights, whole := r.scores.Narrow(1, 0, n), r.scaled.Narrow(1, 0, n), r.weights.Narrow(1, 0, n), r.whole.Narrow(1, 0, n)
	key := k.Key.Select(0, keyHead).Narrow(0, col, n)
	key.Shape, key.Strides = []int64{key.Shape[1], n}, []int64{key.Strides[1], key.Strides[0]}
	r.multiply(scores, k.Query.Select(0, head).Narrow(0, row, rows), key, r.scoreScale)
	r.set(elementwise.Mul, scores, elementwise.Of(scores), elementwise.Of(r.factor))
	if k.Bias.Data != nil {
		r.set(elementwise.Add, scores, elementwise.Of(scores), elementwise.Of(k.Bias.Select(0, head).Narrow(0, row, rows).Narrow(1, col, n)))
	}
	r.hide(k, scores, head, row, col)
	r.reduce(rowwise.ReduceMax, r.partial, scores)
	if first {
		r.set(elementwise.Identity, r.most, elementwise.Of(r.partial))
	} else {
		r.set(elementwise.Identity, r.before, elementwise.Of(r.most))
		r.set(elementwise.Max, r.most, elementwise.Of(r.most), elementwise.Of(r.partial))
	}
	r.less(weights, scores, r.most)
	r.set(elementwise.Exp, weights, elementwise.Of(weights))
	r.reduce(rowwise.ReduceSum, r.partial, weights)
	if k.ZeroMaskedRows {
		r.set(elementwise.LessEqual, r.blind(), elementwise.Of(r.most), elementwise.Const(elementwise.Real(lowestHalf)))
		r.set(elementwise.Where, weights, elementwise.Of(r.blind()), elementwise.Const(elementwise.Real(0)), elementwise.Of(weights))
	}
	r.set(elementwise.Identity, scaled, elementwise.Of(weights))
	r.set(elementwise.Mul, scaled, elementwise.Of(scaled), elementwise.Of(r.weightScale))
	r.set(elementwise.Round, whole, elementwise.Of(scaled))
	value := k.Value.Select(0, keyHead).Narrow(0, col, n)
	if first {
		r.set(elementwise.Identity, r.total, elementwise.Of(r.partial))
		r.multiply(r.sums, whole, value, r.valueScale)
		return
	}
	r.multiply(r.part, whole, value, r.valueScale)
	r.less(r.before, r.before, r.most)
	r.set(elementwise.Exp, r.before, elementwise.Of(r.before))
	r.set(elementwise.Identity, r.fading, elementwise.Of(r.before))
	r.set(elementwise.Mul, r.total, elementwise.Of(r.total), elementwise.Of(r.before))
	r.set(elementwise.Add, r.total, elementwise.Of(r.total), elementwise.Of(r.partial))
	r.set(elementwise.Mul, r.sums, elementwise.Of(r.sums), elementwise.Of(r.fading))
	r.set(elementwise.Add, r.sums, elementwise.Of(r.sums), elementwise.Of(r.part))
}

// blind is where the queries are marked that have seen no key yet. The first column of the probabilities in
// float16 is free when it is needed.
func (r *int8Run) blind() kernel.View { return r.scaled.Narrow(1, 0, 1) }

// hide gives the lowest score to what the mask or the window hides.
func (r *int8Run) hide(k *attentionkernel.Inference, scores kernel.View, head, row, col int64) {
	rows, n := scores.Shape[0], scores.Shape[1]
	if k.Mask.Data != nil {
		mask := k.Mask.Select(0, head).Narrow(0, row, rows).Narrow(1, col, n)
		r.set(elementwise.Where, scores, elementwise.Of(mask), elementwise.Const(elementwise.Real(lowestHalf)), elementwise.Of(scores))
	}
	for i := range rows {
		lo := min(max(row+i+k.First-col, 0), n)
		hi := max(min(row+i+k.Last+1-col, n), lo)
		for _, part := range [][2]int64{{0, lo}, {hi, n}} {
			if part[0] < part[1] {
				r.set(elementwise.Identity, scores.Narrow(0, i, 1).Narrow(1, part[0], part[1]-part[0]), elementwise.Const(elementwise.Real(lowestHalf)))
			}
		}
	}
}

// finish divides the sums by those of the probabilities and stores the results of the queries from row on.
func (r *int8Run) finish(k *attentionkernel.Inference, head, row int64) {
	rows := r.sums.Shape[0]
	r.set(elementwise.Identity, r.fading, elementwise.Of(r.total))
	r.set(elementwise.Div, r.sums, elementwise.Of(r.sums), elementwise.Of(r.fading))
	out := k.Out.Select(0, head).Narrow(0, row, rows)
	if r.outFactor.Data != nil {
		r.set(elementwise.Mul, r.sums, elementwise.Of(r.sums), elementwise.Of(r.outFactor.Select(0, head)))
		if r.outShift.Data != nil {
			r.set(elementwise.Add, r.sums, elementwise.Of(r.sums), elementwise.Of(r.outShift.Select(0, head)))
		}
		r.set(elementwise.Round, out, elementwise.Of(r.sums))
	} else {
		r.set(elementwise.Identity, out, elementwise.Of(r.sums))
	}
	if k.LogSumExp.Data == nil {
		return
	}
	log := k.LogSumExp.Select(0, head).Narrow(0, row, rows)
	log.Shape, log.Strides = []int64{rows, 1}, []int64{log.Strides[0], 0}
	r.set(elementwise.Log, r.total, elementwise.Of(r.total))
	r.set(elementwise.Add, log, elementwise.Of(r.total), elementwise.Of(r.most))
	if k.ZeroMaskedRows {
		r.set(elementwise.LessEqual, r.blind(), elementwise.Of(r.most), elementwise.Const(elementwise.Real(lowestHalf)))
		r.set(elementwise.Where, log, elementwise.Of(r.blind()), elementwise.Const(elementwise.Real(math.Inf(1))), elementwise.Of(log))
	}
}
