package attention

import (
	"math"
	"slices"

	"github.com/goascend/cann/internal/emu/kernel"
	attentionkernel "github.com/goascend/cann/internal/emu/kernel/attention"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// attentionGrad is one backward call.
type attentionGrad struct {
	*attention
	dy, dq, dk, dv *op.Tensor
	dqRope, dkRope *op.Tensor
	dsink          *op.Tensor
}

// flashAttentionGrad is aclnnFlashAttentionScoreGrad and its variants. As on the device, the
// gradient of the bias (dpseOut) is not written.
func flashAttentionGrad(c *op.Call) (op.Run, error) {
	g := attentionGrad{attention: readAttention(c, "keyIn", "pseShiftOptional", "sinkInOptional"), dy: c.Tensor("dy")}
	g.out = c.Tensor("attentionInOptional")
	g.dq, g.dk, g.dv = c.Tensor("dqOut"), c.Tensor("dkOut"), c.Tensor("dvOut")
	c.RequiredText("inputLayout")
	g.max, g.sum = given(c, "softmaxMaxOptional"), given(c, "softmaxSumOptional")
	g.checkEntry(c)
	if err := c.Err(); err != nil {
		return nil, err
	}
	if err := g.check(); err != nil {
		c.Fail(op.NullPointer, "%v. (Fag launch kernel failed: tiling refused the arguments.)", err)
		return nil, c.Err()
	}
	if g.layout.packed() {
		g.blankTail()
	}
	items := g.kernelItems()
	n, err := attentionkernel.FlashAttentionGradWorkspace(items)
	if err != nil {
		return nil, err
	}
	c.Workspace(n)
	return func(x *op.Exec) error {
		if err := attentionkernel.FlashAttentionGrad(g.kernelItems(), g.kernelGrads(), x.Workspace()); err != nil || g.dsink == nil {
			return err
		}
		return g.sinkGrad()
	}, c.Err()
}

// checkEntry checks the rules of the aclnn level (161002).
func (g *attentionGrad) checkEntry(c *op.Call) {
	if c.Err() != nil {
		return
	}
	if q := g.query.DType; g.key.DType != q || g.value.DType != q || g.dy.DType != q {
		c.Invalid("The data type of query[%v], key[%v], value[%v], dy[%v] are not equal", q, g.key.DType, g.value.DType, g.dy.DType)
	}
	g.bias.checkDType(c, g.query)
	if g.headNum <= 0 {
		c.Invalid("Invalid HeadNum, pls check input attr: it is %d", g.headNum)
	}
	if c.Err() != nil {
		return
	}
	g.readLayout(c)
	if c.Err() == nil && g.dim == 0 {
		c.Invalid("The dimension of D is zero: %v with headNum %d", g.query, g.headNum)
	}
	g.checkSink(c)
	if g.sink != nil {
		g.dsink = c.Tensor("dsinkOut")
		c.Same(g.sink, g.dsink)
	}
	g.readStatsLayout(c, "softmaxInLayout")
	if c.Has("queryRope") {
		if q, k := c.Optional("queryRope"), c.Optional("keyInRope"); q != nil || k != nil {
			g.checkRope(c, op.InvalidParam, c.Tensor("queryRope"), c.Tensor("keyInRope"))
			g.dqRope, g.dkRope = c.Tensor("dqRopeOut"), c.Tensor("dkRopeOut")
			c.Same(g.queryRope, g.dqRope)
			c.Same(g.keyRope, g.dkRope)
		}
	}
	c.Same(g.query, g.dq)
	c.Same(g.key, g.dk)
	c.Same(g.value, g.dv)
}

// check checks the rules of the tiling, which the backward operators report in phase one with
// 161001.
func (g *attentionGrad) check() error {
	if g.max == nil || g.sum == nil {
		return tilingErrorf("fail to get shape or attr from context: softmaxMax or softmaxSum is null; pass what the forward call wrote")
	}
	switch {
	case !(g.keepProb > 0 && g.keepProb <= 1):
		return tilingErrorf("keepProb is illegal: %v is not in (0, 1]", g.keepProb)
	case g.keepProb < 1 && g.drop == nil:
		return tilingErrorf("FAG keepProb [%v], dropMask can not be nullptr", g.keepProb)
	case g.keepProb == 1:
		g.drop = nil
	}
	if err := g.checkTiling(g.mask.checkGrad); err != nil {
		return err
	}
	var bad error
	g.checkStats(func(format string, args ...any) { bad = tilingErrorf(format, args...) })
	if bad != nil {
		return bad
	}
	out := g.layout.shape(g.batch, g.query.Dim(g.layout.row), g.heads, g.valDim)
	switch {
	case !slices.Equal(g.dy.Shape, out):
		return tilingErrorf("FAG different shape queryShape and dyShape: %v must be %s", g.dy, op.Dims(out))
	case !slices.Equal(g.out.Shape, out):
		return tilingErrorf("The dim of attentionIn shape is invalid: %v must be %s", g.out, op.Dims(out))
	case g.out.DType != g.query.DType:
		return tilingErrorf("invalid attentionIn dtype: %v must have the dtype of %v", g.out, g.query)
	}
	return nil
}

// kernelGrads returns the gradients that belong to kernelItems.
func (g *attentionGrad) kernelGrads() []attentionkernel.AttentionGrad {
	l := g.layout
	grads := make([]attentionkernel.AttentionGrad, len(g.items))
	for i, it := range g.items {
		grads[i] = attentionkernel.AttentionGrad{
			OutGrad:   l.view(g.dy, it.batch, it.row, g.heads, it.rows, g.valDim),
			QueryGrad: l.view(g.dq, it.batch, it.row, g.heads, it.rows, g.dim),
			KeyGrad:   l.view(g.dk, it.batch, it.col, g.keyHeads, it.cols, g.dim),
			ValueGrad: l.view(g.dv, it.batch, it.col, g.keyHeads, it.cols, g.valDim),
		}
		if g.dqRope != nil {
			grads[i].QueryRopeGrad = l.view(g.dqRope, it.batch, it.row, g.heads, it.rows, g.ropeDim)
			grads[i].KeyRopeGrad = l.view(g.dkRope, it.batch, it.col, g.keyHeads, it.cols, g.ropeDim)
		}
	}
	return grads
}

// sinkGrad computes the gradient of the sinks: minus the sum over the rows of a head of the sink's probability times
// the product of the output and its gradient.
func (g *attentionGrad) sinkGrad() error {
	sinks, err := elementwise.Doubles(g.sink.View())
	if err != nil {
		return err
	}
	sums := make([]float64, g.heads)
	for i, grad := range g.kernelGrads() {
		item := g.items[i]
		if item.rows == 0 || item.cols == 0 {
			continue
		}
		k := g.kernelItem(item)
		var read [4][]float64
		for n, v := range []kernel.View{k.Out, grad.OutGrad, k.Max, k.Sum} {
			if read[n], err = elementwise.Doubles(v); err != nil {
				return err
			}
		}
		out, dy, top, sum := read[0], read[1], read[2], read[3]
		for row := range g.heads * item.rows {
			delta := 0.0
			for j := row * g.valDim; j < (row+1)*g.valDim; j++ {
				delta += float64(out[j] * dy[j])
			}
			head, stat := row/item.rows, row*attentionkernel.AttentionStatCopies
			sums[head] -= float64(math.Exp(sinks[head]-top[stat]) / sum[stat] * delta)
		}
	}
	return elementwise.SetFloats(g.dsink.View(), sums)
}
