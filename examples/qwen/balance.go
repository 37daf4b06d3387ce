package qwen

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// balance is the loss that keeps the experts equally busy, over the routing of all layers.
type balance struct {
	scale  float64
	layers []routed
	dProbs []*aclnn.Tensor // of each layer
}

// add is the scaled loss of the layers' routing, added to that of the model; the gradients
// wait for the layers' backward passes.
func (b *balance) add(p *pass, loss *aclnn.Tensor) {
	if b.scale == 0 || len(b.layers) == 0 || p.err != nil {
		return
	}
	tokens, n, k := b.layers[0].probs.Dim(0), b.layers[0].probs.Dim(1), b.layers[0].chosen.Dim(1)
	layers := int64(len(b.layers))
	probs, chosen := p.tensor(aclnn.Float32, layers*tokens, n), p.tensor(aclnn.Int32, layers*tokens, k)
	for i, l := range b.layers {
		p.copy(probs.Narrow(0, int64(i)*tokens, tokens), l.probs)
		p.copy(chosen.Narrow(0, int64(i)*tokens, tokens), l.chosen)
	}
	own, dProbs := p.tensor(aclnn.Float32, 1), p.like(probs)
	run(p, p.reg.LoadBalance, &ops.LoadBalanceArgs{Probs: probs, Experts: chosen, Loss: own})
	// The total over ranks is divided by those of tensor parallelism, who have the same
	// cross-entropy each, and here other tokens.
	weight := b.scale * float64(p.tp.Size())
	launch(p, aclnn.InplaceAdd, aclnn.InplaceAddParams{SelfRef: loss, Other: own, Alpha: aclnn.Float(weight)})
	run(p, p.reg.LoadBalanceGrad, &ops.LoadBalanceGradArgs{Scale: b.scale, Experts: chosen, DProbs: dProbs})
	for i := range b.layers {
		b.dProbs = append(b.dProbs, dProbs.Narrow(0, int64(i)*tokens, tokens))
	}
}

// dProbs is the gradient of a layer's probabilities, nil when the balance has no part in the
// loss.
func (p *pass) dProbs(l routed) *aclnn.Tensor {
	for i, other := range p.balance.layers {
		if other == l && i < len(p.balance.dProbs) {
			return p.balance.dProbs[i]
		}
	}
	return nil
}
