package ops

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/mask"
)

// templates are mask tensors that calls share, by device and content. The compressed masks are kept
// until the registry is closed, and of those made from patterns the last few.
type templates struct {
	mu     sync.Mutex
	made   map[templateKey]*template
	recent []templateKey // of masks made from patterns, oldest first
}

type templateKey struct {
	device  int
	content string
}

// patternLimit is the number of masks from patterns that are kept: enough for all layers of a step
// with two kinds of masks, forward and backward.
const patternLimit = 4

// template is a mask with the event after which it is complete.
type template struct {
	tensor *aclnn.Tensor
	buf    *acl.Buffer
	done   *acl.Event
	stream *acl.Stream
}

// compressed returns one of the compressed masks, complete for all work queued on the stream from
// now on.
func (ts *templates) compressed(st *acl.Stream, source mask.Source) (*aclnn.Tensor, error) {
	rows := int64(mask.TriangleSize)
	if source == mask.PrefixTriangle {
		rows = mask.PrefixRows
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.tensor(st, source.String(), []int64{rows, mask.TriangleSize}, func(s *steps, t *aclnn.Tensor) {
		s.hideBeyond(t.Narrow(0, 0, mask.TriangleSize), 0)
		if source == mask.PrefixTriangle {
			below := t.Narrow(0, mask.TriangleSize, rows-mask.TriangleSize)
			half := int64(mask.TriangleSize / 2)
			s.Zero(below.Narrow(1, 0, half))
			launch(s, aclnn.InplaceOne, aclnn.InplaceOneParams{Self: below.Narrow(1, half, half)})
		}
	})
}

// dense returns a mask that fill makes, or the one that it made for the same content. Layers of a
// step have one mask, which CANN would otherwise expand and copy in each of them.
func (ts *templates) dense(st *acl.Stream, content string, shape []int64, fill func(s *steps, t *aclnn.Tensor)) (*aclnn.Tensor, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	key := templateKey{st.Device().ID(), content}
	if i := slices.Index(ts.recent, key); i >= 0 {
		ts.recent = append(slices.Delete(ts.recent, i, i+1), key)
		return ts.tensor(st, content, shape, fill)
	}
	if len(ts.recent) == patternLimit {
		oldest := ts.recent[0]
		ts.recent = slices.Delete(ts.recent, 0, 1)
		t := ts.made[oldest]
		delete(ts.made, oldest)
		if err := t.close(); err != nil {
			return nil, err
		}
	}
	t, err := ts.tensor(st, content, shape, fill)
	if err == nil {
		ts.recent = append(ts.recent, key)
	}
	return t, err
}

// tensor returns the tensor of a content, which it makes if need be. The caller holds ts.mu.
func (ts *templates) tensor(st *acl.Stream, content string, shape []int64, fill func(s *steps, t *aclnn.Tensor)) (*aclnn.Tensor, error) {
	key := templateKey{st.Device().ID(), content}
	t := ts.made[key]
	if t == nil {
		var err error
		if t, err = makeTemplate(st, shape, fill); err != nil {
			return nil, err
		}
		if ts.made == nil {
			ts.made = make(map[templateKey]*template)
		}
		key.content = strings.Clone(content)
		ts.made[key] = t
	}
	if t.stream != st {
		if err := st.Wait(t.done); err != nil {
			return nil, err
		}
	}
	return t.tensor, nil
}

func makeTemplate(st *acl.Stream, shape []int64, fill func(s *steps, t *aclnn.Tensor)) (_ *template, err error) {
	// The memory does not come from the stream's allocator, because the template outlives the
	// stream.
	t := &template{stream: st}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	size := int64(1)
	for _, n := range shape {
		size *= n
	}
	if t.buf, err = st.Device().Malloc(int(max(size, 1))); err != nil {
		return nil, err
	}
	if t.tensor, err = aclnn.Wrap(t.buf, aclnn.Bool, shape...); err != nil {
		return nil, err
	}
	if err = compose(st, func(s *steps) { fill(s, t.tensor) }); err != nil {
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
	ts.made, ts.recent = nil, nil
	return err
}
