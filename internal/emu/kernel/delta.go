package kernel

import "slices"

// The chunked gated delta rule, one chunk of one head at a time. Matrices are [tokens, ·]; beta
// and gamma (the running sum of the log decay within the chunk) are [tokens]. Inputs and
// outputs have any floating-point type, and intermediate results are float32.

// column returns a vector as a matrix of one column, across as a matrix of one row.
func (v View) column() View { return kept(v, 2, []int{1}) }
func (v View) across() View { return kept(v, 2, []int{0}) }

// gemm is out = alpha·a·b, plus out if add.
func (c *chain) gemm(out, a, b View, alpha float64, add bool) {
	if c.err != nil {
		return
	}
	p := Product{Out: out, A: a, B: b, Alpha: alpha}
	if add {
		p.Add, p.Beta = &out, 1
	}
	c.err = Gemm(p)
}

// like allocates a temporary with the shape of v.
func (c *chain) like(v View) View { return c.temp(slices.Clone(v.Shape)) }

// scaled returns the rows of x multiplied by the elements of a vector.
func (c *chain) scaled(x, by View) View {
	out := c.like(x)
	c.mul(out, x, by.column())
	return out
}

// exp returns eᵛ.
func (c *chain) exp(v View) View {
	out := c.like(v)
	c.set(out, Exp, nil, Of(v))
	return out
}

// lower sets the elements of a matrix above a diagonal to zero.
func (c *chain) lower(x View, diagonal int64) {
	for i := int64(0); i < x.Shape[0] && c.err == nil; i++ {
		if from := max(i+diagonal+1, 0); from < x.Shape[1] {
			c.err = Zero(x.Select(0, i).Narrow(0, from, x.Shape[1]-from))
		}
	}
}

// decays returns exp(γᵢ − γⱼ) on and below the diagonal, and 0 above it.
func (c *chain) decays(gamma View) View {
	n := gamma.Shape[0]
	d := c.temp([]int64{n, n})
	c.sub(d, gamma.column(), gamma.across())
	c.set(d, Min, nil, Of(d), Const(Real(0))) // exp might overflow above the diagonal
	c.set(d, Exp, nil, Of(d))
	c.lower(d, 0)
	return d
}

// remain returns exp(γ_last − γ).
func (c *chain) remain(gamma View) View {
	out := c.like(gamma)
	last := gamma.Narrow(0, gamma.Shape[0]-1, 1)
	c.sub(out, last, gamma)
	c.set(out, Exp, nil, Of(out))
	return out
}

// through returns exp(γ_last) as a matrix of one element.
func (c *chain) through(gamma View) View {
	return c.exp(gamma.Narrow(0, gamma.Shape[0]-1, 1)).column()
}

// scores returns tril(q·kᵀ ⊙ decays).
func (c *chain) scores(q, k, gamma View) View {
	n := q.Shape[0]
	s := c.temp([]int64{n, n})
	c.gemm(s, q, k.transposed(), 1, false)
	c.mul(s, s, c.decays(gamma))
	return s
}

// dots adds sign times the row sums of x ⊙ y to out.
func (c *chain) dots(out, x, y View, sign float64) {
	product, sum := c.like(x), c.temp(x.Shape[:1])
	c.mul(product, x, y)
	c.reduce(ReduceSum, sum, product, []int{1}, 0)
	c.set(out, Add, []Number{Real(sign)}, Of(out), Of(sum))
}

// total adds the sum of all elements of x to the last element of out.
func (c *chain) total(out, x View) {
	sum := c.temp([]int64{})
	c.reduce(ReduceSum, sum, x, []int{0, 1}, 0)
	last := out.Narrow(0, out.Shape[0]-1, 1)
	c.set(last, Add, []Number{Real(1)}, Of(last), Of(sum))
}

// zeros returns a temporary filled with zeros.
func (c *chain) zeros(shape ...int64) View {
	v := c.temp(shape)
	if c.err == nil {
		c.err = Zero(v)
	}
	return v
}

// copy sets out to in, converted to the type of out.
func (c *chain) copy(out, in View) { c.set(out, Identity, nil, Of(in)) }

// DeltaWU computes w = a·(beta·eᵞ·k) and u = a·(beta·v) of a chunk, where a [n,n] is the inverse
// of the chunk's system.
func DeltaWU(w, u, a, k, v, beta, gamma View) error {
	c := newChain()
	weight := c.exp(gamma)
	c.mul(weight, weight, beta)
	c.gemm(w, a, c.scaled(k, weight), 1, false)
	c.gemm(u, a, c.scaled(v, beta), 1, false)
	return c.end()
}

// DeltaStates computes the state of one head before each chunk of a sequence, h [chunks,K,V],
// and the values that each chunk writes, corrected = u − w·h. Chunks have length tokens; the
// last may have fewer. initial and final may have no data.
func DeltaStates(h, corrected, final, initial, k, w, u, gamma View, length int64) error {
	c := newChain()
	state := c.zeros(h.Shape[1:]...)
	if initial.Data != nil {
		c.copy(state, initial)
	}
	for i := range h.Shape[0] {
		part := chunkOf(k.Shape[0], length, i)
		g := part(gamma)
		c.copy(h.Select(0, i), state)
		write := c.like(part(u))
		c.gemm(write, part(w), state, -1, false)
		c.set(write, Add, []Number{Real(1)}, Of(write), Of(part(u)))
		c.copy(part(corrected), write)
		c.mul(state, state, c.through(g))
		c.gemm(state, c.scaled(part(k), c.remain(g)).transposed(), write, 1, true)
	}
	if final.Data != nil {
		c.copy(final, state)
	}
	return c.end()
}

// chunkOf returns a function that slices the i-th chunk of [tokens, …].
func chunkOf(tokens, length, i int64) func(View) View {
	return func(v View) View { return v.Narrow(0, i*length, min(length, tokens-i*length)) }
}

// DeltaOut computes a chunk's output, scale·(eᵞ·q·h + scores·corrected).
func DeltaOut(out, q, k, corrected, h, gamma View, scale float64) error {
	c := newChain()
	o := c.like(out)
	c.gemm(o, c.scaled(q, c.exp(gamma)), h, scale, false)
	c.gemm(o, c.scores(q, k, gamma), corrected, scale, true)
	c.copy(out, o)
	return c.end()
}

// DeltaLocalGrad computes the gradient of the values that a chunk writes (corrected), as far as
// it flows through the output of the same chunk.
func DeltaLocalGrad(dv, q, k, dOut, gamma View, scale float64) error {
	c := newChain()
	c.gemm(dv, c.scores(q, k, gamma).transposed(), dOut, scale, false)
	return c.end()
}

// DeltaStatesGrad propagates the gradient of the state backward through the chunks of a
// sequence, starting from zero. dh [chunks,K,V] gets the gradient of the state after each chunk,
// and dv the full gradient of the values it writes, given local from DeltaLocalGrad.
func DeltaStatesGrad(dh, dv, local, q, k, w, dOut, gamma View, scale float64, length int64) error {
	c := newChain()
	state := c.zeros(dh.Shape[1:]...)
	for i := dh.Shape[0] - 1; i >= 0; i-- {
		part := chunkOf(k.Shape[0], length, i)
		g := part(gamma)
		c.copy(dh.Select(0, i), state)
		write := c.like(part(local))
		c.copy(write, part(local))
		c.gemm(write, c.scaled(part(k), c.remain(g)), state, 1, true)
		c.copy(part(dv), write)
		c.mul(state, state, c.through(g))
		c.gemm(state, c.scaled(part(q), c.exp(g)).transposed(), part(dOut), scale, true)
		c.gemm(state, part(w).transposed(), write, -1, true)
	}
	return c.end()
}

// DeltaHead holds the tensors of one value head that the gradients of a chunk use.
type DeltaHead struct {
	Gamma, Beta   View // [tokens]
	V             View // [tokens,V]: the corrected values, or the values
	H, DH         View // [K,V], the state before the chunk and the gradient of the state after it
	DOut, DV      View // [tokens,V]
	A, DA         View // [tokens,tokens]
	DW, DU        View // [tokens,K], [tokens,V]
	DGamma, DBeta View // [tokens], results
}

// DeltaInputGrad computes the gradients, through output and state, of a chunk's queries and
// keys, which several value heads share, and of each head's w and gamma.
func DeltaInputGrad(dq, dk, q, k View, heads []DeltaHead, scale float64) error {
	c := newChain()
	sumQ, sumK := c.zeros(q.Shape...), c.zeros(k.Shape...)
	for _, x := range heads {
		c.gemm(x.DW, x.DV, x.H.transposed(), -1, false)
		d := c.temp([]int64{q.Shape[0], q.Shape[0]})
		c.gemm(d, x.DOut, x.V.transposed(), scale, false)
		c.mul(d, d, c.decays(x.Gamma))
		headQ, headK, carried := c.like(q), c.like(k), c.like(k)
		c.gemm(headQ, c.scaled(x.DOut, c.exp(x.Gamma)), x.H.transposed(), scale, false)
		c.gemm(headQ, d, k, 1, true)
		c.gemm(carried, c.scaled(x.V, c.remain(x.Gamma)), x.DH.transposed(), 1, false)
		c.copy(headK, carried)
		c.gemm(headK, d.transposed(), q, 1, true)

		sum := c.zeros(q.Shape[0])
		c.dots(sum, headQ, q, 1)
		c.dots(sum, headK, k, -1)
		c.mul(carried, carried, k)
		c.total(sum, carried)
		states := c.like(x.H)
		c.mul(states, x.H, x.DH)
		c.mul(states, states, c.through(x.Gamma))
		c.total(sum, states)
		c.copy(x.DGamma, sum)
		c.addTimes(sumQ, sumQ, 1, headQ, c.one())
		c.addTimes(sumK, sumK, 1, headK, c.one())
	}
	c.copy(dq, sumQ)
	c.copy(dk, sumK)
	return c.end()
}

// one returns a matrix of the single element 1.
func (c *chain) one() View {
	v := c.temp([]int64{1, 1})
	if c.err == nil {
		c.err = Fill(v, Real(1))
	}
	return v
}

// DeltaSystemGrad computes the gradient of the strictly lower part of a chunk's system times its
// decays: −tril(aᵀ·tril(dw·(beta·eᵞ·k)ᵀ + du·(beta·v)ᵀ)·aᵀ) ⊙ decays.
func DeltaSystemGrad(da, k, v, beta, a, dw, du, gamma View) error {
	c := newChain()
	weight := c.exp(gamma)
	c.mul(weight, weight, beta)
	d, x := c.like(a), c.like(a)
	c.gemm(d, dw, c.scaled(k, weight).transposed(), 1, false)
	c.gemm(d, du, c.scaled(v, beta).transposed(), 1, true)
	c.lower(d, -1)
	c.gemm(x, d, a.transposed(), 1, false)
	c.gemm(d, a.transposed(), x, -1, false)
	c.lower(d, -1)
	c.mul(da, d, c.decays(gamma))
	return c.end()
}

// DeltaWUGrad computes the gradients, through w and u, of a chunk's keys, which several value
// heads share, and of each head's values (in dv), beta and gamma.
func DeltaWUGrad(dk View, dv []View, k View, heads []DeltaHead) error {
	c := newChain()
	sumK := c.zeros(k.Shape...)
	for i, x := range heads {
		xk, xv := c.like(k), c.like(x.V)
		c.gemm(xk, x.A.transposed(), x.DW, 1, false)
		c.gemm(xv, x.A.transposed(), x.DU, 1, false)
		c.mul(dv[i], xv, x.Beta.column())
		reach := c.exp(x.Gamma)
		ek, ekt := c.like(k), c.like(k)
		c.gemm(ek, x.DA, k, 1, false)
		c.gemm(ekt, x.DA.transposed(), c.scaled(k, x.Beta), 1, false)

		direct, dBeta, dGamma := c.zeros(k.Shape[0]), c.zeros(k.Shape[0]), c.zeros(k.Shape[0])
		c.dots(direct, xk, k, 1)
		c.mul(direct, direct, reach)
		c.dots(direct, ek, k, 1)
		c.dots(dBeta, xv, x.V, 1)
		c.set(dBeta, Add, []Number{Real(1)}, Of(dBeta), Of(direct))
		c.copy(x.DBeta, dBeta)
		c.dots(dGamma, ekt, k, -1)
		c.addTimes(dGamma, dGamma, 1, direct, x.Beta)
		c.copy(x.DGamma, dGamma)

		c.mul(reach, reach, x.Beta)
		c.addTimes(sumK, sumK, 1, xk, reach.column())
		c.addTimes(sumK, sumK, 1, ek, x.Beta.column())
		c.set(sumK, Add, []Number{Real(1)}, Of(sumK), Of(ekt))
	}
	c.copy(dk, sumK)
	return c.end()
}

// DeltaStep computes one token of the recurrence and updates the state [V,K] in place. The state
// decays by eᵍ, its value at key k moves towards v by the factor beta, and query q reads the
// output from it. g and beta are vectors of one element; g may have no data.
func DeltaStep(out, state, q, k, v, g, beta View, scale float64) error {
	c := newChain()
	now := c.like(state)
	c.copy(now, state)
	if g.Data != nil {
		c.mul(now, now, c.exp(g).column())
	}
	delta := c.temp([]int64{v.Shape[0], 1})
	c.gemm(delta, now, k.column(), -1, false)
	c.set(delta, Add, []Number{Real(1)}, Of(delta), Of(v.column()))
	c.mul(delta, delta, beta.column())
	c.gemm(now, delta, k.across(), 1, true)
	c.copy(state, now)
	read := c.like(delta)
	c.gemm(read, now, q.column(), scale, false)
	c.copy(out.column(), read)
	return c.end()
}
