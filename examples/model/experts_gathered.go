package model

import (
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/autograd"
)

// Experts on tokens that several ranks have: each rank computes its own experts, and the sum over the ranks has all. The host need not know how many rows an expert gets.

// expertRoom says how many rows a rank's experts have memory for.
type expertRoom struct {
	capacity float64       // times the number of a balanced routing; infinite for all rows that can come, 0 if ranks do not gather tokens
	excess   *aclnn.Tensor // [1], int32: the rows for which there was no room
	side     *acl.Stream   // of the exchange beside a shared expert, or nil
}

// of returns for how many rows a rank with own of all experts has room when each token goes to perToken experts, and the tensor that counts the
// rows without room, nil where every row has room.
func (r expertRoom) of(tokens, perToken, own, all int64) (rows int64, excess *aclnn.Tensor) {
	rows = tokens * min(perToken, own)
	if balanced := math.Ceil(r.capacity * float64(tokens*perToken*own/all)); balanced < float64(rows) {
		return int64(balanced), r.excess
	}
	return rows, nil
}

// shares reports whether the ranks that divide the experts have the same rows, those of tensor parallelism without sequence parallelism.
func (f experts) shares(p *pass) bool {
	return p.ep.Size() > 1 && p.tp.Size() > 1 && !p.tp.Sequence()
}

// gathered runs this rank's experts on the tokens of all ranks that divide them. If these have the same tokens, it has no gradient: the ranks would count each token
// several times (errCounted).
func (f experts) gathered(p *pass, x *autograd.Var, routing autograd.Routing, shared func() *autograd.Var) *autograd.Var {
	own := p.ep.Experts(f.count)
	var y, also *autograd.Var
	if f.shares(p) {
		also = shared()
		y = p.leave(f.own(p, x, routing, x.Dim(0)*min(f.perToken, own), nil))
	} else {
		room, excess := p.room.of(p.ep.Size()*x.Dim(0), f.perToken, own, f.count)
		all, chosen := p.GatherTokens(p.ep, x, routing, p.room.side, func() { also = shared() })
		y = p.ReduceTokens(p.ep, f.own(p, all, chosen, room, excess))
	}
	if also != nil {
		y = p.Add(y, also)
	}
	return y
}

// own runs this rank's experts on tokens that all ranks have.
func (f experts) own(p *pass, x *autograd.Var, routing autograd.Routing, room int64, excess *aclnn.Tensor) *autograd.Var {
	rows := p.OwnRows(p.ep, x, routing, f.count, room, excess)
	return p.MoEUnpermute(f.compute(p, rows.Rows, rows.Groups), rows, routing, nil)
}
