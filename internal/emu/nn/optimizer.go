package nn

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

var optimizers = table{"ApplyAdamWV2": applyAdamWV2}

// applyAdamWV2 counts as the device does: step is the number of updates made before, and
// the bias correction uses the next one.
func applyAdamWV2(c *Call) (Run, error) {
	w, m, v, grad := c.Tensor("varRef"), c.Tensor("mRef"), c.Tensor("vRef"), c.Tensor("grad")
	peak, step := c.Optional("maxGradNormOptionalRef"), c.Tensor("step")
	o := kernel.AdamW{
		LR: c.Float("lr"), Beta1: c.Float("beta1"), Beta2: c.Float("beta2"), WeightDecay: c.Float("weightDecay"),
		Eps: c.Float("eps"), Maximize: c.Bool("maximize"),
	}
	amsgrad := c.Bool("amsgrad")
	c.DType(w, transformerTypes...)
	c.DType(grad, transformerTypes...)
	c.Same(w, m, v)
	c.SameShape(w, grad)
	c.DType(step, dtype.Int64, dtype.Float32)
	if step.Len() != 1 {
		c.Invalid("%v must have one element", step)
	}
	if amsgrad && peak == nil {
		c.Fail(nullPointer, "maxGradNormOptionalRef is null; amsgrad needs it")
	}
	if peak != nil && c.Err() == nil {
		c.SameShape(w, peak)
		c.SameDType(grad, peak)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if w.Len() == 0 {
			return nil
		}
		made, err := kernel.Floats(step.View())
		if err != nil {
			return err
		}
		update := o
		update.Step = float64(made[0]) + 1
		var most kernel.View
		if amsgrad {
			most = peak.View()
		}
		return update.Update(w.View(), m.View(), v.View(), most, grad.View())
	}, nil
}
