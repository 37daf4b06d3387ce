package ops

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// RoutingScore says how the logits of experts become scores; package ops has its constants.
type RoutingScore = key.RoutingScore

// The scores: probabilities of all experts together, or of each expert alone.
const (
	SoftmaxScore RoutingScore = iota // softmax(Logits)
	SigmoidScore                     // sigmoid(Logits)
)

// MoERoutingArgs chooses the experts of each token: those with the k largest scores, in descending order, each weighted by its
// score. The zero values of the options give those with the largest probabilities of a softmax. The others are those of DeepSeek V2
// and V3 (arXiv:2405.04434, arXiv:2412.19437).
type MoERoutingArgs struct {
	Logits *aclnn.Tensor // [tokens, experts]; float32, float16 or bfloat16
	Score  RoutingScore
	// Bias is added to the scores for the choice, and not to the weights: [experts], float32. It gets no gradient. Nil means none.
	Bias *aclnn.Tensor
	// Groups divides the experts evenly: a token chooses among the experts of its TopGroups best groups. The sum of the GroupBest
	// best scores of a group, with the bias, says how good it is. Without groups all three are 0.
	Groups, TopGroups, GroupBest int64
	// Normalize divides the weights of a token by their sum (norm_topk_prob).
	Normalize bool
	// Scale is a factor of the weights (routed_scaling_factor); 0 stands for 1.
	Scale   float64
	Weights *aclnn.Tensor // [tokens, k], dtype of Logits
	Experts *aclnn.Tensor // [tokens, k], int32
	// Probs are all scores without the bias, [tokens, experts], float32. LoadBalance needs it, and MoERoutingGrad unless
	// normalised weights are of a softmax. It may be nil.
	Probs *aclnn.Tensor
}

func (a *MoERoutingArgs) validate() error {
	var c args
	c.Tensor("Logits", a.Logits, floats...)
	if !c.OK() {
		return c.Err
	}
	if a.Logits.Rank() != 2 {
		c.Fail("Logits is %v; it must be [tokens, experts]", a.Logits)
	}
	c.choices(a.Weights, a.Experts, a.Logits.DType())
	if c.OK() && (a.Weights.Dim(0) != a.Logits.Dim(0) || a.Weights.Dim(1) > a.Logits.Dim(1)) {
		c.Fail("Weights is %v and Logits %v; of the experts of each token at most all can be chosen", a.Weights, a.Logits)
	}
	if c.Optional("Probs", a.Probs, aclnn.Float32) {
		c.Like("Probs", a.Probs, "Logits", a.Logits)
	}
	if c.OK() && c.Optional("Bias", a.Bias, aclnn.Float32) {
		c.Shape("Bias", a.Bias, a.Logits.Dim(1))
	}
	c.scores(a.Score, a.Scale)
	if c.OK() {
		a.groups(&c)
	}
	return c.Err
}

// scores checks how logits become weights.
func (c *args) scores(score RoutingScore, scale float64) {
	switch {
	case score != SoftmaxScore && score != SigmoidScore:
		c.Fail("Score is %d; use one of the constants", score)
	case !(scale >= 0) || math.IsInf(scale, 1):
		c.Fail("Scale is %g; it must be positive, or 0 for 1", scale)
	}
}

// groups checks the groups of experts.
func (a *MoERoutingArgs) groups(c *args) {
	n, k := a.Logits.Dim(1), a.Weights.Dim(1)
	switch {
	case a.Groups == 0 && a.TopGroups == 0 && a.GroupBest == 0:
	case a.Groups < 1 || n%a.Groups != 0:
		c.Fail("Groups is %d; it must divide the %d experts", a.Groups, n)
	case a.TopGroups < 1 || a.TopGroups > a.Groups || k > n/a.Groups*a.TopGroups:
		c.Fail("TopGroups is %d; of %d groups so many must be chosen that they have the %d experts of a token", a.TopGroups, a.Groups, k)
	case a.GroupBest < 1 || a.GroupBest > n/a.Groups:
		c.Fail("GroupBest is %d; it must be from 1 to the %d experts of a group", a.GroupBest, n/a.Groups)
	}
}

// choices checks the weights and the experts chosen for each token.
func (c *args) choices(weights, experts *aclnn.Tensor, dtypes ...aclnn.DType) {
	c.Tensor("Weights", weights, dtypes...)
	c.Tensor("Experts", experts, aclnn.Int32)
	if c.OK() && (weights.Rank() != 2 || weights.Dim(1) < 1) {
		c.Fail("Weights is %v; it must be [tokens, k]", weights)
	}
	c.Like("Experts", experts, "Weights", weights)
}

func (a *MoERoutingArgs) key() key.MoERouting {
	return key.MoERouting{
		Logits: a.Logits.DType(), Experts: a.Logits.Dim(1), K: a.Weights.Dim(1), Tokens: key.ExtentOf(a.Logits.Dim(0)), Score: a.Score, Normalize: a.Normalize,
		Groups: a.Groups, GroupBest: a.GroupBest, Bias: a.Bias != nil, Probs: a.Probs != nil, Contiguous: contiguous(a.Logits, a.Bias, a.Weights, a.Experts, a.Probs),
	}
}

// gatingLimit is the largest number of experts of MoeGatingTopK.
const gatingLimit = 2048

func newMoERouting(reg *Registry) *Op[MoERoutingArgs, key.MoERouting] {
	run := func(body func(a *MoERoutingArgs, s *steps)) func(context.Context, *acl.Stream, *MoERoutingArgs) error {
		return func(_ context.Context, st *acl.Stream, a *MoERoutingArgs) error {
			if a.Logits.Dim(0) == 0 {
				return nil
			}
			return compose(st, func(s *steps) { body(a, s) })
		}
	}
	return op(reg, "moe_routing", (*MoERoutingArgs).validate, (*MoERoutingArgs).key,
		Kernel[MoERoutingArgs, key.MoERouting]{
			Name: "MoeGatingTopKSoftmaxV2",
			Supports: func(env *Env, k key.MoERouting) error {
				if k.Score != SoftmaxScore || k.Groups > 1 || k.Bias {
					return errors.New("it chooses by a softmax alone, without bias and groups")
				}
				return env.Has(&aclnn.MoeGatingTopKSoftmaxV2Params{})
			},
			Run: run((*MoERoutingArgs).softmax),
		},
		Kernel[MoERoutingArgs, key.MoERouting]{
			Name: "MoeGatingTopK",
			Supports: func(env *Env, k key.MoERouting) error {
				switch {
				case k.Normalize != (k.Score == SigmoidScore):
					return errors.New("it normalises weights of a sigmoid, and no others")
				case k.Bias && k.Logits != aclnn.Float32:
					return errors.New("its bias has the dtype of the logits")
				case k.GroupBest > 2:
					return errors.New("it ranks groups by their best expert, or their two best")
				case k.Experts > gatingLimit:
					return fmt.Errorf("%d experts are more than %d", k.Experts, gatingLimit)
				case !k.Contiguous:
					return errors.New("it takes contiguous tensors only")
				}
				return env.Has(&aclnn.MoeGatingTopKParams{})
			},
			Run: run((*MoERoutingArgs).gating),
		},
		Kernel[MoERoutingArgs, key.MoERouting]{Name: "composite", Run: run((*MoERoutingArgs).run)})
}

// softmax launches MoeGatingTopKSoftmaxV2.
func (a *MoERoutingArgs) softmax(s *steps) {
	renorm := aclnn.RenormSoftmaxFirst
	if a.Normalize {
		renorm = aclnn.RenormTopKFirst
	}
	launch(s, aclnn.MoeGatingTopKSoftmaxV2, aclnn.MoeGatingTopKSoftmaxV2Params{
		X: a.Logits, K: a.Weights.Dim(1), Renorm: renorm, YOut: a.Weights, ExpertIdxOut: a.Experts,
	})
	if a.scaled() {
		s.scale(a.Weights, a.Scale)
	}
	if a.Probs != nil {
		launch(s, aclnn.Softmax, aclnn.SoftmaxParams{Self: s.float(a.Logits), Dim: 1, Out: a.Probs})
	}
}

// scaled reports whether the weights have a factor.
func (a *MoERoutingArgs) scaled() bool { return a.Scale != 0 && a.Scale != 1 }

// smallest keeps the sum of the weights of a token from being 0.
const smallest = 1e-20

// gating launches MoeGatingTopK.
func (a *MoERoutingArgs) gating(s *steps) {
	p := aclnn.MoeGatingTopKParams{
		X: a.Logits, Bias: a.Bias, K: a.Weights.Dim(1), KGroup: max(a.TopGroups, 1), GroupCount: max(a.Groups, 1), OutFlag: a.Probs != nil, RoutedScalingFactor: 1, Eps: smallest,
		YOut: a.Weights, ExpertIdxOut: a.Experts, Out: a.Probs,
	}
	if a.GroupBest == 2 {
		p.GroupSelectMode = 1 // by the two best experts
	}
	if a.Score == SigmoidScore {
		p.NormType = 1
	}
	if a.scaled() {
		p.RoutedScalingFactor = a.Scale
	}
	launch(s, aclnn.MoeGatingTopK, p)
}

// run computes the routing from single operators.
func (a *MoERoutingArgs) run(s *steps) {
	probs := a.Probs
	if probs == nil {
		probs = s.Tensor(aclnn.Float32, a.Logits.Shape()...)
	}
	if a.Score == SigmoidScore {
		launch(s, aclnn.Sigmoid, aclnn.SigmoidParams{Self: s.float(a.Logits), Out: probs})
	} else {
		launch(s, aclnn.Softmax, aclnn.SoftmaxParams{Self: s.float(a.Logits), Dim: 1, Out: probs})
	}
	worth := probs
	if a.Bias != nil {
		worth = s.Like(probs)
		launch(s, aclnn.Add, aclnn.AddParams{Self: probs, Other: a.Bias.Unsqueeze(0), Alpha: aclnn.Float(1), Out: worth})
	}
	if a.Groups > 1 {
		worth = a.inGroups(s, worth)
	}
	best, index := s.best(worth, a.Weights.Dim(1))
	if worth != probs {
		launch(s, aclnn.Gather, aclnn.GatherParams{Self: probs, Dim: 1, Index: index, Out: best})
	}
	if a.Normalize {
		sum := s.sum(best, 1)
		if a.Score == SigmoidScore {
			s.adds(sum, smallest)
		}
		launch(s, aclnn.InplaceDiv, aclnn.InplaceDivParams{Self: best, Other: sum})
	}
	if a.scaled() {
		s.scale(best, a.Scale)
	}
	s.Copy(a.Weights, best)
	s.Copy(a.Experts, index)
}

// best returns the k largest elements of the last dimension in descending order, and where they are.
func (s *steps) best(x *aclnn.Tensor, k int64) (values, index *aclnn.Tensor) {
	shape := x.Shape()
	last := len(shape) - 1
	shape[last] = k
	values, index = s.Tensor(aclnn.Float32, shape...), s.Tensor(aclnn.Int64, shape...)
	launch(s, aclnn.Topk, aclnn.TopkParams{Self: x, K: k, Dim: int64(last), Largest: true, Sorted: true, ValuesOut: values, IndicesOut: index})
	return values, index
}

// inGroups returns a copy of the scores in which those outside of the best groups of a token are −∞.
func (a *MoERoutingArgs) inGroups(s *steps, scores *aclnn.Tensor) *aclnn.Tensor {
	tokens, size := scores.Dim(0), scores.Dim(1)/a.Groups
	kept := s.Tensor(aclnn.Float32, tokens, a.Groups, size)
	s.Copy(kept, scores.Reshape(tokens, a.Groups, size))
	worth, _ := s.best(kept, a.GroupBest)
	_, index := s.best(s.sum(worth, 2).Reshape(tokens, a.Groups), a.TopGroups)
	left, none := s.Tensor(aclnn.Float32, tokens, a.Groups), s.Tensor(aclnn.Float32, index.Shape()...)
	s.Fill(left, aclnn.Float(1))
	s.Zero(none)
	launch(s, aclnn.InplaceScatter, aclnn.InplaceScatterParams{Self: left, Dim: 1, Index: index, Src: none})
	s.maskedFill(kept, left.Unsqueeze(2), aclnn.Float(math.Inf(-1)))
	return kept.Reshape(tokens, -1)
}

// MoERoutingGradArgs describes the gradient of MoERouting with respect to the logits.
type MoERoutingGradArgs struct {
	DWeights  *aclnn.Tensor // [tokens, k]
	Weights   *aclnn.Tensor // [tokens, k], of MoERouting
	Experts   *aclnn.Tensor // [tokens, k], int32, of MoERouting
	Score     RoutingScore  // as Normalize and Scale, of MoERouting
	Normalize bool
	Scale     float64
	// Probs is [tokens, experts], float32, of MoERouting; it is needed unless normalised weights are of a softmax and DProbs
	// is nil.
	Probs *aclnn.Tensor
	// DProbs is a gradient of all scores, [tokens, experts], float32, such as that of
	// LoadBalance; it may be nil.
	DProbs  *aclnn.Tensor
	DLogits *aclnn.Tensor // [tokens, experts], dtype of Weights
}

func (a *MoERoutingGradArgs) validate() error {
	var c args
	c.choices(a.Weights, a.Experts, floats...)
	if !c.OK() {
		return c.Err
	}
	c.Same("DWeights", a.DWeights, "Weights", a.Weights)
	c.Tensor("DLogits", a.DLogits, a.Weights.DType())
	if c.OK() && (a.DLogits.Rank() != 2 || a.DLogits.Dim(0) != a.Weights.Dim(0)) {
		c.Fail("DLogits is %v; it must have a row of experts for each of the %d tokens", a.DLogits, a.Weights.Dim(0))
	}
	if c.Optional("Probs", a.Probs, aclnn.Float32) {
		c.Like("Probs", a.Probs, "DLogits", a.DLogits)
	}
	if c.Optional("DProbs", a.DProbs, aclnn.Float32) {
		c.Like("DProbs", a.DProbs, "DLogits", a.DLogits)
	}
	c.scores(a.Score, a.Scale)
	if a.Probs == nil && (!a.Normalize || a.Score == SigmoidScore || a.DProbs != nil) {
		c.Fail("Probs is nil; the gradient needs the scores of all experts, which MoERouting gives")
	}
	return c.Err
}

func (a *MoERoutingGradArgs) key() key.MoERoutingGrad {
	return key.MoERoutingGrad{
		Weights: a.Weights.DType(), Experts: a.DLogits.Dim(1), K: a.Weights.Dim(1), Tokens: key.ExtentOf(a.Weights.Dim(0)), Score: a.Score, Normalize: a.Normalize,
		Probs: a.Probs != nil, DProbs: a.DProbs != nil, Contiguous: contiguous(a.DWeights, a.Weights, a.Experts, a.Probs, a.DProbs, a.DLogits),
	}
}

func newMoERoutingGrad(reg *Registry) *Op[MoERoutingGradArgs, key.MoERoutingGrad] {
	return op(reg, "moe_routing_grad", (*MoERoutingGradArgs).validate, (*MoERoutingGradArgs).key,
		Kernel[MoERoutingGradArgs, key.MoERoutingGrad]{
			Name: "composite",
			Run: func(_ context.Context, st *acl.Stream, a *MoERoutingGradArgs) error {
				if a.Weights.Dim(0) == 0 {
					return nil
				}
				return compose(st, a.run)
			},
		})
}

func (a *MoERoutingGradArgs) run(s *steps) {
	all := s.Tensor(aclnn.Float32, a.DLogits.Shape()...)
	s.Zero(all)
	chosen, weights, index := s.float(a.DWeights), s.float(a.Weights), s.Cast(a.Experts, aclnn.Int64)
	if a.Scale != 0 && a.Scale != 1 {
		plain, scaled := s.Like(weights), s.Like(chosen)
		launch(s, aclnn.Muls, aclnn.MulsParams{Self: weights, Other: aclnn.Float(1 / a.Scale), Out: plain})
		launch(s, aclnn.Muls, aclnn.MulsParams{Self: chosen, Other: aclnn.Float(a.Scale), Out: scaled})
		weights, chosen = plain, scaled
	}
	through := s.softmaxGrad
	if a.Score == SigmoidScore {
		through = s.sigmoidGrad
	}
	switch {
	case a.Normalize && a.Score == SigmoidScore:
		scores := s.Tensor(aclnn.Float32, chosen.Shape()...)
		launch(s, aclnn.Gather, aclnn.GatherParams{Self: a.Probs, Dim: 1, Index: index, Out: scores})
		shifted := s.Like(chosen)
		launch(s, aclnn.Sub, aclnn.SubParams{Self: chosen, Other: s.sum(s.mul(chosen, weights), 1), Alpha: aclnn.Float(1), Out: shifted})
		sum := s.sum(scores, 1)
		s.adds(sum, smallest)
		launch(s, aclnn.InplaceDiv, aclnn.InplaceDivParams{Self: shifted, Other: sum})
		chosen = shifted
	case a.Normalize:
		// Normalised weights are the softmax of the chosen logits alone.
		chosen = s.softmaxGrad(chosen, weights)
	}
	launch(s, aclnn.InplaceScatter, aclnn.InplaceScatterParams{Self: all, Dim: 1, Index: index, Src: chosen})
	switch {
	case !a.Normalize || a.Score == SigmoidScore:
		if a.DProbs != nil {
			s.add(all, a.DProbs, 1)
		}
		all = through(all, a.Probs)
	case a.DProbs != nil:
		s.add(all, through(a.DProbs, a.Probs), 1)
	}
	s.Copy(a.DLogits, all)
}

// sigmoidGrad computes the gradient of a sigmoid.
func (s *steps) sigmoidGrad(dy, y *aclnn.Tensor) *aclnn.Tensor {
	dx := s.Tensor(aclnn.Float32, y.Shape()...)
	launch(s, aclnn.SigmoidBackward, aclnn.SigmoidBackwardParams{GradOutput: dy, Output: y, GradInput: dx})
	return dx
}

// softmaxGrad computes the gradient of a softmax over rows.
func (s *steps) softmaxGrad(dy, y *aclnn.Tensor) *aclnn.Tensor {
	dx := s.Tensor(aclnn.Float32, y.Shape()...)
	launch(s, aclnn.SoftmaxBackward, aclnn.SoftmaxBackwardParams{GradOutput: dy, Output: y, Dim: 1, Out: dx})
	return dx
}
