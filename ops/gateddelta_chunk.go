package ops

import "github.com/goascend/cann/aclnn"

// chunks holds the intermediate tensors of the chunked rule, all float32 and [B,Hk,G,N,C,·], where
// queries and keys have 1 for G. γ is the cumulative sum of the log decay within a chunk.
type chunks struct {
	*deltaSequence
	q, k, v, beta *aclnn.Tensor // q includes the scale
	qUnit, kUnit  *aclnn.Tensor // factors of the normalisation, or nil
	reach         *aclnn.Tensor // exp(γ), from the start of the chunk to a token; last dimension 1
	remain        *aclnn.Tensor // exp(γ_C − γ), from a token to the end of the chunk
	through       *aclnn.Tensor // exp(γ_C), [B,Hk,G,N,1,1]
	decay         *aclnn.Tensor // exp(γᵢ − γⱼ) for i ≥ j, else 0; [C,C]
	mixing        *aclnn.Tensor // β·KKᵀ·decay, lower triangular; the diagonal is ignored
	inverse       *aclnn.Tensor // (I + mixing)⁻¹
	wu, w, u      *aclnn.Tensor // (I + mixing)⁻¹·[β·reach·K | β·V] and its two parts
	kRemain       *aclnn.Tensor // remain·K
	qReach        *aclnn.Tensor // reach·Q
	scores        *aclnn.Tensor // QKᵀ·decay, [C,C]
	corrected     *aclnn.Tensor // U − W·state: the corrected values written to the state, [C,V]
	state         *aclnn.Tensor // [N+1,B,Hk,G,K,V], before each chunk and after the last
}

// shape is [B,Hk,G,N,rows,columns].
func (d *deltaSequence) shape(rows, columns int64) []int64 {
	return []int64{d.b, d.hk, d.group, d.n, rows, columns}
}

// system computes the matrix of each chunk and the tensors that depend on keys and gates only.
func (d *deltaSequence) system(s *steps) (x *chunks, sums *aclnn.Tensor) {
	x = &chunks{deltaSequence: d, k: d.chunked(s, d.Key), beta: d.chunked(s, d.Beta.Unsqueeze(3))}
	if d.Normalize {
		x.kUnit = s.unit(x.k)
	}
	g := d.chunked(s, d.Decay.Unsqueeze(3))
	sums = s.Tensor(aclnn.Float32, g.Shape()...)
	launch(s, aclnn.Cumsum, aclnn.CumsumParams{Self: g, Dim: 4, Dtype: aclnn.Float32, Out: sums})
	// γᵢ − γⱼ is summed up from the tokens between: under strong decay both are large, and their
	// difference would have few digits left.
	between := s.Tensor(aclnn.Float32, d.shape(d.c, d.c)...)
	s.Copy(between, g.Expand(d.shape(d.c, d.c)...))
	s.lower(between, -1)
	x.decay = s.Like(between)
	launch(s, aclnn.Cumsum, aclnn.CumsumParams{Self: between, Dim: 4, Dtype: aclnn.Float32, Out: x.decay})
	s.Free(between)
	launch(s, aclnn.InplaceExp, aclnn.InplaceExpParams{Self: x.decay})
	s.lower(x.decay, 0)

	x.mixing = s.mul(x.decay, x.beta)
	s.times(x.mixing, s.matmul(x.k, x.k.Transpose(-2, -1), d.b, d.hk, 1, d.n, d.c, d.c))
	x.inverse = s.unitLowerInverse(x.mixing)
	return x, sums
}

// chunks computes everything but the output.
func (d *deltaSequence) chunks(s *steps) *chunks {
	x, sums := d.system(s)
	x.q, x.v = d.chunked(s, d.Query), d.chunked(s, d.Value)
	if d.Normalize {
		x.qUnit = s.unit(x.q)
	}
	s.scale(x.q, d.Scale)
	total := sums.Narrow(4, d.c-1, 1)
	x.reach, x.through = s.exp(sums), s.exp(total)
	x.remain = s.Contiguous(x.decay.Narrow(4, d.c-1, 1).Transpose(-2, -1))

	keys := d.perGroup(x.k)
	right := s.Tensor(aclnn.Float32, d.shape(d.c, d.dk+d.dv)...)
	launch(s, aclnn.Mul, aclnn.MulParams{Self: keys, Other: s.mul(x.beta, x.reach), Out: right.Narrow(-1, 0, d.dk)})
	launch(s, aclnn.Mul, aclnn.MulParams{Self: x.v, Other: x.beta, Out: right.Narrow(-1, d.dk, d.dv)})
	x.wu = s.matmul(x.inverse, right, right.Shape()...)
	s.Free(right)
	x.w, x.u = x.wu.Narrow(-1, 0, d.dk), x.wu.Narrow(-1, d.dk, d.dv)

	x.kRemain, x.qReach = s.mul(keys, x.remain), s.mul(d.perGroup(x.q), x.reach)
	x.scores = s.mul(x.decay, s.matmul(x.q, x.k.Transpose(-2, -1), d.b, d.hk, 1, d.n, d.c, d.c))
	x.run(s)
	return x
}

// run computes for one chunk after another what it writes and the state after it.
func (x *chunks) run(s *steps) {
	d := x.deltaSequence
	x.state = s.Tensor(aclnn.Float32, d.n+1, d.b, d.hk, d.group, d.dk, d.dv)
	d.begin(s, x.state.Select(0, 0), d.InitialState)
	x.corrected = s.Tensor(aclnn.Float32, d.shape(d.c, d.dv)...)
	read := s.Tensor(aclnn.Float32, d.b, d.hk, d.group, d.c, d.dv)
	written := s.Tensor(aclnn.Float32, d.b, d.hk, d.group, d.dk, d.dv)
	for i := range d.n {
		now, next, corrected := x.state.Select(0, i), x.state.Select(0, i+1), x.corrected.Select(3, i)
		s.multiply(read, x.w.Select(3, i), now)
		s.minus(corrected, x.u.Select(3, i), read)
		s.multiply(written, x.kRemain.Select(3, i).Transpose(-2, -1), corrected)
		launch(s, aclnn.Addcmul, aclnn.AddcmulParams{Self: written, Tensor1: now, Tensor2: x.through.Select(3, i), Value: aclnn.Float(1), Out: next})
	}
}

// before views the states before each chunk as [B,Hk,G,N,K,V]; with at = 1, those after each chunk.
func (x *chunks) before(states *aclnn.Tensor, at int64) *aclnn.Tensor {
	return states.Narrow(0, at, x.n).Permute(1, 2, 3, 0, 4, 5)
}

func (d *deltaSequence) forward(s *steps) {
	if d.tokens == 0 {
		d.idle(s)
		return
	}
	x := d.chunks(s)
	out := s.matmul(x.qReach, x.before(x.state, 0), d.shape(d.c, d.dv)...)
	s.addMatmul(out, x.scores, x.corrected)
	d.unchunked(s, d.Out, out)
	d.storeState(s, d.FinalState, x.state.Select(0, d.n))
}

// idle passes the state through when there are no tokens.
func (d *deltaSequence) idle(s *steps) {
	if d.FinalState != nil {
		d.begin(s, d.FinalState.Narrow(0, d.first, d.b), nil)
		if d.InitialState != nil {
			s.Copy(d.FinalState, d.InitialState)
		}
	}
}
