package rowwise

// #include "rows_op.h"
import "C"

import (
	"math"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

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
func (o AdamW) Update(w, m, v, peak, g kernel.View) error {
	scale := 1.0
	if o.Scale != 0 {
		scale = o.Scale
	}
	c := C.struct_adamw{
		scale: C.float(scale), l2: C.float(o.L2), beta1: C.float(o.Beta1), rest1: C.float(1 - o.Beta1), beta2: C.float(o.Beta2), rest2: C.float(1 - o.Beta2),
		eps: C.float(o.Eps), root: C.float(1 / math.Sqrt(1-o.Power2)), decay: C.float(1 - o.LR*o.WeightDecay), step: C.float(-o.LR / (1 - o.Power1)),
	}
	views := []kernel.View{w, m, v, g, peak}
	if peak.Data == nil {
		views = views[:4]
	}
	var err error
	if c.space, err = elementwiseSpace(views, &c.w, &c.m, &c.v, &c.g, &c.peak); err != nil {
		return err
	}
	// A thread takes whole pieces, because the bits of an element depend on how far it is from the end of its piece.
	n := w.Len()
	thread.Parallel((n+elementwise.PieceLen-1)/elementwise.PieceLen, 1, func(lo, hi int64) {
		for ; lo < hi; lo++ {
			C.adamw_run(&c, C.int64_t(lo*elementwise.PieceLen), C.int64_t(min((lo+1)*elementwise.PieceLen, n)))
		}
	})
	return nil
}

// SGD describes one update by gradient descent with momentum.
type SGD struct {
	LR, Momentum, Dampening, WeightDecay float64
	Nesterov, Maximize, First            bool // First: the buffer is initialised with the gradient
}

// Update updates weight w and the momentum buffer from gradient g divided by scale. The buffer
// may have no data.
func (o SGD) Update(w, g, buffer kernel.View, scale float64) error {
	c := NewChain(w)
	grad, sign := c.Temp(w.Shape), 1.0
	if o.Maximize {
		sign = -1
	}
	if scale != 1 {
		c.Set(g, elementwise.Mul, nil, elementwise.Of(g), elementwise.Const(elementwise.Real(1/scale)))
	}
	c.Set(grad, elementwise.Mul, nil, elementwise.Of(g), elementwise.Const(elementwise.Real(sign)))
	c.Set(grad, elementwise.Add, []elementwise.Number{elementwise.Real(o.WeightDecay)}, elementwise.Of(grad), elementwise.Of(w))
	if buffer.Data != nil {
		moving := c.Temp(w.Shape)
		if o.First {
			c.Set(moving, elementwise.Identity, nil, elementwise.Of(grad))
		} else {
			c.Set(moving, elementwise.Mul, nil, elementwise.Of(buffer), elementwise.Const(elementwise.Real(o.Momentum)))
			c.Set(moving, elementwise.Add, []elementwise.Number{elementwise.Real(1 - o.Dampening)}, elementwise.Of(moving), elementwise.Of(grad))
		}
		c.Set(buffer, elementwise.Identity, nil, elementwise.Of(moving))
		if o.Nesterov {
			c.Set(grad, elementwise.Add, []elementwise.Number{elementwise.Real(o.Momentum)}, elementwise.Of(grad), elementwise.Of(moving))
		} else {
			grad = moving
		}
	}
	c.Set(w, elementwise.Add, []elementwise.Number{elementwise.Real(-o.LR)}, elementwise.Of(w), elementwise.Of(grad))
	return c.End()
}
