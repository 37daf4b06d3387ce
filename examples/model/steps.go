package model

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/autograd"
)

// Steps lets Advance replay a graph when every piece has one token and no adapter: the host then queues the pass
// with one call. With tensor parallelism all ranks have Steps, or none. Close them before the pages.
//
// A graph has fixed shapes, so there is one for each power of two of sequences and of blocks of the longest one,
// captured when it is first needed. Places without a sequence compute with memory of their own. Attention reads
// all places of a graph's blocks, and a mask hides those after the token, so the logits differ by rounding from
// those of a pass without a graph.
type Steps struct {
	g       *Pages
	graphs  map[stepSize]*stepGraph
	tables  map[int]*ropeTable // by blocks of a sequence
	replays int
	off     error // why no more graphs are captured
}

// stepSize is the numbers of sequences, and of blocks of each.
type stepSize struct{ rows, columns int }

// NewSteps makes the graphs of g's passes possible.
func (g *Pages) NewSteps() (*Steps, error) {
	if g.layers == nil {
		return nil, errors.New("model: the pages are closed")
	}
	g.steps = &Steps{g: g, graphs: map[stepSize]*stepGraph{}, tables: map[int]*ropeTable{}}
	return g.steps, nil
}

// Replays returns how many passes were replays since the last call.
func (s *Steps) Replays() (n int) {
	n, s.replays = s.replays, 0
	return n
}

// Off returns why no more graphs are captured, or nil: this CANN has no graphs (acl.ErrNotSupported), or there was
// no memory.
func (s *Steps) Off() error { return s.off }

// Close waits for the graphs and frees them.
func (s *Steps) Close() error {
	var errs []error
	for _, x := range s.graphs {
		errs = append(errs, x.Close())
	}
	for _, t := range s.tables {
		errs = append(errs, t.close())
	}
	if s.g.steps == s {
		s.g.steps = nil
	}
	s.graphs, s.tables = nil, nil
	return errors.Join(errs...)
}

// size returns the size of the graph for some pieces, if there can be one.
func (s *Steps) size(pieces []Piece) (z stepSize, ok bool) {
	if s == nil || s.graphs == nil {
		return z, false
	}
	z = stepSize{1, (fewestPlaces + s.g.sizes.Block - 1) / s.g.sizes.Block}
	for _, x := range pieces {
		if len(x.Tokens) > 1 || x.Adapter > 0 {
			return z, false
		}
		for z.columns <= x.From/s.g.sizes.Block {
			z.columns *= 2
		}
	}
	for z.rows < len(pieces) {
		z.rows *= 2
	}
	z = stepSize{min(z.rows, s.g.sizes.States), min(z.columns, s.g.sizes.Blocks)}
	return z, s.off == nil || s.graphs[z] != nil
}

// advance computes the pass of some pieces, by a graph of this size.
func (s *Steps) advance(ctx context.Context, z stepSize, pieces []Piece) (logits []float32, err error) {
	st, x := s.g.m.st, s.graphs[z]
	if x == nil {
		if x, err = s.graph(ctx, z); err != nil {
			return nil, err
		}
	}
	x.give(pieces)
	switch {
	case x.graph != nil:
		err = x.graph.Replay(st)
		s.replays++
	default: // a capture needs operators that have run
		err = x.launch(ctx)
	}
	if err == nil {
		err = st.Synchronize(ctx)
	}
	if err != nil {
		return nil, err
	}
	if x.kept != nil {
		first := make([]int, len(pieces))
		for i := range first {
			first[i] = i
		}
		s.g.kept.take(x.kept, first, pieces)
	}
	if x.logits != nil {
		logits = append(logits, acl.Slice[float32](x.logits)[:len(pieces)*s.g.m.Config.VocabSize]...)
	}
	if x.graph == nil {
		return logits, s.capture(ctx, z, x)
	}
	return logits, nil
}

// capture captures the graph of a pass that was just launched. If this CANN has no graphs, or there is no memory,
// passes go on without.
func (s *Steps) capture(ctx context.Context, z stepSize, x *stepGraph) (err error) {
	x.graph, err = s.g.m.st.Capture(ctx, acl.CaptureThreadLocal, func() error { return x.launch(ctx) })
	if errors.Is(err, acl.ErrNotSupported) || errors.Is(err, acl.ErrOutOfMemory) {
		s.off = err
		delete(s.graphs, z)
		return x.Close()
	}
	return err
}

// graph allocates the memory of a graph.
func (s *Steps) graph(ctx context.Context, z stepSize) (*stepGraph, error) {
	x := &stepGraph{g: s.g, size: z, memory: aclnn.Scope{Stream: s.g.m.st}, rope: s.tables[z.columns]}
	if x.rope == nil {
		x.rope = &ropeTable{}
		s.tables[z.columns] = x.rope
	}
	if err := x.allocate(ctx); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	s.graphs[z] = x
	return x, nil
}

// stepGraph is a captured pass.
type stepGraph struct {
	g      *Pages
	size   stepSize
	memory aclnn.Scope
	rope   *ropeTable
	graph  *acl.Graph // nil until it is captured

	given  *acl.HostBuffer // what changes from pass to pass, as the device has it in taken
	taken  *acl.Buffer
	logits *acl.HostBuffer // float32, of the first rank only

	ids, positions, turns, slots, before, after, blocks *aclnn.Tensor // views of taken
	numbers                                             *aclnn.Tensor // of the places of a sequence
	kept                                                *aclnn.Tensor // states for Predict, or nil
}

func (x *stepGraph) places() int64 { return int64(x.size.columns * x.g.sizes.Block) }

func (x *stepGraph) allocate(ctx context.Context) (err error) {
	m, rows, columns := x.g.m, x.size.rows, x.size.columns
	stride := (rows*4 + 63) / 64 * 64 // bytes of a list with an entry for each sequence
	size := 6*stride + rows*columns*4
	if x.given, err = m.st.Device().MallocHost(size); err != nil {
		return err
	}
	x.memory.Own(x.given)
	if x.taken, err = m.st.Malloc(size); err != nil {
		return err
	}
	x.memory.Own(x.taken)
	if m.tp.Rank() == 0 {
		if x.logits, err = m.st.Device().MallocHost(rows * m.Config.VocabSize * 4); err != nil {
			return err
		}
		x.memory.Own(x.logits)
	}
	n := int64(rows)
	for i, t := range []**aclnn.Tensor{&x.ids, &x.positions, &x.turns, &x.slots, &x.before, &x.after, &x.blocks} {
		shape := []int64{n}
		if t == &x.blocks {
			shape = []int64{n, int64(columns)}
		}
		view, err := x.taken.View(i*stride, size-i*stride)
		if err != nil {
			return err
		}
		if *t, err = aclnn.Wrap(view, aclnn.Int32, shape...); err != nil {
			return err
		}
	}
	if m.predictor != nil {
		x.kept = x.memory.Tensor(m.dt, n, int64(m.Config.HiddenSize))
	}
	x.numbers = x.memory.Tensor(aclnn.Int32, 1, 1, 1, x.places())
	aclnn.Launch(&x.memory, aclnn.Arange, aclnn.ArangeParams{Start: aclnn.Int(0), End: aclnn.Int(x.places()), Step: aclnn.Int(1), Out: x.numbers.Reshape(-1)})
	if err := x.memory.Err(); err != nil {
		return err
	}
	return x.rope.cached(ctx, m.st, m.Config, m.dt, x.places())
}

// give writes what the pass reads. Rows without a piece have a slot of their own beyond the blocks, and the state
// beyond those of sequences.
func (x *stepGraph) give(pieces []Piece) {
	z, rows, columns, all := x.g.sizes, x.size.rows, x.size.columns, x.given.Bytes()
	stride := (rows*4 + 63) / 64 * 64
	put := func(list, at, value int) { binary.NativeEndian.PutUint32(all[list*stride+4*at:], uint32(value)) }
	for i := range rows {
		values := []int{0, 0, 0, z.Blocks*z.Block + i, 0, z.States + 1} // in the order of the lists
		blocks := []int32{int32(z.Blocks)}
		if i < len(pieces) {
			p := pieces[i]
			values = []int{int(p.Tokens[0]), p.From, int(x.rope.row(int64(p.From), p.Long)), int(p.Blocks[p.From/z.Block])*z.Block + p.From%z.Block, p.before(), p.State + 1}
			blocks = p.Blocks[:min(len(p.Blocks), columns)]
		}
		for list, v := range values {
			put(list, i, v)
		}
		for j := range columns {
			put(len(values), i*columns+j, int(blocks[min(j, len(blocks)-1)]))
		}
	}
}

// launch queues the operators of the pass.
func (x *stepGraph) launch(ctx context.Context) (err error) {
	m, n := x.g.m, int64(x.size.rows)
	p := m.pass(ctx, autograd.Options{NoGrad: true})
	defer func() { err = errors.Join(err, p.Close()) }()
	p.do(func() error { return m.st.Copy(x.taken, x.given, x.given.Size()) })
	hidden := p.unseenFrom(m.Config, x.numbers, x.positions.Reshape(n, 1, 1, 1))
	in := &inputs{
		batch: 1, length: n, scale: m.Config.attentionScale(), ids: x.ids, slots: x.slots, pages: x.g, kept: x.kept,
		subBatches: []subBatch{{size: n, length: 1, lengths: []int64{x.places()}, hidden: hidden, blocks: x.blocks, before: x.before, after: x.after}},
	}
	in.rope = rotation{p.at(x.rope.cos, x.turns), p.at(x.rope.sin, x.turns)}
	out := m.whole(p, m.forward(p, in, nil).Value)
	if x.logits != nil {
		p.deliver(x.logits, out)
	}
	return p.Err()
}

// Close waits for the graph and frees it.
func (x *stepGraph) Close() error {
	var err error
	if x.graph != nil {
		err = x.graph.Close()
	}
	return errors.Join(err, x.memory.Close())
}
