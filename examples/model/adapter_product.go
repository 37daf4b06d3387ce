package model

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"github.com/goascend/cann/aclnn"
)

// lowRank is kept for the backward pass of an adapted layer: x·Aᵀ times the scale, [tokens, rank],
// and with dropout x after it and the mask.
type lowRank struct{ x, inner, mask *aclnn.Tensor }

// forward adds the adapter's product to the output y of a linear layer with weight w.
func (a *Adapter) forward(p *pass, w *Parameter, x, y *aclnn.Tensor) {
	if a == nil {
		return
	}
	for _, l := range a.pairs[w] {
		s := lowRank{x: x}
		if a.lora.Dropout > 0 && p.training {
			s.x, s.mask = a.drop(p, l, x)
		}
		s.inner = p.scaled(linear{l.a}.forward(p, s.x), l.scale)
		if p.low == nil {
			p.low = map[*Parameter]lowRank{}
		}
		p.low[l.a] = s
		p.add(l.of(y), linear{l.b}.forward(p, s.inner))
	}
}

// backward computes the gradients of the adapter's weights, and adds that of its input to dx.
func (a *Adapter) backward(p *pass, w *Parameter, x, dy, dx *aclnn.Tensor) {
	if a == nil {
		return
	}
	for _, l := range a.pairs[w] {
		s := p.low[l.a]
		delete(p.low, l.a)
		if p.Err() != nil {
			return
		}
		dInner := linear{l.b}.backward(p, s.inner, p.Contiguous(l.of(dy)))
		own := linear{l.a}.backward(p, s.x, p.scaled(dInner, l.scale))
		if s.mask != nil {
			own = a.mask(p, own, s.mask)
		}
		p.add(dx, own)
	}
}

// of returns the features of a layer in those of the product that computes it.
func (l pair) of(y *aclnn.Tensor) *aclnn.Tensor {
	rows := l.b.local()[0]
	if l.row == 0 && y.Dim(-1) == rows {
		return y
	}
	return y.Narrow(-1, l.row, rows)
}

// scaled returns x times a factor.
func (p *pass) scaled(x *aclnn.Tensor, factor float64) *aclnn.Tensor {
	if factor == 1 {
		return x
	}
	y := p.Like(x)
	aclnn.Launch(&p.Scope, aclnn.Muls, aclnn.MulsParams{Self: x, Other: aclnn.Float(factor), Out: y})
	return y
}

// drop sets random elements of x to zero and scales up the others. The mask depends on the layer,
// the step, and the rank's part of tokens and features, so that ranks that share x draw the same.
func (a *Adapter) drop(p *pass, l pair, x *aclnn.Tensor) (dropped, mask *aclnn.Tensor) {
	name := fnv.New64a()
	_, _ = fmt.Fprint(name, a.seed, l.module, index(a.m.par.Data), l.a.spread.part)
	a.drawn++
	seed := rand.NewPCG(name.Sum64(), a.steps<<32|a.drawn).Uint64() >> 1
	mask = p.Tensor(aclnn.Uint8, (x.Len()+127)/128*16)
	aclnn.Launch(&p.Scope, aclnn.DropoutGenMask, aclnn.DropoutGenMaskParams{
		Shape: x.Shape(), Prob: a.lora.Dropout, Seed: int64(seed), Out: mask,
	})
	return a.mask(p, x, mask), mask
}

func (a *Adapter) mask(p *pass, x, mask *aclnn.Tensor) *aclnn.Tensor {
	y := p.Like(x)
	aclnn.Launch(&p.Scope, aclnn.DropoutDoMask, aclnn.DropoutDoMaskParams{Self: x, Mask: mask, Prob: a.lora.Dropout, Out: y})
	return y
}
