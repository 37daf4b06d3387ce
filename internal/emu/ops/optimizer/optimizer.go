package optimizer

import (
	"errors"
	"math"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// optimizers lists the operators that update weights.
var optimizers = op.Table{
	"ApplyAdam": applyAdam, "ApplyAdamD": applyAdam, "ApplyGradientDescent": gradientDescent, "ApplyFtrl": applyFTRL, "ApplyAdamW": applyAdamW, "ApplyAdamWV2": applyAdamWV2, "ApplyAdamWQuant": adamWQuant,
	"FusedAdamw": fusedAdamW, "ApplyFusedEmaAdam": emaAdam, "FusedSgd": fusedSGD,
}

// applyAdam updates only the weight: it reads the moments and leaves them unchanged. The
// out-of-place form also outputs the new moments. Epsilon is added to the square root of the second
// moment before the bias correction.
func applyAdam(c *op.Call) (op.Run, error) {
	w, m, v, grad := c.Tensor(c.Either("varRef", "var")), c.Tensor("m"), c.Tensor("v"), c.Tensor("grad")
	into, outM, outV, settingType := w, (*op.Tensor)(nil), (*op.Tensor)(nil), dtype.Float32
	if c.Has("varOut") {
		into, outM, outV, settingType = c.Tensor("varOut"), c.Tensor("mOut"), c.Tensor("vOut"), w.DType
	}
	settings := settings(c, settingType, "beta1Power", "beta2Power", "lr", "beta1", "beta2", "epsilon")
	nesterov := c.Bool("useNesterov")
	checkState(c, w, m, v, grad, into, outM, outV)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		s, err := numbersOf(settings)
		if err != nil || w.Len() == 0 {
			return err
		}
		o := rowwise.AdamW{LR: s[2] * math.Sqrt(1-s[1]) / (1 - s[0]), Beta1: s[3], Beta2: s[4], Eps: s[5]}
		average, releaseAverage := kernel.Temporary(w.Shape...)
		defer releaseAverage()
		square, releaseSquare := kernel.Temporary(w.Shape...)
		defer releaseSquare()
		if err := errors.Join(elementwise.Copy(average, m.View()), elementwise.Copy(square, v.View())); err != nil {
			return err
		}
		if into != w {
			if err := elementwise.Copy(into.View(), w.View()); err != nil {
				return err
			}
		}
		step := average
		if nesterov {
			// Nesterov's momentum steps by the average that applying the same gradient once more
			// would give.
			next, releaseNext := kernel.Temporary(w.Shape...)
			defer releaseNext()
			if err := errors.Join(rowwise.Blend(average, grad.View(), 1-o.Beta1), elementwise.Copy(next, average)); err != nil {
				return err
			}
			step = next
		}
		if err := o.Update(into.View(), step, square, kernel.View{}, grad.View()); err != nil || outM == nil {
			return err
		}
		return errors.Join(elementwise.Copy(outM.View(), average), elementwise.Copy(outV.View(), square))
	}, nil
}

// settings reads tensors of one number.
func settings(c *op.Call, d dtype.Type, names ...string) (settings []*op.Tensor) {
	for _, name := range names {
		t := c.Tensor(name)
		c.Plain(t)
		c.DType(t, d)
		c.Single(t)
		settings = append(settings, t)
	}
	return settings
}

// gradientDescent subtracts the gradient times a step size.
func gradientDescent(c *op.Call) (op.Run, error) {
	w, grad := c.Tensor("var"), c.Tensor("delta")
	rate := settings(c, w.DType, "alpha")[0]
	checkState(c, w, grad)
	c.Rank(w, 1, 8)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if w.Len() == 0 {
			return nil
		}
		in := []elementwise.Input{elementwise.Of(w.View()), elementwise.Of(grad.View()), elementwise.Of(rate.As([]int64{}, []int64{}))}
		return elementwise.Map(elementwise.Addcmul, dtype.Float32, w.View(), in, elementwise.Real(-1))
	}, nil
}

// applyFTRL is the FTRL-proximal update. linear accumulates the gradients minus a
// multiple of the weight, and the weight is 0 where the magnitude of linear does not exceed l1.
func applyFTRL(c *op.Call) (op.Run, error) {
	w, squares, linear, grad := c.Tensor("varRef"), c.Tensor("accumRef"), c.Tensor("linearRef"), c.Tensor("grad")
	settings := settings(c, w.DType, "lr", "l1", "l2", "lrPower")
	checkState(c, w, squares, linear, grad)
	if c.Bool("useLocking") {
		c.Invalid("useLocking is true; only false is supported")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if w.Len() == 0 {
			return nil
		}
		s, err := numbersOf(settings)
		if err != nil {
			return err
		}
		rate, l1, l2, power := s[0], s[1], s[2], s[3]
		old := make([][]float64, 4)
		for i, t := range []*op.Tensor{w, squares, linear, grad} {
			if old[i], err = elementwise.Doubles(t.View()); err != nil {
				return err
			}
		}
		for i, g := range old[3] {
			was, before := old[0][i], old[1][i]
			sum := before + g*g
			scale := math.Pow(sum, -power)
			z := old[2][i] + g - (scale-math.Pow(before, -power))/rate*was
			if old[0][i] = 0; math.Abs(z) > l1 {
				old[0][i] = (math.Copysign(l1, z) - z) / (scale/rate + 2*l2)
			}
			old[1][i], old[2][i] = sum, z
		}
		for i, t := range []*op.Tensor{w, squares, linear} {
			if err := elementwise.SetFloats(t.View(), old[i]); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// applyAdamWV2 counts steps as the device does: step is the number of earlier updates, and the
// bias correction uses step + 1.
func applyAdamWV2(c *op.Call) (op.Run, error) {
	w, m, v, grad := c.Tensor("varRef"), c.Tensor("mRef"), c.Tensor("vRef"), c.Tensor("grad")
	peak, step := c.Optional("maxGradNormOptionalRef"), c.Tensor("step")
	o := rowwise.AdamW{
		LR: c.Float("lr"), Beta1: c.Float("beta1"), Beta2: c.Float("beta2"), WeightDecay: c.Float("weightDecay"),
		Eps: c.Float("eps"), Scale: direction(c),
	}
	amsgrad := c.Bool("amsgrad")
	c.DType(w, op.FloatTypes...)
	c.DType(grad, op.FloatTypes...)
	c.DType(m, op.FloatTypes...) // CANN casts whatever differs to float32 and back
	c.DType(v, op.FloatTypes...)
	c.SameShape(w, m, v, grad)
	c.DType(step, dtype.Int64, dtype.Float32)
	if step.Len() != 1 {
		c.Invalid("%v must have one element", step)
	}
	if amsgrad && peak == nil {
		c.Fail(op.NullPointer, "maxGradNormOptionalRef is null; amsgrad needs it")
	}
	if peak != nil && c.Err() == nil {
		c.SameShape(w, peak)
		c.DType(peak, op.FloatTypes...)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if w.Len() == 0 {
			return nil
		}
		made, err := elementwise.Floats(step.View())
		if err != nil {
			return err
		}
		update := o.Updates(float64(made[0]) + 1)
		var most kernel.View
		if amsgrad {
			most = peak.View()
		}
		return update.Update(w.View(), m.View(), v.View(), most, grad.View())
	}, nil
}

// direction returns the sign of the gradient: -1 to maximise.
func direction(c *op.Call) float64 {
	if c.Bool("maximize") {
		return -1
	}
	return 1
}

// checkState checks tensors that an update uses together with the weight. Nil tensors are
// skipped.
func checkState(c *op.Call, w *op.Tensor, others ...*op.Tensor) {
	c.Plain(w)
	c.DType(w, op.FloatTypes...)
	for _, t := range others {
		if t != nil {
			c.Plain(t)
			c.Same(w, t)
		}
	}
}

// first refuses an empty tensor. Only the first element of a longer tensor is used, as in CANN's
// own examples.
func first(c *op.Call, t *op.Tensor) {
	c.Plain(t)
	if t.Len() == 0 {
		c.Invalid("%v is empty; it must have one element", t)
	}
}

// numbersOf reads the first element of each tensor. Valid inside Run only.
func numbersOf(tensors []*op.Tensor) ([]float64, error) {
	numbers := make([]float64, len(tensors))
	for i, t := range tensors {
		v, err := elementwise.Doubles(t.View())
		if err != nil {
			return nil, err
		}
		numbers[i] = v[0]
	}
	return numbers, nil
}

// applyAdamW reads its settings from tensors, including the powers of beta1 and beta2 up to the
// previous update.
func applyAdamW(c *op.Call) (op.Run, error) {
	w, m, v, grad, peak := c.Tensor("varRef"), c.Tensor("mRef"), c.Tensor("vRef"), c.Tensor("grad"), c.Optional("maxGradNormOptional")
	settings := settings(c, w.DType, "beta1Power", "beta2Power", "lr", "weightDecay", "beta1", "beta2", "eps")
	sign := direction(c)
	checkState(c, w, m, v, grad, peak)
	if !c.Bool("amsgrad") {
		peak = nil
	} else if peak == nil {
		c.Fail(op.NullPointer, "maxGradNormOptional is null; amsgrad needs it")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if w.Len() == 0 {
			return nil
		}
		s, err := numbersOf(settings)
		if err != nil {
			return err
		}
		o := rowwise.AdamW{LR: s[2], WeightDecay: s[3], Beta1: s[4], Beta2: s[5], Eps: s[6], Power1: s[0] * s[4], Power2: s[1] * s[5], Scale: sign}
		return o.Update(w.View(), m.View(), v.View(), op.OptionalView(peak), grad.View())
	}, nil
}

// alike refuses a list whose length differs from that of the first.
func alike(c *op.Call, first, list []*op.Tensor, name string) {
	if len(list) != len(first) {
		c.Invalid("%s has %d tensors, but there are %d weights", name, len(list), len(first))
	}
}

// fusedAdamW updates a list of weights, unless an element of foundInf signals a gradient that is
// not finite. The step counts include this update.
func fusedAdamW(c *op.Call) (op.Run, error) {
	weights, grads, steps := c.Tensors("paramsRef"), c.Tensors("grads"), c.Tensors("stateSteps")
	averages, squares, peaks := c.Tensors("expAvgsRef"), c.Tensors("expAvgSqsRef"), c.Tensors("maxExpAvgSqsRef")
	scale, bad := c.Optional("gradScaleOptional"), c.Optional("foundInfOptional")
	o := rowwise.AdamW{
		LR: c.Float("lr"), Beta1: c.Float("beta1"), Beta2: c.Float("beta2"), WeightDecay: c.Float("weightDecay"), Eps: c.Float("eps"), Scale: direction(c),
	}
	if !c.Bool("amsgrad") {
		peaks = make([]*op.Tensor, len(weights))
	}
	for _, list := range []op.Named[[]*op.Tensor]{{Name: "grads", Value: grads}, {Name: "expAvgsRef", Value: averages}, {Name: "expAvgSqsRef", Value: squares}, {Name: "stateSteps", Value: steps}, {Name: "maxExpAvgSqsRef", Value: peaks}} {
		alike(c, weights, list.Value, list.Name)
	}
	for _, t := range []*op.Tensor{scale, bad} {
		if t != nil {
			c.DType(t, dtype.Float32)
			c.Single(t)
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	for i, w := range weights {
		checkState(c, w, grads[i], averages[i], squares[i], peaks[i])
		c.DType(steps[i], dtype.Int64, dtype.Float32)
		first(c, steps[i])
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		run := o
		for _, t := range []*op.Tensor{scale, bad} {
			if t == nil {
				continue
			}
			x, err := numbersOf([]*op.Tensor{t})
			switch {
			case err != nil || t == bad && x[0] == 1:
				return err
			case t == scale:
				run.Scale /= x[0]
			}
		}
		made, err := numbersOf(steps)
		for i, w := range weights {
			if err == nil && w.Len() > 0 {
				err = run.Updates(made[i]).Update(w.View(), averages[i].View(), squares[i].View(), op.OptionalView(peaks[i]), grads[i].View())
			}
		}
		return err
	}, nil
}

// emaAdam also keeps an exponential moving average of the weight. Mode 0 adds the weight decay
// to the gradient; mode 1 applies it to the weight.
func emaAdam(c *op.Call) (op.Run, error) {
	grad, w, m, v, average, step := c.Tensor("grad"), c.Tensor("varRef"), c.Tensor("mRef"), c.Tensor("vRef"), c.Tensor("sRef"), c.Tensor("step")
	keep := c.Float("emaDecay")
	o := rowwise.AdamW{LR: c.Float("lr"), Beta1: c.Float("beta1"), Beta2: c.Float("beta2"), Eps: c.Float("eps")}
	switch mode := c.Int("mode"); mode {
	case 0:
		o.L2 = c.Float("weightDecay")
	case 1:
		o.WeightDecay = c.Float("weightDecay")
	default:
		c.Invalid("mode %d is unknown; 0 adds the decay to the gradient, 1 takes it from the weight", mode)
	}
	correct := c.Bool("biasCorrection")
	checkState(c, grad, w, m, v, average)
	c.DType(step, dtype.Int64)
	first(c, step)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if w.Len() == 0 {
			return nil
		}
		run := o
		if correct {
			made, err := numbersOf([]*op.Tensor{step})
			if err != nil {
				return err
			}
			run = o.Updates(made[0])
		}
		if err := run.Update(w.View(), m.View(), v.View(), kernel.View{}, grad.View()); err != nil {
			return err
		}
		return rowwise.Blend(average.View(), w.View(), 1-keep)
	}, nil
}

// fusedSGD updates a list of weights. Without momentum buffers there is no momentum.
func fusedSGD(c *op.Call) (op.Run, error) {
	weights, grads, buffers, scale := c.Tensors("paramsRef"), c.Tensors("gradsRef"), c.Tensors("momentumBufferListOptionalRef"), c.Optional("gradScaleOptional")
	o := rowwise.SGD{
		LR: c.Float("lr"), Momentum: c.Float("momentum"), Dampening: c.Float("dampening"), WeightDecay: c.Float("weightDecay"),
		Nesterov: c.Bool("nesterov"), Maximize: c.Bool("maximize"), First: c.Bool("isFirstStep"),
	}
	if o.LR < 0 || o.Momentum < 0 || o.Dampening < 0 || o.WeightDecay < 0 {
		c.Invalid("lr %g, momentum %g, dampening %g or weightDecay %g is negative", o.LR, o.Momentum, o.Dampening, o.WeightDecay)
	}
	if len(buffers) == 0 {
		buffers = make([]*op.Tensor, len(weights))
	}
	alike(c, weights, grads, "gradsRef")
	alike(c, weights, buffers, "momentumBufferListOptionalRef")
	if scale != nil {
		c.DType(scale, op.FloatTypes...)
		c.Single(scale)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	for i, w := range weights {
		checkState(c, w, grads[i], buffers[i])
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		factor := 1.0
		if scale != nil {
			x, err := numbersOf([]*op.Tensor{scale})
			if err != nil {
				return err
			}
			factor = x[0]
		}
		for i, w := range weights {
			if w.Len() == 0 {
				continue
			}
			if err := o.Update(w.View(), grads[i].View(), op.OptionalView(buffers[i]), factor); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
