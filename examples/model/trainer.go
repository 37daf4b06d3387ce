package model

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/mask"
)

// Trainer makes training steps, each a pass over a batch and an update of the weights, by replaying
// a graph, which the host queues with one call.
//
// Token ids, labels, and the numbers that the learning rate and the step give come from page-locked
// memory, which Step fills. The graph is of one shape of batches: one with another size, length or
// number of labels, or options of the optimiser other than the learning rate and the weight decay,
// makes the next step capture a new graph. Rows must have no padding and sequences must not be
// packed. Experts may be on several ranks with Parallel.ExpertCapacity only, because the host
// otherwise reads the numbers of their rows; there is then room for all rows that can come. Close
// the trainer before the optimiser and the model.
type Trainer struct {
	// Eager queues the operators of the same steps one by one instead, for comparison.
	Eager bool

	m      *Model
	o      *Optimizer
	memory aclnn.Scope
	given  feed
	result *acl.HostBuffer // loss and norm, float32
	rates  *aclnn.Tensor   // Optimizer.rates
	graph  *acl.Graph
	shape  string // what the graph was captured for
	size   int    // of given
}

var errCounts = errors.New("model: a graph of steps with experts on several ranks needs Parallel.ExpertCapacity, or the host would wait for the numbers of their rows")

// feed is page-locked memory from which a step copies, in the order in which it was filled.
type feed struct {
	host *acl.HostBuffer
	at   int
}

// feedUnit is the alignment of what a feed holds, in bytes.
const feedUnit = 64

// take queues a copy of the next part to a tensor.
func (f *feed) take(st *acl.Stream, t *aclnn.Tensor) error {
	from, err := f.host.View(f.at, t.Bytes())
	if err != nil {
		return err
	}
	f.at += (t.Bytes() + feedUnit - 1) / feedUnit * feedUnit
	return st.Copy(t.Buffer(), from, t.Bytes())
}

// NewTrainer makes a trainer of a model and its optimiser, which Gradients, Step and the checkpoints
// may still use.
func NewTrainer(m *Model, o *Optimizer) (*Trainer, error) {
	if m == nil || o == nil || o.m != m {
		return nil, errors.New("model: the optimiser is of another model")
	}
	t := &Trainer{m: m, o: o, memory: aclnn.Scope{Stream: m.st}}
	t.rates = t.memory.Tensor(aclnn.Float32, int64(len(o.rates())))
	err := t.memory.Err()
	if err == nil {
		t.result, err = m.st.Device().MallocHost(2 * feedUnit)
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	t.memory.Own(t.result)
	return t, nil
}

// Close waits for the graph and frees it.
func (t *Trainer) Close() error {
	if t == nil {
		return nil
	}
	return errors.Join(t.forget(), t.memory.Close())
}

// forget frees the graph and the memory of its inputs.
func (t *Trainer) forget() error {
	err := t.graph.Close()
	t.graph = nil
	if t.given.host != nil {
		err = errors.Join(err, t.given.host.Close())
		t.given.host = nil
	}
	return err
}

// Step computes the gradients of a batch and updates the weights. It returns the loss and the
// norm of the gradients, as Gradients and Optimizer.Step do; they and the weights differ from
// those by rounding only. Once it has started, it ignores the end of ctx. An error of the capture,
// in the first step of a shape, comes after the update of the weights.
func (t *Trainer) Step(ctx context.Context, b Batch) (loss, norm float64, err error) {
	if err := errors.Join(ctx.Err(), t.m.checkPlain(b)); err != nil {
		return 0, 0, err
	}
	if b.Lengths != nil || b.CuSeqLens != nil {
		return 0, 0, errors.New("model: the graph of a training step takes full rows, without padding and packed sequences")
	}
	switch {
	case t.m.offload != nil && !t.Eager:
		return 0, 0, errOffloaded
	case !t.Eager && t.m.ep.Size() > 1 && t.m.par.ExpertCapacity == 0:
		return 0, 0, errCounts
	case t.m.dt == aclnn.Float16:
		return 0, 0, errors.New("model: a graph would replay the same loss scale of float16; launch the steps, or use bfloat16")
	case t.m.Config.Frozen && t.m.adapter != t.o.adapter:
		return 0, 0, errors.New("model: the model uses another adapter than the one that the optimiser updates")
	case t.o.adapter != nil && t.o.adapter.lora.Dropout > 0 && !t.Eager:
		return 0, 0, errors.New("model: a graph would replay the same dropout; launch the steps, or set it to 0")
	}
	ctx = context.WithoutCancel(ctx)
	if err := t.queue(ctx, b); err != nil {
		return 0, 0, err
	}
	if err := t.m.st.Synchronize(ctx); err != nil {
		return 0, 0, err
	}
	t.o.count(t.o.steps + 1)
	read := func(at int) float64 {
		return float64(math.Float32frombits(binary.NativeEndian.Uint32(t.result.Bytes()[at:])))
	}
	return read(0) / float64(t.m.tp.Size()), read(feedUnit), nil
}

// queue queues a step. The first step of a shape is launched and then captured, since a capture
// needs operators and communicators that have run.
func (t *Trainer) queue(ctx context.Context, b Batch) error {
	shape, err := t.give(ctx, b)
	switch {
	case err != nil:
		return err
	case t.Eager:
		return t.launch(ctx, b)
	case t.graph != nil && t.shape == shape:
		return errors.Join(t.graph.Replay(t.m.st), t.o.store.updated())
	}
	if err := t.launch(ctx, b); err != nil {
		return err
	}
	t.graph, err = t.m.st.Capture(ctx, acl.CaptureThreadLocal, func() error { return t.launch(ctx, b) })
	t.shape = shape
	return err
}

// give writes what the step reads, and returns what a graph of the step depends on.
func (t *Trainer) give(ctx context.Context, b Batch) (shape string, err error) {
	m, o := t.m, t.o
	parts, err := m.parts(b)
	if err != nil {
		return "", err
	}
	if _, err := m.rope.whole(ctx, m.st, m.Config, m.dt, b); err != nil { // a longer table is another one
		return "", err
	}
	fixed := o.Options
	fixed.LR, fixed.WeightDecay = 0, 0
	shape = fmt.Sprint(b.Targets, b.From, fixed, m.rope.length, m.rope.regime)
	size := feedUnit
	var lists [][]int32
	for _, part := range parts {
		chunks, err := m.par.positions(m.Config, part.Length)
		if err != nil {
			return "", err
		}
		ids, labels, labelled := part.own(chunks)
		lists = append(lists, ids, labels)
		shape += fmt.Sprint(" ", part.Size, part.Length, labelled)
		size += 2 * ((4*len(ids) + feedUnit - 1) / feedUnit * feedUnit)
	}
	if t.graph != nil && t.shape != shape || t.given.host != nil && t.size != size {
		if err := t.forget(); err != nil {
			return "", err
		}
	}
	if t.given.host == nil {
		if t.given.host, err = m.st.Device().MallocHost(size); err != nil {
			return "", err
		}
		t.size = size
	}
	bytes := t.given.host.Bytes()
	for i, r := range o.rates() {
		binary.NativeEndian.PutUint32(bytes[4*i:], math.Float32bits(r))
	}
	at := feedUnit
	for _, list := range lists {
		for i, v := range list {
			binary.NativeEndian.PutUint32(bytes[at+4*i:], uint32(v))
		}
		at += (4*len(list) + feedUnit - 1) / feedUnit * feedUnit
	}
	return shape, nil
}

// launch queues the operators of a step.
func (t *Trainer) launch(ctx context.Context, b Batch) (err error) {
	m := t.m
	t.given.at = 0
	m.feed = &t.given
	defer func() { m.feed = nil }()
	if err := t.given.take(m.st, t.rates); err != nil {
		return err
	}
	s, err := m.newStep(ctx, b)
	if s != nil {
		defer func() { err = errors.Join(err, s.close()) }()
	}
	if err != nil {
		return err
	}
	if m.par.ExpertCapacity > 0 {
		s.gather(math.Inf(1))
	}
	if err := errors.Join(s.run(ctx), s.sum()); err != nil {
		return err
	}
	memory := &aclnn.Scope{Stream: m.st}
	defer func() { err = errors.Join(err, memory.Close()) }()
	norm := t.o.queue(ctx, memory, t.rates)
	for i, v := range []*aclnn.Tensor{s.loss, norm} {
		memory.Do(func() error {
			to, err := t.result.View(i*feedUnit, 4)
			if err != nil {
				return err
			}
			return m.st.Copy(to, v.Buffer(), 4)
		})
	}
	return memory.Err()
}

// own returns the ids and labels of this rank's positions, and how many labels count.
func (b Batch) own(chunks []mask.Range) (ids, labels []int32, labelled int) {
	for row := range b.Size {
		at := row * b.Length
		ids = append(ids, mask.Gather(b.Inputs[at:at+b.Length], int64(b.Length), chunks)...)
		labels = append(labels, mask.Gather(b.Labels[at:at+b.Length], int64(b.Length), chunks)...)
	}
	for i, l := range labels {
		if l < 0 {
			labels[i] = ignored
		} else {
			labelled++
		}
	}
	return ids, labels, labelled
}
