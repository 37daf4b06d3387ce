package moe

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gating"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/op"
)

// experts lists the operators of mixture-of-experts layers: gating, routing of tokens to experts
// and back, and the gradients.
var experts = op.Table{
	"MoeGatingTopKSoftmax": topKGating, "MoeGatingTopKSoftmaxV2": topKGating,
	"MoeInitRoutingQuant": initRouting, "MoeInitRoutingQuantV2": initRoutingV2, "MoeInitRoutingV3": initRoutingV3, "MoeUpdateExpert": updateExpert,
	"MoeInitRouting": initRouting, "MoeInitRoutingV2": initRoutingV2, "MoeInitRoutingV2Grad": initRoutingGrad,
	"MoeFinalizeRouting": finalizeRouting, "MoeFinalizeRoutingV2": finalizeRoutingV2, "MoeFinalizeRoutingV3": finalizeRoutingV2, "MoeFinalizeRoutingV4": finalizeRoutingV2,
	"MoeFinalizeRoutingV2Grad": finalizeRoutingGrad,
	"MoeTokenPermute":          tokenPermute, "MoeTokenPermuteV2": tokenPermuteV2, "MoeTokenPermuteGrad": tokenPermuteGrad,
	"MoeTokenUnpermute": tokenUnpermute, "MoeTokenUnpermuteGrad": tokenUnpermuteGrad,
	"MoeTokenPermuteWithEp": tokenPermute, "MoeTokenPermuteWithEpGrad": tokenPermuteGrad,
	"MoeTokenUnpermuteWithEp": tokenUnpermute, "MoeTokenUnpermuteWithEpGrad": tokenUnpermuteGrad,
	"MoeGatingTopK": groupGating, "MoeGatingTopKV2": groupGating, "MoeGatingTopKBackward": groupGatingGrad, "MoeFusedTopk": fusedGating,
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
// groups. Its second version can take the experts from a table instead, by the number of the token in the vocabulary.
func groupGating(c *op.Call) (op.Run, error) {
	x, bias, y, expert := c.Tensor("x"), c.Optional("biasOptional"), c.Tensor("yOut"), c.Tensor("expertIdxOut")
	k, groups, kept, all := c.Int("k"), c.Int("groupCount"), c.Int("kGroup"), (*op.Tensor)(nil)
	g := gating.Groups{Number: groups, Kept: kept, Scale: c.Float("routedScalingFactor"), Epsilon: c.Float("eps")}
	c.Plain(x, y, expert)
	c.DType(x, op.FloatTypes...)
	c.SameDType(x, y)
	c.DType(expert, dtype.Int32)
	c.Matrix(x)
	two := false
	for _, option := range []struct {
		name    string
		set     *bool
		meaning string
	}{
		{"groupSelectMode", &two, "0 takes a group by its best expert, 1 by its two best"},
		{"normType", &g.Sigmoid, "0 is softmax, 1 sigmoid"},
	} {
		switch v := c.Int(option.name); v {
		case 0, 1:
			*option.set = v == 1
		default:
			c.Unfit("%s is %d; %s", option.name, v, option.meaning)
		}
	}
	switch renorm := c.Int("renorm"); {
	case renorm == 1 && c.Op.Name == "MoeGatingTopKV2":
		g.Normalise = true
	case renorm != 0 && c.Op.Name == "MoeGatingTopKV2":
		c.Unfit("renorm is %d; 0 takes the softmax as it is, 1 divides it by its sum over the chosen experts", renorm)
	case renorm != 0:
		c.Unfit("renorm is %d; only 0, the choice among normalised scores, is supported", renorm)
	}
	g.Normalise = g.Normalise || g.Sigmoid
	g.Best = 1
	if two {
		g.Best = 2
	}
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
	if size := n / groups; size < g.Best {
		c.Unfit("groupSelectMode is 1, which adds two experts of a group; %v has %d groups of %d", x, groups, size)
	} else if padded := (size + 31) / 32 * 32 * groups; groups > 1 && groups < n && kept < groups && padded > maxGatingExperts {
		c.Unfit("groupCount is %d of %d experts; with groups padded to multiples of 32 that is %d experts, more than %d", groups, size, padded, maxGatingExperts)
	}
	chosen := []int64{x.Shape[0], k}
	c.Fits(y, chosen, "k choices for each row of x")
	c.Fits(expert, chosen, "k choices for each row of x")
	var ids, table *op.Tensor
	if c.Has("tid2eidOptional") {
		ids, table = c.Optional("inputIdsOptional"), c.Optional("tid2eidOptional")
		c.Tensor("outOut")
		checkGatingTable(c, x, ids, table)
	}
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
		if table != nil {
			var err error
			if g.Given, err = tabledExperts(ids, table, n); err != nil {
				return err
			}
		}
		return g.Choose()
	}, nil
}

// checkGatingTable checks the table of experts by token of the vocabulary, and the tokens of the rows of x.
func checkGatingTable(c *op.Call, x, ids, table *op.Tensor) {
	if (ids == nil) != (table == nil) {
		c.Unfit("of inputIdsOptional and tid2eidOptional one is null; give both, or none to choose by the scores")
	}
	if ids == nil || table == nil || c.Err() != nil {
		return
	}
	k, groups, kept := c.Int("k"), c.Int("groupCount"), c.Int("kGroup")
	c.Plain(ids, table)
	c.DType(ids, op.IndexTypes...)
	c.DType(table, op.IndexTypes...)
	c.Matrix(table)
	if c.Err() != nil {
		return
	}
	c.Fits(ids, x.Shape[:1], "a token for each row of x")
	c.Fits(table, []int64{table.Dim(0), k}, "k experts for each token of the vocabulary")
	if k > 64 {
		c.Unfit("k is %d; with tid2eidOptional it must be at most 64", k)
	}
	if groups != 1 && groups != x.Dim(1) && kept != groups {
		c.Unfit("kGroup is %d of %d groups; tid2eidOptional chooses the experts, so take one group", kept, groups)
	}
}

// tabledExperts returns the row of the table for each token.
func tabledExperts(ids, table *op.Tensor, experts int64) ([]int64, error) {
	tokens, err := elementwise.Indices(ids.View())
	if err != nil {
		return nil, err
	}
	rows, err := elementwise.Indices(table.View())
	if err != nil {
		return nil, err
	}
	var out []int64
	for i, token := range tokens {
		if token < 0 || token >= table.Dim(0) {
			return nil, fmt.Errorf("%v holds token %d at place %d; %v has %d rows", ids, token, i, table, table.Dim(0))
		}
		out = append(out, rows[token*table.Dim(1):][:table.Dim(1)]...)
	}
	for i, e := range out {
		if e < 0 || e >= experts {
			return nil, fmt.Errorf("%v names expert %d for row %d; there are %d", table, e, int64(i)/table.Dim(1), experts)
		}
	}
	return out, nil
}

// fusedGating chooses experts by groups of sigmoids, and may replace each expert by one of its replicas in turn.
// Experts of groups that are not chosen compete with a score of 0, as in CANN's kernel, which multiplies them by 0.
func fusedGating(c *op.Call) (op.Run, error) {
	x, bias, y, expert := c.Tensor("x"), c.Tensor("addNum"), c.Tensor("y"), c.Tensor("indices")
	var counts, table *op.Tensor
	if c.Bool("enableExpertMapping") {
		counts, table = c.Tensor("mappingNum"), c.Tensor("mappingTable")
		c.Plain(counts, table)
		c.DType(counts, dtype.Int32)
		c.DType(table, dtype.Int32)
	}
	groups, kept, best, k := c.Int("groupNum"), c.Int("groupTopk"), c.Int("topN"), c.Int("topK")
	c.Plain(x, bias, y, expert)
	c.DType(x, op.FloatTypes...)
	c.SameDType(x, bias)
	c.DType(expert, dtype.Int32)
	c.DType(y, dtype.Float32)
	c.Rank(x, 2, 2)
	if c.Err() != nil {
		return nil, c.Err()
	}
	if x.Len() == 0 {
		return func(*op.Exec) error { return nil }, nil
	}
	const mostExperts, mostGroups, mostReplicas = 1024, 256, 128
	n := x.Dim(1)
	switch {
	case groups < 1 || kept < 1 || best < 1 || k < 1:
		c.Invalid("groupNum is %d, groupTopk %d, topN %d and topK %d; they must be above 0", groups, kept, best, k)
	case groups > mostGroups || n > mostExperts || n%groups != 0:
		c.Invalid("%v has %d experts; at most %d in at most %d equal groups are supported, and groupNum is %d", x, n, mostExperts, mostGroups, groups)
	case kept > groups || k > n || best > n/groups:
		c.Invalid("groupTopk is %d of %d groups, topN %d of %d experts of a group, topK %d of %d experts", kept, groups, best, n/groups, k, n)
	}
	if kind := c.Int("activateType"); kind != 0 {
		c.Invalid("activateType is %d; only 0, sigmoid, is supported", kind)
	}
	chosen := []int64{x.Dim(0), k}
	c.Shape(y, chosen, "topK choices for each row of x")
	c.Shape(expert, chosen, "topK choices for each row of x")
	c.Shape(bias, []int64{n}, "one for each expert")
	if table != nil {
		c.Shape(counts, []int64{n}, "one for each expert")
		if table.Rank() != 2 || table.Dim(0) != n || table.Dim(1) > mostReplicas {
			c.Invalid("%v must have a row of at most %d replicas for each of %d experts", table, mostReplicas, n)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	g := gating.Groups{Sigmoid: true, Number: groups, Kept: kept, Best: best, OthersZero: true, Scale: 1}
	if c.Bool("isNorm") {
		g.Normalise, g.Scale = true, c.Float("scale")
	}
	return func(*op.Exec) error {
		g.Scores, g.Bias, g.Weights, g.Experts = x.View(), bias.View(), y.View(), expert.View()
		if err := g.Choose(); err != nil || table == nil {
			return err
		}
		return replicas(expert, counts, table)
	}, nil
}

// replicas replaces the experts of token t by their replica number t modulo their count.
func replicas(expert, counts, table *op.Tensor) error {
	experts, err := elementwise.Indices(expert.View())
	if err != nil {
		return err
	}
	of, err := elementwise.Indices(counts.View())
	if err != nil {
		return err
	}
	all, err := elementwise.Indices(table.View())
	if err != nil {
		return err
	}
	k, width := expert.Dim(1), table.Dim(1)
	for i, e := range experts {
		if of[e] < 0 || of[e] > width {
			return fmt.Errorf("%v holds %d for expert %d; %v has room for %d", counts, of[e], e, table, width)
		}
		experts[i] = all[e*width+int64(i)/k%max(of[e], 1)]
	}
	return indexing.SetInts(expert.View(), experts)
}
