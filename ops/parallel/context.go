package parallel

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/internal/check"
	"github.com/goascend/cann/ops/mask"
)

// ContextParallel implements context parallelism as ring attention (Liu et al., arXiv 2310.01889): it splits
// sequences over the ranks of a communicator. Each rank computes attention for its own queries, step by step: keys and
// values go from rank to rank around a ring, on a stream of their own beside the kernels, and each step takes in the attention to the keys of one more
// rank. In the backward pass the gradients of keys and values travel with them. GatedDelta and CausalConv split the layers of a gated
// delta net; other layers work on single tokens and need no exchange.
//
// Besides its own a rank holds the keys and values of two other ranks, and in the backward pass their gradients in float32.
// Close a ContextParallel before the device.
type ContextParallel struct {
	reg   *ops.Registry
	comm  Communicator
	split mask.Split

	side           *acl.Stream // of the exchange
	ready, arrived *acl.Event
}

// NewContextParallel makes the context-parallel attention of one rank, with a stream on the device of st for its exchange. comm may be nil for a
// group of one; while a call is under way, no other may use it.
// split says which positions each rank holds; mask.Split.Chunks and mask.Gather select the tokens. With mask.ZigZag all ranks
// have as much to compute under a causal mask.
func NewContextParallel(st *acl.Stream, reg *ops.Registry, comm Communicator, split mask.Split) (*ContextParallel, error) {
	p := &ContextParallel{reg: reg, comm: comm, split: split}
	if comm == nil || comm.Size() == 1 {
		p.comm = nil
		return p, nil
	}
	if st == nil {
		return nil, fmt.Errorf("context parallelism: %w", check.Invalid("the stream is nil"))
	}
	var err error
	if p.side, err = st.Device().NewStream(); err != nil {
		return nil, err
	}
	for _, e := range []**acl.Event{&p.ready, &p.arrived} {
		if *e, err = st.Device().NewEvent(); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	return p, nil
}

// Size returns the number of ranks.
func (p *ContextParallel) Size() int {
	if p == nil || p.comm == nil {
		return 1
	}
	return p.comm.Size()
}

// Close waits for the exchange and frees its stream. Closing again does nothing.
func (p *ContextParallel) Close() error {
	if p == nil {
		return nil
	}
	return errors.Join(p.side.Close(), p.ready.Close(), p.arrived.Close())
}

// Attention runs attention on this rank's positions: Query, Key, Value, Out and the softmax tensors
// hold only these, while Mask describes the whole sequence. In layout ops.TND that is all packed
// sequences together, which may be cut anywhere; the softmax tensors are ordered by this rank's pieces of the sequences. There must be as many queries as keys; bias and
// dropout are refused.
func (p *ContextParallel) Attention(ctx context.Context, st *acl.Stream, a *ops.AttentionArgs) error {
	if err := given("context-parallel attention", p, st, a); err != nil {
		return err
	}
	if p.comm == nil {
		return p.reg.Attention().Run(ctx, st, a)
	}
	c, err := p.cut(a)
	if err != nil {
		return fmt.Errorf("context-parallel attention: %w", err)
	}
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		if a.Out.Len() == 0 {
			return
		}
		out, top, sum := s.Tensor(aclnn.Float32, a.Out.Shape()...), a.SoftmaxMax, a.SoftmaxSum
		for _, t := range []**aclnn.Tensor{&top, &sum} {
			if *t == nil {
				*t = s.Tensor(aclnn.Float32, c.stats(c.sizes.Queries)...)
			}
		}
		if !c.joined() {
			s.Zero(out)
			s.Fill(top, aclnn.Float(-math.MaxFloat32)) // as kernels mark rows without keys
			s.Fill(sum, aclnn.Float(math.MaxFloat32))
		}
		r := newRing(s, p, c.ranks, a.Key, a.Value)
		for step, parts := range c.parts {
			r.pass()
			key, value := r.held()
			for _, part := range parts {
				s.Do(func() error {
					return aclnn.Compose(st, func(s *aclnn.Scope) {
						b := c.arguments(s, part, key, value)
						b.Out = s.Tensor(a.Query.DType(), c.rows(a.Out, part).Shape()...)
						b.SoftmaxMax, b.SoftmaxSum = s.Tensor(aclnn.Float32, c.stats(part.Queries.Len())...), s.Tensor(aclnn.Float32, c.stats(part.Queries.Len())...)
						ops.Queue(ctx, s, p.reg.Attention(), b)
						if step == 0 && c.joined() {
							s.Copy(out, b.Out)
							s.Copy(top, b.SoftmaxMax)
							s.Copy(sum, b.SoftmaxSum)
							return
						}
						ops.Queue(ctx, s, p.reg.RingAttentionUpdate(), &ops.RingAttentionUpdateArgs{
							Out: c.byHead(c.rows(out, part)), SoftmaxMax: c.statRows(top, part), SoftmaxSum: c.statRows(sum, part),
							Part: c.byHead(b.Out), PartMax: c.statsOf(b.SoftmaxMax), PartSum: c.statsOf(b.SoftmaxSum),
						})
					})
				})
			}
			r.arrive()
		}
		if a.Sinks != nil {
			c.sinks(s, func(rows, stats func(*aclnn.Tensor) *aclnn.Tensor) {
				ops.Queue(ctx, s, p.reg.AttentionSink(), &ops.AttentionSinkArgs{Out: rows(out), SoftmaxMax: stats(top), SoftmaxSum: stats(sum), Sinks: a.Sinks})
			})
		}
		s.Copy(a.Out, out)
	})
}

// AttentionGrad computes the gradients of Attention for this rank's positions. The gradients of
// keys and values are summed over the ranks in float32.
func (p *ContextParallel) AttentionGrad(ctx context.Context, st *acl.Stream, a *ops.AttentionGradArgs) error {
	if err := given("context-parallel attention gradient", p, st, a); err != nil {
		return err
	}
	if p.comm == nil {
		return p.reg.AttentionGrad().Run(ctx, st, a)
	}
	c, err := p.cut(&a.AttentionArgs)
	if err == nil {
		local := *a
		local.Mask = anyMask(a.Layout, c.sizes) // cut has checked that of the whole sequence
		err = p.reg.AttentionGrad().Check(&local)
	}
	if err != nil {
		return fmt.Errorf("context-parallel attention gradient: %w", err)
	}
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		zeros := func(t *aclnn.Tensor) *aclnn.Tensor {
			z := s.Tensor(aclnn.Float32, t.Shape()...)
			if z.Len() > 0 {
				s.Zero(z)
			}
			return z
		}
		if a.DSinks != nil {
			s.Zero(a.DSinks)
			c.sinks(s, func(rows, stats func(*aclnn.Tensor) *aclnn.Tensor) {
				ops.Queue(ctx, s, p.reg.AttentionSinkGrad(), &ops.AttentionSinkGradArgs{
					AttentionSinkArgs: ops.AttentionSinkArgs{Out: rows(a.Out), SoftmaxMax: stats(a.SoftmaxMax), SoftmaxSum: stats(a.SoftmaxSum), Sinks: a.Sinks},
					DOut:              rows(a.DOut), DSinks: a.DSinks, Accumulate: true,
				})
			})
		}
		dQuery := zeros(a.Query)
		r := newRing(s, p, c.ranks, a.Key, a.Value)
		r.carry(zeros(a.Key), zeros(a.Value))
		for step, parts := range c.parts {
			r.pass()
			key, value := r.held()
			s.Do(func() error {
				return aclnn.Compose(st, func(s *aclnn.Scope) {
					var grads []*ops.AttentionGradArgs
					for _, part := range parts {
						b := c.arguments(s, part, key, value)
						b.Out, b.SoftmaxMax, b.SoftmaxSum = s.Contiguous(c.rows(a.Out, part)), s.Contiguous(a.SoftmaxMax), s.Contiguous(a.SoftmaxSum)
						if step > 0 || !c.joined() {
							stats := c.stats(part.Queries.Len())
							b.SoftmaxMax = s.Contiguous(c.statRows(a.SoftmaxMax, part)).Reshape(stats...)
							b.SoftmaxSum = s.Contiguous(c.statRows(a.SoftmaxSum, part)).Reshape(stats...)
						}
						g := &ops.AttentionGradArgs{
							AttentionArgs: *b, DOut: s.Contiguous(c.rows(a.DOut, part)), DQuery: s.Like(b.Query), DKey: s.Like(b.Key), DValue: s.Like(b.Value),
						}
						ops.Queue(ctx, s, p.reg.AttentionGrad(), g)
						add(s, c.rows(dQuery, part), float(s, g.DQuery), 1)
						grads = append(grads, g)
					}
					r.arrive() // the gradients of these keys and values, as the ranks before this one left them
					dKey, dValue := r.carried()
					for i, g := range grads {
						add(s, c.keys(dKey, parts[i]), float(s, g.DKey), 1)
						add(s, c.keys(dValue, parts[i]), float(s, g.DValue), 1)
					}
				})
			})
			r.arrive()
		}
		r.pass() // the last rank's gradients go home
		r.arrive()
		dKey, dValue := r.carried()
		for _, t := range [][2]*aclnn.Tensor{{a.DQuery, dQuery}, {a.DKey, dKey}, {a.DValue, dValue}} {
			if t[0].Len() > 0 {
				s.Copy(t[0], t[1])
			}
		}
	})
}

// ring sends keys and values around the ranks, with their gradients in the backward pass.
type ring struct {
	p     *ContextParallel
	s     *aclnn.Scope
	steps int
	step  int // passes so far; what this rank holds for the current step is of the rank that many before it

	forward  [3][]*aclnn.Tensor // keys and values: this rank's, and two buffers to receive into
	backward [2][]*aclnn.Tensor // their gradients, nil in the forward pass
	under    bool               // whether the stream has not waited for the last exchange
}

func newRing(s *aclnn.Scope, p *ContextParallel, ranks int, key, value *aclnn.Tensor) *ring {
	r := &ring{p: p, s: s, steps: ranks}
	r.forward[0] = []*aclnn.Tensor{s.Contiguous(key), s.Contiguous(value)}
	for i := 1; i <= min(2, ranks-1); i++ {
		r.forward[i] = []*aclnn.Tensor{s.Like(key), s.Like(value)}
	}
	return r
}

// carry gives the ring the gradients of this rank's keys and values, zeros, on their way.
func (r *ring) carry(dKey, dValue *aclnn.Tensor) {
	r.backward[0] = []*aclnn.Tensor{dKey, dValue}
	r.backward[1] = []*aclnn.Tensor{r.s.Like(dKey), r.s.Like(dValue)}
}

// place returns where the keys and values of a step are: those of the first are this rank's, those of the others come
// into two buffers in turn.
func place(step int) int {
	if step == 0 {
		return 0
	}
	return 2 - step%2
}

// pass begins the next step: what this rank has of the last one goes to the next rank, on the side stream and beside what the kernels of
// this step compute. The keys of the first step are there; those of the step after this one arrive meanwhile.
func (r *ring) pass() {
	var send, receive []*aclnn.Tensor
	if r.step+1 < r.steps {
		send, receive = append(send, r.forward[place(r.step)]...), append(receive, r.forward[place(r.step+1)]...)
	}
	if r.step > 0 && r.backward[0] != nil {
		send, receive = append(send, r.backward[(r.step-1)%2]...), append(receive, r.backward[r.step%2]...)
	}
	r.step++
	if len(send) == 0 {
		return
	}
	p, at := r.p, r.p.comm.Rank()
	var messages []hccl.Message
	for i := range send {
		messages = append(messages, hccl.SendTo((at+1)%r.steps, send[i]), hccl.RecvFrom((at+r.steps-1)%r.steps, receive[i]))
	}
	r.s.Do(func() error {
		if err := p.ready.Record(r.s.Stream); err != nil {
			return err
		}
		if err := p.side.Wait(p.ready); err != nil {
			return err
		}
		r.under = true
		return errors.Join(p.comm.Exchange(p.side, messages...), p.arrived.Record(p.side))
	})
}

// arrive makes the stream wait for what the last pass brings, also when the scope has failed and will free it.
func (r *ring) arrive() {
	if r.under {
		r.under = false
		r.s.Fail(r.s.Stream.Wait(r.p.arrived))
	}
}

// held returns the keys and values of the current step.
func (r *ring) held() (key, value *aclnn.Tensor) {
	t := r.forward[place(r.step-1)]
	return t[0], t[1]
}

// carried returns the gradients of the keys and values of the current step.
func (r *ring) carried() (dKey, dValue *aclnn.Tensor) {
	t := r.backward[(r.step-1)%2]
	return t[0], t[1]
}

// contextCut is an attention problem cut into this rank's parts.
type contextCut struct {
	a     *ops.AttentionArgs
	sizes ops.AttentionSizes
	axis  int // of the sequence
	ranks int
	parts [][]mask.Part // by step: with the keys of the rank that many before this one
}

// cut checks the arguments and divides the sequence.
func (p *ContextParallel) cut(a *ops.AttentionArgs) (contextCut, error) {
	sizes, err := a.Sizes()
	if err != nil {
		return contextCut{}, err
	}
	local := *a
	local.Mask = anyMask(a.Layout, sizes)
	if err := p.reg.Attention().Check(&local); err != nil {
		return contextCut{}, err
	}
	var c check.Args
	k := contextCut{a: a, sizes: sizes, axis: a.Layout.SequenceAxis(), ranks: p.comm.Size()}
	switch {
	case a.Bias != nil || a.DropMask != nil:
		c.Fail("Bias is %v and DropMask %v; neither can be cut by positions", a.Bias, a.DropMask)
	case sizes.Queries != sizes.Keys:
		c.Fail("Query is %v and Key %v; each rank must have as many queries as keys", a.Query, a.Key)
	}
	if !c.OK() {
		return k, c.Err
	}
	length, at := sizes.Queries*int64(k.ranks), p.comm.Rank()
	whole := mask.Shape{Layout: a.Layout, Batch: sizes.Batch, Heads: sizes.Heads, Queries: length, Keys: length}
	queries, err := p.split.Chunks(length, at, k.ranks)
	for step := 0; step < k.ranks && err == nil; step++ {
		var keys []mask.Range
		var parts []mask.Part
		if keys, err = p.split.Chunks(length, (at-step+k.ranks)%k.ranks, k.ranks); err == nil {
			parts, err = mask.Parts(a.Mask, whole, queries, keys)
		}
		k.parts = append(k.parts, parts)
	}
	if err != nil {
		return k, fmt.Errorf("%w: %w", ops.ErrInvalid, err)
	}
	return k, nil
}

// anyMask is a mask that the layout allows for tensors of any sizes.
func anyMask(layout ops.Layout, sizes ops.AttentionSizes) mask.Mask {
	if layout == ops.TND {
		return mask.Varlen{CuQueries: []int64{sizes.Queries}, CuKeys: []int64{sizes.Keys}}
	}
	return nil
}

// joined reports whether one call computes the attention of all queries to this rank's own keys. Of packed sequences it always does.
func (k *contextCut) joined() bool {
	own := k.parts[0]
	return len(own) == 1 && own[0].Queries.Len() == k.sizes.Queries
}

// arguments returns the query, keys, values and mask of a part.
func (k *contextCut) arguments(s *aclnn.Scope, part mask.Part, key, value *aclnn.Tensor) *ops.AttentionArgs {
	return &ops.AttentionArgs{
		Query: s.Contiguous(k.rows(k.a.Query, part)), Key: s.Contiguous(k.keys(key, part)), Value: s.Contiguous(k.keys(value, part)),
		Layout: k.a.Layout, Heads: k.a.Heads, Mask: part.Mask, Scale: k.a.Scale,
	}
}

// rows returns the queries of a part in this rank's tensor; keys returns its keys in a tensor that the ring brought.
func (k *contextCut) rows(t *aclnn.Tensor, part mask.Part) *aclnn.Tensor {
	return t.Narrow(k.axis, part.Queries.From, part.Queries.Len())
}

func (k *contextCut) keys(t *aclnn.Tensor, part mask.Part) *aclnn.Tensor {
	return t.Narrow(k.axis, part.Keys.From, part.Keys.Len())
}

// sinks calls f with views [B,N,S,·] of this rank's rows and their softmax statistics: those of packed sequences piece by piece.
func (k *contextCut) sinks(s *aclnn.Scope, f func(rows, stats func(*aclnn.Tensor) *aclnn.Tensor)) {
	ends := []int64{k.sizes.Queries}
	if k.a.Layout == ops.TND {
		ends = k.parts[0][0].Mask.(mask.Varlen).CuQueries
	}
	from := int64(0)
	for _, end := range ends {
		part := mask.Part{Queries: mask.Range{From: from, To: end}}
		from = end
		if part.Queries.Len() > 0 && s.Err() == nil {
			f(func(t *aclnn.Tensor) *aclnn.Tensor { return k.byHead(k.rows(t, part)) }, func(t *aclnn.Tensor) *aclnn.Tensor { return k.statRows(t, part) })
		}
	}
}

// byHead views a tensor like Out as [B,N,S,D].
func (k *contextCut) byHead(t *aclnn.Tensor) *aclnn.Tensor {
	switch k.a.Layout {
	case ops.BSH:
		return t.Unflatten(2, k.sizes.Heads, t.Dim(2)/k.sizes.Heads).Permute(0, 2, 1, 3)
	case ops.SBH:
		return t.Unflatten(2, k.sizes.Heads, t.Dim(2)/k.sizes.Heads).Permute(1, 2, 0, 3)
	case ops.BSND:
		return t.Permute(0, 2, 1, 3)
	case ops.TND:
		return t.Permute(1, 0, 2).Unsqueeze(0)
	}
	return t
}

// stats returns the shape of the softmax tensors of some queries.
func (k *contextCut) stats(queries int64) []int64 {
	if k.a.Layout == ops.TND {
		return []int64{queries, k.sizes.Heads, ops.SoftmaxCopies}
	}
	return []int64{k.sizes.Batch, k.sizes.Heads, queries, ops.SoftmaxCopies}
}

// statsOf views the softmax tensor of one sequence, or of a batch, as [B,N,S,8]. That of a packed sequence is ordered by head.
func (k *contextCut) statsOf(t *aclnn.Tensor) *aclnn.Tensor {
	if k.a.Layout == ops.TND {
		return t.Reshape(1, k.sizes.Heads, -1, ops.SoftmaxCopies)
	}
	return t
}

// statRows views the rows of a part in this rank's softmax tensor as [B,N,S,8].
func (k *contextCut) statRows(t *aclnn.Tensor, part mask.Part) *aclnn.Tensor {
	from := int64(0)
	if k.a.Layout == ops.TND { // the part is of one sequence, of which this rank has a piece
		for _, end := range k.parts[0][0].Mask.(mask.Varlen).CuQueries {
			if part.Queries.To <= end {
				t = t.Narrow(0, from, end-from)
				break
			}
			from = end
		}
	}
	return k.statsOf(t).Narrow(2, part.Queries.From-from, part.Queries.Len())
}
