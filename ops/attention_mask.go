package ops

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/mask"
)

// hideBeyond sets the cells of a bool matrix above a diagonal and clears the others.
func (s *steps) hideBeyond(t *aclnn.Tensor, last int64) {
	launch(s, aclnn.InplaceOne, aclnn.InplaceOneParams{Self: t})
	launch(s, aclnn.InplaceTriu, aclnn.InplaceTriuParams{Self: t, Diagonal: last + 1})
}

// hidden converts a dense mask to CANN's form: bool or uint8, nonzero where a key is hidden.
func (s *steps) hidden(m *mask.Dense) *aclnn.Tensor {
	t := m.Tensor
	zero := aclnn.Int(0)
	if t.DType().IsFloat() {
		zero = aclnn.Float(0)
	}
	out := func() *aclnn.Tensor { return s.Tensor(aclnn.Bool, t.Shape()...) }
	switch {
	case m.Meaning == mask.Visible:
		hidden := out()
		launch(s, aclnn.EqScalar, aclnn.EqScalarParams{Self: t, Other: zero, Out: hidden})
		return hidden
	case m.Meaning == mask.Additive:
		hidden := out()
		launch(s, aclnn.LtScalar, aclnn.LtScalarParams{Self: t, Other: zero, Out: hidden})
		return hidden
	case t.DType() != aclnn.Bool && t.DType() != aclnn.Uint8:
		hidden := out()
		launch(s, aclnn.NeScalar, aclnn.NeScalarParams{Self: t, Other: zero, Out: hidden})
		return hidden
	}
	return t
}

// patternContent identifies the tensor of a pattern.
func patternContent(p mask.Pattern, shape []int64) string {
	return fmt.Sprintf("%v %d %d %v %s", shape, p.First, p.Last, p.Prefix, p.Hidden)
}

// spread returns a dense mask in a shape that the device takes. CANN would copy an expanded one in
// each call, forward and backward.
func (s *steps) spread(t *aclnn.Tensor, shape []int64) *aclnn.Tensor {
	if slices.Equal(t.Shape(), shape) {
		return t
	}
	out := s.Tensor(t.DType(), shape...)
	s.Copy(out, t)
	return out
}

// pattern makes the bool tensor of a pattern, [1 or batch, 1, 1 or queries, keys], nonzero where a
// key is hidden. It returns nil if nothing is hidden.
func (s *steps) pattern(ctx context.Context, p mask.Pattern, batch, queries, keys int64) *aclnn.Tensor {
	var hidden *aclnn.Tensor
	if p.Banded() {
		hidden = s.band(p, queries, keys)
	}
	if p.Prefix != nil && hidden != nil {
		// Keys after the prefix are hidden as the band says.
		behind := make([]byte, batch*keys)
		for b, n := range p.Prefix {
			for j := n; j < keys; j++ {
				behind[int64(b)*keys+j] = 1
			}
		}
		hidden = s.both(aclnn.LogicalAnd, hidden, s.keys(ctx, behind, batch, keys))
	}
	if p.Hidden == nil {
		return hidden
	}
	columns := s.keys(ctx, p.Hidden, batch, keys)
	if hidden == nil {
		return columns
	}
	launchOr := func(st *acl.Stream, l aclnn.LogicalAndParams) error {
		return aclnn.LogicalOr(st, aclnn.LogicalOrParams(l))
	}
	return s.both(launchOr, hidden, columns)
}

// band hides the cells outside the diagonals from First to Last.
func (s *steps) band(p mask.Pattern, queries, keys int64) *aclnn.Tensor {
	var above, below *aclnn.Tensor
	if p.Last != math.MaxInt64 {
		above = s.Tensor(aclnn.Bool, 1, 1, queries, keys)
		s.hideBeyond(above, p.Last)
	}
	if p.First != math.MinInt64 {
		below = s.Tensor(aclnn.Bool, 1, 1, queries, keys)
		launch(s, aclnn.InplaceOne, aclnn.InplaceOneParams{Self: below})
		launch(s, aclnn.InplaceTril, aclnn.InplaceTrilParams{Self: below, Diagonal: p.First - 1})
	}
	switch {
	case above == nil:
		return below
	case below == nil:
		return above
	}
	launch(s, aclnn.LogicalOr, aclnn.LogicalOrParams{Self: above, Other: below, Out: above})
	return above
}

// keys copies one byte per batch item and key to the device, as [batch,1,1,keys].
func (s *steps) keys(ctx context.Context, bytes []byte, batch, keys int64) *aclnn.Tensor {
	t := s.Tensor(aclnn.Bool, batch, 1, 1, keys)
	s.Do(func() error { return aclnn.CopyToDevice(ctx, s.Stream, t, bytes) })
	return t
}

// both combines cells [1,1,queries,keys] with keys [batch,1,1,keys].
func (s *steps) both(operator func(*acl.Stream, aclnn.LogicalAndParams) error, cells, keys *aclnn.Tensor) *aclnn.Tensor {
	out := s.Tensor(aclnn.Bool, keys.Dim(0), 1, cells.Dim(2), cells.Dim(3))
	launch(s, operator, aclnn.LogicalAndParams{Self: cells, Other: keys, Out: out})
	return out
}
