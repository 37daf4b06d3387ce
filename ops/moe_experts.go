package ops

import (
	"context"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// MoEExpertsArgs is a gated unit per expert: for the rows of each,
// Hidden = Rows·GateUp, Active = SwiGLU(Hidden), Out = Active·Down. All are float32, float16
// or bfloat16. The products and the unit are those of the registry, as pinned there.
type MoEExpertsArgs struct {
	Rows   *aclnn.Tensor // [rows, width], sorted by expert
	GateUp *aclnn.Tensor // [experts, width, 2·inner], the gate first; as GroupedMatmul takes it
	Down   *aclnn.Tensor // [experts, inner, width]
	Groups Groups
	// Hidden and Active are [rows, 2·inner] and [rows, inner]: scratch that MoEExpertsGrad needs.
	Hidden, Active *aclnn.Tensor
	Out            *aclnn.Tensor // [rows, width]
}

func (a *MoEExpertsArgs) validate() error {
	var c check
	c.tensor("Rows", a.Rows, floats...)
	if !c.ok() {
		return c.err
	}
	c.tensor("Hidden", a.Hidden, a.Rows.DType())
	c.tensor("Active", a.Active, a.Rows.DType())
	if !c.ok() {
		return c.err
	}
	// All of it before the first product is launched.
	up, unit, down := a.up(), a.unit(), a.down()
	return inTurn(up.validate, unit.validate, down.validate)
}

// The three operators that the experts are made of.

func (a *MoEExpertsArgs) up() GroupedMatmulArgs {
	return GroupedMatmulArgs{X: a.Rows, Weight: a.GateUp, Groups: a.Groups, Out: a.Hidden}
}

func (a *MoEExpertsArgs) unit() SwiGLUArgs { return SwiGLUArgs{X: a.Hidden, Out: a.Active} }

func (a *MoEExpertsArgs) down() GroupedMatmulArgs {
	return GroupedMatmulArgs{X: a.Active, Weight: a.Down, Groups: a.Groups, Out: a.Out}
}

func newMoEExperts(reg *Registry) *Op[MoEExpertsArgs] {
	return op(reg, "moe_experts", (*MoEExpertsArgs).validate,
		func(a *MoEExpertsArgs) Signature { return dtypeSignature(a.Rows) },
		Kernel[MoEExpertsArgs]{
			Name: "grouped", Supports: Always[MoEExpertsArgs],
			Run: func(ctx context.Context, st *acl.Stream, a *MoEExpertsArgs) error {
				up, unit, down := a.up(), a.unit(), a.down()
				return inTurn(
					func() error { return reg.GroupedMatmul.Run(ctx, st, &up) },
					func() error { return reg.SwiGLU.Run(ctx, st, &unit) },
					func() error { return reg.GroupedMatmul.Run(ctx, st, &down) },
				)
			},
		})
}

// inTurn runs operators until one fails.
func inTurn(operators ...func() error) error {
	for _, run := range operators {
		if err := run(); err != nil {
			return err
		}
	}
	return nil
}

// MoEExpertsGradArgs are the gradients of MoEExperts.
type MoEExpertsGradArgs struct {
	MoEExpertsArgs               // of the forward pass
	DOut           *aclnn.Tensor // [rows, width]
	DRows          *aclnn.Tensor // [rows, width]
	// DGateUp and DDown are like the weights, of their dtype or float32 (main gradients).
	DGateUp, DDown *aclnn.Tensor
	// Accumulate adds to what DGateUp and DDown have instead of overwriting it.
	Accumulate bool
}

func (a *MoEExpertsGradArgs) validate() error {
	if err := a.MoEExpertsArgs.validate(); err != nil {
		return err
	}
	down, up := a.gradDown(nil), a.gradUp(a.Hidden)
	return inTurn(down.validate, up.validate)
}

// The gradients of the two products; that of the unit between them is scratch.

func (a *MoEExpertsGradArgs) gradDown(dActive *aclnn.Tensor) GroupedMatmulGradArgs {
	return GroupedMatmulGradArgs{DOut: a.DOut, X: a.Active, Weight: a.Down, Groups: a.Groups, DX: dActive, DWeight: a.DDown, Accumulate: a.Accumulate}
}

func (a *MoEExpertsGradArgs) gradUp(dHidden *aclnn.Tensor) GroupedMatmulGradArgs {
	return GroupedMatmulGradArgs{DOut: dHidden, X: a.Rows, Weight: a.GateUp, Groups: a.Groups, DX: a.DRows, DWeight: a.DGateUp, Accumulate: a.Accumulate}
}

func newMoEExpertsGrad(reg *Registry) *Op[MoEExpertsGradArgs] {
	return op(reg, "moe_experts_grad", (*MoEExpertsGradArgs).validate,
		func(a *MoEExpertsGradArgs) Signature { return dtypeSignature(a.Rows) },
		Kernel[MoEExpertsGradArgs]{
			Name: "grouped", Supports: Always[MoEExpertsGradArgs],
			Run: func(ctx context.Context, st *acl.Stream, a *MoEExpertsGradArgs) error {
				return compose(st, func(s *steps) {
					dActive, dHidden := s.tensor(a.Rows.DType(), a.Active.Shape()...), s.tensor(a.Rows.DType(), a.Hidden.Shape()...)
					if s.err != nil {
						return
					}
					down, up := a.gradDown(dActive), a.gradUp(dHidden)
					s.err = inTurn(
						func() error { return reg.GroupedMatmulGrad.Run(ctx, st, &down) },
						func() error {
							return reg.SwiGLUGrad.Run(ctx, st, &SwiGLUGradArgs{DOut: dActive, X: a.Hidden, DX: dHidden})
						},
						func() error { return reg.GroupedMatmulGrad.Run(ctx, st, &up) },
					)
				})
			},
		})
}
