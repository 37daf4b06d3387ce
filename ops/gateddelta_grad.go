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
	between := s.mul(dScores, x.scores)
	s.times(dScores, x.decay)
	dq := s.matmul(s.mul(dOut, x.reach), state.Transpose(-2, -1), ofKeys...)
	dSums := s.dots(dq, queries)
	s.addMatmul(dq, dScores, x.k)
	// Through the state: keys wrote to it.
	carried := s.matmul(x.corrected, dNext.Transpose(-2, -1), ofKeys...)
	s.times(carried, x.remain)
	dk := s.matmul(dScores.Transpose(-2, -1), x.q, ofKeys...)
	s.add(dk, carried, 1)

	// The decay enters as differences of γ. Between a token and itself, in the scores and at the
	// end of the chunk, the difference is zero and is left out: under strong decay the other terms
	// would be lost in the rounding of terms that cancel.
	s.lower(between, -1)
	s.add(dSums, s.sum(between, -1), 1)
	s.add(dSums, s.sum(between, -2).Transpose(-2, -1), -1)
	s.Free(between, dScores)
	written := s.dots(carried, keys)
	last := dSums.Narrow(4, d.c-1, 1)
	s.Fill(written.Narrow(4, d.c-1, 1), aclnn.Float(0))
	s.add(dSums, written, -1)
	s.add(last, s.sum(written, 4), 1)
	both := s.mul(state, dNext)
	s.addProduct(last, s.sum(both, -2, -1), x.through)
	s.Free(carried, both)

	// Through the triangular system: its right-hand sides, then its matrix.
	right := s.Tensor(aclnn.Float32, d.shape(d.c, d.dk+d.dv)...)
	s.multiply(right.Narrow(-1, 0, d.dk), dCorrected, state.Transpose(-2, -1))
	s.scale(right.Narrow(-1, 0, d.dk), -1)
	s.Copy(right.Narrow(-1, d.dk, d.dv), dCorrected)
	solved := s.matmul(x.inverse.Transpose(-2, -1), right, right.Shape()...)
	s.Free(right)
	xk, xv := solved.Narrow(-1, 0, d.dk), solved.Narrow(-1, d.dk, d.dv)
	e := s.matmul(solved, x.wu.Transpose(-2, -1), d.shape(d.c, d.c)...)
	s.times(e, x.decay)
	s.lower(e, -1)
	s.scale(e, -1)
	ek := s.matmul(e, x.k, ofKeys...)
	weighted := s.mul(keys, x.beta)
	ekt := s.matmul(e.Transpose(-2, -1), weighted, ofKeys...)
	s.Free(e, weighted)

	weight := s.mul(x.beta, x.reach)
	direct := s.mul(s.dots(xk, keys), x.reach)
	s.add(direct, s.dots(ek, keys), 1)
	s.addProduct(dSums, direct, x.beta)
	s.add(dSums, s.dots(ekt, keys), -1)
	dBeta := s.dots(xv, x.v)
	s.add(dBeta, direct, 1)
	s.addProduct(dk, xk, weight)
	s.addProduct(dk, ek, x.beta)
	s.add(dk, ekt, 1)

	dDecay := s.Tensor(aclnn.Float32, dSums.Shape()...)
	launch(s, aclnn.CumsumV2, aclnn.CumsumV2Params{Self: dSums, Dim: 4, Reverse: true, Out: dDecay})
	d.unchunked(s, a.DDecay.Unsqueeze(3), dDecay)
	d.unchunked(s, a.DBeta.Unsqueeze(3), dBeta)
	d.unchunked(s, a.DValue, s.mul(xv, x.beta))
	d.storeInputGrads(s, a, dq, dk, rows{x.q, x.qUnit}, rows{x.k, x.kUnit})
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
