package model

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/autograd"
)

// Decoder appends tokens to a cache, one per sequence and call, by replaying a graph: the host
// queues a step with one call instead of some twenty launches a layer.
//
// A graph has fixed addresses and shapes. So the tokens, their place in the cache and their position
// come from page-locked memory, and attention reads the keys of a fixed
// number of places, of which a mask hides those without a token. There is a graph for each power
// of two of places, captured when it is first needed. Close the decoder before the cache.
type Decoder struct {
	// Eager queues the operators of the same step one by one instead, for comparison.
	Eager bool

	m      *Model
	c      *Cache
	rope   ropeTable
	memory aclnn.Scope
	graphs map[int64]*acl.Graph // by number of places

	given  *acl.HostBuffer // what changes from step to step, as the device has it in taken
	taken  *acl.Buffer
	logits *acl.HostBuffer // of the last step, float32

	ids, slots, positions, turns       *aclnn.Tensor // views of taken
	slotsAt, positionsAt, turnsAt, end int           // where these start in given
	numbers                            *aclnn.Tensor // of the places of a sequence
}

// fewestPlaces is the number of places that the first graph reads.
const fewestPlaces = 64

// NewDecoder makes a decoder for a cache, which Extend and Reset may still change.
func (m *Model) NewDecoder(ctx context.Context, c *Cache) (*Decoder, error) {
	if c == nil || c.m != m || c.layers == nil {
		return nil, errors.New("model: the cache is closed, or of another model")
	}
	d := &Decoder{m: m, c: c, memory: aclnn.Scope{Stream: m.st}, graphs: make(map[int64]*acl.Graph)}
	if err := d.allocate(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Decoder) allocate(ctx context.Context) (err error) {
	m, b, capacity := d.m, d.c.batch, d.c.capacity
	part := func(n int64) (at int) {
		const unit = 64 // alignment in bytes
		at = d.end
		d.end += int(n+unit-1) / unit * unit
		return at
	}
	part(4 * b) // the token ids
	d.slotsAt, d.positionsAt, d.turnsAt = part(8*b), part(8*b), part(8)
	if d.given, err = m.st.Device().MallocHost(d.end); err != nil {
		return err
	}
	d.memory.Own(d.given)
	if d.taken, err = m.st.Malloc(d.end); err != nil {
		return err
	}
	d.memory.Own(d.taken)
	if d.logits, err = m.st.Device().MallocHost(int(b) * m.Config.VocabSize * 4); err != nil {
		return err
	}
	d.memory.Own(d.logits)
	for _, v := range []struct {
		t     **aclnn.Tensor
		at    int
		dt    aclnn.DType
		shape []int64
	}{
		{&d.ids, 0, aclnn.Int32, []int64{b}}, {&d.slots, d.slotsAt, aclnn.Int64, []int64{b}},
		{&d.positions, d.positionsAt, aclnn.Int64, []int64{b}}, {&d.turns, d.turnsAt, aclnn.Int64, []int64{1}},
	} {
		view, err := d.taken.View(v.at, d.end-v.at)
		if err != nil {
			return err
		}
		if *v.t, err = aclnn.Wrap(view, v.dt, v.shape...); err != nil {
			return err
		}
	}
	d.numbers = d.memory.Tensor(aclnn.Int64, 1, 1, 1, capacity)
	aclnn.Launch(&d.memory, aclnn.Arange, aclnn.ArangeParams{Start: aclnn.Int(0), End: aclnn.Int(capacity), Step: aclnn.Int(1), Out: d.numbers.Reshape(-1)})
	if err := d.memory.Err(); err != nil {
		return err
	}
	return d.rope.cached(ctx, m.st, m.Config, m.dt, capacity)
}

// Close waits for the graphs and frees them.
func (d *Decoder) Close() error {
	if d == nil {
		return nil
	}
	var errs []error
	for _, g := range d.graphs {
		errs = append(errs, g.Close())
	}
	d.graphs = nil
	return errors.Join(append(errs, d.rope.close(), d.memory.Close())...)
}

// Next reads the next token of each sequence and returns the logits after it, [size, vocabulary],
// as Extend does. They differ from those of Extend by rounding only; those of a replay and of an
// Eager step are the same bit by bit. After an error of the device the cache must be Reset.
func (d *Decoder) Next(ctx context.Context, tokens []int32) (logits []float32, err error) {
	if d == nil || d.graphs == nil {
		return nil, errors.New("model: the decoder is closed")
	}
	if err := d.c.fits(tokens); err != nil {
		return nil, err
	}
	if int64(len(tokens)) != d.c.batch {
		return nil, fmt.Errorf("model: %d tokens for %d sequences; a decoder reads one of each", len(tokens), d.c.batch)
	}
	if d.c.length == 0 || d.c.switches(1) { // the states of delta nets start with the first token
		return d.m.Extend(ctx, d.c, tokens)
	}
	defer func() { d.c.err = err }()
	if err := d.queue(ctx, tokens); err != nil {
		return nil, err
	}
	if err := d.m.st.Synchronize(ctx); err != nil {
		return nil, err
	}
	d.c.note(tokens)
	return append([]float32(nil), acl.Slice[float32](d.logits)...), nil
}

// queue queues a step. The first step of a number of places is launched and then captured, since a
// capture needs operators that have run.
func (d *Decoder) queue(ctx context.Context, tokens []int32) error {
	places := d.give(tokens)
	if d.Eager {
		return d.launch(ctx, places)
	}
	if g := d.graphs[places]; g != nil {
		return g.Replay(d.m.st)
	}
	if err := d.launch(ctx, places); err != nil {
		return err
	}
	g, err := d.m.st.Capture(ctx, acl.CaptureThreadLocal, func() error { return d.launch(ctx, places) })
	if err == nil {
		d.graphs[places] = g
	}
	return err
}

// give writes what the step reads, and returns how many places of the cache that is.
func (d *Decoder) give(tokens []int32) (places int64) {
	at, bytes := d.c.length, d.given.Bytes()
	for i, id := range tokens {
		binary.NativeEndian.PutUint32(bytes[4*i:], uint32(id))
	}
	for i := range d.c.batch {
		binary.NativeEndian.PutUint64(bytes[d.slotsAt+int(8*i):], uint64(i*d.c.capacity+at))
		binary.NativeEndian.PutUint64(bytes[d.positionsAt+int(8*i):], uint64(at))
	}
	binary.NativeEndian.PutUint64(bytes[d.turnsAt:], uint64(d.rope.row(at, d.c.long(1))))
	places = fewestPlaces
	for places <= at {
		places *= 2
	}
	return min(places, d.c.capacity)
}

// launch queues the operators of a step.
func (d *Decoder) launch(ctx context.Context, places int64) (err error) {
	m := d.m
	p := m.pass(ctx, autograd.Options{NoGrad: true})
	defer func() { err = errors.Join(err, p.Close()) }()
	in := &inputs{
		batch: d.c.batch, length: 1, from: 1, scale: m.Config.attentionScale(), ids: d.ids, cache: d.c, slots: d.slots, places: places,
	}
	p.do(func() error { return m.st.Copy(d.taken, d.given, d.given.Size()) })
	in.hidden = p.unseenFrom(m.Config, d.numbers, d.positions.Reshape(d.c.batch, 1, 1, 1))
	in.rope = rotation{p.at(d.rope.cos, d.turns), p.at(d.rope.sin, d.turns)}
	p.deliver(d.logits, m.forward(p, in, nil).Value)
	return p.Err()
}

// deliver queues a copy of results to the host, as float32.
func (p *pass) deliver(to *acl.HostBuffer, out *aclnn.Tensor) {
	p.queue(func(s *aclnn.Scope) {
		wide := s.Contiguous(s.Cast(out, aclnn.Float32))
		s.Do(func() error { return s.Stream.Copy(to, wide.Buffer(), wide.Bytes()) })
	})
}

// at selects the rows of a table [1, length, 1, ·] at positions that the device knows.
func (p *pass) at(table, positions *aclnn.Tensor) (out *aclnn.Tensor) {
	p.queue(func(s *aclnn.Scope) {
		out = s.Tensor(table.DType(), 1, positions.Len(), 1, table.Dim(3))
		aclnn.Launch(s, aclnn.IndexSelect, aclnn.IndexSelectParams{Self: table, Dim: 1, Index: positions, Out: out})
	})
	return out
}
