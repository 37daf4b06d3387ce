//go:build emu

package ops_test

import (
	"testing"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/golden"
	"github.com/goascend/cann/ops"
)

func TestGoldenGatedDelta(t *testing.T) {
	for _, c := range golden.Cases(t, "gated_delta_rule") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			everyKernel(t, func(r *ops.Registry) *ops.Op[ops.GatedDeltaArgs] { return r.GatedDelta },
				func(r *ops.Registry) *ops.Op[ops.GatedDeltaGradArgs] { return r.GatedDeltaGrad },
				func(b *bench) bool {
					q, v, g := b.golden(c, "q"), b.golden(c, "v"), b.golden(c, "g")
					a := ops.GatedDeltaArgs{
						Query: q, Key: b.golden(c, "k"), Value: v, Decay: g, Beta: b.golden(c, "beta"), Scale: c.Float("scale"),
						Normalize: c.Bool("l2norm_qk"), Out: b.empty(c.DType, v.Shape()...), FinalState: b.empty(aclnn.Float32, shapeOf(c, "sT")...),
					}
					if c.Bool("init") {
						a.InitialState = b.golden(c, "s0")
					}
					if !takes(b.GatedDelta, &a) {
						return false
					}
					run(b, b.GatedDelta, &a)
					b.near("o", a.Out, c.Float32("o"), tolerance(c.DType))
					b.near("sT", a.FinalState, c.Float32("sT"), tolerance(c.DType))
					grad := ops.GatedDeltaGradArgs{
						GatedDeltaArgs: a, DOut: b.golden(c, "do"), DFinalState: b.golden(c, "dsT"),
						DQuery: b.empty(c.DType, q.Shape()...), DKey: b.empty(c.DType, q.Shape()...), DValue: b.empty(c.DType, v.Shape()...),
						DDecay: b.empty(aclnn.Float32, g.Shape()...), DBeta: b.empty(a.Beta.DType(), g.Shape()...),
						DInitialState: b.empty(aclnn.Float32, a.FinalState.Shape()...),
					}
					run(b, b.GatedDeltaGrad, &grad)
					for name, got := range map[string]*aclnn.Tensor{"dq": grad.DQuery, "dk": grad.DKey, "dv": grad.DValue, "dg": grad.DDecay, "dbeta": grad.DBeta} {
						b.near(name, got, c.Float32(name), tolerance(c.DType))
					}
					if c.Bool("init") {
						b.near("ds0", grad.DInitialState, c.Float32("ds0"), tolerance(c.DType))
					}
					return true
				})
		})
	}
}
