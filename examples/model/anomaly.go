package model

import (
	"errors"
	"fmt"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/autograd"
)

// ErrAnomaly says that a result of a layer, or a gradient, has NaN or infinite elements.
var ErrAnomaly = errors.New("NaN or infinite elements")

// DetectAnomalies lets each step look for NaN and infinite elements in what the layers compute and in
// the gradients, and end with ErrAnomaly and the name of the first tensor that has some. It waits for
// the device after each layer. Captured steps cannot. The backward pass of float16 is left out, as
// LossScale is for its infinite gradients.
func (m *Model) DetectAnomalies(on bool) { m.detect = on }

// finite looks at a variable if anomalies are to be found.
func (p *pass) finite(v *autograd.Var, format string, args ...any) {
	if p.detect && v != nil && p.Err() == nil {
		p.Fail(p.look(v.Value, format, args...))
	}
}

// look returns ErrAnomaly if a tensor has elements that are NaN or infinite.
func (p *pass) look(t *aclnn.Tensor, format string, args ...any) error {
	if t == nil || t.Len() == 0 {
		return nil
	}
	sum := []float32{0}
	err := aclnn.Compose(p.Stream(), func(s *aclnn.Scope) {
		// Zero times an element is zero, or else NaN, which stays in the sum.
		zero, total := s.Like(t), s.Tensor(aclnn.Float32, 1)
		aclnn.Launch(s, aclnn.Muls, aclnn.MulsParams{Self: t, Other: aclnn.Float(0), Out: zero})
		if s.Err() != nil {
			return
		}
		aclnn.Launch(s, aclnn.ReduceSum, aclnn.ReduceSumParams{
			Self: s.Cast(zero.Reshape(-1), aclnn.Float32), Dims: []int64{0}, KeepDims: true, Dtype: aclnn.Float32, Out: total,
		})
		s.Do(func() error { return aclnn.CopyFromDevice(p.ctx, s.Stream, sum, total) })
	})
	if err == nil && sum[0] != 0 {
		err = fmt.Errorf("model: %w: %s", ErrAnomaly, fmt.Sprintf(format, args...))
	}
	return err
}

// finiteGradient returns x, and looks at its gradient in the backward pass.
func (p *pass) finiteGradient(x *autograd.Var, format string, args ...any) *autograd.Var {
	if !p.detect || p.dt == aclnn.Float16 {
		return x
	}
	return p.Record("look at the gradient", []*autograd.Var{x}, func(c *autograd.Call) {
		c.View(x, x.Value)
		c.Backward(func(g *autograd.Gradients) {
			g.Do(func() error { return p.look(g.Output(0), format, args...) })
			g.Pass(0, 0, nil)
		})
	})[0]
}

// finiteGradients looks at the gradients of a unit.
func (p *pass) finiteGradients(u int) {
	if !p.detect || p.dt == aclnn.Float16 {
		return
	}
	for _, ps := range p.trained.parameters() {
		for _, w := range ps.units[u] {
			if p.Err() == nil {
				p.Fail(p.look(w.Grad, "the gradient of %s", w.Name))
			}
		}
	}
}
