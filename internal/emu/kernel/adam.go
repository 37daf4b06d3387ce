package kernel

import "math"

// AdamW describes one update: decay of the weight, moments, bias correction, step.
type AdamW struct {
	LR, Beta1, Beta2, WeightDecay, Eps float64
	Step                               float64 // number of this update, from 1 on
	Maximize                           bool
}

// Update updates weight w and moments m and v from gradient g. With peak, the largest v so
// far takes the place of v (AMSGrad); peak may have no data.
func (o AdamW) Update(w, m, v, peak, g View) error {
	c := newChain(w, g)
	grad := c.temp(w.Shape)
	sign := 1.0
	if o.Maximize {
		sign = -1
	}
	c.set(grad, Mul, nil, Of(g), Const(Real(sign)))
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
	correction1, correction2 := 1-math.Pow(o.Beta1, o.Step), 1-math.Pow(o.Beta2, o.Step)
	c.set(square, Sqrt, nil, Of(square))
	c.set(square, Add, []Number{Real(1 / math.Sqrt(correction2))}, Const(Real(o.Eps)), Of(square))
	next := c.temp(w.Shape)
	c.set(next, Mul, nil, Of(w), Const(Real(1-o.LR*o.WeightDecay)))
	c.set(next, Addcdiv, []Number{Real(-o.LR / correction1)}, Of(next), Of(average), Of(square))
	c.set(w, Identity, nil, Of(next))
	return c.end()
}
