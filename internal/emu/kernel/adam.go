package kernel

import "math"

// AdamW describes one AdamW update: weight decay, moments, bias correction and step.
type AdamW struct {
	LR, Beta1, Beta2, WeightDecay, Eps float64
	Power1, Power2                     float64 // Beta1ⁿ and Beta2ⁿ of step n; 0 corrects no bias
	L2                                 float64 // weight decay that is added to the gradient
	Scale                              float64 // gradient factor, negative to maximise; 0 means 1
}

// Updates returns o with the powers of Beta1 and Beta2 for step number n, which starts at 1.
func (o AdamW) Updates(n float64) AdamW {
	o.Power1, o.Power2 = math.Pow(o.Beta1, n), math.Pow(o.Beta2, n)
	return o
}

// Update updates weight w and moments m and v from gradient g. If peak has data, it holds the
// largest v so far, which is used instead of v (AMSGrad).
func (o AdamW) Update(w, m, v, peak, g View) error {
	return newPieces(w.Shape, len(w.Shape), []View{w, m, v, peak}, g).run(func(_ int64, of func(View) View) error {
		return o.update(of(w), of(m), of(v), of(peak), of(g))
	})
}

func (o AdamW) update(w, m, v, peak, g View) error {
	c := newChain(w, g)
	grad := c.temp(w.Shape)
	scale := 1.0
	if o.Scale != 0 {
		scale = o.Scale
	}
	c.set(grad, Mul, nil, Of(g), Const(Real(scale)))
	if o.L2 != 0 {
		c.set(grad, Add, []Number{Real(o.L2)}, Of(grad), Of(w))
	}
	average, square := c.temp(w.Shape), c.temp(w.Shape)
	c.set(average, Mul, nil, Of(m), Const(Real(o.Beta1)))
	c.set(average, Add, []Number{Real(1 - o.Beta1)}, Of(average), Of(grad))
	c.set(square, Mul, nil, Of(v), Const(Real(o.Beta2)))
	c.addTimes(square, square, 1-o.Beta2, grad, grad)
	c.set(m, Identity, nil, Of(average))
	c.set(v, Identity, nil, Of(square))
	if peak.Data != nil {
		c.set(square, Max, nil, Of(square), Of(peak))
		c.set(peak, Identity, nil, Of(square))
	}
	c.set(square, Sqrt, nil, Of(square))
	c.set(square, Add, []Number{Real(1 / math.Sqrt(1-o.Power2))}, Const(Real(o.Eps)), Of(square))
	next := c.temp(w.Shape)
	c.set(next, Mul, nil, Of(w), Const(Real(1-o.LR*o.WeightDecay)))
	c.set(next, Addcdiv, []Number{Real(-o.LR / (1 - o.Power1))}, Of(next), Of(average), Of(square))
	c.set(w, Identity, nil, Of(next))
	return c.end()
}

// SGD describes one update by gradient descent with momentum.
type SGD struct {
	LR, Momentum, Dampening, WeightDecay float64
	Nesterov, Maximize, First            bool // First: the buffer is initialised with the gradient
}

// Update updates weight w and the momentum buffer from gradient g divided by scale. The buffer
// may have no data.
func (o SGD) Update(w, g, buffer View, scale float64) error {
	c := newChain(w)
	grad, sign := c.temp(w.Shape), 1.0
	if o.Maximize {
		sign = -1
	}
	if scale != 1 {
		c.set(g, Mul, nil, Of(g), Const(Real(1/scale)))
	}
	c.set(grad, Mul, nil, Of(g), Const(Real(sign)))
	c.set(grad, Add, []Number{Real(o.WeightDecay)}, Of(grad), Of(w))
	if buffer.Data != nil {
		moving := c.temp(w.Shape)
		if o.First {
			c.set(moving, Identity, nil, Of(grad))
		} else {
			c.set(moving, Mul, nil, Of(buffer), Const(Real(o.Momentum)))
			c.set(moving, Add, []Number{Real(1 - o.Dampening)}, Of(moving), Of(grad))
		}
		c.set(buffer, Identity, nil, Of(moving))
		if o.Nesterov {
			c.set(grad, Add, []Number{Real(o.Momentum)}, Of(grad), Of(moving))
		} else {
			grad = moving
		}
	}
	c.set(w, Add, []Number{Real(-o.LR)}, Of(w), Of(grad))
	return c.end()
}
