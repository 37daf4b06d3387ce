package ops

import (
	"context"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/mask"
)

// PaddingOf reads from a dense mask which keys are tokens: those that some query of some head sees.
// The result is the 2-D padding mask of a causal or full mask, for layers besides attention that
// need one (gated delta nets, pooling). It accepts every meaning and dtype of mask.Dense; integers
// are compared with zero, never inverted bitwise. It waits for the stream.
//
// Keys that only padding queries could see count as padding too. A mask that hides keys for another
// reason, such as a window, yields padding only where it hides a key from all queries. Errors match
// ErrInvalid and mask.ErrRefused.
func PaddingOf(ctx context.Context, st *acl.Stream, m mask.Dense, s mask.Shape) (mask.Padding, error) {
	if _, err := mask.Decide(m, s); err != nil {
		return mask.Padding{}, fmt.Errorf("%w: padding of a mask: %w", ErrInvalid, err)
	}
	valid := make([]bool, s.Batch*s.Keys)
	t := m.Tensor
	for t.Rank() < 4 {
		t = t.Unsqueeze(0)
	}
	if t.Len() == 0 {
		return mask.Padding{Valid: valid}, nil
	}
	m.Tensor = t
	hidden := make([]byte, t.Dim(0)*s.Keys)
	err := compose(st, func(s *steps) {
		everywhere := s.Tensor(aclnn.Bool, reduced(t, 1, 2)...)
		launch(s, aclnn.All, aclnn.AllParams{Self: s.hidden(&m), Dim: []int64{1, 2}, Keepdim: true, Out: everywhere})
		s.Do(func() error { return aclnn.CopyFromDevice(ctx, st, hidden, everywhere) })
	})
	if err != nil {
		return mask.Padding{}, err
	}
	for i := range valid {
		valid[i] = hidden[i%len(hidden)] == 0 // one row of keys may serve all items
	}
	return mask.Padding{Valid: valid}, nil
}

// LastTokens is mask.LastTokens for every mask: it reads the cells of a dense mask, for which it
// waits for the stream.
func LastTokens(ctx context.Context, st *acl.Stream, m mask.Mask, s mask.Shape) ([]int64, error) {
	if dense, ok := m.(mask.Dense); ok {
		p, err := PaddingOf(ctx, st, dense, s)
		if err != nil {
			return nil, err
		}
		m = p
	}
	return mask.LastTokens(m, s)
}
