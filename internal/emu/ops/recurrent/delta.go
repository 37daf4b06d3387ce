package recurrent

import (
	"slices"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/op"
)

// deltaRule lists the linear-attention operators of the custom package, the chunked gated delta
// rule forward and backward, and CANN's own recurrent and chunked forms. The tensors of the former are [B,H,T,D]; tokens are
// divided into chunks, and two lists describe packed sequences.
var deltaRule = op.Table{
	"ChunkLocalCumsum": chunkLocalCumsum, "RecomputeWUFwd": recomputeWU,
	"ChunkGatedDeltaRuleFwdH": deltaStates, "ChunkFwdO": deltaOutput,
	"ChunkBwdDvLocal": deltaLocalGrad, "ChunkGatedDeltaRuleBwdDhu": deltaStatesGrad, "ChunkBwdDqkwg": deltaInputGrad,
	"PrepareWyReprBwdDa": deltaSystemGrad, "PrepareWyReprBwdFull": deltaWUGrad, "PrepareWyReprBwd": deltaSolveGrad,
	"RecurrentGatedDeltaRule": recurrentDelta, "ChunkGatedDeltaRule": chunkedDelta,
}.Selects("ChunkGatedDeltaRuleFwdH", "ChunkGatedDeltaRuleBwdDhu", "RecurrentGatedDeltaRule", "ChunkGatedDeltaRule")

// deltaForm holds the sizes that the chunk operators share.
type deltaForm struct {
	b, hk, hv, t, k, v int64
	length             int64   // tokens per chunk
	ends               []int64 // ends of the sequences in a row
	count              int64   // chunks per row
}

// chunkIndexList lists the pairs (sequence, chunk within the sequence) for packed sequences.
func (d *deltaForm) chunkIndexList() []int64 {
	var list []int64
	from := int64(0)
	for i, end := range d.ends {
		for n := range (end - from + d.length - 1) / d.length {
			list = append(list, int64(i), n)
		}
		from = end
	}
	return list
}

// pack reads the boundaries of packed sequences and checks the list of chunks against them.
func (d *deltaForm) pack(c *op.Call, list string) {
	d.length = c.Int("chunkSize")
	if d.length <= 0 {
		c.Invalid("chunkSize is %d; it must be positive", d.length)
		d.length = 1
	}
	cu, indices := c.Ints("cuSeqlensOptional"), c.Ints(list)
	d.ends = []int64{d.t}
	if cu != nil {
		if d.b != 1 {
			c.Invalid("cuSeqlensOptional is given for %d rows; packed sequences share one", d.b)
		}
		if len(cu) < 2 || cu[0] != 0 || cu[len(cu)-1] != d.t || !slices.IsSorted(cu) || len(slices.Compact(slices.Clone(cu))) != len(cu) {
			c.Invalid("cuSeqlensOptional %s must increase from 0 to %d, the number of tokens", op.Dims(cu), d.t)
			return
		}
		d.ends = cu[1:]
	}
	want := d.chunkIndexList()
	d.count = int64(len(want)) / 2
	if cu == nil && indices != nil {
		c.Invalid("%s is given without cuSeqlensOptional", list)
	}
	if cu != nil && !slices.Equal(indices, want) {
		c.Invalid("%s %s must be %s, the sequence and place of every chunk", list, op.Dims(indices), op.Dims(want))
	}
}

// newDeltaForm reads the sizes from keys [B,Hk,T,K] and values [B,Hv,T,V] (or a gate [B,Hv,T]).
func newDeltaForm(c *op.Call, k, v *op.Tensor, list string, lengths ...int64) *deltaForm {
	d := &deltaForm{length: 1}
	c.Plain(k, v)
	c.DType(k, op.HalfTypes...)
	c.Rank(k, 4, 4)
	c.Rank(v, 3, 4)
	if c.Err() != nil {
		return d
	}
	d.b, d.hk, d.t, d.k, d.hv = k.Shape[0], k.Shape[1], k.Shape[2], k.Shape[3], v.Shape[1]
	if v.Rank() == 4 {
		d.v = v.Shape[3]
	}
	if d.hk == 0 || d.hv%d.hk != 0 {
		c.Invalid("%v has %d heads and %v %d; the latter must be a multiple of the former", k, d.hk, v, d.hv)
	}
	d.pack(c, list)
	if len(lengths) > 0 && !slices.Contains(lengths, d.length) {
		c.Invalid("chunkSize is %d; use one of %v", d.length, lengths)
	}
	return d
}

// Shapes of the tensors of the family.
func (d *deltaForm) ofKeys() []int64   { return []int64{d.b, d.hk, d.t, d.k} }
func (d *deltaForm) ofW() []int64      { return []int64{d.b, d.hv, d.t, d.k} }
func (d *deltaForm) ofValues() []int64 { return []int64{d.b, d.hv, d.t, d.v} }
func (d *deltaForm) ofGates() []int64  { return []int64{d.b, d.hv, d.t} }
func (d *deltaForm) ofSystem() []int64 { return []int64{d.b, d.hv, d.t, d.length} }
func (d *deltaForm) ofStates() []int64 { return []int64{d.b, d.hv, d.count, d.k, d.v} }
func (d *deltaForm) ofEnds() []int64 {
	return []int64{d.b * int64(len(d.ends)), d.hv, d.k, d.v}
}

// has checks that tensors have the given shape. Nil tensors are skipped.
func has(c *op.Call, shape []int64, tensors ...*op.Tensor) {
	for _, t := range tensors {
		if t != nil {
			c.Plain(t)
			c.Shape(t, shape, "the form of keys and values")
			c.DType(t, op.FloatTypes...)
		}
	}
}

// unsupported refuses optional arguments that the operator declares but does not support.
func unsupported(c *op.Call, names ...string) {
	for _, name := range names {
		if t := c.Optional(name); t != nil {
			c.Invalid("%v is not supported; leave it null", t)
		}
	}
}

// tokenSpan is a sequence within a row: its tokens, its state index and its chunks.
type tokenSpan struct{ row, state, from, tokens, chunk, chunks int64 }

func (d *deltaForm) sequences(f func(q tokenSpan) error) error {
	for b := range d.b {
		from, chunk := int64(0), int64(0)
		for i, end := range d.ends {
			q := tokenSpan{b, b*int64(len(d.ends)) + int64(i), from, end - from, chunk, (end - from + d.length - 1) / d.length}
			if q.tokens > 0 {
				if err := f(q); err != nil {
					return err
				}
			}
			from, chunk = end, chunk+q.chunks
		}
	}
	return nil
}

// eachChunk calls f with every chunk as if it were a sequence of its own.
func (d *deltaForm) eachChunk(f func(q tokenSpan) error) error {
	return d.sequences(func(q tokenSpan) error {
		for i := range q.chunks {
			from := i * d.length
			if err := f(tokenSpan{q.row, q.state, q.from + from, min(d.length, q.tokens-from), q.chunk + i, 1}); err != nil {
				return err
			}
		}
		return nil
	})
}

// of views the tokens of one head of [B,H,T,…].
func (q tokenSpan) of(t *op.Tensor, head int64) kernel.View {
	return t.View().Select(0, q.row).Select(0, head).Narrow(0, q.from, q.tokens)
}

// square views the tokens of one head of [B,H,T,chunk] as the square that a chunk uses.
func (q tokenSpan) square(t *op.Tensor, head int64) kernel.View {
	return q.of(t, head).Narrow(1, 0, q.tokens)
}

// states views the states of one head of [B,H,chunks,K,V]. transposed means that they are stored as
// [V,K].
func (q tokenSpan) states(t *op.Tensor, head int64, transposed bool) kernel.View {
	v := t.View().Select(0, q.row).Select(0, head).Narrow(0, q.chunk, q.chunks)
	if transposed {
		v = swapped(v)
	}
	return v
}

// end views the final (or initial) state of one head of a sequence, [N,H,K,V].
func (q tokenSpan) end(t *op.Tensor, head int64, transposed bool) kernel.View {
	if t == nil {
		return kernel.View{}
	}
	v := t.View().Select(0, q.state).Select(0, head)
	if transposed {
		v = swapped(v)
	}
	return v
}

// swapped exchanges the last two dimensions.
func swapped(v kernel.View) kernel.View {
	n := len(v.Shape)
	v.Shape, v.Strides = slices.Clone(v.Shape), slices.Clone(v.Strides)
	v.Shape[n-2], v.Shape[n-1] = v.Shape[n-1], v.Shape[n-2]
	v.Strides[n-2], v.Strides[n-1] = v.Strides[n-1], v.Strides[n-2]
	return v
}

// heads calls f with every value head and the key head that it uses.
func (d *deltaForm) heads(f func(key, head int64) error) error {
	for h := range d.hv {
		if err := f(h/(d.hv/d.hk), h); err != nil {
			return err
		}
	}
	return nil
}
