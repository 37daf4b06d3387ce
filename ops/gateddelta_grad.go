package ops

import "github.com/goascend/cann/aclnn"

// backward computes the gradients of the states from the last chunk to the first, then all other
// gradients for all chunks at once.
func (d *deltaSequence) backward(s *steps, a *GatedDeltaGradArgs) {
	if d.tokens == 0 {
		d.idleGrad(s, a)
		return
	}
	x := d.chunks(s)
	dOut := d.chunked(s, a.DOut)
	dState, dCorrected := x.stateGrad(s, a.DFinalState, dOut)
	d.storeState(s, a.DInitialState, dState.Select(0, 0))

	keys, queries := d.perGroup(x.k), d.perGroup(x.q)
	state, dNext := x.before(x.state, 0), x.before(dState, 1)
	ofKeys := d.shape(d.c, d.dk)

	// Through the output: queries read the state and the values written in the chunk.
	dScores := s.matmul(dOut, x.corrected.Transpose(-2, -1), d.shape(d.c, d.c)...)
	var decay decayGrad
	decay.pairs = s.mul(dScores, x.scores)
	s.times(dScores, x.decay)
	dq := s.matmul(s.mul(dOut, x.reach), state.Transpose(-2, -1), ofKeys...)
	decay.reads = s.dots(dq, queries)
	s.addMatmul(dq, dScores, x.k)
	// Through the state: keys wrote to it.
	carried := s.matmul(x.corrected, dNext.Transpose(-2, -1), ofKeys...)
	s.times(carried, x.remain)
	dk := s.matmul(dScores.Transpose(-2, -1), x.q, ofKeys...)
	s.add(dk, carried, 1)

	decay.writes = s.dots(carried, keys)
	both := s.mul(state, dNext)
	decay.through = s.mul(s.sum(both, -2, -1), x.through)
	s.Free(carried, both, dScores)

	// Through the triangular system: its right-hand sides, then its matrix.
	right := s.Tensor(aclnn.Float32, d.shape(d.c, d.dk+d.dv)...)
	s.multiply(right.Narrow(-1, 0, d.dk), dCorrected, state.Transpose(-2, -1))
	s.scale(right.Narrow(-1, 0, d.dk), -1)
	s.Copy(right.Narrow(-1, d.dk, d.dv), dCorrected)
	solved := s.matmul(x.inverse.Transpose(-2, -1), right, right.Shape()...)
	s.Free(right)
	xk, xv := solved.Narrow(-1, 0, d.dk), solved.Narrow(-1, d.dk, d.dv)
	e := s.matmul(solved, x.wu.Transpose(-2, -1), d.shape(d.c, d.c)...)
	s.scale(e, -1)
	s.addProduct(decay.pairs, e, x.mixing)
	s.times(e, x.decay)
	s.lower(e, -1)
	ek := s.matmul(e, x.k, ofKeys...)
	weighted := s.mul(keys, x.beta)
	ekt := s.matmul(e.Transpose(-2, -1), weighted, ofKeys...)
	s.Free(e, weighted)

	weight := s.mul(x.beta, x.reach)
	direct := s.mul(s.dots(xk, keys), x.reach)
	s.addProduct(decay.reads, direct, x.beta)
	s.add(direct, s.dots(ek, keys), 1)
	dBeta := s.dots(xv, x.v)
	s.add(dBeta, direct, 1)
	s.addProduct(dk, xk, weight)
	s.addProduct(dk, ek, x.beta)
	s.add(dk, ekt, 1)

	d.unchunked(s, a.DDecay.Unsqueeze(3), decay.sum(s))
	d.unchunked(s, a.DBeta.Unsqueeze(3), dBeta)
	d.unchunked(s, a.DValue, s.mul(xv, x.beta))
	d.storeInputGrads(s, a, dq, dk, rows{x.q, x.qUnit}, rows{x.k, x.kUnit})
}

// decayGrad holds the gradients of what decays, each times its value. A token's decay has a share in
// everything that passes the token, so its gradient is the sum of those of all that does. Sums over
// rows minus sums over columns would be cheaper; but the two have much in common, and their
// difference would be lost in rounding.
type decayGrad struct {
	pairs   *aclnn.Tensor // [C,C], from the token of the column to that of the row; valid below the diagonal
	reads   *aclnn.Tensor // [C,1], from the start of the chunk to a token
	writes  *aclnn.Tensor // [C,1], from a token to the end of the chunk
	through *aclnn.Tensor // [1,1], from the start to the end
}

// sum adds them up for each token's decay.
func (g decayGrad) sum(s *steps) *aclnn.Tensor {
	s.lower(g.pairs, -1)
	later := s.Like(g.pairs) // sums over this row and the rows after it
	launch(s, aclnn.CumsumV2, aclnn.CumsumV2Params{Self: g.pairs, Dim: 4, Reverse: true, Out: later})
	s.lower(later, -1)
	total := s.sum(later, -1)
	s.Free(later)
	part := s.Like(g.reads)
	launch(s, aclnn.CumsumV2, aclnn.CumsumV2Params{Self: g.reads, Dim: 4, Reverse: true, Out: part})
	s.add(total, part, 1)
	launch(s, aclnn.CumsumV2, aclnn.CumsumV2Params{Self: g.writes, Dim: 4, Exclusive: true, Out: part})
	s.add(total, part, 1)
	s.add(total, g.through, 1)
	return total
}

// idleGrad passes the gradient of the state through when there are no tokens.
func (d *deltaSequence) idleGrad(s *steps, a *GatedDeltaGradArgs) {
	if a.DInitialState == nil {
		return
	}
	s.Zero(a.DInitialState)
	if a.DFinalState != nil {
		s.Copy(a.DInitialState, a.DFinalState)
	}
}

// rows are scaled queries or keys, with the factors of their normalisation.
type rows struct{ values, unit *aclnn.Tensor }

// storeInputGrads converts the gradients of scaled queries and of keys, per value head, to the
// gradients of the arguments.
func (d *deltaSequence) storeInputGrads(s *steps, a *GatedDeltaGradArgs, dq, dk *aclnn.Tensor, q, k rows) {
	dq, dk = d.overGroup(s, dq), d.overGroup(s, dk)
	s.scale(dq, d.Scale)
	if d.Normalize {
		if d.Scale != 0 { // undo the scale, which the normalised query includes
			s.scale(q.values, 1/d.Scale)
		}
		s.unitGrad(dq, q.values, q.unit)
		s.unitGrad(dk, k.values, k.unit)
	}
	d.unchunked(s, a.DQuery, dq)
	d.unchunked(s, a.DKey, dk)
}

// stateGrad computes the gradients of the states, in their layout, and of the values that each
// chunk writes.
func (x *chunks) stateGrad(s *steps, dFinal, dOut *aclnn.Tensor) (dState, dCorrected *aclnn.Tensor) {
	d := x.deltaSequence
	dState = s.Tensor(aclnn.Float32, d.n+1, d.b, d.hk, d.group, d.dk, d.dv)
	d.begin(s, dState.Select(0, d.n), dFinal)
	s.Copy(x.before(dState, 0), s.matmul(x.qReach.Transpose(-2, -1), dOut, d.shape(d.dk, d.dv)...))
	dCorrected = s.matmul(x.scores.Transpose(-2, -1), dOut, d.shape(d.c, d.dv)...)
	wrote := s.Tensor(aclnn.Float32, d.b, d.hk, d.group, d.c, d.dv)
	read := s.Tensor(aclnn.Float32, d.b, d.hk, d.group, d.dk, d.dv)
	for i := d.n - 1; i >= 0; i-- {
		here, next, corrected := dState.Select(0, i), dState.Select(0, i+1), dCorrected.Select(3, i)
		s.multiply(wrote, x.kRemain.Select(3, i), next)
		s.add(corrected, wrote, 1)
		s.multiply(read, x.w.Select(3, i).Transpose(-2, -1), corrected)
		s.add(here, read, -1)
		s.addProduct(here, next, x.through.Select(3, i))
	}
	return dState, dCorrected
}

// overGroup sums the gradients of the value heads that share a key head.
func (d *deltaSequence) overGroup(s *steps, t *aclnn.Tensor) *aclnn.Tensor {
	if d.group == 1 {
		return t
	}
	return s.sum(t, 2)
}
