package ops

import (
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
)

// GradientsConfig says how gradients are exchanged. The zero value will do.
type GradientsConfig struct {
	// BucketBytes is how much is exchanged at once, 25 MiB when 0: less begins earlier, more
	// uses the links better. A gradient that is larger has a bucket of its own.
	BucketBytes int
	// Scale multiplies the sums, 1/ranks when 0: the average.
	Scale float64
}

const defaultBucket = 25 << 20

// Gradients are the gradients of a model's parameters under data parallelism. They lie one
// after another in buckets, the last parameter first, as the backward pass makes them; when
// all of a bucket are ready its all-reduce is queued on a stream of its own, while the
// backward pass goes on.
//
//	g, err := ops.NewGradients(st, comm, aclnn.Float32, shapes, ops.GradientsConfig{})
//	err = g.Zero()                                  // before the backward pass
//	… g.Tensor(i) is DWeight of parameter i …
//	err = g.Ready(i)                           // after what makes it has been queued
//	err = g.Finish()                                // before the optimiser
//
// All ranks have the same shapes. Ready may come in any order; buckets are exchanged in their
// order on every rank. With several micro-batches, call Ready in the last one only. A
// Gradients is for one goroutine; the communicator must not be used on other streams while
// it is between Ready and Finish.
type Gradients struct {
	st, side *acl.Stream // the backward pass, the exchange
	comm     Communicator
	scale    float64
	tensors  []*aclnn.Tensor
	buckets  []bucket
	place    []int // of a parameter: its bucket
	ready    []bool
	next     int // the first bucket that is not queued yet
	done     *acl.Event
}

// bucket is memory of consecutive parameters.
type bucket struct {
	flat    *aclnn.Tensor
	members int
	left    int        // that are not ready
	full    *acl.Event // on the backward pass's stream, when the last became ready
}

// NewGradients allocates gradients of a dtype, from the stream's allocator; their contents are
// undefined until Zero. comm may be nil for one rank: then nothing is exchanged.
func NewGradients(st *acl.Stream, comm Communicator, dt aclnn.DType, shapes [][]int64, c GradientsConfig) (*Gradients, error) {
	if c.BucketBytes <= 0 {
		c.BucketBytes = defaultBucket
	}
	g := &Gradients{st: st, comm: comm, scale: c.Scale, tensors: make([]*aclnn.Tensor, len(shapes)), place: make([]int, len(shapes)), ready: make([]bool, len(shapes))}
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
		if g.side, err = g.st.Device().NewStream(); err != nil {
			return err
		}
		if g.done, err = g.st.Device().NewEvent(); err != nil {
			return err
		}
	}
	for end := len(shapes); end > 0; {
		first, total := end, int64(0)
		for first > 0 {
			n := elements(shapes[first-1])
			if total > 0 && n > 0 && dt.Bytes(int(total+n)) > limit {
				break
			}
			total, first = total+n, first-1
		}
		flat, err := aclnn.New(g.st, dt, total)
		if err != nil {
			return err
		}
		b := bucket{flat: flat, members: end - first}
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
			at += n
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

func elements(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// rewind begins a new step.
func (g *Gradients) rewind() {
	clear(g.ready)
	for i := range g.buckets {
		g.buckets[i].left = g.buckets[i].members
	}
	g.next = 0
}

// Len is the number of parameters.
func (g *Gradients) Len() int { return len(g.tensors) }

// Buckets is how many exchanges a step makes.
func (g *Gradients) Buckets() int { return len(g.buckets) }

// Tensor is the gradient of parameter i: contiguous, a view that ends with Close.
func (g *Gradients) Tensor(i int) *aclnn.Tensor { return g.tensors[i] }

// Zero clears all gradients, on the stream of the backward pass.
func (g *Gradients) Zero() error {
	for _, b := range g.buckets {
		if b.flat.Len() == 0 {
			continue
		}
		if err := aclnn.InplaceZero(g.st, aclnn.InplaceZeroParams{SelfRef: b.flat}); err != nil {
			return fmt.Errorf("gradients: %w", err)
		}
	}
	return nil
}

// Ready says that everything that goes into gradient i in this step has been queued on the
// stream of the backward pass. When that completes a bucket and those before it, their
// exchange is queued.
func (g *Gradients) Ready(i int) error {
	switch {
	case i < 0 || i >= len(g.ready):
		return fmt.Errorf("gradients: %w", invalid("there is no parameter %d, there are %d", i, len(g.ready)))
	case g.ready[i]:
		return fmt.Errorf("gradients: %w", invalid("parameter %d was ready already in this step; call Finish between steps, and Ready in the last micro-batch only", i))
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
	if err := g.comm.AllReduce(g.side, b.flat, b.flat, hccl.Sum); err != nil {
		return err
	}
	return g.rescale(g.side, b)
}

func (g *Gradients) rescale(st *acl.Stream, b *bucket) error {
	if g.scale == 1 || b.flat.Len() == 0 {
		return nil
	}
	return aclnn.InplaceMuls(st, aclnn.InplaceMulsParams{SelfRef: b.flat, Other: aclnn.Float(g.scale)})
}

// Finish makes the stream of the backward pass wait for all exchanges, and begins a new step.
// The host does not wait. Parameters that are not ready are an error that names them; no rank
// must then go on, for the ranks' exchanges no longer match.
func (g *Gradients) Finish() error {
	var late []int
	for i, ready := range g.ready {
		if !ready {
			late = append(late, i)
		}
	}
	if len(late) > 0 {
		return fmt.Errorf("gradients: %w", invalid("parameters %v are not ready; call Ready for each, also for those that have no part in the loss", late))
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

// join makes the stream of the backward pass wait for the exchanges.
func (g *Gradients) join() error {
	if g.comm == nil {
		return nil
	}
	if err := g.done.Record(g.side); err != nil {
		return fmt.Errorf("gradients: %w", err)
	}
	if err := g.st.Wait(g.done); err != nil {
		return fmt.Errorf("gradients: %w", err)
	}
	return nil
}

// Restart begins a new step after one that failed: what was ready is forgotten, and the stream
// of the backward pass waits for exchanges under way. With several ranks all must have failed
// at the same place; else close the communicator.
func (g *Gradients) Restart() error {
	g.rewind()
	return g.join()
}

// Close waits for the exchanges that are queued and frees the gradients; no tensor of them may
// be used any more. The error is also that of an exchange that failed.
func (g *Gradients) Close() error {
	var errs []error
	if g.side != nil {
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
