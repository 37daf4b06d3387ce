package model

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/checkpoint"
)

// lossScale is the factor of the loss in the backward pass of a model in float16, where small
// gradients would become zero without it. It halves when a gradient has become infinite, and doubles
// after a number of good steps in a row.
type lossScale struct {
	factor float64
	good   int // steps since the factor changed
}

// As in PyTorch's GradScaler.
const (
	firstScale  = 1 << 16
	scaleGrowth = 2000 // steps
)

func newLossScale(dt aclnn.DType) lossScale {
	if dt == aclnn.Float16 {
		return lossScale{factor: firstScale}
	}
	return lossScale{factor: 1}
}

// next changes the factor after a step.
func (s *lossScale) next(finite bool) {
	if s.good++; !finite {
		*s = lossScale{factor: s.factor / 2}
	} else if s.good == scaleGrowth {
		*s = lossScale{factor: s.factor * 2}
	}
}

// LossScale returns the factor of the loss in the next backward pass, and of the gradients after it: 1
// but for models in float16.
func (m *Model) LossScale() float64 { return m.scale.factor }

// stepScaled is Step for gradients of a scaled loss. It updates nothing if some are infinite.
func (o *Optimizer) stepScaled(ctx context.Context) (norm float64, err error) {
	s := &aclnn.Scope{Stream: o.m.st}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, w := range o.store.slots() {
		aclnn.Launch(s, aclnn.InplaceMuls, aclnn.InplaceMulsParams{Self: w.grad, Other: aclnn.Float(1 / o.m.scale.factor)})
	}
	norms := o.clip(ctx, s)
	if s.Err() != nil {
		return 0, s.Err()
	}
	if norm, err = readScalar(ctx, o.m.st, norms); err != nil {
		return 0, err
	}
	finite := !math.IsNaN(norm) && !math.IsInf(norm, 0)
	if !finite && o.m.scale.factor <= 1 {
		return norm, fmt.Errorf("model: %w in the gradients, also of a loss that is not scaled up", ErrAnomaly)
	}
	o.m.scale.next(finite)
	if !finite {
		return math.Inf(1), nil
	}
	if o.update(ctx, s, nil); s.Err() != nil {
		return 0, s.Err()
	}
	o.count(o.steps + 1)
	return norm, nil
}

// scaleKey is the entry of a checkpoint's description that has the scale.
const scaleKey = "loss scale"

// describe adds the scale to the description of a checkpoint.
func (s lossScale) describe(about *checkpoint.About) {
	if s.factor != 1 || s.good > 0 {
		about.Data = map[string]string{scaleKey: fmt.Sprint(s.factor, " ", s.good)}
	}
}

// restore takes it from there; a checkpoint of another dtype has none.
func (s *lossScale) restore(about checkpoint.About) error {
	text := about.Data[scaleKey]
	if text == "" || s.factor == 1 {
		return nil
	}
	if _, err := fmt.Sscan(text, &s.factor, &s.good); err != nil || !(s.factor > 0) {
		return fmt.Errorf("model: a checkpoint has the loss scale %q", text)
	}
	return nil
}
