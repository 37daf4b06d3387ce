package moe

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/gating"
	"github.com/goascend/cann/internal/emu/op"
)

// experts lists the operators of mixture-of-experts layers: gating, routing of tokens to experts
// and back, and the gradients.
var experts = op.Table{
	"MoeGatingTopKSoftmax": topKGating, "MoeGatingTopKSoftmaxV2": topKGating,
	"MoeInitRoutingQuant": initRouting, "MoeInitRoutingQuantV2": initRoutingV2, "MoeInitRoutingV3": initRoutingV3, "MoeUpdateExpert": updateExpert,
	"MoeInitRouting": initRouting, "MoeInitRoutingV2": initRoutingV2, "MoeInitRoutingV2Grad": initRoutingGrad,
	"MoeFinalizeRouting": finalizeRouting, "MoeFinalizeRoutingV2": finalizeRoutingV2, "MoeFinalizeRoutingV2Grad": finalizeRoutingGrad,
	"MoeTokenPermute": tokenPermute, "MoeTokenPermuteV2": tokenPermuteV2, "MoeTokenPermuteGrad": tokenPermuteGrad,
	"MoeTokenUnpermute": tokenUnpermute, "MoeTokenUnpermuteGrad": tokenUnpermuteGrad,
	"MoeTokenPermuteWithEp": tokenPermute, "MoeTokenPermuteWithEpGrad": tokenPermuteGrad,
	"MoeTokenUnpermuteWithEp": tokenUnpermute, "MoeTokenUnpermuteWithEpGrad": tokenUnpermuteGrad,
	"MoeGatingTopK": groupGating, "MoeGatingTopKBackward": groupGatingGrad,
	"MoeTokenPermuteWithRoutingMap": mapPermute, "MoeTokenPermuteWithRoutingMapGrad": mapPermuteGrad,
	"MoeTokenUnpermuteWithRoutingMap": mapUnpermute, "MoeTokenUnpermuteWithRoutingMapGrad": mapUnpermuteGrad,
	"MoeComputeExpertTokens": expertTokens,
}.Selects()

// maxGatingK is the largest number of experts per token.
const maxGatingK = 1024

// topKGating chooses the k best experts of every token.
func topKGating(c *op.Call) (op.Run, error) {
	x, finished, k := c.Tensor("x"), c.Optional("finishedOptional"), c.Int("k")
	y, expert := c.Tensor("yOut"), c.Tensor("expertIdxOut")
	c.DType(x, op.FloatTypes...)
	c.SameDType(x, y)
	c.DType(expert, dtype.Int32)
	if x.Rank() != 2 && x.Rank() != 3 {
		c.Unfit("%v must have 2 or 3 dimensions", x)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	leading, width := x.Shape[:x.Rank()-1], x.Dim(-1)
	if k < 0 || k > width || k > maxGatingK {
		c.Unfit("k is %d; %v has %d experts, of which at most %d can be chosen", k, x, width, maxGatingK)
	}
	chosen := append(slices.Clone(leading), k)
	c.Fits(y, chosen, "k choices for each row of x")
	c.Fits(expert, chosen, "k choices for each row of x")
	if finished != nil {
		c.DType(finished, dtype.Bool)
		c.Fits(finished, leading, "x without its last dimension")
	}
	var row, all *op.Tensor
	topKFirst := false
	if c.Has("rowIdxOut") {
		row = c.Tensor("rowIdxOut")
		c.DType(row, dtype.Int32)
		c.Fits(row, chosen, "k choices for each row of x")
	} else {
		switch renorm := c.Int("renorm"); renorm {
		case 0:
		case 1:
			topKFirst = true
		default:
			c.Unfit("renorm is %d; 0 takes the softmax of all scores, 1 of the chosen ones", renorm)
		}
		if all = c.Optional("softmaxResultOutOptional"); c.Bool("outputSoftmaxResultFlag") && !topKFirst {
			if all == nil {
				c.Fail(op.NullPointer, "softmaxResultOutOptional is null; outputSoftmaxResultFlag asks for it")
			} else {
				c.DType(all, dtype.Float32)
				c.Fits(all, x.Shape, "as x")
			}
		} else {
			all = nil
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 || k == 0 {
			return nil
		}
		g := gating.TopK{Scores: x.View(), TopKFirst: topKFirst, Finished: op.OptionalView(finished)}
		return g.Choose(y.View(), expert.View(), op.OptionalView(row), op.OptionalView(all))
	}, nil
}

// maxGatingExperts is the largest number of experts for a choice by groups.
const maxGatingExperts = 2048

// groupGating first chooses the best groups of every token, then the k best experts of these
// groups.
func groupGating(c *op.Call) (op.Run, error) {
	x, bias, y, expert := c.Tensor("x"), c.Optional("biasOptional"), c.Tensor("yOut"), c.Tensor("expertIdxOut")
	k, groups, kept, all := c.Int("k"), c.Int("groupCount"), c.Int("kGroup"), (*op.Tensor)(nil)
	g := gating.Groups{Number: groups, Kept: kept, Scale: c.Float("routedScalingFactor"), Epsilon: c.Float("eps")}
	c.Plain(x, y, expert)
	c.DType(x, op.FloatTypes...)
	c.SameDType(x, y)
	c.DType(expert, dtype.Int32)
	c.Matrix(x)
	for _, option := range []struct {
		name    string
		set     *bool
		meaning string
	}{
		{"groupSelectMode", &g.BestTwo, "0 takes a group by its best expert, 1 by its two best"},
		{"normType", &g.Sigmoid, "0 is softmax, 1 sigmoid"},
	} {
		switch v := c.Int(option.name); v {
		case 0, 1:
			*option.set = v == 1
		default:
			c.Unfit("%s is %d; %s", option.name, v, option.meaning)
		}
	}
	if c.Int("renorm") != 0 {
		c.Unfit("renorm is %d; only 0, the choice among normalised scores, is supported", c.Int("renorm"))
	}
	g.Normalise = g.Sigmoid
	if c.Err() != nil {
		return nil, c.Err()
	}
	n := x.Shape[1]
	if n > maxGatingExperts || groups < 1 || n%max(groups, 1) != 0 {
		c.Unfit("%v has %d experts; at most %d that divide evenly between groupCount %d are supported", x, n, maxGatingExperts, groups)
		return nil, c.Err()
	}
	if kept < 1 || kept > groups || k < 1 || k > n/groups*kept {
		c.Unfit("kGroup is %d of %d groups and k is %d; they must be above 0, and k at most the %d experts of kGroup groups", kept, groups, k, n/groups*kept)
	}
	chosen := []int64{x.Shape[0], k}
	c.Fits(y, chosen, "k choices for each row of x")
	c.Fits(expert, chosen, "k choices for each row of x")
	if bias != nil {
		c.Plain(bias)
		c.SameDType(x, bias)
		c.Fits(bias, []int64{n}, "one for each expert")
	}
	if c.Bool("outFlag") {
		all = c.Tensor("outOut")
		c.Plain(all)
		c.DType(all, dtype.Float32)
		c.Fits(all, x.Shape, "as x")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Shape[0] == 0 {
			return nil
		}
		g.Scores, g.Bias, g.Weights, g.Experts, g.All = x.View(), op.OptionalView(bias), y.View(), expert.View(), op.OptionalView(all)
		return g.Choose()
	}, nil
}
