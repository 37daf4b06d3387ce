package model

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/autograd"
)

// forward returns the output y of a linear layer with weight w plus the adapter's product.
func (a *Adapter) forward(p *pass, w *Parameter, x, y *autograd.Var) *autograd.Var {
	if a == nil {
		return y
	}
	for _, l := range a.pairs[w] {
		inner := p.scaled(p.Linear(a.drop(p, l, x), l.a.Var, nil), l.scale)
		y = p.AddTo(y, p.Linear(inner, l.b.Var, nil), l.of)
	}
	return y
}

// of returns the features of a layer in those of the product that computes it.
func (l pair) of(y *aclnn.Tensor) *aclnn.Tensor {
	rows := l.b.local()[0]
	if l.row == 0 && y.Dim(-1) == rows {
		return y
	}
	return y.Narrow(-1, l.row, rows)
}

// drop sets random elements of x to zero and scales up the others, in training. The mask depends on the layer,
// the step, and the rank's part of tokens and features, so that ranks that share x draw the same.
func (a *Adapter) drop(p *pass, l pair, x *autograd.Var) *autograd.Var {
	if a.lora.Dropout == 0 || !p.training {
		return x
	}
	name := fnv.New64a()
	_, _ = fmt.Fprint(name, a.seed, l.module, index(a.m.par.Data), l.a.spread.Index)
	if p.draw > 0 {
		_, _ = fmt.Fprint(name, " row ", p.draw)
	}
	seed := rand.NewPCG(name.Sum64(), a.steps<<32|p.draws[a]).Uint64() >> 1
	return p.DropoutOf(x, a.lora.Dropout, int64(seed))
}
