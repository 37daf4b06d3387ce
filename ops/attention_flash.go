package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/mask"
)

// flash is an entry point of the FlashAttentionScore family, forward or backward.
type flash[A any] struct {
	params  aclnn.Params // of the C function, for its name
	packed  bool         // takes layout TND, and no other
	anyBias bool         // takes every kind of bias
	queue   func(s *steps, a *A, p *plan)
}

// plan is what an attention on the device needs besides its arguments.
type plan struct {
	mask.Decision
	geometry
	tensor   *aclnn.Tensor // the mask, nil without
	top, sum *aclnn.Tensor // the softmax statistics
	keepProb float64
	pseType  int64

	queryStart, keyStart []int64 // nil at 0
}

var flashForward = []flash[AttentionArgs]{
	{params: &aclnn.FlashAttentionScoreParams{}, queue: func(s *steps, a *AttentionArgs, p *plan) {
		launch(s, aclnn.FlashAttentionScore, aclnn.FlashAttentionScoreParams{
			Query: a.Query, Key: a.Key, Value: a.Value, RealShiftOptional: a.Bias, DropMaskOptional: a.DropMask,
			AttenMaskOptional: p.tensor, PrefixOptional: p.Prefix, ScaleValue: a.Scale, KeepProb: p.keepProb,
			PreTokens: p.Pre, NextTokens: p.Next, HeadNum: p.n, InputLayout: string(a.Layout), InnerPrecise: p.InnerPrecise,
			SparseMode: p.SparseMode, SoftmaxMaxOut: p.top, SoftmaxSumOut: p.sum, AttentionOutOut: a.Out,
		})
	}},
	{params: &aclnn.FlashAttentionScoreV2Params{}, anyBias: true, queue: func(s *steps, a *AttentionArgs, p *plan) {
		launch(s, aclnn.FlashAttentionScoreV2, aclnn.FlashAttentionScoreV2Params{
			Query: a.Query, Key: a.Key, Value: a.Value, RealShiftOptional: a.Bias, DropMaskOptional: a.DropMask,
			AttenMaskOptional: p.tensor, PrefixOptional: p.Prefix, ScaleValue: a.Scale, KeepProb: p.keepProb,
			PreTokens: p.Pre, NextTokens: p.Next, HeadNum: p.n, InputLayout: string(a.Layout), InnerPrecise: p.InnerPrecise,
			SparseMode: p.SparseMode, PseType: p.pseType, QStartIdxOptional: p.queryStart, KvStartIdxOptional: p.keyStart, SoftmaxMaxOut: p.top, SoftmaxSumOut: p.sum, AttentionOutOut: a.Out,
		})
	}},
	{params: &aclnn.FlashAttentionVarLenScoreParams{}, packed: true, queue: func(s *steps, a *AttentionArgs, p *plan) {
		launch(s, aclnn.FlashAttentionVarLenScore, aclnn.FlashAttentionVarLenScoreParams{
			Query: a.Query, Key: a.Key, Value: a.Value, RealShiftOptional: a.Bias, DropMaskOptional: a.DropMask,
			AttenMaskOptional: p.tensor, PrefixOptional: p.Prefix, ActualSeqQLenOptional: p.SeqQueries, ActualSeqKvLenOptional: p.SeqKeys,
			ScaleValue: a.Scale, KeepProb: p.keepProb,
			PreTokens: p.Pre, NextTokens: p.Next, HeadNum: p.n, InputLayout: string(a.Layout), InnerPrecise: p.InnerPrecise,
			SparseMode: p.SparseMode, SoftmaxMaxOut: p.top, SoftmaxSumOut: p.sum, AttentionOutOut: a.Out,
		})
	}},
	{params: &aclnn.FlashAttentionVarLenScoreV2Params{}, packed: true, anyBias: true, queue: func(s *steps, a *AttentionArgs, p *plan) {
		launch(s, aclnn.FlashAttentionVarLenScoreV2, aclnn.FlashAttentionVarLenScoreV2Params{
			Query: a.Query, Key: a.Key, Value: a.Value, RealShiftOptional: a.Bias, DropMaskOptional: a.DropMask,
			AttenMaskOptional: p.tensor, PrefixOptional: p.Prefix, ActualSeqQLenOptional: p.SeqQueries, ActualSeqKvLenOptional: p.SeqKeys,
			ScaleValue: a.Scale, KeepProb: p.keepProb,
			PreTokens: p.Pre, NextTokens: p.Next, HeadNum: p.n, InputLayout: string(a.Layout), InnerPrecise: p.InnerPrecise,
			SparseMode: p.SparseMode, PseType: p.pseType, QStartIdxOptional: p.queryStart, KvStartIdxOptional: p.keyStart, SoftmaxMaxOut: p.top, SoftmaxSumOut: p.sum, AttentionOutOut: a.Out,
		})
	}},
}

var flashBackward = []flash[AttentionGradArgs]{
	{params: &aclnn.FlashAttentionScoreGradParams{}, queue: func(s *steps, a *AttentionGradArgs, p *plan) {
		launch(s, aclnn.FlashAttentionScoreGrad, aclnn.FlashAttentionScoreGradParams{
			Query: a.Query, KeyIn: a.Key, Value: a.Value, Dy: a.DOut, PseShiftOptional: a.Bias, DropMaskOptional: a.DropMask,
			AttenMaskOptional: p.tensor, SoftmaxMaxOptional: p.top, SoftmaxSumOptional: p.sum, AttentionInOptional: a.Out,
			PrefixOptional: p.Prefix, ScaleValue: a.Scale, KeepProb: p.keepProb,
			PreTokens: p.Pre, NextTokens: p.Next, HeadNum: p.n, InputLayout: string(a.Layout), InnerPrecise: p.InnerPrecise,
			SparseMode: p.SparseMode, DqOut: a.DQuery, DkOut: a.DKey, DvOut: a.DValue,
		})
	}},
	{params: &aclnn.FlashAttentionScoreGradV2Params{}, anyBias: true, queue: func(s *steps, a *AttentionGradArgs, p *plan) {
		launch(s, aclnn.FlashAttentionScoreGradV2, aclnn.FlashAttentionScoreGradV2Params{
			Query: a.Query, KeyIn: a.Key, Value: a.Value, Dy: a.DOut, PseShiftOptional: a.Bias, DropMaskOptional: a.DropMask,
			AttenMaskOptional: p.tensor, SoftmaxMaxOptional: p.top, SoftmaxSumOptional: p.sum, AttentionInOptional: a.Out,
			PrefixOptional: p.Prefix, ScaleValue: a.Scale, KeepProb: p.keepProb,
			PreTokens: p.Pre, NextTokens: p.Next, HeadNum: p.n, InputLayout: string(a.Layout), InnerPrecise: p.InnerPrecise,
			SparseMode: p.SparseMode, PseType: p.pseType, QStartIdxOptional: p.queryStart, KvStartIdxOptional: p.keyStart, DqOut: a.DQuery, DkOut: a.DKey, DvOut: a.DValue,
		})
	}},
	{params: &aclnn.FlashAttentionUnpaddingScoreGradParams{}, packed: true, queue: func(s *steps, a *AttentionGradArgs, p *plan) {
		launch(s, aclnn.FlashAttentionUnpaddingScoreGrad, aclnn.FlashAttentionUnpaddingScoreGradParams{
			Query: a.Query, KeyIn: a.Key, Value: a.Value, Dy: a.DOut, PseShiftOptional: a.Bias, DropMaskOptional: a.DropMask,
			AttenMaskOptional: p.tensor, SoftmaxMaxOptional: p.top, SoftmaxSumOptional: p.sum, AttentionInOptional: a.Out,
			PrefixOptional: p.Prefix, ActualSeqQLenOptional: p.SeqQueries, ActualSeqKvLenOptional: p.SeqKeys,
			ScaleValue: a.Scale, KeepProb: p.keepProb,
			PreTokens: p.Pre, NextTokens: p.Next, HeadNum: p.n, InputLayout: string(a.Layout), InnerPrecise: p.InnerPrecise,
			SparseMode: p.SparseMode, DqOut: a.DQuery, DkOut: a.DKey, DvOut: a.DValue,
		})
	}},
	{params: &aclnn.FlashAttentionUnpaddingScoreGradV2Params{}, packed: true, anyBias: true, queue: func(s *steps, a *AttentionGradArgs, p *plan) {
		launch(s, aclnn.FlashAttentionUnpaddingScoreGradV2, aclnn.FlashAttentionUnpaddingScoreGradV2Params{
			Query: a.Query, KeyIn: a.Key, Value: a.Value, Dy: a.DOut, PseShiftOptional: a.Bias, DropMaskOptional: a.DropMask,
			AttenMaskOptional: p.tensor, SoftmaxMaxOptional: p.top, SoftmaxSumOptional: p.sum, AttentionInOptional: a.Out,
			PrefixOptional: p.Prefix, ActualSeqQLenOptional: p.SeqQueries, ActualSeqKvLenOptional: p.SeqKeys,
			ScaleValue: a.Scale, KeepProb: p.keepProb,
			PreTokens: p.Pre, NextTokens: p.Next, HeadNum: p.n, InputLayout: string(a.Layout), InnerPrecise: p.InnerPrecise,
			SparseMode: p.SparseMode, PseType: p.pseType, QStartIdxOptional: p.queryStart, KvStartIdxOptional: p.keyStart, DqOut: a.DQuery, DkOut: a.DKey, DvOut: a.DValue,
		})
	}},
}

// supports says whether the entry point takes the arguments.
func (f *flash[A]) supports(env *Env, a *AttentionArgs) error {
	var c check
	g := a.geometry(&c)
	switch {
	case f.packed && a.Layout != TND:
		return fmt.Errorf("layout %s is not packed", a.Layout)
	case !f.packed && a.Layout == TND:
		return errors.New("layout TND is packed")
	case !f.anyBias && a.Bias != nil && a.BiasKind != BiasBeforeScale:
		return errors.New("it adds a bias before the scale only")
	case g.d > headLimit:
		return fmt.Errorf("head dimension %d is above %d", g.d, headLimit)
	}
	return errors.Join(trainingChip(env, f.params.Operator().Name), available(f.params))
}

// newAttention prefers the fused entry points, those with fewer arguments first.
func newAttention(reg *Registry) *Op[AttentionArgs] {
	var kernels []Kernel[AttentionArgs]
	for _, f := range flashForward {
		kernels = append(kernels, Kernel[AttentionArgs]{
			Name: f.params.Operator().Name, Supports: f.supports,
			Run: func(ctx context.Context, st *acl.Stream, a *AttentionArgs) error {
				if a.Out.Len() == 0 {
					return nil
				}
				return compose(st, func(s *steps) {
					if p := a.plan(ctx, reg, s); s.err == nil {
						f.queue(s, a, &p)
					}
				})
			},
		})
	}
	kernels = append(kernels, Kernel[AttentionArgs]{
		Name: "composite", Supports: func(_ *Env, a *AttentionArgs) error { return a.composable() },
		Run: func(ctx context.Context, st *acl.Stream, a *AttentionArgs) error { return a.compose(ctx, st) },
	})
	return op(reg, "attention", (*AttentionArgs).validate, (*AttentionArgs).signature, kernels...)
}

func newAttentionGrad(reg *Registry) *Op[AttentionGradArgs] {
	var kernels []Kernel[AttentionGradArgs]
	for _, f := range flashBackward {
		kernels = append(kernels, Kernel[AttentionGradArgs]{
			Name:     f.params.Operator().Name,
			Supports: func(env *Env, a *AttentionGradArgs) error { return f.supports(env, &a.AttentionArgs) },
			Run: func(ctx context.Context, st *acl.Stream, a *AttentionGradArgs) error {
				return compose(st, func(s *steps) {
					if a.Query.Len() == 0 || a.Key.Len() == 0 {
						a.clear(s)
					} else if p := a.plan(ctx, reg, s); s.err == nil {
						f.queue(s, a, &p)
					}
				})
			},
		})
	}
	kernels = append(kernels, Kernel[AttentionGradArgs]{
		Name: "composite", Supports: func(_ *Env, a *AttentionGradArgs) error { return a.composable() },
		Run: func(ctx context.Context, st *acl.Stream, a *AttentionGradArgs) error { return a.compose(ctx, st) },
	})
	return op(reg, "attention_grad", (*AttentionGradArgs).validate,
		func(a *AttentionGradArgs) Signature { return a.signature() }, kernels...)
}

// clear is the gradient where nothing attends to anything.
func (a *AttentionGradArgs) clear(s *steps) {
	for _, t := range []*aclnn.Tensor{a.DQuery, a.DKey, a.DValue} {
		if t.Len() > 0 {
			s.zero(t)
		}
	}
}

// plan decides on the mask and brings its tensor to the device.
func (a *AttentionArgs) plan(ctx context.Context, reg *Registry, s *steps) (p plan) {
	var c check
	p.geometry = a.geometry(&c)
	if p.Decision, s.err = a.decide(p.geometry); s.err != nil {
		return p
	}
	switch p.Source {
	case mask.Triangle, mask.PrefixTriangle:
		p.tensor, s.err = reg.templates.tensor(s.st, p.Source)
	case mask.Given:
		p.tensor = s.hidden(p.Dense).Expand(p.Shape...)
	case mask.Built:
		p.tensor = s.pattern(ctx, p.Pattern(0), p.b, p.sq, p.skv).Expand(p.Shape...)
	}
	p.keepProb, p.pseType = 1, int64(BiasBeforeScale) // the device wants these if there is nothing to drop or add
	if a.DropMask != nil {
		p.keepProb = a.KeepProb
	}
	if a.Bias != nil {
		p.pseType = int64(a.BiasKind)
	}
	if a.QueryStart != 0 {
		p.queryStart = []int64{a.QueryStart}
	}
	if a.KeyStart != 0 {
		p.keyStart = []int64{a.KeyStart}
	}
	p.top, p.sum = a.SoftmaxMax, a.SoftmaxSum
	for _, t := range []**aclnn.Tensor{&p.top, &p.sum} {
		if *t == nil && a.Layout == TND {
			*t = s.tensor(aclnn.Float32, p.sq, p.n, statLanes)
		} else if *t == nil {
			*t = s.tensor(aclnn.Float32, p.b, p.n, p.sq, statLanes)
		}
	}
	return p
}
