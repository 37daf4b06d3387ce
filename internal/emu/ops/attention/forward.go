package attention

import (
	attentionkernel "github.com/goascend/cann/internal/emu/kernel/attention"
	"github.com/goascend/cann/internal/emu/op"
)

// flashAttention is aclnnFlashAttentionScore and its variants: attentionOut =
// softmax(mask(scale·QKᵀ, bias))·V, with a sink of each head among the scores of a row, if given. It also returns the maximum and the sum of each row for the
// backward pass.
func flashAttention(c *op.Call) (op.Run, error) {
	a := readAttention(c, "key", "realShiftOptional", "sinkOptional")
	a.max, a.sum, a.out = c.Tensor("softmaxMaxOut"), c.Tensor("softmaxSumOut"), c.Tensor("attentionOutOut")
	c.RequiredText("inputLayout")
	if c.Err() == nil && a.max.Len() == 0 && a.sum.Len() == 0 && a.out.Len() == 0 {
		return op.Nothing, nil
	}
	a.checkForward(c)
	if err := c.Err(); err != nil {
		return nil, err
	}
	if err := a.checkTiling(a.mask.checkForward); err != nil {
		c.FailLaunch(tilingFailed, "%v. (Tiling failed, which CANN reports from the second call with this code.)", err)
		return nil, nil
	}
	a.checkStats(c.Invalid)
	out := a.layout.shape(a.batch, a.query.Dim(a.layout.row), a.heads, a.valDim)
	c.Shape(a.out, out, a.layout.valueShape+" with tokens and heads of the query")
	c.SameDType(a.query, a.out)
	if drops(a.queryEnds) || drops(a.keyEnds) {
		a.blankTail()
	}
	return func(*op.Exec) error { return attentionkernel.FlashAttention(a.kernelItems()) }, c.Err()
}

// checkForward checks the rules of the aclnn level (161002), in its order.
func (a *attention) checkForward(c *op.Call) {
	if c.Err() != nil {
		return
	}
	// Two functions check equal dtypes only in the tiling.
	if name := c.Op.Name; name != "FlashAttentionVarLenScore" && name != "FlashAttentionVarLenScoreV4" {
		if q := a.query.DType; a.key.DType != q || a.value.DType != q {
			c.Invalid("The data type of query[%v], key[%v], value[%v] are not equal", q, a.key.DType, a.value.DType)
		}
	}
	a.bias.checkDType(c, a.query)
	if a.headNum <= 0 {
		c.Invalid("head_num must > 0, but got %d", a.headNum)
	}
	if c.Err() != nil {
		return
	}
	a.readLayout(c)
	if a.dim > maxHeadDim {
		c.Invalid("Head dim must <= %d, but it is %d in %v", maxHeadDim, a.dim, a.query)
	}
	a.checkSink(c)
	a.readStatsLayout(c, "softmaxOutLayout")
	if c.Has("queryRope") {
		if q, k := c.Optional("queryRope"), c.Optional("keyRope"); q != nil || k != nil {
			a.checkRope(c, op.NullPointer, c.Tensor("queryRope"), c.Tensor("keyRope"))
		}
	}
}

// checkForward checks mask, sparseMode and window.
func (m *attentionMask) checkForward(s *attentionShape) error {
	if err := m.checkForm(s); err != nil {
		return err
	}
	if m.tensor != nil && m.mode == sparsePrefix2 {
		if err := m.checkPrefix(s); err != nil {
			return err
		}
	}
	m.decide(s)
	return m.checkWindow(s)
}
