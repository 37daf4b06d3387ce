package model

import (
	"errors"
	"fmt"

	"github.com/goascend/cann/aclnn"
)

// ErrAnomaly says that a result of a layer, or a gradient, has NaN or infinite elements.
var ErrAnomaly = errors.New("NaN or infinite elements")

// DetectAnomalies lets each step look for NaN and infinite elements in what the layers compute and in
// the gradients, and end with ErrAnomaly and the name of the first tensor that has some. It waits for
// the device after each layer. Captured steps cannot. The backward pass of float16 is left out, as
// LossScale is for its infinite gradients.
func (m *Model) DetectAnomalies(on bool) { m.detect = on }

// finite looks at a tensor if anomalies are to be found.
func (p *pass) finite(t *aclnn.Tensor, format string, args ...any) {
	if !p.detect || t == nil || t.Len() == 0 || p.Err() != nil {
		return
	}
	// Zero times an element is zero, or else NaN, which stays in the sum.
	zero, sum := p.Like(t), p.Tensor(aclnn.Float32, 1)
	aclnn.Launch(&p.Scope, aclnn.Muls, aclnn.MulsParams{Self: t, Other: aclnn.Float(0), Out: zero})
	if p.Err() != nil {
		return
	}
	aclnn.Launch(&p.Scope, aclnn.ReduceSum, aclnn.ReduceSumParams{
		Self: p.Cast(zero.Reshape(-1), aclnn.Float32), Dims: []int64{0}, KeepDims: true, Dtype: aclnn.Float32, Out: sum,
	})
	if v := p.read(sum); v != nil && v[0] != 0 {
		p.Fail(fmt.Errorf("model: %w: %s", ErrAnomaly, fmt.Sprintf(format, args...)))
	}
}

// finiteGradients looks at the gradients of a unit.
func (p *pass) finiteGradients(ps *parameters, u int) {
	if !p.detect || p.dt == aclnn.Float16 || u >= len(ps.units) {
		return
	}
	for _, w := range ps.units[u] {
		p.finite(w.Grad, "the gradient of %s", w.Name)
	}
}
