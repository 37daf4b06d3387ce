package autograd

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/parallel"
)

// ToHeads exchanges positions for heads (parallel.Ulysses.ToHeads): x [B, S/n, N, D] becomes [B, S, N/n, D].
func (t *Tape) ToHeads(u *parallel.Ulysses, x *Var) *Var {
	return t.EndExchange(t.BeginToHeads(u, nil, x))
}

// ToSequence exchanges heads for positions (parallel.Ulysses.ToSequence): x [B, S, N/n, D] becomes [B, S/n, N, D].
func (t *Tape) ToSequence(u *parallel.Ulysses, x *Var) *Var {
	return t.EndExchange(t.BeginToSequence(u, nil, x))
}

// HeadExchange is an exchange of heads and positions that has begun, for EndExchange.
type HeadExchange struct {
	u    *parallel.Ulysses
	side *acl.Stream
	way  string
	// begun is the variable that was given, in the graph of the tape: it has a gradient once the exchange of the gradient has begun.
	begun *Var
	// there and back are the exchanges of the values and of their gradients while they are under way.
	there, back *parallel.UlyssesExchange
}

const (
	wayToHeads    = "exchange to heads"
	wayToSequence = "exchange to the sequence"
)

// BeginToHeads begins ToHeads on a stream that serves only exchanges of u (parallel.Ulysses.BeginToHeads), beside the kernels of what is recorded until EndExchange. The gradient is
// exchanged in the same way, from the backward pass of EndExchange to that of this call, beside the gradients of what is between them. So
//
//	q := t.BeginToHeads(u, side, t.Linear(x, wq, nil))
//	k := t.BeginToHeads(u, side, t.Linear(x, wk, nil))
//	query, key := t.EndExchange(q), t.EndExchange(k)
//
// exchanges queries beside the projection of keys, and the gradient of keys is exchanged first, that of queries beside the gradients of that projection.
//
// x may also be [B, S/n, n, N/n, D], with the heads of each rank in a dimension of their own, or a part of these: Split along dimension 3 makes groups of heads that arrive one
// after another. Without side the exchange runs between the kernels.
func (t *Tape) BeginToHeads(u *parallel.Ulysses, side *acl.Stream, x *Var) *HeadExchange {
	return t.beginExchange(wayToHeads, u, side, x)
}

// BeginToSequence begins ToSequence as BeginToHeads does ToHeads.
func (t *Tape) BeginToSequence(u *parallel.Ulysses, side *acl.Stream, x *Var) *HeadExchange {
	return t.beginExchange(wayToSequence, u, side, x)
}

func (t *Tape) beginExchange(way string, u *parallel.Ulysses, side *acl.Stream, x *Var) *HeadExchange {
	e := &HeadExchange{u: u, side: side, way: way, begun: t.failed()}
	c := t.begin(way, x)
	if c == nil {
		return e
	}
	if u.Size() == 1 {
		switch e.begun = x; {
		case x.Value.Rank() != 5:
		case x.Dim(2) != 1:
			t.Fail(fmt.Errorf("%s: %w: x is %v; dimension 2 must be 1, the number of ranks", way, acl.ErrInvalidArgument, x))
		default:
			e.begun = t.view(way, x, func(v *aclnn.Tensor) *aclnn.Tensor { return v.Select(2, 0) }, func(d *aclnn.Tensor) *aclnn.Tensor { return d.Unsqueeze(2) }, false)
		}
		return e
	}
	c.Do(func() (err error) {
		e.there, err = e.start(t, way, x.Value)
		return err
	})
	c.View(x, x.Value)
	c.Backward(func(g *Gradients) {
		dx := g.Input(0)
		g.Do(func() error { return t.arrive(&e.back, dx) })
	})
	e.begun = c.end()[0]
	return e
}

// start begins an exchange of values or of gradients, which the tape ends if nothing else does.
func (e *HeadExchange) start(t *Tape, way string, x *aclnn.Tensor) (*parallel.UlyssesExchange, error) {
	begin := e.u.BeginToHeads
	if way == wayToSequence {
		begin = e.u.BeginToSequence
	}
	h, err := begin(t.st, e.side, x)
	if err == nil {
		t.exchanges = append(t.exchanges, h)
	}
	return h, err
}

// arrive ends an exchange.
func (t *Tape) arrive(h **parallel.UlyssesExchange, out *aclnn.Tensor) error {
	t.exchanges = slices.DeleteFunc(t.exchanges, func(o *parallel.UlyssesExchange) bool { return o == *h })
	err := (*h).End(out)
	*h = nil
	return err
}

// EndExchange waits for an exchange, on the device, and returns its result. Of several, which brought equally large groups of heads to the sequence, the result has the groups of each
// rank one after another.
func (t *Tape) EndExchange(parts ...*HeadExchange) *Var {
	begun := make([]*Var, len(parts))
	for i, e := range parts {
		if e != nil {
			begun[i] = e.begun
		}
	}
	if len(parts) == 0 {
		t.Fail(fmt.Errorf("end of an exchange: %w: there are no parts", acl.ErrInvalidArgument))
	}
	c := t.begin("end of an exchange", begun...)
	if c == nil {
		return t.failed()
	}
	way, u, ranks, groups := parts[0].way, parts[0].u, parts[0].u.Size(), int64(len(parts))
	shape := begun[0].Shape()
	for i, e := range parts {
		switch {
		case e.u != u || e.way != way || groups > 1 && (way != wayToSequence || !slices.Equal(e.begun.Shape(), shape)):
			t.Fail(fmt.Errorf("end of an exchange: %w: part %d is an %s of %v and part 0 an %s of %v; several parts must be exchanges to the sequence of one shape, by one Ulysses",
				acl.ErrInvalidArgument, i, e.way, e.begun, way, begun[0]))
		case ranks > 1 && e.there == nil:
			t.Fail(fmt.Errorf("end of an exchange: %w: part %d, an %s of %v, has ended already", acl.ErrInvalidArgument, i, e.way, e.begun))
		}
	}
	switch {
	case t.err != nil:
		return t.failed()
	case ranks == 1 && groups == 1:
		return begun[0]
	case ranks == 1:
		return t.Unflatten(t.Join(2, begun...), 2, groups*shape[2], shape[3])
	case way == wayToHeads && len(shape) == 5:
		shape = []int64{shape[0], shape[1] * ranks, shape[3], shape[4]}
	case way == wayToHeads:
		shape[1], shape[2] = shape[1]*ranks, shape[2]/ranks
	default:
		shape[1], shape[2] = shape[1]/ranks, shape[2]*ranks*groups
	}
	part := func(whole *aclnn.Tensor, i int) *aclnn.Tensor {
		if groups == 1 {
			return whole
		}
		n := shape[2] / ranks
		return whole.Unflatten(2, ranks, n).Narrow(3, int64(i)*(n/groups), n/groups)
	}
	out := c.Output(begun[0].Value.DType(), shape...)
	for i, e := range parts {
		c.Do(func() error { return t.arrive(&e.there, part(out, i)) })
	}
	c.n.sends = true
	c.Backward(func(g *Gradients) {
		d := g.Output(0)
		for i, e := range slices.Backward(parts) { // in the order in which the backward pass waits for them
			if !g.Needs(i) {
				continue
			}
			back := wayToHeads
			if way == wayToHeads {
				back = wayToSequence
			}
			g.Do(func() (err error) {
				e.back, err = e.start(t, back, part(d, i))
				return err
			})
			e.begun.grad = gradient{factor: 1} // the gradient itself is in e.back
		}
	})
	v := c.end()[0]
	t.Free(begun...)
	return v
}
