package communication

import (
	"cmp"
	"math"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// workers lists the operators that read the tokens which other workers have written into the memory of this one.
var workers = op.Table{
	"AttentionWorkerCombine": workerCombine,
	"FfnWorkerBatching":      workerBatching,
}.Selects()

// tokenTypes are the types of tokens by the number that calls give them.
var tokenTypes = []dtype.Type{dtype.Float16, dtype.BFloat16, dtype.Int8}

// tokenType returns the element type of the tokens. The output y must have the same type.
func (w *worker) tokenType(y *op.Tensor, types []dtype.Type) dtype.Type {
	n := w.c.Int("tokenDtype")
	if n < 0 || n >= int64(len(types)) {
		w.c.Unfit("tokenDtype is %d; 0 to %d are possible", n, len(types)-1)
		return types[0]
	}
	w.c.DType(y, types...)
	if w.c.Err() == nil && y.DType != types[n] {
		w.c.Invalid("%v has another type than the tokens: tokenDtype %d is %v", y, n, types[n])
	}
	return types[n]
}

// waits reports whether the call waits for the tokens itself, as the schedulers do for calls that do not.
func (w *worker) waits() bool {
	n := w.c.Int("needSchedule")
	if n != 0 && n != 1 {
		w.c.Unfit("needSchedule is %d; 0 and 1 are possible", n)
	}
	if n == 1 {
		w.c.Rewrites(w.context.Name)
	}
	return n == 1
}

// kernelContext is like contextOf for a kernel that reads the whole context without a look at its size.
func kernelContext(c *op.Call) *worker {
	w := contextOf(c, "scheduleContext")
	w.fault = func(format string, args ...any) error { return op.Fault("%v: "+format, append([]any{c}, args...)...) }
	if c.Err() == nil && w.context.Len() != contextSize {
		c.Unfit("%v must have the %d bytes of a context", w.context, contextSize)
	}
	return w
}

// workerCombine adds, for each token, the results of its experts times their weights. The shared expert's result is the last one; it is
// added without a weight.
func workerCombine(c *op.Call) (op.Run, error) {
	w := kernelContext(c)
	scales, layer, hidden, y, next := c.Tensor("expertScales"), c.Tensor("layerId"), c.Int("hiddenSize"), c.Tensor("y"), c.Tensor("nextLayerId")
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Plain(scales, layer, y, next)
	c.DType(scales, dtype.Float32)
	c.DType(layer, dtype.Int32)
	c.DType(next, dtype.Int32)
	d, waits := w.tokenType(y, tokenTypes[:2]), w.waits()
	switch {
	case scales.Rank() != 2 || scales.Dim(0) < 1:
		c.Unfit("%v must have the weights of at least one token", scales)
	case scales.Dim(1) > 64:
		c.Unfit("%v has weights of %d experts; there are at most 64", scales, scales.Dim(1))
	case hidden < 1:
		c.Unfit("hiddenSize is %d; it must be positive", hidden)
	}
	c.Fits(layer, []int64{1}, "the number of a layer")
	c.Fits(next, []int64{1}, "the number of a layer")
	if c.Err() != nil {
		return nil, c.Err()
	}
	tokens, experts := scales.Dim(0), scales.Dim(1)+1
	c.Fits(y, []int64{tokens, hidden}, "a sum for each token")
	c.Dense(y, next)
	if c.Err() != nil {
		return nil, c.Err()
	}
	n := tokens * experts
	bytes := n * hidden * int64(d.Size())
	// batch returns the micro-batch that the call reads, and its flags if the call waits for it.
	batch := func(x *op.Exec) (s *scheduleContext, batch uint32, flags []int32, err error) {
		if s, err = w.read(); err != nil {
			return nil, 0, nil, err
		}
		if !waits {
			return s, s.batch, nil, nil
		}
		if s.batches == 0 {
			return nil, 0, nil, w.fault("micro_batch_num is 0")
		}
		batch = (s.batch + 1) % s.batches
		flags, err = w.words(x, "token_info_buf", s.attention.info.addr+uint64(batch)*uint64(4*n), n)
		return s, batch, flags, err
	}
	c.Follow(flagged)
	if waits {
		c.Await(func(x *op.Exec) (bool, error) {
			_, _, flags, err := batch(x)
			return err != nil || complete(flags), err
		})
	}
	return func(x *op.Exec) error {
		s, i, flags, err := batch(x)
		if err != nil {
			return err
		}
		at, err := x.Memory(s.attention.data.addr, int64(i+1)*bytes)
		if err != nil {
			return w.fault("token_data_buf: %v", err)
		}
		shape := []int64{tokens, experts, hidden}
		v, err := elementwise.Doubles(kernel.View{Data: unsafe.Add(at, int64(i)*bytes), DType: d, Shape: shape, Strides: op.ContiguousStrides(shape)})
		if err != nil {
			return err
		}
		weights, err := elementwise.Doubles(scales.View())
		if err != nil {
			return err
		}
		sums := make([]float64, tokens*hidden)
		for t := range tokens {
			for h := range hidden {
				sum := float32(0)
				of := func(expert int64) float32 { return float32(v[(t*experts+expert)*hidden+h]) }
				for e := range experts - 1 {
					sum += float32(of(e) * float32(weights[t*(experts-1)+e]))
				}
				sums[t*hidden+h] = float64(of(experts-1) + sum)
			}
		}
		if err := elementwise.SetFloats(y.View(), sums); err != nil {
			return err
		}
		*(*int32)(next.Data) = *(*int32)(layer.Data) + 1
		if waits {
			clear(flags)
			s.batch = i
		}
		return nil
	}, nil
}

// noExpert is the least number that stands for no expert.
const noExpert = 1_000_000

// batched is the tokens that a worker for experts has.
type batched struct {
	s        *scheduleContext
	flags    []*int32
	experts  [][]int32 // by session: the expert of each token and choice
	sessions []int32   // their numbers
	batches  []int32   // and the micro-batch of each
}

// workerBatching sorts tokens by experts.
func workerBatching(c *op.Call) (op.Run, error) {
	w := kernelContext(c)
	experts, most, layers := c.Int("expertNum"), c.RequiredInts("maxOutShape"), c.Int("layerNum")
	y, groups, scales, total := c.Tensor("y"), c.Tensor("groupList"), c.Tensor("dynamicScale"), c.Tensor("actualTokenNum")
	places := []*op.Tensor{c.Tensor("sessionIds"), c.Tensor("microBatchIds"), c.Tensor("tokenIds"), c.Tensor("expertOffsets")}
	if c.Err() != nil {
		return nil, c.Err()
	}
	outputs := append([]*op.Tensor{y, groups, scales, total}, places...)
	c.Plain(outputs...)
	c.DType(groups, dtype.Int64)
	c.DType(total, dtype.Int64)
	c.DType(scales, dtype.Float32)
	for _, t := range places {
		c.DType(t, dtype.Int32)
	}
	d, waits := w.tokenType(y, tokenTypes), w.waits()
	switch {
	case experts < 1 || experts > 8192:
		c.Unfit("expertNum is %d; 1 to 8192 are possible", experts)
	case len(most) != 4:
		c.Unfit("maxOutShape is %s; it must have sessions, tokens, choices and the size of a token", op.Dims(most))
	case most[0] < 1 || most[0] > 1024 || most[1] < 1 || most[2] < 1 || most[2] > 64 || most[3] < 1:
		c.Unfit("maxOutShape is %s; it must have 1 to 1024 sessions, tokens, 1 to 64 choices and the size of a token", op.Dims(most))
	case layers < 0 || layers > experts:
		c.Unfit("layerNum is %d; 0 to %d, the number of experts, are possible", layers, experts)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	rows, hidden := most[0]*most[1]*most[2], most[3]
	if most[1] > math.MaxInt32/most[0]/most[2] {
		c.Unfit("maxOutShape is %s; these are too many tokens", op.Dims(most))
	}
	c.Fits(y, []int64{rows, hidden}, "a row for each token of each choice")
	c.Fits(groups, []int64{experts, 2}, "an expert and its number of tokens")
	c.Fits(total, []int64{1}, "a number of tokens")
	for _, t := range places {
		c.Fits(t, []int64{rows}, "a number for each row")
	}
	if d == dtype.Int8 {
		c.Fits(scales, []int64{rows}, "a scale for each row")
	}
	c.Dense(outputs...)
	if c.Err() != nil {
		return nil, c.Err()
	}
	size := hidden * int64(d.Size())
	read := size
	if d == dtype.Int8 {
		read += 4
	}
	find := func(x *op.Exec) (*batched, error) { return w.batched(x, waits) }
	c.Follow(func(x *op.Exec) []sanitize.Access {
		b, err := find(x)
		if err != nil || waits {
			return nil
		}
		s, done := b.s, int64(b.s.completed)
		return []sanitize.Access{
			access("session_ids_buf", sanitize.Reads, s.sessionIDs.addr, 4*done), access("micro_batch_ids_buf", sanitize.Reads, s.batchIDs.addr, 4*done),
			access("expert_ids_buf", sanitize.Reads, s.expertIDs.addr, 4*done*int64(s.tokens)*int64(s.choices)),
		}
	})
	if waits {
		c.Await(func(x *op.Exec) (bool, error) {
			b, err := find(x)
			return err != nil || b.complete(), err
		})
	}
	return func(x *op.Exec) error {
		b, err := find(x)
		if err != nil {
			return err
		}
		sorted, err := w.sorted(b, experts)
		if err != nil {
			return err
		}
		if n := int64(len(sorted)); n > rows {
			return w.fault("%d tokens of all choices arrived; maxOutShape %s has room for %d", n, op.Dims(most), rows)
		}
		s := b.s
		all := int64(s.sessions) * int64(s.batches) * int64(s.tokens) * int64(s.choices)
		if len(sorted) > 0 && int64(s.tokenSize) < read {
			return w.fault("attn_to_ffn_token_size is %d; a token has %d bytes", s.tokenSize, read)
		}
		tokens := unsafe.Pointer(nil)
		if len(sorted) > 0 {
			if tokens, err = x.Memory(s.experts.data.addr, all*int64(s.tokenSize)); err != nil {
				return w.fault("token_data_buf: %v", err)
			}
		}
		list := unsafe.Slice((*int64)(groups.Data), 2*experts)
		filled := int64(0)
		for i, at := range sorted {
			session, batch := int64(b.sessions[at.session]), int64(b.batches[at.session])
			row := ((session*int64(s.batches)+batch)*int64(s.tokens)+at.token)*int64(s.choices) + at.choice
			from := unsafe.Add(tokens, row*int64(s.tokenSize))
			copy(unsafe.Slice((*byte)(unsafe.Add(y.Data, int64(i)*size)), size), unsafe.Slice((*byte)(from), size))
			if d == dtype.Int8 {
				copy(unsafe.Slice((*byte)(unsafe.Add(scales.Data, 4*i)), 4), unsafe.Slice((*byte)(unsafe.Add(from, size)), 4))
			}
			for k, v := range []int64{session, batch, at.token, at.choice} {
				*(*int32)(unsafe.Add(places[k].Data, 4*i)) = int32(v)
			}
			if i == 0 || at.expert != sorted[i-1].expert {
				list[2*filled], list[2*filled+1] = int64(at.expert), 0
				filled++
			}
			list[2*filled-1]++
		}
		if filled < experts { // the kernel marks the end, and leaves what follows
			list[2*filled], list[2*filled+1] = 0, 0
		}
		*(*int64)(total.Data) = int64(len(sorted))
		if waits {
			b.clear()
		}
		return nil
	}, nil
}

// batched finds the tokens that a scheduler has listed. For a call that waits it finds the tokens of the next micro-batch.
func (w *worker) batched(x *op.Exec, waits bool) (*batched, error) {
	s, err := w.read()
	if err != nil {
		return nil, err
	}
	for _, limit := range []struct {
		name        string
		value, most uint32
	}{{"session_num", s.sessions, 1024}, {"micro_batch_num", s.batches, 64}, {"micro_batch_size", s.tokens, math.MaxInt32}, {"selected_expert_num", s.choices, 64}} {
		if limit.value < 1 || limit.value > limit.most {
			return nil, w.fault("%s is %d; 1 to %d are possible", limit.name, limit.value, limit.most)
		}
	}
	b, n := &batched{s: s}, int64(s.tokens)*int64(s.choices)
	if !waits {
		if s.completed > s.sessions {
			return nil, w.fault("out_num is %d; there are %d sessions", s.completed, s.sessions)
		}
		done := int64(s.completed)
		if done == 0 {
			return b, nil
		}
		if b.sessions, err = w.words(x, "session_ids_buf", s.sessionIDs.addr, done); err != nil {
			return nil, err
		}
		if b.batches, err = w.words(x, "micro_batch_ids_buf", s.batchIDs.addr, done); err != nil {
			return nil, err
		}
		ids, err := w.words(x, "expert_ids_buf", s.expertIDs.addr, done*n)
		if err != nil {
			return nil, err
		}
		b.experts = slices.Collect(slices.Chunk(ids, int(n)))
		for i := range b.sessions {
			if session, batch := b.sessions[i], b.batches[i]; session < 0 || uint32(session) >= s.sessions || batch < 0 || uint32(batch) >= s.batches {
				return nil, w.fault("session_ids_buf and micro_batch_ids_buf have session %d and micro-batch %d; there are %d and %d", session, batch, s.sessions, s.batches)
			}
		}
		return b, nil
	}
	if s.next >= uint64(s.batches) {
		return nil, w.fault("polling_index is %d; there are %d micro-batches", s.next, s.batches)
	}
	row := n + 2
	info, err := w.words(x, "token_info_buf", s.experts.info.addr, int64(s.sessions)*int64(s.batches)*row)
	if err != nil {
		return nil, err
	}
	for session := range int64(s.sessions) {
		of := info[(session*int64(s.batches)+int64(s.next))*row:][:row]
		b.flags, b.experts = append(b.flags, &of[0]), append(b.experts, of[2:])
		b.sessions, b.batches = append(b.sessions, int32(session)), append(b.batches, int32(s.next))
	}
	return b, nil
}

func (b *batched) complete() bool {
	for _, flag := range b.flags {
		if !complete(unsafe.Slice(flag, 1)) {
			return false
		}
	}
	return true
}

// clear makes the micro-batch one that is not announced, and the next one due.
func (b *batched) clear() {
	for i, flag := range b.flags {
		for k := range b.experts[i] {
			b.experts[i][k] = math.MaxInt32
		}
		*flag = 0
	}
	b.s.next = (b.s.next + 1) % uint64(b.s.batches)
}

// choice is a token for an expert: the place of its session in a list, its number, and which of the token's choices the expert is.
type choice struct {
	expert        int32
	session       int
	token, choice int64
}

// sorted returns the choices ordered by expert. Choices of one expert keep the order of the list.
func (w *worker) sorted(b *batched, experts int64) (all []choice, err error) {
	for session, ids := range b.experts {
		for i, expert := range ids {
			if expert >= noExpert {
				continue
			}
			if expert < 0 || int64(expert) >= experts {
				return nil, w.fault("session %d chose expert %d; there are %d", b.sessions[session], expert, experts)
			}
			all = append(all, choice{expert, session, int64(i) / int64(b.s.choices), int64(i) % int64(b.s.choices)})
		}
	}
	slices.SortStableFunc(all, func(a, b choice) int { return cmp.Compare(a.expert, b.expert) })
	return all, nil
}
