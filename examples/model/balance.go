package model

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// balance computes the load balancing loss of the experts over the routing of all layers.
type balance struct {
	scale  float64
	up     float64 // LossScale, of the gradients
	layers []routed
	dProbs []*aclnn.Tensor // by layer
}

// add adds the scaled balance loss to the model's loss. It keeps the gradients for the backward
// passes of the layers.
func (b *balance) add(p *pass, loss *aclnn.Tensor) {
	if b.scale == 0 || len(b.layers) == 0 || p.Err() != nil {
		return
	}
	tokens, n, k := b.layers[0].probs.Dim(0), b.layers[0].probs.Dim(1), b.layers[0].chosen.Dim(1)
	layers := int64(len(b.layers))
	probs, chosen := p.Tensor(aclnn.Float32, layers*tokens, n), p.Tensor(aclnn.Int32, layers*tokens, k)
	for i, l := range b.layers {
		p.Copy(probs.Narrow(0, int64(i)*tokens, tokens), l.probs)
		p.Copy(chosen.Narrow(0, int64(i)*tokens, tokens), l.chosen)
	}
	own, dProbs := p.Tensor(aclnn.Float32, 1), p.Like(probs)
	ops.Queue(p.ctx, &p.Scope, p.reg.LoadBalance(), &ops.LoadBalanceArgs{Probs: probs, Experts: chosen, Loss: own})
	// The total over ranks is divided by the number of tensor-parallel ranks, because these have
	// the same cross-entropy; but their tokens of the balance differ.
	weight := b.scale * float64(p.tp.Size())
	aclnn.Launch(&p.Scope, aclnn.InplaceAdd, aclnn.InplaceAddParams{Self: loss, Other: own, Alpha: aclnn.Float(weight)})
	ops.Queue(p.ctx, &p.Scope, p.reg.LoadBalanceGrad(), &ops.LoadBalanceGradArgs{Scale: b.scale * b.up, Experts: chosen, DProbs: dProbs})
	for i := range b.layers {
		b.dProbs = append(b.dProbs, dProbs.Narrow(0, int64(i)*tokens, tokens))
	}
}

// dProbs returns the gradient of a layer's probabilities, nil if the loss does not include the
// balance.
func (p *pass) dProbs(l routed) *aclnn.Tensor {
	for i, other := range p.balance.layers {
		if other == l && i < len(p.balance.dProbs) {
			return p.balance.dProbs[i]
		}
	}
	return nil
}
