package ops

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
	"github.com/goascend/cann/ops/mask"
)

// flash is an entry point of the FlashAttentionScore family, forward or backward.
type flash[A any] struct {
	params  aclnn.Params // of the C function, for its name
	packed  bool         // takes layout TND only
	anyBias bool         // takes every kind of bias
	sinks   bool         // takes the sinks of the heads, and only calls that have some
	dims    int64        // largest head dimension
	queue   func(s *steps, a *A, p *plan)
}

// plan holds what attention on the device needs besides its arguments. The check of the arguments
// fills sizes and mask, once per launch; the kernel makes the tensors.
type plan struct {
	mask.Decision
	geometry
	tensor   *aclnn.Tensor // the mask, nil if there is no tensor
	top, sum *aclnn.Tensor // the softmax statistics
	dsinks   *aclnn.Tensor // the gradient of the sinks, for a kernel that computes it
	keepProb float64
	pseType  aclnn.PseType

	queryStart, keyStart []int64 // nil if both are 0
}

var flashForward = []flash[AttentionArgs]{
	{params: &aclnn.FlashAttentionScoreV3Params{}, dims: narrowDims, anyBias: true, sinks: true, queue: func(s *steps, a *AttentionArgs, p *plan) {
		launch(s, aclnn.FlashAttentionScoreV3, aclnn.FlashAttentionScoreV3Params{
			Query: a.Query, Key: a.Key, Value: a.Value, RealShift: a.Bias, DropMask: a.DropMask,
			AttenMask: p.tensor, Prefix: p.Prefix, ScaleValue: a.Scale, KeepProb: p.keepProb,
			PreTokens: p.Pre, NextTokens: p.Next, HeadNum: p.n, InputLayout: aclnn.Layout(a.Layout), InnerPrecise: p.InnerPrecise,
			SparseMode: p.SparseMode, PseType: p.pseType, QStartIdx: p.queryStart, KvStartIdx: p.keyStart, Sink: a.Sinks, SoftmaxMaxOut: p.top, SoftmaxSumOut: p.sum, AttentionOut: a.Out,
		})
	}},
	{params: &aclnn.FlashAttentionVarLenScoreV5Params{}, dims: narrowDims, packed: true, anyBias: true, sinks: true, queue: func(s *steps, a *AttentionArgs, p *plan) {
		launch(s, aclnn.FlashAttentionVarLenScoreV5, aclnn.FlashAttentionVarLenScoreV5Params{
			Query: a.Query, Key: a.Key, Value: a.Value, RealShift: a.Bias, DropMask: a.DropMask,
			AttenMask: p.tensor, Prefix: p.Prefix, ActualSeqQLen: p.SeqQueries, ActualSeqKvLen: p.SeqKeys,
			ScaleValue: a.Scale, KeepProb: p.keepProb,
			PreTokens: p.Pre, NextTokens: p.Next, HeadNum: p.n, InputLayout: aclnn.Layout(a.Layout), InnerPrecise: p.InnerPrecise,
			SparseMode: p.SparseMode, PseType: p.pseType, QStartIdx: p.queryStart, KvStartIdx: p.keyStart, Sink: a.Sinks, SoftmaxMaxOut: p.top, SoftmaxSumOut: p.sum, AttentionOut: a.Out,
		})
	}},
	{params: &aclnn.FlashAttentionScoreParams{}, dims: wideDims, queue: func(s *steps, a *AttentionArgs, p *plan) {
		launch(s, aclnn.FlashAttentionScore, aclnn.FlashAttentionScoreParams{
			Query: a.Query, Key: a.Key, Value: a.Value, RealShift: a.Bias, DropMask: a.DropMask,
			AttenMask: p.tensor, Prefix: p.Prefix, ScaleValue: a.Scale, KeepProb: p.keepProb,
			PreTokens: p.Pre, NextTokens: p.Next, HeadNum: p.n, InputLayout: aclnn.Layout(a.Layout), InnerPrecise: p.InnerPrecise,
			SparseMode: p.SparseMode, SoftmaxMaxOut: p.top, SoftmaxSumOut: p.sum, AttentionOut: a.Out,
		})
	}},
	{params: &aclnn.FlashAttentionScoreV2Params{}, dims: narrowDims, anyBias: true, queue: func(s *steps, a *AttentionArgs, p *plan) {
		launch(s, aclnn.FlashAttentionScoreV2, aclnn.FlashAttentionScoreV2Params{
			Query: a.Query, Key: a.Key, Value: a.Value, RealShift: a.Bias, DropMask: a.DropMask,
			AttenMask: p.tensor, Prefix: p.Prefix, ScaleValue: a.Scale, KeepProb: p.keepProb,
			PreTokens: p.Pre, NextTokens: p.Next, HeadNum: p.n, InputLayout: aclnn.Layout(a.Layout), InnerPrecise: p.InnerPrecise,
			SparseMode: p.SparseMode, PseType: p.pseType, QStartIdx: p.queryStart, KvStartIdx: p.keyStart, SoftmaxMaxOut: p.top, SoftmaxSumOut: p.sum, AttentionOut: a.Out,
		})
	}},
	{params: &aclnn.FlashAttentionVarLenScoreParams{}, dims: wideDims, packed: true, queue: func(s *steps, a *AttentionArgs, p *plan) {
		launch(s, aclnn.FlashAttentionVarLenScore, aclnn.FlashAttentionVarLenScoreParams{
			Query: a.Query, Key: a.Key, Value: a.Value, RealShift: a.Bias, DropMask: a.DropMask,
			AttenMask: p.tensor, Prefix: p.Prefix, ActualSeqQLen: p.SeqQueries, ActualSeqKvLen: p.SeqKeys,
			ScaleValue: a.Scale, KeepProb: p.keepProb,
			PreTokens: p.Pre, NextTokens: p.Next, HeadNum: p.n, InputLayout: aclnn.Layout(a.Layout), InnerPrecise: p.InnerPrecise,
			SparseMode: p.SparseMode, SoftmaxMaxOut: p.top, SoftmaxSumOut: p.sum, AttentionOut: a.Out,
		})
	}},
	{params: &aclnn.FlashAttentionVarLenScoreV2Params{}, dims: narrowDims, packed: true, anyBias: true, queue: func(s *steps, a *AttentionArgs, p *plan) {
		launch(s, aclnn.FlashAttentionVarLenScoreV2, aclnn.FlashAttentionVarLenScoreV2Params{
			Query: a.Query, Key: a.Key, Value: a.Value, RealShift: a.Bias, DropMask: a.DropMask,
			AttenMask: p.tensor, Prefix: p.Prefix, ActualSeqQLen: p.SeqQueries, ActualSeqKvLen: p.SeqKeys,
			ScaleValue: a.Scale, KeepProb: p.keepProb,
			PreTokens: p.Pre, NextTokens: p.Next, HeadNum: p.n, InputLayout: aclnn.Layout(a.Layout), InnerPrecise: p.InnerPrecise,
			SparseMode: p.SparseMode, PseType: p.pseType, QStartIdx: p.queryStart, KvStartIdx: p.keyStart, SoftmaxMaxOut: p.top, SoftmaxSumOut: p.sum, AttentionOut: a.Out,
		})
	}},
}

var flashBackward = []flash[AttentionGradArgs]{
	{params: &aclnn.FlashAttentionScoreGradV3Params{}, dims: narrowDims, anyBias: true, sinks: true, queue: func(s *steps, a *AttentionGradArgs, p *plan) {
		launch(s, aclnn.FlashAttentionScoreGradV3, aclnn.FlashAttentionScoreGradV3Params{
			Query: a.Query, KeyIn: a.Key, Value: a.Value, Dy: a.DOut, PseShift: a.Bias, DropMask: a.DropMask,
			AttenMask: p.tensor, SoftmaxMax: p.top, SoftmaxSum: p.sum, AttentionIn: a.Out,
			Prefix: p.Prefix, ScaleValue: a.Scale, KeepProb: p.keepProb,
			PreTokens: p.Pre, NextTokens: p.Next, HeadNum: p.n, InputLayout: aclnn.Layout(a.Layout), InnerPrecise: p.InnerPrecise,
			SparseMode: p.SparseMode, PseType: p.pseType, QStartIdx: p.queryStart, KvStartIdx: p.keyStart, SinkIn: a.Sinks, DqOut: a.DQuery, DkOut: a.DKey, DvOut: a.DValue, DsinkOut: p.dsinks,
		})
	}},
	{params: &aclnn.FlashAttentionUnpaddingScoreGradV5Params{}, dims: narrowDims, packed: true, anyBias: true, sinks: true, queue: func(s *steps, a *AttentionGradArgs, p *plan) {
		launch(s, aclnn.FlashAttentionUnpaddingScoreGradV5, aclnn.FlashAttentionUnpaddingScoreGradV5Params{
			Query: a.Query, KeyIn: a.Key, Value: a.Value, Dy: a.DOut, PseShift: a.Bias, DropMask: a.DropMask,
			AttenMask: p.tensor, SoftmaxMax: p.top, SoftmaxSum: p.sum, AttentionIn: a.Out,
			Prefix: p.Prefix, ActualSeqQLen: p.SeqQueries, ActualSeqKvLen: p.SeqKeys,
			ScaleValue: a.Scale, KeepProb: p.keepProb,
			PreTokens: p.Pre, NextTokens: p.Next, HeadNum: p.n, InputLayout: aclnn.Layout(a.Layout), InnerPrecise: p.InnerPrecise,
			SparseMode: p.SparseMode, PseType: p.pseType, QStartIdx: p.queryStart, KvStartIdx: p.keyStart, SinkIn: a.Sinks, DqOut: a.DQuery, DkOut: a.DKey, DvOut: a.DValue, DsinkOut: p.dsinks,
		})
	}},
	{params: &aclnn.FlashAttentionScoreGradParams{}, dims: wideDims, queue: func(s *steps, a *AttentionGradArgs, p *plan) {
		launch(s, aclnn.FlashAttentionScoreGrad, aclnn.FlashAttentionScoreGradParams{
			Query: a.Query, KeyIn: a.Key, Value: a.Value, Dy: a.DOut, PseShift: a.Bias, DropMask: a.DropMask,
			AttenMask: p.tensor, SoftmaxMax: p.top, SoftmaxSum: p.sum, AttentionIn: a.Out,
			Prefix: p.Prefix, ScaleValue: a.Scale, KeepProb: p.keepProb,
			PreTokens: p.Pre, NextTokens: p.Next, HeadNum: p.n, InputLayout: aclnn.Layout(a.Layout), InnerPrecise: p.InnerPrecise,
			SparseMode: p.SparseMode, DqOut: a.DQuery, DkOut: a.DKey, DvOut: a.DValue,
		})
	}},
	{params: &aclnn.FlashAttentionScoreGradV2Params{}, dims: narrowDims, anyBias: true, queue: func(s *steps, a *AttentionGradArgs, p *plan) {
		launch(s, aclnn.FlashAttentionScoreGradV2, aclnn.FlashAttentionScoreGradV2Params{
			Query: a.Query, KeyIn: a.Key, Value: a.Value, Dy: a.DOut, PseShift: a.Bias, DropMask: a.DropMask,
			AttenMask: p.tensor, SoftmaxMax: p.top, SoftmaxSum: p.sum, AttentionIn: a.Out,
			Prefix: p.Prefix, ScaleValue: a.Scale, KeepProb: p.keepProb,
			PreTokens: p.Pre, NextTokens: p.Next, HeadNum: p.n, InputLayout: aclnn.Layout(a.Layout), InnerPrecise: p.InnerPrecise,
			SparseMode: p.SparseMode, PseType: p.pseType, QStartIdx: p.queryStart, KvStartIdx: p.keyStart, DqOut: a.DQuery, DkOut: a.DKey, DvOut: a.DValue,
		})
	}},
	{params: &aclnn.FlashAttentionUnpaddingScoreGradParams{}, dims: narrowDims, packed: true, queue: func(s *steps, a *AttentionGradArgs, p *plan) {
		launch(s, aclnn.FlashAttentionUnpaddingScoreGrad, aclnn.FlashAttentionUnpaddingScoreGradParams{
			Query: a.Query, KeyIn: a.Key, Value: a.Value, Dy: a.DOut, PseShift: a.Bias, DropMask: a.DropMask,
			AttenMask: p.tensor, SoftmaxMax: p.top, SoftmaxSum: p.sum, AttentionIn: a.Out,
			Prefix: p.Prefix, ActualSeqQLen: p.SeqQueries, ActualSeqKvLen: p.SeqKeys,
			ScaleValue: a.Scale, KeepProb: p.keepProb,
			PreTokens: p.Pre, NextTokens: p.Next, HeadNum: p.n, InputLayout: aclnn.Layout(a.Layout), InnerPrecise: p.InnerPrecise,
			SparseMode: p.SparseMode, DqOut: a.DQuery, DkOut: a.DKey, DvOut: a.DValue,
		})
	}},
	{params: &aclnn.FlashAttentionUnpaddingScoreGradV2Params{}, dims: narrowDims, packed: true, anyBias: true, queue: func(s *steps, a *AttentionGradArgs, p *plan) {
		launch(s, aclnn.FlashAttentionUnpaddingScoreGradV2, aclnn.FlashAttentionUnpaddingScoreGradV2Params{
			Query: a.Query, KeyIn: a.Key, Value: a.Value, Dy: a.DOut, PseShift: a.Bias, DropMask: a.DropMask,
			AttenMask: p.tensor, SoftmaxMax: p.top, SoftmaxSum: p.sum, AttentionIn: a.Out,
			Prefix: p.Prefix, ActualSeqQLen: p.SeqQueries, ActualSeqKvLen: p.SeqKeys,
			ScaleValue: a.Scale, KeepProb: p.keepProb,
			PreTokens: p.Pre, NextTokens: p.Next, HeadNum: p.n, InputLayout: aclnn.Layout(a.Layout), InnerPrecise: p.InnerPrecise,
			SparseMode: p.SparseMode, PseType: p.pseType, QStartIdx: p.queryStart, KvStartIdx: p.keyStart, DqOut: a.DQuery, DkOut: a.DKey, DvOut: a.DValue,
		})
	}},
}

// supports returns why the entry point cannot take the arguments, or nil.
func (f *flash[A]) supports(env *Env, k key.Attention) error {
	switch {
	case f.packed && k.Layout != TND:
		return fmt.Errorf("layout %s is not packed", k.Layout)
	case !f.packed && k.Layout == TND:
		return errors.New("layout TND is packed")
	case !f.anyBias && k.Bias && k.BiasKind != BiasBeforeScale:
		return errors.New("it adds a bias before the scale only")
	case f.sinks && !k.Sinks:
		return errors.New("the heads have no sinks")
	case f.sinks && strings.HasPrefix(env.SoC, "Ascend950"):
		return errors.New("it has no sinks on the Ascend950")
	case k.Heads > headLimit:
		return fmt.Errorf("%d query heads are more than %d", k.Heads, headLimit)
	case k.Dim > f.dims:
		return fmt.Errorf("head dimension %d is above %d", k.Dim, f.dims)
	case k.Dim > narrowDims && older():
		return fmt.Errorf("head dimension %d is above the %d of CANN 8.1", k.Dim, narrowDims)
	}
	return env.Has(f.params)
}

// newAttention prefers the fused entry points, and among them those that take sinks, and then those with fewer arguments.
func newAttention(reg *Registry) *Op[AttentionArgs, key.Attention] {
	composite := func(ctx context.Context, st *acl.Stream, a *AttentionArgs, p *plan) error {
		if a.Sinks == nil {
			return a.compose(ctx, st, p)
		}
		return compose(st, func(s *steps) {
			a.statistics(s, p)
			keys := *a
			keys.SoftmaxMax, keys.SoftmaxSum = p.top, p.sum
			s.Do(func() error { return keys.compose(ctx, st, p) })
			a.sink(ctx, reg, s, p)
		})
	}
	return planned(reg, "attention", (*AttentionArgs).examine, attentionKernels(flashForward, composite,
		func(ctx context.Context, s *steps, f *flash[AttentionArgs], a *AttentionArgs, p *plan) {
			if a.Out.Len() == 0 {
				return
			}
			if a.tensors(ctx, reg, s, p); s.Err() == nil {
				f.queue(s, a, p)
				if !f.sinks {
					a.sink(ctx, reg, s, p)
				}
			}
		}))
}

func newAttentionGrad(reg *Registry) *Op[AttentionGradArgs, key.Attention] {
	composite := func(ctx context.Context, st *acl.Stream, a *AttentionGradArgs, p *plan) error {
		return compose(st, func(s *steps) {
			s.Do(func() error { return a.compose(ctx, st, p) })
			a.sink(ctx, reg, s, p)
		})
	}
	return planned(reg, "attention_grad", (*AttentionGradArgs).examine, attentionKernels(flashBackward, composite,
		func(ctx context.Context, s *steps, f *flash[AttentionGradArgs], a *AttentionGradArgs, p *plan) {
			if a.Query.Len() == 0 || a.Key.Len() == 0 {
				a.clear(s)
			} else if a.tensors(ctx, reg, s, p); s.Err() == nil {
				if p.dsinks = a.DSinks; f.sinks && p.dsinks == nil {
					p.dsinks = s.Like(a.Sinks)
				}
				f.queue(s, a, p)
				if !f.sinks {
					a.sink(ctx, reg, s, p)
				}
			}
		}))
}

// attentionKernels returns a kernel per entry point, which fused runs, and the composite one.
func attentionKernels[A any](entries []flash[A], composite func(context.Context, *acl.Stream, *A, *plan) error,
	fused func(context.Context, *steps, *flash[A], *A, *plan)) (kernels []Kernel[A, key.Attention]) {
	for _, f := range entries {
		kernels = append(kernels, Kernel[A, key.Attention]{
			Name: f.params.Operator().Name(), Supports: f.supports,
			attend: func(ctx context.Context, st *acl.Stream, a *A, p *plan) error {
				return compose(st, func(s *steps) { fused(ctx, s, &f, a, p) })
			},
		})
	}
	return append(kernels, Kernel[A, key.Attention]{
		Name: "composite", Supports: composable,
		attend: composite,
	})
}

// clear zeroes the gradients of a problem without queries or keys.
func (a *AttentionGradArgs) clear(s *steps) {
	for _, t := range []*aclnn.Tensor{a.DQuery, a.DKey, a.DValue, a.DSinks} {
		if t != nil && t.Len() > 0 {
			s.Zero(t)
		}
	}
}

// tensors makes the tensors of a plan on the device.
func (a *AttentionArgs) tensors(ctx context.Context, reg *Registry, s *steps, p *plan) {
	var err error
	switch p.Source {
	case mask.Triangle, mask.PrefixTriangle:
		p.tensor, err = reg.templates.compressed(s.Stream, p.Source)
		s.Fail(err)
	case mask.Given:
		p.tensor = s.spread(s.hidden(p.Dense), p.Shape)
	case mask.Built:
		pattern := p.Pattern(0)
		p.tensor, err = reg.templates.dense(s.Stream, patternContent(pattern, p.Shape), p.Shape, func(s *steps, t *aclnn.Tensor) {
			s.Copy(t, s.pattern(ctx, pattern, p.b, p.sq, p.skv))
		})
		s.Fail(err)
	}
	p.keepProb, p.pseType = 1, aclnn.PseBeforeScale // the values for no dropout and no bias
	if a.DropMask != nil {
		p.keepProb = a.KeepProb
	}
	if a.Bias != nil {
		p.pseType = aclnn.PseType(a.BiasKind)
	}
	if a.QueryStart != 0 {
		p.queryStart = []int64{a.QueryStart}
	}
	if a.KeyStart != 0 {
		p.keyStart = []int64{a.KeyStart}
	}
	a.statistics(s, p)
}

// statistics makes the softmax tensors that the caller does not give.
func (a *AttentionArgs) statistics(s *steps, p *plan) {
	p.top, p.sum = a.SoftmaxMax, a.SoftmaxSum
	for _, t := range []**aclnn.Tensor{&p.top, &p.sum} {
		if *t == nil && a.Layout == TND {
			*t = s.Tensor(aclnn.Float32, p.sq, p.n, SoftmaxCopies)
		} else if *t == nil {
			*t = s.Tensor(aclnn.Float32, p.b, p.n, p.sq, SoftmaxCopies)
		}
	}
}
