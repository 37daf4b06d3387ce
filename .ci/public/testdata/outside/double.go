package service

import (
	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// DoubleParams are the arguments of an operator of the service's own, as aclnn/bind writes them.
type DoubleParams struct {
	X   *aclnn.Tensor
	Out *aclnn.Tensor // output
}

var opDouble = aclnn.Operator{Symbol: "aclnnServiceDouble", Library: "libcust_opapi", Since: "custom", Params: "x out", Slots: "io"}

// Double launches the operator.
func Double(st *acl.Stream, p DoubleParams) error {
	c := aclnn.NewCall(st, p.Operator())
	p.Encode(c)
	return c.Launch()
}

// Operator implements aclnn.Params.
func (p *DoubleParams) Operator() *aclnn.Operator { return &opDouble }

// Encode implements aclnn.Params.
func (p *DoubleParams) Encode(c *aclnn.Call) {
	c.Tensor(p.X)
	c.Tensor(p.Out)
}
