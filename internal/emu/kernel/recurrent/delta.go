package recurrent

import (
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
)

// The chunked gated delta rule, one chunk of one head at a time. Matrices are [tokens, ·]; beta
// and gamma (the running sum of the log decay within the chunk) are [tokens]. Inputs and
// outputs have any floating-point type, and intermediate results are float32.

// multiply is out = alpha·a·b, plus out if add.
func multiply(c *rowwise.Chain, out, a, b kernel.View, alpha float64, add bool) {
	if c.Err != nil {
		return
	}
	p := gemm.Product{Out: out, A: a, B: b, Alpha: alpha}
	if add {
		p.Add, p.Beta = &out, 1
	}
	c.Err = gemm.Gemm(p)
}

// scaled returns the rows of x multiplied by the elements of a vector.
func scaled(c *rowwise.Chain, x, by kernel.View) kernel.View {
	out := c.Like(x)
	c.Mul(out, x, by.Column())
	return out
}

// exp returns eᵛ.
func exp(c *rowwise.Chain, v kernel.View) kernel.View {
	out := c.Like(v)
	c.Set(out, elementwise.Exp, nil, elementwise.Of(v))
	return out
}

// lower sets the elements of a matrix above a diagonal to zero.
func lower(c *rowwise.Chain, x kernel.View, diagonal int64) {
	for i := int64(0); i < x.Shape[0] && c.Err == nil; i++ {
		if from := max(i+diagonal+1, 0); from < x.Shape[1] {
			c.Err = elementwise.Zero(x.Select(0, i).Narrow(0, from, x.Shape[1]-from))
		}
	}
}

// decays returns exp(γᵢ − γⱼ) on and below the diagonal, and 0 above it.
func decays(c *rowwise.Chain, gamma kernel.View) kernel.View {
	n := gamma.Shape[0]
	d := c.Temp([]int64{n, n})
	c.Sub(d, gamma.Column(), gamma.Across())
	c.Set(d, elementwise.Min, nil, elementwise.Of(d), elementwise.Const(elementwise.Real(0))) // exp might overflow above the diagonal
	c.Set(d, elementwise.Exp, nil, elementwise.Of(d))
	lower(c, d, 0)
	return d
}

// remain returns exp(γ_last − γ).
func remain(c *rowwise.Chain, gamma kernel.View) kernel.View {
	out := c.Like(gamma)
	last := gamma.Narrow(0, gamma.Shape[0]-1, 1)
	c.Sub(out, last, gamma)
	c.Set(out, elementwise.Exp, nil, elementwise.Of(out))
	return out
}

// through returns exp(γ_last) as a matrix of one element.
func through(c *rowwise.Chain, gamma kernel.View) kernel.View {
	return exp(c, gamma.Narrow(0, gamma.Shape[0]-1, 1)).Column()
}

// scores returns tril(q·kᵀ ⊙ decays).
func scores(c *rowwise.Chain, q, k, gamma kernel.View) kernel.View {
	n := q.Shape[0]
	s := c.Temp([]int64{n, n})
	multiply(c, s, q, k.Transposed(), 1, false)
	c.Mul(s, s, decays(c, gamma))
	return s
}

// dots adds sign times the row sums of x ⊙ y to out.
func dots(c *rowwise.Chain, out, x, y kernel.View, sign float64) {
	product, sum := c.Like(x), c.Temp(x.Shape[:1])
	c.Mul(product, x, y)
	c.Reduce(rowwise.ReduceSum, sum, product, []int{1}, 0)
	c.Set(out, elementwise.Add, []elementwise.Number{elementwise.Real(sign)}, elementwise.Of(out), elementwise.Of(sum))
}

// total adds the sum of all elements of x to the last element of out.
func total(c *rowwise.Chain, out, x kernel.View) {
	sum := c.Temp([]int64{})
	c.Reduce(rowwise.ReduceSum, sum, x, []int{0, 1}, 0)
	last := out.Narrow(0, out.Shape[0]-1, 1)
	c.Set(last, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(last), elementwise.Of(sum))
}

// DeltaWU computes w = a·(beta·eᵞ·k) and u = a·(beta·v) of a chunk, where a [n,n] is the inverse
// of the chunk's system.
func DeltaWU(w, u, a, k, v, beta, gamma kernel.View) error {
	c := rowwise.NewChain()
	weight := exp(c, gamma)
	c.Mul(weight, weight, beta)
	multiply(c, w, a, scaled(c, k, weight), 1, false)
	multiply(c, u, a, scaled(c, v, beta), 1, false)
	return c.End()
}

// DeltaStates computes the state of one head before each chunk of a sequence, h [chunks,K,V],
// and the values that each chunk writes, corrected = u − w·h. Chunks have length tokens; the
// last may have fewer. initial and final may have no data.
func DeltaStates(h, corrected, final, initial, k, w, u, gamma kernel.View, length int64) error {
	c := rowwise.NewChain()
	state := c.Zeros(h.Shape[1:]...)
	if initial.Data != nil {
		c.Copy(state, initial)
	}
	for i := range h.Shape[0] {
		part := chunkOf(k.Shape[0], length, i)
		g := part(gamma)
		c.Copy(h.Select(0, i), state)
		write := c.Like(part(u))
		multiply(c, write, part(w), state, -1, false)
		c.Set(write, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(write), elementwise.Of(part(u)))
		c.Copy(part(corrected), write)
		c.Mul(state, state, through(c, g))
		multiply(c, state, scaled(c, part(k), remain(c, g)).Transposed(), write, 1, true)
	}
	if final.Data != nil {
		c.Copy(final, state)
	}
	return c.End()
}

// chunkOf returns a function that slices the i-th chunk of [tokens, …].
func chunkOf(tokens, length, i int64) func(kernel.View) kernel.View {
	return func(v kernel.View) kernel.View { return v.Narrow(0, i*length, min(length, tokens-i*length)) }
}

// DeltaOut computes a chunk's output, scale·(eᵞ·q·h + scores·corrected).
func DeltaOut(out, q, k, corrected, h, gamma kernel.View, scale float64) error {
	c := rowwise.NewChain()
	o := c.Like(out)
	multiply(c, o, scaled(c, q, exp(c, gamma)), h, scale, false)
	multiply(c, o, scores(c, q, k, gamma), corrected, scale, true)
	c.Copy(out, o)
	return c.End()
}

// DeltaLocalGrad computes the gradient of the values that a chunk writes (corrected), as far as
// it flows through the output of the same chunk.
func DeltaLocalGrad(dv, q, k, dOut, gamma kernel.View, scale float64) error {
	c := rowwise.NewChain()
	multiply(c, dv, scores(c, q, k, gamma).Transposed(), dOut, scale, false)
	return c.End()
}

// DeltaStatesGrad propagates the gradient of the state backward through the chunks of a
// sequence, starting from zero. dh [chunks,K,V] gets the gradient of the state after each chunk,
// and dv the full gradient of the values it writes, given local from DeltaLocalGrad.
func DeltaStatesGrad(dh, dv, local, q, k, w, dOut, gamma kernel.View, scale float64, length int64) error {
	c := rowwise.NewChain()
	state := c.Zeros(dh.Shape[1:]...)
	for i := dh.Shape[0] - 1; i >= 0; i-- {
		part := chunkOf(k.Shape[0], length, i)
		g := part(gamma)
		c.Copy(dh.Select(0, i), state)
		write := c.Like(part(local))
		c.Copy(write, part(local))
		multiply(c, write, scaled(c, part(k), remain(c, g)), state, 1, true)
		c.Copy(part(dv), write)
		c.Mul(state, state, through(c, g))
		multiply(c, state, scaled(c, part(q), exp(c, g)).Transposed(), part(dOut), scale, true)
		multiply(c, state, part(w).Transposed(), write, -1, true)
	}
	return c.End()
}

// DeltaHead holds the tensors of one value head that the gradients of a chunk use.
type DeltaHead struct {
	Gamma, Beta   kernel.View // [tokens]
	V             kernel.View // [tokens,V]: the corrected values, or the values
	H, DH         kernel.View // [K,V], the state before the chunk and the gradient of the state after it
	DOut, DV      kernel.View // [tokens,V]
	A, DA         kernel.View // [tokens,tokens]
	DW, DU        kernel.View // [tokens,K], [tokens,V]
	DGamma, DBeta kernel.View // [tokens], results
}

// DeltaInputGrad computes the gradients, through output and state, of a chunk's queries and
// keys, which several value heads share, and of each head's w and gamma.
func DeltaInputGrad(dq, dk, q, k kernel.View, heads []DeltaHead, scale float64) error {
	c := rowwise.NewChain()
	sumQ, sumK := c.Zeros(q.Shape...), c.Zeros(k.Shape...)
	for _, x := range heads {
		multiply(c, x.DW, x.DV, x.H.Transposed(), -1, false)
		d := c.Temp([]int64{q.Shape[0], q.Shape[0]})
		multiply(c, d, x.DOut, x.V.Transposed(), scale, false)
		c.Mul(d, d, decays(c, x.Gamma))
		headQ, headK, carried := c.Like(q), c.Like(k), c.Like(k)
		multiply(c, headQ, scaled(c, x.DOut, exp(c, x.Gamma)), x.H.Transposed(), scale, false)
		multiply(c, headQ, d, k, 1, true)
		multiply(c, carried, scaled(c, x.V, remain(c, x.Gamma)), x.DH.Transposed(), 1, false)
		c.Copy(headK, carried)
		multiply(c, headK, d.Transposed(), q, 1, true)

		sum := c.Zeros(q.Shape[0])
		dots(c, sum, headQ, q, 1)
		dots(c, sum, headK, k, -1)
		c.Mul(carried, carried, k)
		total(c, sum, carried)
		states := c.Like(x.H)
		c.Mul(states, x.H, x.DH)
		c.Mul(states, states, through(c, x.Gamma))
		total(c, sum, states)
		c.Copy(x.DGamma, sum)
		c.AddTimes(sumQ, sumQ, 1, headQ, one(c))
		c.AddTimes(sumK, sumK, 1, headK, one(c))
	}
	c.Copy(dq, sumQ)
	c.Copy(dk, sumK)
	return c.End()
}

// one returns a matrix of the single element 1.
func one(c *rowwise.Chain) kernel.View {
	v := c.Temp([]int64{1, 1})
	if c.Err == nil {
		c.Err = elementwise.Fill(v, elementwise.Real(1))
	}
	return v
}

// DeltaSystemGrad computes the gradient of the strictly lower part of a chunk's system times its
// decays: −tril(aᵀ·tril(dw·(beta·eᵞ·k)ᵀ + du·(beta·v)ᵀ)·aᵀ) ⊙ decays.
func DeltaSystemGrad(da, k, v, beta, a, dw, du, gamma kernel.View) error {
	c := rowwise.NewChain()
	weight := exp(c, gamma)
	c.Mul(weight, weight, beta)
	d, x := c.Like(a), c.Like(a)
	multiply(c, d, dw, scaled(c, k, weight).Transposed(), 1, false)
	multiply(c, d, du, scaled(c, v, beta).Transposed(), 1, true)
	lower(c, d, -1)
	multiply(c, x, d, a.Transposed(), 1, false)
	multiply(c, d, a.Transposed(), x, -1, false)
	lower(c, d, -1)
	c.Mul(da, d, decays(c, gamma))
	return c.End()
}

// DeltaWUGrad computes the gradients, through w and u, of a chunk's keys, which several value
// heads share, and of each head's values (in dv), beta and gamma.
func DeltaWUGrad(dk kernel.View, dv []kernel.View, k kernel.View, heads []DeltaHead) error {
	c := rowwise.NewChain()
	sumK := c.Zeros(k.Shape...)
	for i, x := range heads {
		xk, xv := c.Like(k), c.Like(x.V)
		multiply(c, xk, x.A.Transposed(), x.DW, 1, false)
		multiply(c, xv, x.A.Transposed(), x.DU, 1, false)
		c.Mul(dv[i], xv, x.Beta.Column())
		reach := exp(c, x.Gamma)
		ek, ekt := c.Like(k), c.Like(k)
		multiply(c, ek, x.DA, k, 1, false)
		multiply(c, ekt, x.DA.Transposed(), scaled(c, k, x.Beta), 1, false)

		direct, dBeta, dGamma := c.Zeros(k.Shape[0]), c.Zeros(k.Shape[0]), c.Zeros(k.Shape[0])
		dots(c, direct, xk, k, 1)
		c.Mul(direct, direct, reach)
		dots(c, direct, ek, k, 1)
		dots(c, dBeta, xv, x.V, 1)
		c.Set(dBeta, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(dBeta), elementwise.Of(direct))
		c.Copy(x.DBeta, dBeta)
		dots(c, dGamma, ekt, k, -1)
		c.AddTimes(dGamma, dGamma, 1, direct, x.Beta)
		c.Copy(x.DGamma, dGamma)

		c.Mul(reach, reach, x.Beta)
		c.AddTimes(sumK, sumK, 1, xk, reach.Column())
		c.AddTimes(sumK, sumK, 1, ek, x.Beta.Column())
		c.Set(sumK, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(sumK), elementwise.Of(ekt))
	}
	c.Copy(dk, sumK)
	return c.End()
}

// DeltaStep computes one token of the recurrence and updates the state [V,K] in place. The state
// decays by eᵍ, its value at key k moves towards v by the factor beta, and query q reads the
// output from it. g and beta are vectors of one element; g may have no data.
func DeltaStep(out, state, q, k, v, g, beta kernel.View, scale float64) error {
	c := rowwise.NewChain()
	now := c.Like(state)
	c.Copy(now, state)
	if g.Data != nil {
		c.Mul(now, now, exp(c, g).Column())
	}
	delta := c.Temp([]int64{v.Shape[0], 1})
	multiply(c, delta, now, k.Column(), -1, false)
	c.Set(delta, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(delta), elementwise.Of(v.Column()))
	c.Mul(delta, delta, beta.Column())
	multiply(c, now, delta, k.Across(), 1, true)
	c.Copy(state, now)
	read := c.Like(delta)
	multiply(c, read, now, q.Column(), scale, false)
	c.Copy(out.Column(), read)
	return c.End()
}
