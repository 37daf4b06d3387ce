package parallel

import (
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/ops/internal/check"
)

// GradientsConfig says how gradients are exchanged. Its zero value is valid.
type GradientsConfig struct {
	// BucketBytes is the size of the gradients of a bucket, 25 MiB when 0. Smaller buckets start the exchange
	// earlier, larger ones use the links better. A gradient larger than this has a bucket of its
	// own.
	BucketBytes int
	// Stream is where gradients are exchanged; nil stands for a stream of their own. A communicator must not be used on two streams at the same time, so give
	// the stream of what else is exchanged by it in the backward pass.
	Stream *acl.Stream
	// Scale multiplies the summed gradients. 0 means 1/ranks, which averages them.
	Scale float64
}

const defaultBucket = 25 << 20

// alignment is the distance in bytes at which gradients begin: the granularity of the allocator.
// Kernels move blocks of 32 bytes, and copy or split what begins between two of them.
const alignment = 512

// padded returns the number of elements that a gradient of n elements occupies in its bucket.
func padded(dt aclnn.DType, n int64) int64 {
	if n < 0 || dt.Size() == 0 {
		return n // New refuses it
	}
	unit := int64(alignment / dt.Size())
	return (n + unit - 1) / unit * unit
}

// Gradients holds the gradients of a model's parameters under data parallelism. They lie one after
// another in buckets, each at a multiple of 512 bytes, the last parameter first, because the backward pass computes them in this
// order. When all gradients of a bucket are ready, its all-reduce is queued on a separate stream,
// so that it overlaps with the backward pass.
//
//	g, err := parallel.NewGradients(st, comm, aclnn.Float32, shapes, parallel.GradientsConfig{})
//	err = g.Zero()                                  // before the backward pass
//	… g.Tensor(i) is DWeight of parameter i …
//	err = g.Ready(i)                           // after what makes it has been queued
//	err = g.Finish()                                // before the optimiser
//
// All ranks must have the same shapes. Ready may be called in any order; every rank exchanges the
// buckets in the same order. With several micro-batches, call Ready in the last one only. A
// Gradients is not safe for concurrent use, and its communicator must not be used on other streams
// between Ready and Finish.
type Gradients struct {
	st, side *acl.Stream // of the backward pass and of the exchange
	own      bool        // Close closes side
	comm     Communicator
	scale    float64
	tensors  []*aclnn.Tensor
	buckets  []bucket
	place    []int // bucket of each parameter
	ready    []bool
	next     int // the first bucket that is not queued yet
	done     *acl.Event
	under    bool // exchanges that the stream of the backward pass has not waited for
}

// bucket is the memory of the gradients of consecutive parameters.
type bucket struct {
	flat    *aclnn.Tensor
	members int
	left    int        // number of gradients that are not ready
	full    *acl.Event // recorded on st when the last gradient becomes ready
}

// NewGradients allocates gradients of a dtype from the stream's allocator; their contents are
// undefined until Zero. comm may be nil for one rank, and then nothing is exchanged.
func NewGradients(st *acl.Stream, comm Communicator, dt aclnn.DType, shapes [][]int64, c GradientsConfig) (*Gradients, error) {
	if st == nil {
		return nil, fmt.Errorf("gradients: %w", check.Invalid("the stream is nil"))
	}
	if c.BucketBytes <= 0 {
		c.BucketBytes = defaultBucket
	}
	g := &Gradients{st: st, side: c.Stream, comm: comm, scale: c.Scale, tensors: make([]*aclnn.Tensor, len(shapes)), place: make([]int, len(shapes)), ready: make([]bool, len(shapes))}
	if comm != nil && comm.Size() == 1 {
		g.comm = nil
	}
	if g.scale == 0 {
		g.scale = 1
		if g.comm != nil {
			g.scale = 1 / float64(comm.Size())
		}
	}
	if err := g.allocate(dt, shapes, c.BucketBytes); err != nil {
		return nil, errors.Join(fmt.Errorf("gradients: %w", err), g.Close())
	}
	return g, nil
}

func (g *Gradients) allocate(dt aclnn.DType, shapes [][]int64, limit int) error {
	var err error
	if g.comm != nil {
		if g.side == nil {
			if g.side, err = g.st.Device().NewStream(); err != nil {
				return err
			}
			g.own = true
		}
		if g.done, err = g.st.Device().NewEvent(); err != nil {
			return err
		}
	}
	for end := len(shapes); end > 0; {
		first, total, size := end, int64(0), int64(0)
		for first > 0 {
			n := elements(shapes[first-1])
			if total > 0 && n > 0 && dt.Bytes(int(total+n)) > limit {
				break
			}
			total, size, first = total+n, size+padded(dt, n), first-1
		}
		flat, err := aclnn.New(g.st, dt, size)
		if err != nil {
			return err
		}
		b := bucket{flat: flat, members: end - first}
		if size > total { // the exchange reads the gaps, too
			if err = aclnn.InplaceZero(g.st, aclnn.InplaceZeroParams{Self: flat}); err != nil {
				return errors.Join(err, flat.Close())
			}
		}
		if g.comm != nil {
			if b.full, err = g.st.Device().NewEvent(); err != nil {
				return errors.Join(err, flat.Close())
			}
		}
		at := int64(0)
		for i := end - 1; i >= first; i-- {
			n := elements(shapes[i])
			g.tensors[i] = flat.Narrow(0, at, n).Reshape(shapes[i]...)
			g.place[i] = len(g.buckets)
			if err = errors.Join(err, g.tensors[i].Err()); err != nil {
				break
			}
			at += padded(dt, n)
		}
		g.buckets = append(g.buckets, b)
		if err != nil {
			return err
		}
		end = first
	}
	g.rewind()
	return nil
}

// made returns an error if NewGradients did not make the gradients.
func (g *Gradients) made() error {
	if g == nil || g.st == nil {
		return fmt.Errorf("gradients: %w", check.Invalid("they were not made; use NewGradients"))
	}
	return nil
}

// rewind begins a new step.
func (g *Gradients) rewind() {
	clear(g.ready)
	for i := range g.buckets {
		g.buckets[i].left = g.buckets[i].members
	}
	g.next = 0
}

// Len returns the number of parameters.
func (g *Gradients) Len() int {
	if g == nil {
		return 0
	}
	return len(g.tensors)
}

// Buckets returns the number of buckets, each of which is exchanged once per step.
func (g *Gradients) Buckets() int {
	if g == nil {
		return 0
	}
	return len(g.buckets)
}

// Tensor returns the gradient of parameter i, a contiguous view that is valid until Close; nil if there is
// no such parameter.
func (g *Gradients) Tensor(i int) *aclnn.Tensor {
	if g == nil || i < 0 || i >= len(g.tensors) {
		return nil
	}
	return g.tensors[i]
}

// Zero clears all gradients, on the stream of the backward pass.
func (g *Gradients) Zero() error {
	if err := g.made(); err != nil {
		return err
	}
	for _, b := range g.buckets {
		if b.flat.Len() == 0 {
			continue
		}
		if err := aclnn.InplaceZero(g.st, aclnn.InplaceZeroParams{Self: b.flat}); err != nil {
			return fmt.Errorf("gradients: %w", err)
		}
	}
	return nil
}

// Ready declares that all work that contributes to gradient i in this step has been queued on the
// stream of the backward pass. When this completes a bucket and all buckets before it are complete,
// their exchange is queued.
func (g *Gradients) Ready(i int) error {
	if err := g.made(); err != nil {
		return err
	}
	switch {
	case i < 0 || i >= len(g.ready):
		return fmt.Errorf("gradients: %w", check.Invalid("there is no parameter %d, there are %d", i, len(g.ready)))
	case g.ready[i]:
		return fmt.Errorf("gradients: %w", check.Invalid("parameter %d was ready already in this step; call Finish between steps, and Ready in the last micro-batch only", i))
	}
	g.ready[i] = true
	b := &g.buckets[g.place[i]]
	if b.left--; b.left > 0 || g.comm == nil {
		return nil
	}
	if err := b.full.Record(g.st); err != nil {
		return fmt.Errorf("gradients: %w", err)
	}
	for ; g.next < len(g.buckets) && g.buckets[g.next].left == 0; g.next++ {
		if err := g.exchange(&g.buckets[g.next]); err != nil {
			return fmt.Errorf("gradients: bucket %d of %d: %w", g.next, len(g.buckets), err)
		}
	}
	return nil
}

// exchange queues the all-reduce of a bucket.
func (g *Gradients) exchange(b *bucket) error {
	if b.flat.Len() == 0 {
		return nil
	}
	if err := g.side.Wait(b.full); err != nil {
		return err
	}
	g.under = true
	if err := g.comm.AllReduce(g.side, b.flat, b.flat, hccl.Sum); err != nil {
		return err
	}
	return g.rescale(g.side, b)
}

func (g *Gradients) rescale(st *acl.Stream, b *bucket) error {
	if g.scale == 1 || b.flat.Len() == 0 {
		return nil
	}
	return aclnn.InplaceMuls(st, aclnn.InplaceMulsParams{Self: b.flat, Other: aclnn.Float(g.scale)})
}

// Finish makes the stream of the backward pass wait for all exchanges and begins a new step. The
// host does not wait. If parameters are not ready, the error names them; no rank may continue then,
// because the exchanges of the ranks no longer match.
func (g *Gradients) Finish() error {
	if err := g.made(); err != nil {
		return err
	}
	var late []int
	for i, ready := range g.ready {
		if !ready {
			late = append(late, i)
		}
	}
	if len(late) > 0 {
		return fmt.Errorf("gradients: %w", check.Invalid("parameters %v are not ready; call Ready for each, also for those that have no part in the loss", late))
	}
	defer g.rewind()
	if g.comm == nil {
		for i := range g.buckets {
			if err := g.rescale(g.st, &g.buckets[i]); err != nil {
				return fmt.Errorf("gradients: %w", err)
			}
		}
		return nil
	}
	return g.join()
}

// join makes the stream of the backward pass wait for the exchanges of the step. Without one the
// side stream has no part in a graph that is being captured, and must not be waited for.
func (g *Gradients) join() error {
	if !g.under {
		return nil
	}
	if err := g.done.Record(g.side); err != nil {
		return fmt.Errorf("gradients: %w", err)
	}
	if err := g.st.Wait(g.done); err != nil {
		return fmt.Errorf("gradients: %w", err)
	}
	g.under = false
	return nil
}

// Restart begins a new step after a failed one. It forgets which gradients were ready, and makes
// the stream of the backward pass wait for running exchanges. With several ranks it is safe only if
// all of them failed at the same place; otherwise close the communicator.
func (g *Gradients) Restart() error {
	if err := g.made(); err != nil {
		return err
	}
	g.rewind()
	return g.join()
}

// Close waits for the queued exchanges and frees the gradients, whose tensors must not be used any
// more. It also returns the error of an exchange that failed.
func (g *Gradients) Close() error {
	if g == nil {
		return nil
	}
	var errs []error
	if g.own {
		errs = append(errs, g.side.Close())
	}
	if g.done != nil {
		errs = append(errs, g.done.Close())
	}
	for _, b := range g.buckets {
		if b.full != nil {
			errs = append(errs, b.full.Close())
		}
		errs = append(errs, b.flat.Close())
	}
	return errors.Join(errs...)
}
