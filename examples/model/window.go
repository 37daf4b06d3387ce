package model

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/mask"
)

// within restricts a causal mask to a sliding window of so many tokens; 0 is no window. Padding comes after the tokens, so that no token sees it.
func within(m mask.Mask, window int64) mask.Mask {
	if window == 0 {
		return m
	}
	band := mask.Band{Pre: window - 1}
	if packed, ok := m.(mask.Varlen); ok {
		packed.Within = band
		return packed
	}
	return band
}

// unseen are the places of a cache that tokens at positions known to the device alone do not see, [tokens, 1, 1, places], bool: those after each
// token in all, and in near those before its window too. The zero value stands for positions that the host knows.
type unseen struct{ all, near *aclnn.Tensor }

// of returns the mask of a layer, or its window where there is none.
func (u unseen) of(window int64) (hidden *aclnn.Tensor, rest int64) {
	switch {
	case u.all == nil:
		return nil, window
	case window > 0:
		return u.near, 0
	}
	return u.all, 0
}

// unseenFrom compares the numbers of places, [1, 1, 1, places], with the positions of tokens, [tokens, 1, 1, 1].
func (p *pass) unseenFrom(c Config, numbers, positions *aclnn.Tensor) (u unseen) {
	p.queue(func(s *aclnn.Scope) {
		shape := []int64{positions.Dim(0), 1, 1, numbers.Dim(3)}
		u.all = s.Tensor(aclnn.Bool, shape...)
		aclnn.Launch(s, aclnn.GtTensor, aclnn.GtTensorParams{Self: numbers, Other: positions, Out: u.all})
		if c.Window == 0 {
			return
		}
		last, before := s.Like(positions), s.Tensor(aclnn.Bool, shape...) // last of the places before the window
		aclnn.Launch(s, aclnn.Subs, aclnn.SubsParams{Self: positions, Other: aclnn.Int(int64(c.Window)), Alpha: aclnn.Int(1), Out: last})
		aclnn.Launch(s, aclnn.LeTensor, aclnn.LeTensorParams{Self: numbers, Other: last, Out: before})
		u.near = s.Tensor(aclnn.Bool, shape...)
		aclnn.Launch(s, aclnn.LogicalOr, aclnn.LogicalOrParams{Self: u.all, Other: before, Out: u.near})
	})
	return u
}
