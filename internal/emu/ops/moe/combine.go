package moe

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/ops/normalization"
)

// combination is a call that returns the experts' results to the ranks of the tokens and sums
// them.
type combination struct {
	*op.Call
	distribution

	x, ids, mask, weights, ends *op.Tensor
	assist                      *op.Tensor // where rows came from, by the dispatch; epSendCounts says it too, so that only its form is looked at

	sharedX, originX                     *op.Tensor // results of experts on this rank
	scaleOrigin, scaleConstant, constant *op.Tensor // for constant experts, which mix in a vector
	zeros, copies, constants             int64      // experts without a rank, numbered after the others

	out      *op.Tensor
	capacity int64 // rows of x per rank of tp
	bytes    bool  // rows are sent as int8
	waits    *waits
}

func moeCombine(c *op.Call) (op.Run, error) {
	x, ids := c.Tensor("expandX"), c.Tensor("expertIds")
	c.Needs("expandIdx", "assistInfoForCombine", "expertScales", "epSendCounts", "x", "xOut", "residualX", "gamma", "yOut", "rstdOut")
	if c.Int("tpWorldSize") > 1 {
		c.Needs("tpSendCounts", "tpSendCountsOptional")
	}
	c.Plain(x)
	c.Rank(x, 2, 2)
	c.DType(x, op.HalfTypes...)
	p := &combination{Call: c, distribution: newDistribution(c, ids), x: x, ids: ids}
	if c.Err() == nil {
		p.checkLimits(c, x.Dim(1))
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.NoneOf("activationScale", "weightScale", "groupList", "activationScaleOptional", "weightScaleOptional", "groupListOptional", "elasticInfoOptional")
	if n := c.Int("outDtype"); n != 0 { // groupListType belongs to a reserved list and is not read
		c.Unfit("outDtype is %d; only 0 is supported", n)
	}
	switch mode := c.Int("commQuantMode"); {
	case mode == 2 && p.tp.Size == 1:
		p.bytes = true
	case mode != 0:
		c.Unfit("commQuantMode is %d; 0 is none, 2 int8 without tp", mode)
	}
	p.mask, p.weights, p.ends = activeMask(c, p.distribution), c.Tensor("expertScales"), c.Tensor("epSendCounts")
	p.assist = c.Tensor(c.Either("expandIdx", "assistInfoForCombine"))
	p.waits = newWaits(c, p.distribution)
	p.checkInputs()
	p.checkLocalExperts()
	if c.Err() != nil {
		return nil, c.Err()
	}
	width := x.Dim(1)
	if !c.Has("gamma") {
		p.out = c.Tensor(c.Either("x", "xOut"))
		c.Plain(p.out)
		c.SameDType(x, p.out)
		if !slices.Equal(p.out.Shape, []int64{p.tokens, width}) {
			c.Unfit("%v must be [%d,%d]", p.out, p.tokens, width)
		}
		return p.prepare(), c.Err()
	}
	p.out = c.Scratch(x.DType, p.tokens, width)
	back := p.prepare()
	residual := c.Tensor("residualX")
	if c.Err() == nil && !slices.Equal(residual.Shape, []int64{p.tokens, 1, width}) {
		c.Unfit("%v must be [%d,1,%d]", residual, p.tokens, width)
	}
	norm := c.Operate("AddRmsNorm", normalization.AddRMSNorm, map[string]any{
		"x1": c.Reshaped(p.out, p.tokens, 1, width), "x2": residual, "gamma": c.Tensor("gamma"), "epsilon": c.Float("normEps"),
		"yOut": c.Tensor("yOut"), "rstdOut": c.Tensor("rstdOut"), "xOut": c.Tensor("xOut"),
	})
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(e *op.Exec) error {
		// An inactive token adds nothing.
		if err := elementwise.Zero(p.out.View()); err != nil {
			return err
		}
		if err := back(e); err != nil {
			return err
		}
		return norm(e)
	}, nil
}

func (p *combination) checkInputs() {
	p.Plain(p.weights, p.ends, p.assist)
	p.DType(p.weights, dtype.Float32)
	p.DType(p.ends, dtype.Int32)
	p.DType(p.assist, dtype.Int32)
	if p.Err() != nil {
		return
	}
	if !slices.Equal(p.weights.Shape, p.ids.Shape) {
		p.Unfit("%v and %v differ in shape", p.weights, p.ids)
	}
	tp := int64(p.tp.Size)
	if n := tp * int64(p.ep.Size) * p.local(); p.ends.Rank() != 1 || p.ends.Len() < n {
		p.Unfit("%v must have %d elements, one for each expert and rank", p.ends, n)
	}
	if p.capacity = p.x.Dim(0) / tp; p.x.Dim(0)%tp != 0 {
		p.Unfit("%v: the rows must divide among %d ranks", p.x, tp)
	}
	assist, what := p.tokens*p.choices, "one for each choice of a token"
	if p.Has("assistInfoForCombine") {
		assist, what = p.capacity*assistance, "128 for each row"
	}
	if p.assist.Rank() != 1 || p.assist.Len() < assist {
		p.Unfit("%v must have %d elements (%s)", p.assist, assist, what)
	}
	if tp > 1 && p.OptionalOf("tpSendCounts", "tpSendCountsOptional") == nil {
		p.Fail(op.NullPointer, "tpSendCounts is null; tpWorldSize %d needs it", tp)
	}
}

// checkLocalExperts reads the tensors whose terms are added on the token's own rank.
func (p *combination) checkLocalExperts() {
	if p.Err() != nil {
		return
	}
	width := p.x.Dim(1)
	check := func(t *op.Tensor, shape ...int64) {
		p.Plain(t)
		p.SameDType(p.x, t)
		if p.Err() == nil && !slices.Equal(t.Shape, shape) {
			p.Unfit("%v must be %s", t, op.Dims(shape))
		}
	}
	if t := p.OptionalOf("sharedExpertXOptional"); t != nil {
		p.Plain(t)
		p.SameDType(p.x, t)
		if p.sharedRanks > 0 {
			p.Unfit("%v is given, but sharedExpertRankNum is %d", t, p.sharedRanks)
		}
		if t.Rank() < 2 || t.Rank() > 3 || t.Dim(-1) != width || t.Len() != p.tokens*width {
			p.Unfit("%v must hold %d tokens of %d", t, p.tokens, width)
		} else {
			p.sharedX = p.Reshaped(p.Contiguous(t), p.tokens, width)
		}
	}
	if !p.Has("zeroExpertNum") {
		return
	}
	p.zeros, p.copies, p.constants = p.Int("zeroExpertNum"), p.Int("copyExpertNum"), p.Int("constExpertNum")
	if p.zeros < 0 || p.copies < 0 || p.constants < 0 {
		p.Unfit("zeroExpertNum %d, copyExpertNum %d or constExpertNum %d is negative", p.zeros, p.copies, p.constants)
	}
	if p.copies+p.constants > 0 {
		p.originX = p.Tensor("oriXOptional")
		check(p.originX, p.tokens, width)
	}
	if p.constants > 0 {
		p.scaleOrigin, p.scaleConstant, p.constant = p.Tensor("constExpertAlpha1Optional"), p.Tensor("constExpertAlpha2Optional"), p.Tensor("constExpertVOptional")
		check(p.scaleOrigin, p.constants)
		check(p.scaleConstant, p.constants)
		check(p.constant, p.constants, width)
	}
}

// prepare sets up the stages: sum within tp, return the rows, sum the rows of each token.
func (p *combination) prepare() op.Run {
	width, tp := p.x.Dim(1), int64(p.tp.Size)
	returned, came := messages(p.Call, p.distribution, p.x.DType, width), messages(p.Call, p.distribution, p.x.DType, width)
	own := p.x
	if tp > 1 {
		parts := p.Scratch(p.x.DType, tp, p.capacity, width)
		own = p.Scratch(p.x.DType, p.capacity, width)
		p.Compute(func(*op.Exec) error { return p.divide(parts) })
		p.ReduceScatter(p.tp, own, parts)
	}
	p.Compute(func(*op.Exec) error { return p.give(returned, own) })
	p.waits.exchange(p.Call, p.distribution)
	p.AllToAll(p.ep, came, returned)
	return func(*op.Exec) error {
		if err := p.waits.add(p.distribution); err != nil {
			return err
		}
		return p.add(came)
	}
}

// counts returns the row counts of each rank of tp.
func (p *combination) counts() ([]arrivals, error) {
	ranks := int64(p.ep.Size)
	each := ranks * p.local()
	ends, err := elementwise.Indices(p.ends.View().Narrow(0, 0, each*int64(p.tp.Size)))
	if err != nil {
		return nil, err
	}
	all := make([]arrivals, p.tp.Size)
	for t := range all {
		all[t] = arrivals{ends[int64(t)*each : int64(t+1)*each], ranks}
		if !slices.IsSorted(all[t].ends) || all[t].ends[0] < 0 || all[t].rows() > p.capacity {
			return nil, fmt.Errorf("%v holds %v; pass what the dispatch wrote", p.ends, all[t].ends)
		}
	}
	return all, nil
}

// divide writes the rows of each rank of tp to a part of equal size, padded with zeros.
func (p *combination) divide(parts *op.Tensor) error {
	counts, err := p.counts()
	if err != nil {
		return err
	}
	if err := elementwise.Zero(parts.View()); err != nil {
		return err
	}
	at := int64(0)
	for t, k := range counts {
		if err := elementwise.Copy(parts.View().Select(0, int64(t)).Narrow(0, 0, k.rows()), p.x.View().Narrow(0, at, k.rows())); err != nil {
			return err
		}
		at += k.rows()
	}
	return nil
}

// give writes the rows to the positions they had in the messages that brought them.
func (p *combination) give(returned, own *op.Tensor) error {
	counts, err := p.counts()
	if err != nil {
		return err
	}
	k := counts[p.tp.Rank]
	if err := elementwise.Zero(returned.View()); err != nil {
		return err
	}
	for rank := range int64(p.ep.Size) {
		at := int64(0)
		for expert := range p.local() {
			first, n := k.of(expert, rank)
			if at+n > p.room() {
				return fmt.Errorf("%v: %d tokens of rank %d; it has %d", p.ends, at+n, rank, p.room())
			}
			into := returned.View().Select(0, rank).Narrow(0, at, n)
			if err := p.travel(into, own.View().Narrow(0, first, n)); err != nil {
				return err
			}
			at += n
		}
	}
	return nil
}

// travel copies rows as they are transmitted: if they are sent as bytes, they are rounded to
// int8 with one scale per row.
func (p *combination) travel(into, rows kernel.View) error {
	n, width := rows.Shape[0], rows.Shape[1]
	if !p.bytes || n == 0 {
		return elementwise.Copy(into, rows)
	}
	small, release := kernel.TemporaryInt8(n, width)
	defer release()
	scale, releaseScale := kernel.Temporary(n, 1)
	defer releaseScale()
	if err := (gemm.DynamicQuantizer{}).Quantize(small, scale.Select(1, 0), rows); err != nil {
		return err
	}
	return elementwise.Map(elementwise.Mul, dtype.Float32, into, []elementwise.Input{elementwise.Of(small), elementwise.Of(scale)})
}

// add sums the returned rows of each token, weighted by the experts' weights.
func (p *combination) add(came *op.Tensor) error {
	ids, err := elementwise.Indices(p.ids.View())
	if err != nil {
		return err
	}
	weights, err := elementwise.Floats(p.weights.View())
	if err != nil {
		return err
	}
	active, err := p.activity(p.mask)
	if err != nil || p.tokens == 0 {
		return err
	}
	terms := p.choices + p.sharedExperts
	index, scale := make([]int64, p.tokens*terms), make([]float32, p.tokens*terms)
	for i := range index {
		index[i], scale[i] = -1, 1
	}
	for rank, experts := range p.sends(ids, active) {
		at := int64(rank) * p.room()
		for _, a := range slices.Concat(experts...) {
			i := a.token*terms + a.place
			if index[i] = at; a.place < p.choices {
				scale[i] = weights[a.token*p.choices+a.place]
			}
			at++
		}
	}
	width := p.x.Dim(1)
	sum := indexing.Combination{X: came.As([]int64{came.Dim(0) * came.Dim(1), width}, []int64{width, 1}), Choices: terms, Index: index, Scale: scale}
	if p.sharedX != nil {
		sum.Addends = append(sum.Addends, p.sharedX.View())
	}
	if p.originX != nil {
		local, release := kernel.Temporary(p.tokens, width)
		defer release()
		if err := p.addLocal(local, ids, weights, active); err != nil {
			return err
		}
		sum.Addends = append(sum.Addends, local)
	}
	if p.mask == nil {
		return sum.Into(p.out.View())
	}
	all, release := kernel.Temporary(p.tokens, width)
	defer release()
	if err := sum.Into(all); err != nil {
		return err
	}
	for token := range p.tokens {
		takesPart := false
		for choice := range p.choices {
			takesPart = takesPart || active(token, choice)
		}
		if !takesPart {
			continue
		}
		if err := elementwise.Copy(p.out.View().Select(0, token), all.Select(0, token)); err != nil {
			return err
		}
	}
	return nil
}

// addLocal adds the terms of the experts that return the token itself or mix it with a vector.
func (p *combination) addLocal(out kernel.View, ids []int64, weights []float32, active func(token, choice int64) bool) error {
	var first, second []float32
	if p.constants > 0 {
		var err error
		if first, err = elementwise.Floats(p.scaleOrigin.View()); err != nil {
			return err
		}
		if second, err = elementwise.Floats(p.scaleConstant.View()); err != nil {
			return err
		}
	}
	origins, constants := make([]int64, len(ids)), make([]int64, len(ids))
	scales, constantScales := make([]float32, len(ids)), make([]float32, len(ids))
	for i, id := range ids {
		token := int64(i) / p.choices
		origins[i], constants[i] = -1, -1
		if k := id - p.experts - p.zeros; k >= 0 && active(token, int64(i)%p.choices) {
			origins[i], scales[i] = token, weights[i]
			if k -= p.copies; k >= 0 && k < p.constants {
				scales[i] *= first[k]
				constants[i], constantScales[i] = k, weights[i]*second[k]
			}
		}
	}
	of := indexing.Combination{X: p.originX.View(), Choices: p.choices, Index: origins, Scale: scales}
	if err := of.Into(out); err != nil || p.constants == 0 {
		return err
	}
	vectors := indexing.Combination{X: p.constant.View(), Choices: p.choices, Index: constants, Scale: constantScales, Addends: []kernel.View{out}}
	return vectors.Into(out)
}
