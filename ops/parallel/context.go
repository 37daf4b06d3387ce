package parallel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

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
// delta net; other layers work on single tokens and need no exchange. Of packed sequences, layout ops.TND, only those keys and values travel on that a
// later rank of the ring sees: of sequences that several ranks share.
//
// Besides its own a rank holds the keys and values of two other ranks, and in the backward pass gradients of as many in float32, besides those of its own.
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
		r := newRing(s, p, &c)
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
	var first, second []mask.Part
	if err == nil {
		first, second, err = c.halves()
	}
	if err == nil {
		err = c.traceGradients(p)
	}
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
		dQuery, dKey, dValue := zeros(a.Query), zeros(a.Key), zeros(a.Value)
		r := newRing(s, p, &c)
		r.carry()
		// Keys of other ranks come beside the first half of the work on this rank's own keys. Their gradients come home beside the second half.
		for step, parts := range slices.Concat([][]mask.Part{first}, c.parts[1:], [][]mask.Part{second}) {
			r.pass()
			key, value := r.held()
			s.Do(func() error {
				return aclnn.Compose(st, func(s *aclnn.Scope) {
					var grads []*ops.AttentionGradArgs
					for _, part := range parts {
						b := c.arguments(s, part, key, value)
						b.Out, b.SoftmaxMax, b.SoftmaxSum = s.Contiguous(c.rows(a.Out, part)), c.partStats(s, a.SoftmaxMax, part), c.partStats(s, a.SoftmaxSum, part)
						g := &ops.AttentionGradArgs{
							AttentionArgs: *b, DOut: s.Contiguous(c.rows(a.DOut, part)), DQuery: s.Like(b.Query), DKey: s.Like(b.Key), DValue: s.Like(b.Value),
						}
						ops.Queue(ctx, s, p.reg.AttentionGrad(), g)
						add(s, c.rows(dQuery, part), float(s, g.DQuery), 1)
						grads = append(grads, g)
					}
					dKey, dValue := dKey, dValue
					if step > 0 && step < c.ranks {
						dKey, dValue = r.carried()
						for _, keys := range without(c.summed[step].here, c.summed[step].brought) {
							s.Zero(dKey.Narrow(c.axis, keys.From, keys.Len()))
							s.Zero(dValue.Narrow(c.axis, keys.From, keys.Len()))
						}
					}
					r.arrive() // the gradients of these keys and values, as the ranks before this one left them
					for i, g := range grads {
						add(s, c.keys(dKey, parts[i]), float(s, g.DKey), 1)
						add(s, c.keys(dValue, parts[i]), float(s, g.DValue), 1)
					}
				})
			})
			r.arrive()
		}
		theirKey, theirValue := r.carried()
		for _, keys := range c.summed[c.ranks].brought {
			part := mask.Part{Keys: keys}
			add(s, c.keys(dKey, part), c.keys(theirKey, part), 1)
			add(s, c.keys(dValue, part), c.keys(theirValue, part), 1)
		}
		for _, t := range [][2]*aclnn.Tensor{{a.DQuery, dQuery}, {a.DKey, dKey}, {a.DValue, dValue}} {
			if t[0].Len() > 0 {
				s.Copy(t[0], t[1])
			}
		}
	})
}

// ring sends keys and values around the ranks, with their gradients in the backward pass.
type ring struct {
	p    *ContextParallel
	s    *aclnn.Scope
	c    *contextCut
	step int // passes so far: in the current step this rank has keys of the rank that is step-1 before it, and after all ranks' in the backward pass its own again

	forward  [3][]*aclnn.Tensor // keys and values: this rank's, and two buffers to receive into
	backward [2][]*aclnn.Tensor // their gradients, nil in the forward pass
	under    bool               // whether the stream has not waited for the last exchange
}

func newRing(s *aclnn.Scope, p *ContextParallel, c *contextCut) *ring {
	r := &ring{p: p, s: s, c: c}
	r.forward[0] = []*aclnn.Tensor{s.Contiguous(c.a.Key), s.Contiguous(c.a.Value)}
	for i := 1; i <= min(2, c.ranks-1); i++ {
		r.forward[i] = []*aclnn.Tensor{s.Like(c.a.Key), s.Like(c.a.Value)}
	}
	return r
}

// carry makes the ring bring the gradients of keys and values too.
func (r *ring) carry() {
	for i := range r.backward {
		r.backward[i] = []*aclnn.Tensor{r.s.Tensor(aclnn.Float32, r.c.a.Key.Shape()...), r.s.Tensor(aclnn.Float32, r.c.a.Value.Shape()...)}
	}
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
	p, c, at := r.p, r.c, r.p.comm.Rank()
	var messages []hccl.Message
	exchange := func(message func(int, *aclnn.Tensor) hccl.Message, peer int, tensors []*aclnn.Tensor, ranges []mask.Range) {
		for _, keys := range ranges {
			for _, t := range tensors {
				messages = append(messages, message(peer%c.ranks, c.keys(t, mask.Part{Keys: keys})))
			}
		}
	}
	next, last := at+1, at+c.ranks-1
	if r.step+1 < c.ranks {
		exchange(hccl.SendTo, next, r.forward[place(r.step)], c.seen[r.step].here)
		exchange(hccl.RecvFrom, last, r.forward[place(r.step+1)], c.seen[r.step+1].brought)
	}
	if r.step > 1 && r.backward[0] != nil {
		exchange(hccl.SendTo, next, r.backward[r.step%2], c.summed[r.step-1].here)
		exchange(hccl.RecvFrom, last, r.backward[(r.step-1)%2], c.summed[r.step].brought)
	}
	r.step++
	if len(messages) == 0 {
		return
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
	t := r.forward[place((r.step-1)%r.c.ranks)]
	return t[0], t[1]
}

// carried returns the gradients of the keys and values of the current step, from the second one on.
func (r *ring) carried() (dKey, dValue *aclnn.Tensor) {
	t := r.backward[r.step%2]
	return t[0], t[1]
}

// contextCut is an attention problem cut into this rank's parts.
type contextCut struct {
	a     *ops.AttentionArgs
	sizes ops.AttentionSizes
	axis  int // of the sequence
	ranks int
	whole mask.Shape
	own   []mask.Range  // this rank's positions
	parts [][]mask.Part // by step: with the keys of the rank that many before this one

	seen   []travel // by step: keys and values
	summed []travel // by step: their gradients, and after the last one those of this rank's keys
}

// travel lists the ranges of a rank's keys that the ring brings to this rank, and the ranges that go on from here.
type travel struct{ brought, here []mask.Range }

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
	k.whole = mask.Shape{Layout: a.Layout, Batch: sizes.Batch, Heads: sizes.Heads, Queries: length, Keys: length}
	k.own, err = p.split.Chunks(length, at, k.ranks)
	for step := 0; step < k.ranks && err == nil; step++ {
		var keys []mask.Range
		var parts []mask.Part
		if keys, err = p.split.Chunks(length, (at-step+k.ranks)%k.ranks, k.ranks); err == nil {
			parts, err = mask.Parts(a.Mask, k.whole, k.own, keys)
		}
		k.parts = append(k.parts, parts)
	}
	for step := 0; step < k.ranks && err == nil; step++ {
		var t travel
		t.here, err = k.keysSeen(p.split, at-step, step+1, k.ranks)
		t.brought = k.withOwn(t.here, step)
		k.seen = append(k.seen, t)
	}
	if err != nil {
		return k, fmt.Errorf("%w: %w", ops.ErrInvalid, err)
	}
	return k, nil
}

// traceGradients finds the keys whose gradients travel: those that the ranks so far have seen.
func (k *contextCut) traceGradients(p *ContextParallel) error {
	k.summed = make([]travel, k.ranks+1) // none of the first step
	for step := 1; step <= k.ranks; step++ {
		t, err := &k.summed[step], error(nil)
		if t.brought, err = k.keysSeen(p.split, p.comm.Rank()-step, 1, step); err != nil {
			return err
		}
		if step < k.ranks {
			t.here = k.withOwn(t.brought, step)
		}
	}
	return nil
}

// withOwn adds the keys that this rank's queries see in a step.
func (k *contextCut) withOwn(keys []mask.Range, step int) []mask.Range {
	if k.a.Layout != ops.TND {
		return k.allKeys()
	}
	keys = slices.Clone(keys)
	for _, part := range k.parts[step] {
		keys = append(keys, part.Keys)
	}
	return union(keys)
}

// allKeys returns one range with all keys of a rank. It returns no range if the key tensor is empty.
func (k *contextCut) allKeys() []mask.Range {
	if k.a.Key.Len() == 0 {
		return nil
	}
	return []mask.Range{{To: k.sizes.Keys}}
}

// keysSeen returns the keys of the owner that queries of the ranks from, from+1, … and to-1 steps after it in the ring see. A range of keys is
// one message in the layout TND alone; in the others all keys travel.
func (k *contextCut) keysSeen(split mask.Split, owner, from, to int) ([]mask.Range, error) {
	switch {
	case from >= to || k.a.Key.Len() == 0:
		return nil, nil
	case k.a.Layout != ops.TND:
		return k.allKeys(), nil
	}
	owner = (owner + k.ranks) % k.ranks
	keys, err := split.Chunks(k.whole.Queries, owner, k.ranks)
	if err != nil {
		return nil, err
	}
	var queries []mask.Range
	for step := from; step < to; step++ {
		chunks, err := split.Chunks(k.whole.Queries, (owner+step)%k.ranks, k.ranks)
		if err != nil {
			return nil, err
		}
		queries = append(queries, chunks...)
	}
	parts, err := mask.Parts(k.a.Mask, k.whole, queries, keys)
	var seen []mask.Range
	for _, part := range parts {
		seen = append(seen, part.Keys)
	}
	return union(seen), err
}

// union returns disjoint ranges of the same positions, in order.
func union(ranges []mask.Range) (list []mask.Range) {
	slices.SortFunc(ranges, func(a, b mask.Range) int { return cmp.Compare(a.From, b.From) })
	for _, r := range ranges {
		if n := len(list); n > 0 && r.From <= list[n-1].To {
			list[n-1].To = max(list[n-1].To, r.To)
		} else {
			list = append(list, r)
		}
	}
	return list
}

// without returns the positions of disjoint ranges in order that others, disjoint and in order too, lack.
func without(ranges, others []mask.Range) (list []mask.Range) {
	for _, r := range ranges {
		for _, o := range others {
			if o.From < r.To && o.To > r.From {
				if r.From < o.From {
					list = append(list, mask.Range{From: r.From, To: o.From})
				}
				r.From = min(o.To, r.To)
			}
		}
		if r.Len() > 0 {
			list = append(list, r)
		}
	}
	return list
}

// anyMask is a mask that the layout allows for tensors of any sizes.
func anyMask(layout ops.Layout, sizes ops.AttentionSizes) mask.Mask {
	if layout == ops.TND {
		return mask.Varlen{CuQueries: []int64{0, sizes.Queries}, CuKeys: []int64{0, sizes.Keys}}
	}
	return nil
}

// joined reports whether one call computes the attention of all queries to this rank's own keys. Of packed sequences it always does.
func (k *contextCut) joined() bool {
	own := k.parts[0]
	return len(own) == 1 && own[0].Queries.Len() == k.sizes.Queries
}

// halves divides the attention of all queries to this rank's own keys: into that of the first half of the queries and that of the others. Of several
// packed sequences each stays whole, and the ones that come first, about half of the tokens, are in first.
func (k *contextCut) halves() (first, second []mask.Part, err error) {
	if k.a.Layout == ops.TND && len(k.ends()) > 2 {
		first, second = k.sequences()
		return first, second, nil
	}
	own := k.own
	if len(own) == 1 {
		middle := (own[0].From + own[0].To) / 2
		own = []mask.Range{{From: own[0].From, To: middle}, {From: middle, To: own[0].To}}
	}
	if first, err = mask.Parts(k.a.Mask, k.whole, own[:1], own); err != nil {
		return nil, nil, err
	}
	if second, err = mask.Parts(k.a.Mask, k.whole, own[1:], own); err != nil {
		return nil, nil, err
	}
	for i := range second {
		second[i].Queries.From, second[i].Queries.To = second[i].Queries.From+own[0].Len(), second[i].Queries.To+own[0].Len()
	}
	return first, second, nil
}

// sequences divides the attention of this rank's pieces of packed sequences between the two that are nearest to the middle.
func (k *contextCut) sequences() (first, second []mask.Part) {
	ends, at := k.ends(), 1
	away := func(i int) int64 { return max(2*ends[i]-k.sizes.Queries, k.sizes.Queries-2*ends[i]) } // from the middle
	for i := 2; i < len(ends)-1; i++ {
		if away(i) < away(at) {
			at = i
		}
	}
	part := func(ends []int64) []mask.Part {
		m := mask.Varlen{Within: k.parts[0][0].Mask.(mask.Varlen).Within}
		for _, end := range ends {
			m.CuQueries = append(m.CuQueries, end-ends[0])
		}
		tokens := mask.Range{From: ends[0], To: ends[len(ends)-1]}
		return []mask.Part{{Queries: tokens, Keys: tokens, Mask: m}}
	}
	return part(ends[:at+1]), part(ends[at:])
}

// ends returns where this rank's pieces of packed sequences end among its tokens, after a 0, and nil for a rank without tokens.
func (k *contextCut) ends() []int64 {
	if len(k.parts[0]) == 0 {
		return nil
	}
	return k.parts[0][0].Mask.(mask.Varlen).CuQueries
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
		ends = k.ends()
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

// partStats returns the rows of a part in this rank's softmax tensor as attention takes them.
func (k *contextCut) partStats(s *aclnn.Scope, t *aclnn.Tensor, part mask.Part) *aclnn.Tensor {
	if k.a.Layout == ops.TND && slices.Contains(k.ends(), part.Queries.From) && slices.Contains(k.ends(), part.Queries.To) { // of whole pieces, also of several
		return s.Contiguous(t.Narrow(0, part.Queries.From, part.Queries.Len()))
	}
	return s.Contiguous(k.statRows(t, part)).Reshape(k.stats(part.Queries.Len())...)
}

// statRows views the rows of a part in this rank's softmax tensor as [B,N,S,8].
func (k *contextCut) statRows(t *aclnn.Tensor, part mask.Part) *aclnn.Tensor {
	from := int64(0)
	if k.a.Layout == ops.TND { // the part is of one sequence, of which this rank has a piece
		for _, end := range k.ends() {
			if part.Queries.To <= end {
				t = t.Narrow(0, from, end-from)
				break
			}
			from = end
		}
	}
	return k.statsOf(t).Narrow(2, part.Queries.From-from, part.Queries.Len())
}
