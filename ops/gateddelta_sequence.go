package ops

import (
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

var errSingleToken = errors.New("a single token needs no chunks")

// deltaChunk is the length of a chunk. Longer chunks mean more work within a chunk but fewer steps
// of the state; 64 is the usual choice of implementations for the device.
const deltaChunk = 64

// deltaSequence is a batch of sequences of equal length that the rule processes together.
type deltaSequence struct {
	*GatedDeltaArgs
	b, hk, group, dk, dv int64 // group is the number of value heads per key head
	tokens, from         int64 // tokens of each row, and the position of the first
	first                int64 // index of the first sequence's state
	c, n                 int64 // tokens per chunk, and number of chunks
}

// eachSequence calls f once for all rows together, or for each packed sequence.
func (a *GatedDeltaArgs) eachSequence(st *acl.Stream, f func(*deltaSequence, *steps)) error {
	d := deltaSequence{
		GatedDeltaArgs: a, b: a.Query.Dim(0), hk: a.Query.Dim(2), group: a.Value.Dim(2) / a.Query.Dim(2),
		dk: a.Query.Dim(3), dv: a.Value.Dim(3), tokens: a.Query.Dim(1),
	}
	if d.b == 0 {
		return nil
	}
	if a.CuSeqLens == nil {
		return d.run(st, f)
	}
	var err error
	for i := 0; i+1 < len(a.CuSeqLens) && err == nil; i++ {
		d.first, d.from, d.tokens = int64(i), a.CuSeqLens[i], a.CuSeqLens[i+1]-a.CuSeqLens[i]
		err = d.run(st, f)
	}
	return err
}

func (d *deltaSequence) run(st *acl.Stream, f func(*deltaSequence, *steps)) error {
	d.c = max(min(d.tokens, deltaChunk), 1)
	d.n = (d.tokens + d.c - 1) / d.c
	return compose(st, func(s *steps) { f(d, s) })
}

// part views the sequence's tokens of a tensor [B,T,…].
func (d *deltaSequence) part(t *aclnn.Tensor) *aclnn.Tensor { return t.Narrow(1, d.from, d.tokens) }

// states views the sequence's part of a tensor of states, as [B,Hk,G,K,V].
func (d *deltaSequence) states(s *steps, t *aclnn.Tensor) *aclnn.Tensor {
	return s.Contiguous(t.Narrow(0, d.first, d.b)).Reshape(d.b, d.hk, d.group, d.dk, d.dv)
}

// storeState writes states [B,Hk,G,K,V] to their place in t, which may be nil.
func (d *deltaSequence) storeState(s *steps, t, states *aclnn.Tensor) {
	if t != nil {
		s.Copy(t.Narrow(0, d.first, d.b), states.Reshape(d.b, d.hk*d.group, d.dk, d.dv))
	}
}

// begin makes the states at the start of the sequence, [B,Hk,G,K,V].
func (d *deltaSequence) begin(s *steps, dst *aclnn.Tensor, given *aclnn.Tensor) {
	if given == nil {
		s.Zero(dst)
		return
	}
	s.Copy(dst, d.states(s, given))
}

// chunked converts the sequence's part of [B,T,heads,D] to float32 [B,Hk,heads/Hk,N,C,D]. Positions
// after the last token are zero, which leaves the state unchanged.
func (d *deltaSequence) chunked(s *steps, t *aclnn.Tensor) *aclnn.Tensor {
	heads, width := t.Dim(2), t.Dim(3)
	out := s.Tensor(aclnn.Float32, d.b, heads, d.n*d.c, width)
	if d.n*d.c > d.tokens {
		s.Zero(out)
	}
	s.Copy(out.Narrow(2, 0, d.tokens).Permute(0, 2, 1, 3), d.part(t))
	return out.Reshape(d.b, d.hk, heads/d.hk, d.n, d.c, width)
}

// unchunked stores [B,Hk,heads/Hk,N,C,D] in the sequence's part of [B,T,heads,D].
func (d *deltaSequence) unchunked(s *steps, dst, t *aclnn.Tensor) {
	heads, width := dst.Dim(2), dst.Dim(3)
	s.Copy(d.part(dst), t.Reshape(d.b, heads, d.n*d.c, width).Narrow(2, 0, d.tokens).Permute(0, 2, 1, 3))
}

// perGroup expands a tensor of key heads to the value heads without copying.
func (d *deltaSequence) perGroup(t *aclnn.Tensor) *aclnn.Tensor {
	shape := t.Shape()
	shape[2] = d.group
	return t.Expand(shape...)
}

// dots computes the dot products of the rows of x and y.
func (s *steps) dots(x, y *aclnn.Tensor) *aclnn.Tensor {
	product := s.mul(x, y)
	defer s.Free(product)
	return s.sum(product, -1)
}

// unit divides the rows of x by their lengths, in place, and returns the factors.
func (s *steps) unit(x *aclnn.Tensor) *aclnn.Tensor {
	f := s.dots(x, x)
	s.adds(f, squareEpsilon)
	launch(s, aclnn.InplaceRsqrt, aclnn.InplaceRsqrtParams{Self: f})
	s.times(x, f)
	return f
}

// unitGrad converts the gradient of y, which unit computed with factors f, to that of its input:
// f·(dy − y·⟨dy,y⟩).
func (s *steps) unitGrad(dy, y, f *aclnn.Tensor) {
	s.subtractProduct(dy, y, s.dots(dy, y))
	s.times(dy, f)
}

// subtractProduct is x −= y·z.
func (s *steps) subtractProduct(x, y, z *aclnn.Tensor) {
	launch(s, aclnn.InplaceAddcmul, aclnn.InplaceAddcmulParams{Self: x, Tensor1: y, Tensor2: z, Value: aclnn.Float(-1)})
}

// addProduct is x += y·z.
func (s *steps) addProduct(x, y, z *aclnn.Tensor) {
	launch(s, aclnn.InplaceAddcmul, aclnn.InplaceAddcmulParams{Self: x, Tensor1: y, Tensor2: z, Value: aclnn.Float(1)})
}

// exp is eˣ in a new tensor.
func (s *steps) exp(x *aclnn.Tensor) *aclnn.Tensor {
	out := s.Like(x)
	launch(s, aclnn.Exp, aclnn.ExpParams{Self: x, Out: out})
	return out
}

// minus is out = x − y; y broadcasts.
func (s *steps) minus(out, x, y *aclnn.Tensor) {
	launch(s, aclnn.Sub, aclnn.SubParams{Self: x, Other: y, Alpha: aclnn.Float(1), Out: out})
}

// lower clears the elements above a diagonal.
func (s *steps) lower(x *aclnn.Tensor, diagonal int64) {
	launch(s, aclnn.InplaceTril, aclnn.InplaceTrilParams{Self: x, Diagonal: diagonal})
}

// addMatmul is x += a·b.
func (s *steps) addMatmul(x, a, b *aclnn.Tensor) {
	product := s.matmul(a, b, x.Shape()...)
	s.add(x, product, 1)
	s.Free(product)
}
