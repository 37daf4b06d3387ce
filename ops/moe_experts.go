package ops

import (
	"context"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// MoEExpertsArgs describes a gated feed-forward unit per expert: for the rows of each expert,
// Hidden = Rows·GateUp, Active = SwiGLU(Hidden), Out = Active·Down. All tensors have one dtype,
// float32, float16 or bfloat16. GroupedMatmul and SwiGLU of the registry compute it, so pinning
// them applies here too. CANN joins the two for int8 alone (aclnn.GroupedMatmulSwigluQuant), which
// is not what a model in these dtypes computes.
type MoEExpertsArgs struct {
	Rows   *aclnn.Tensor // [rows, width], sorted by expert
	GateUp *aclnn.Tensor // [experts, width, 2·inner], gate first; stored as for GroupedMatmul
	Down   *aclnn.Tensor // [experts, inner, width]
	Groups Groups
	// Hidden [rows, 2·inner] and Active [rows, inner] are intermediates that MoEExpertsGrad needs.
	Hidden, Active *aclnn.Tensor
	Out            *aclnn.Tensor // [rows, width]
}

func (a *MoEExpertsArgs) validate() error {
	var c args
	c.Tensor("Rows", a.Rows, floats...)
	if !c.OK() {
		return c.Err
	}
	c.Tensor("Hidden", a.Hidden, a.Rows.DType())
	c.Tensor("Active", a.Active, a.Rows.DType())
	if !c.OK() {
		return c.Err
	}
	// Check all three before the first product is launched.
	up, unit, down := a.up(), a.unit(), a.down()
	return inTurn(up.validate, unit.validate, down.validate)
}

// The arguments of the three operators.

func (a *MoEExpertsArgs) up() GroupedMatmulArgs {
	return GroupedMatmulArgs{X: a.Rows, Weight: a.GateUp, Groups: a.Groups, Out: a.Hidden}
}

func (a *MoEExpertsArgs) unit() SwiGLUArgs { return SwiGLUArgs{X: a.Hidden, Out: a.Active} }

func (a *MoEExpertsArgs) down() GroupedMatmulArgs {
	return GroupedMatmulArgs{X: a.Active, Weight: a.Down, Groups: a.Groups, Out: a.Out}
}

func (a *MoEExpertsArgs) key() key.MoEExperts {
	return key.MoEExperts{
		DType: a.Rows.DType(), GateUp: a.GateUp.Format(), Down: a.Down.Format(), Experts: a.GateUp.Dim(0), Width: a.Rows.Dim(1), Inner: a.Active.Dim(1),
		Rows: key.ExtentOf(a.Rows.Dim(0)), Host: a.Groups.Device == nil, Cumulative: a.Groups.Cumulative,
		Contiguous: contiguous(a.Rows, a.Hidden, a.Active, a.Out, a.Groups.Device),
	}
}

func newMoEExperts(reg *Registry) *Op[MoEExpertsArgs, key.MoEExperts] {
	return op(reg, "moe_experts", (*MoEExpertsArgs).validate, (*MoEExpertsArgs).key,
		Kernel[MoEExpertsArgs, key.MoEExperts]{
			Name: "grouped",
			Run: func(ctx context.Context, st *acl.Stream, a *MoEExpertsArgs) error {
				up, unit, down := a.up(), a.unit(), a.down()
				return inTurn(
					func() error { return reg.GroupedMatmul().Run(ctx, st, &up) },
					func() error { return reg.SwiGLU().Run(ctx, st, &unit) },
					func() error { return reg.GroupedMatmul().Run(ctx, st, &down) },
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

// MoEExpertsGradArgs describes the gradients of MoEExperts.
type MoEExpertsGradArgs struct {
	MoEExpertsArgs               // of the forward pass
	DOut           *aclnn.Tensor // [rows, width]
	DRows          *aclnn.Tensor // [rows, width]
	// DGateUp and DDown are like the weights, of their dtype or float32 (main gradients).
	DGateUp, DDown *aclnn.Tensor
	// Accumulate adds to DGateUp and DDown instead of overwriting them.
	Accumulate bool
}

func (a *MoEExpertsGradArgs) validate() error {
	if err := a.MoEExpertsArgs.validate(); err != nil {
		return err
	}
	down, up := a.gradDown(nil), a.gradUp(a.Hidden)
	return inTurn(down.validate, up.validate)
}

// The gradients of the two products; that of Active is scratch.

func (a *MoEExpertsGradArgs) gradDown(dActive *aclnn.Tensor) GroupedMatmulGradArgs {
	return GroupedMatmulGradArgs{DOut: a.DOut, X: a.Active, Weight: a.Down, Groups: a.Groups, DX: dActive, DWeight: a.DDown, Accumulate: a.Accumulate}
}

func (a *MoEExpertsGradArgs) gradUp(dHidden *aclnn.Tensor) GroupedMatmulGradArgs {
	return GroupedMatmulGradArgs{DOut: dHidden, X: a.Rows, Weight: a.GateUp, Groups: a.Groups, DX: a.DRows, DWeight: a.DGateUp, Accumulate: a.Accumulate}
}

func (a *MoEExpertsGradArgs) key() key.MoEExpertsGrad {
	k := key.MoEExpertsGrad{
		MoEExperts: a.MoEExpertsArgs.key(), DRows: a.DRows != nil, DGateUp: dtypeOf(a.DGateUp), DDown: dtypeOf(a.DDown), Accumulate: a.Accumulate,
	}
	k.Contiguous = k.Contiguous && contiguous(a.DOut, a.DRows)
	return k
}

func newMoEExpertsGrad(reg *Registry) *Op[MoEExpertsGradArgs, key.MoEExpertsGrad] {
	return op(reg, "moe_experts_grad", (*MoEExpertsGradArgs).validate, (*MoEExpertsGradArgs).key,
		Kernel[MoEExpertsGradArgs, key.MoEExpertsGrad]{
			Name: "grouped",
			Run: func(ctx context.Context, st *acl.Stream, a *MoEExpertsGradArgs) error {
				return compose(st, func(s *steps) {
					dActive, dHidden := s.Tensor(a.Rows.DType(), a.Active.Shape()...), s.Tensor(a.Rows.DType(), a.Hidden.Shape()...)
					down, up := a.gradDown(dActive), a.gradUp(dHidden)
					Queue(ctx, &s.Scope, reg.GroupedMatmulGrad(), &down)
					Queue(ctx, &s.Scope, reg.SwiGLUGrad(), &SwiGLUGradArgs{DOut: dActive, X: a.Hidden, DX: dHidden})
					Queue(ctx, &s.Scope, reg.GroupedMatmulGrad(), &up)
				})
			},
		})
}
