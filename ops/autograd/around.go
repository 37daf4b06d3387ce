package autograd

// Hooks are functions that Around calls; nil ones do nothing. An After function is called whenever the Before function was, also after an error of it.
type Hooks struct {
	BeforeForward, AfterForward, BeforeBackward, AfterBackward func() error
	// Complete follows when the gradients of all parameters of the part are complete: after AfterBackward, or with
	// Options.DeferWeights in BackwardWeights. It is not called after an error.
	Complete func() error
}

// Around runs a part of the forward pass, with functions of the program before and after it and its backward pass: to gather
// weights while they are read, or to exchange gradients once they are complete. A part that records nothing has no backward pass.
// Within Around, Checkpoint recomputes between the functions of the backward pass.
func (t *Tape) Around(h Hooks, body func()) {
	if !t.ready() {
		return
	}
	call := func(f func() error) {
		if f != nil {
			t.Fail(f())
		}
	}
	entered := false
	block := t.block
	after := &node{block: block, hook: func() {
		if entered {
			call(h.AfterBackward)
			t.later(block, h.Complete)
		}
	}}
	if t.Records() {
		t.nodes = append(t.nodes, after)
	}
	first := len(t.nodes)
	if call(h.BeforeForward); t.err == nil {
		body()
	}
	call(h.AfterForward)
	switch {
	case !t.Records():
	case len(t.nodes) == first:
		t.nodes = t.nodes[:first-1]
	default:
		t.nodes = append(t.nodes, &node{block: t.block, hook: func() {
			if entered = t.err == nil; entered {
				call(h.BeforeBackward)
			}
		}})
	}
}

// later calls f when the gradients of all weights that the backward pass has reached are complete.
func (t *Tape) later(b *block, f func() error) {
	switch {
	case f == nil:
	case t.opts.DeferWeights:
		t.deferred = append(t.deferred, &node{block: b, hook: func() { t.do(f) }})
	default:
		t.do(f)
	}
}
