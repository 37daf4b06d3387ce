package ops

import "github.com/goascend/cann/aclnn"

// walk processes one token after another. Its tensors are float32, [B,Hk,G,T,1,·], where queries
// and keys have 1 for G; Select(3, t) views the values of token t.
type walk struct {
	*deltaSequence
	q, k          *aclnn.Tensor // q includes the scale
	qUnit, kUnit  *aclnn.Tensor // factors of the normalisation, or nil
	v, beta, keep *aclnn.Tensor // keep is exp(decay)
}

func (d *deltaSequence) walk(s *steps) *walk {
	d.c, d.n = 1, d.tokens // chunks of one token
	w := &walk{deltaSequence: d, q: d.chunked(s, d.Query), k: d.chunked(s, d.Key), v: d.chunked(s, d.Value), beta: d.chunked(s, d.Beta.Unsqueeze(3))}
	if d.Normalize {
		w.qUnit, w.kUnit = s.unit(w.q), s.unit(w.k)
	}
	s.scale(w.q, d.Scale)
	w.keep = s.exp(d.chunked(s, d.Decay.Unsqueeze(3)))
	return w
}

// stateLike makes a tensor of states, [B,Hk,G,K,V]; valueLike makes one of the values of a token.
func (w *walk) stateLike(s *steps) *aclnn.Tensor {
	return s.Tensor(aclnn.Float32, w.b, w.hk, w.group, w.dk, w.dv)
}

func (w *walk) valueLike(s *steps) *aclnn.Tensor {
	return s.Tensor(aclnn.Float32, w.b, w.hk, w.group, 1, w.dv)
}

// miss computes the error of the decayed state for a token's value: v − k·S̄.
func (w *walk) miss(s *steps, t int64, decayed, out *aclnn.Tensor) {
	s.multiply(out, w.k.Select(3, t), decayed)
	s.minus(out, w.v.Select(3, t), out)
}

// step updates the state by one token. miss and written are scratch.
func (w *walk) step(s *steps, t int64, state, miss, written *aclnn.Tensor) {
	s.times(state, w.keep.Select(3, t))
	w.miss(s, t, state, miss)
	s.times(miss, w.beta.Select(3, t))
	s.multiply(written, w.k.Select(3, t).Transpose(-2, -1), miss)
	s.add(state, written, 1)
}

// recur computes the forward pass.
func (d *deltaSequence) recur(s *steps) {
	if d.tokens == 0 {
		d.idle(s)
		return
	}
	w := d.walk(s)
	state, written, miss := w.stateLike(s), w.stateLike(s), w.valueLike(s)
	d.begin(s, state, d.InitialState)
	out := s.Tensor(aclnn.Float32, w.v.Shape()...)
	for t := range d.tokens {
		w.step(s, t, state, miss, written)
		s.multiply(out.Select(3, t), w.q.Select(3, t), state)
	}
	d.unchunked(s, d.Out, out)
	d.storeState(s, d.FinalState, state)
}

// stretch is the number of tokens whose states the backward pass keeps in memory at a time. It
// stores the state before every stretch and recomputes the states within it.
const stretch = 64

// recurBack computes the backward pass, from the last token to the first.
func (d *deltaSequence) recurBack(s *steps, a *GatedDeltaGradArgs) {
	if d.tokens == 0 {
		d.idleGrad(s, a)
		return
	}
	w := d.walk(s)
	g := &walkGrad{walk: w, dOut: d.chunked(s, a.DOut)}
	perHead := func(width int64) *aclnn.Tensor { return s.Tensor(aclnn.Float32, d.shape(1, width)...) }
	g.dq, g.dk, g.dv, g.dBeta, g.dDecay = perHead(d.dk), perHead(d.dk), perHead(d.dv), perHead(1), perHead(1)
	g.dState, g.decayed, g.written, g.rowK = w.stateLike(s), w.stateLike(s), w.stateLike(s), s.Tensor(aclnn.Float32, d.b, d.hk, d.group, 1, d.dk)
	g.missed, g.dDelta = w.valueLike(s), w.valueLike(s)
	d.begin(s, g.dState, a.DFinalState)

	stretches := (d.tokens + stretch - 1) / stretch
	states := func(n int64) *aclnn.Tensor { return s.Tensor(aclnn.Float32, n, d.b, d.hk, d.group, d.dk, d.dv) }
	starts, within := states(stretches), states(min(d.tokens, stretch)+1)
	// walked advances the state through a stretch and stores each state where the caller says.
	state := w.stateLike(s)
	walked := func(n int64, keep func(after int64)) {
		for t := n * stretch; t < min((n+1)*stretch, d.tokens); t++ {
			w.step(s, t, state, g.missed, g.written)
			keep(t - n*stretch + 1)
		}
	}
	d.begin(s, state, d.InitialState)
	for n := range stretches {
		s.Copy(starts.Select(0, n), state)
		if n+1 < stretches {
			walked(n, func(int64) {})
		}
	}
	for n := stretches - 1; n >= 0; n-- {
		s.Copy(state, starts.Select(0, n))
		s.Copy(within.Select(0, 0), state)
		walked(n, func(after int64) { s.Copy(within.Select(0, after), state) })
		for t := min((n+1)*stretch, d.tokens) - 1; t >= n*stretch; t-- {
			at := t - n*stretch
			g.step(s, t, within.Select(0, at), within.Select(0, at+1))
		}
	}
	d.storeState(s, a.DInitialState, g.dState)
	d.unchunked(s, a.DDecay.Unsqueeze(3), g.dDecay)
	d.unchunked(s, a.DBeta.Unsqueeze(3), g.dBeta)
	d.unchunked(s, a.DValue, g.dv)
	d.storeInputGrads(s, a, g.dq, g.dk, rows{w.q, w.qUnit}, rows{w.k, w.kUnit})
}

// walkGrad is the backward pass of a walk.
type walkGrad struct {
	*walk
	dOut                      *aclnn.Tensor
	dq, dk, dv, dBeta, dDecay *aclnn.Tensor // of each value head
	dState                    *aclnn.Tensor // of the state between two tokens, [B,Hk,G,K,V]

	decayed, written *aclnn.Tensor // scratch tensors like a state
	missed, dDelta   *aclnn.Tensor // like values of a token
	rowK             *aclnn.Tensor // like a key of a token
}

// step propagates the gradient of the state from after a token to before it.
func (g *walkGrad) step(s *steps, t int64, before, after *aclnn.Tensor) {
	k, keep, beta, dOut := g.k.Select(3, t), g.keep.Select(3, t), g.beta.Select(3, t), g.dOut.Select(3, t)
	dv, dk := g.dv.Select(3, t), g.dk.Select(3, t)
	// The output reads the state after the update.
	s.multiply(g.written, g.q.Select(3, t).Transpose(-2, -1), dOut)
	s.add(g.dState, g.written, 1)
	s.multiply(g.dq.Select(3, t), dOut, after.Transpose(-2, -1))
	// The write is k·δᵀ with δ = β·miss, and miss = v − k·S̄.
	launch(s, aclnn.Mul, aclnn.MulParams{Self: before, Other: keep, Out: g.decayed})
	g.miss(s, t, g.decayed, g.missed)
	s.multiply(g.dDelta, k, g.dState)
	launch(s, aclnn.Mul, aclnn.MulParams{Self: g.dDelta, Other: beta, Out: dv})
	s.times(g.dDelta, g.missed)
	s.total(g.dBeta.Select(3, t), g.dDelta, -1)
	s.times(g.missed, beta)
	s.multiply(dk, g.missed, g.dState.Transpose(-2, -1))
	s.multiply(g.rowK, dv, g.decayed.Transpose(-2, -1))
	s.add(dk, g.rowK, -1)
	// The rest of the gradient reaches S̄, the decayed state before the token.
	s.multiply(g.written, k.Transpose(-2, -1), dv)
	s.add(g.dState, g.written, -1)
	s.times(g.decayed, g.dState)
	s.total(g.dDecay.Select(3, t), g.decayed, -2, -1)
	s.times(g.dState, keep)
}

// total sums x over dimensions, which remain with size one, into out.
func (s *steps) total(out, x *aclnn.Tensor, dims ...int64) {
	launch(s, aclnn.ReduceSum, aclnn.ReduceSumParams{Self: x, Dims: dims, KeepDims: true, Dtype: out.DType(), Out: out})
}
