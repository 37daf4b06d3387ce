package ops

import (
	"context"
	"errors"
	"math"
	"sync"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/mask"
)

// templates are the compressed masks of a device, shared by all attention on it. They are made once
// and kept until the registry is closed.
type templates struct {
	mu   sync.Mutex
	made map[templateKey]*template
}

type templateKey struct {
	device int
	source mask.Source
}

// template is a mask with the event after which it is complete.
type template struct {
	tensor *aclnn.Tensor
	buf    *acl.Buffer
	done   *acl.Event
	stream *acl.Stream
}

// tensor returns the compressed mask, complete for all work queued on the stream from now on.
func (ts *templates) tensor(st *acl.Stream, source mask.Source) (*aclnn.Tensor, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	key := templateKey{st.Device().ID(), source}
	t := ts.made[key]
	if t == nil {
		var err error
		if t, err = makeTemplate(st, source); err != nil {
			return nil, err
		}
		if ts.made == nil {
			ts.made = make(map[templateKey]*template)
		}
		ts.made[key] = t
	}
	if t.stream != st {
		if err := st.Wait(t.done); err != nil {
			return nil, err
		}
	}
	return t.tensor, nil
}

func makeTemplate(st *acl.Stream, source mask.Source) (_ *template, err error) {
	rows := int64(mask.TriangleSize)
	if source == mask.PrefixTriangle {
		rows = mask.PrefixRows
	}
	// The memory does not come from the stream's allocator, because the template outlives the
	// stream.
	t := &template{stream: st}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	if t.buf, err = st.Device().Malloc(int(rows * mask.TriangleSize)); err != nil {
		return nil, err
	}
	if t.tensor, err = aclnn.Wrap(t.buf, aclnn.Bool, rows, mask.TriangleSize); err != nil {
		return nil, err
	}
	err = compose(st, func(s *steps) {
		s.hideBeyond(t.tensor.Narrow(0, 0, mask.TriangleSize), 0)
		if source == mask.PrefixTriangle {
			below := t.tensor.Narrow(0, mask.TriangleSize, rows-mask.TriangleSize)
			half := int64(mask.TriangleSize / 2)
			s.Zero(below.Narrow(1, 0, half))
			launch(s, aclnn.InplaceOne, aclnn.InplaceOneParams{SelfRef: below.Narrow(1, half, half)})
		}
	})
	if err != nil {
		return nil, err
	}
	t.done, err = st.Record()
	return t, err
}

func (t *template) close() error {
	var err error
	if t.done != nil {
		err = t.done.Close()
	}
	if t.buf != nil {
		err = errors.Join(err, t.buf.Close())
	}
	return err
}

// close frees the masks.
func (ts *templates) close() error {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var err error
	for _, t := range ts.made {
		err = errors.Join(err, t.close())
	}
	ts.made = nil
	return err
}

// hideBeyond sets the cells of a bool matrix above a diagonal and clears the others.
func (s *steps) hideBeyond(t *aclnn.Tensor, last int64) {
	launch(s, aclnn.InplaceOne, aclnn.InplaceOneParams{SelfRef: t})
	launch(s, aclnn.InplaceTriu, aclnn.InplaceTriuParams{SelfRef: t, Diagonal: last + 1})
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
		launch(s, aclnn.InplaceOne, aclnn.InplaceOneParams{SelfRef: below})
		launch(s, aclnn.InplaceTril, aclnn.InplaceTrilParams{SelfRef: below, Diagonal: p.First - 1})
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
