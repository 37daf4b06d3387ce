package smoke

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/ops"
)

// repeats is how many runs of a kernel are timed after the first.
const repeats = 5

// try runs every kernel of an operator, compares what it writes, and times it. In the end the results
// are those of a kernel that works, so that they can be used further.
func try[A any, K comparable](b *bench, o *ops.Op[A, K], a *A, outputs ...output) {
	tryFresh(b, o, a, nil, outputs...)
}

// tryFresh is try for arguments that a run changes: fresh sets them again before each kernel.
func tryFresh[A any, K comparable](b *bench, o *ops.Op[A, K], a *A, fresh func() error, outputs ...output) {
	if b.err != nil {
		return
	}
	if err := o.Check(a); err != nil {
		step := Step{b.c.Name, b.dt.String(), o.Name(), ""}
		b.report(message{Result: &Result{Step: step, Verdict: Unfit, Reason: err.Error()}})
		b.err = errStop
		return
	}
	good, last := "", ""
	for _, kernel := range o.Kernels() {
		r := Result{Step: Step{b.c.Name, b.dt.String(), o.Name(), kernel}}
		if b.cfg.skips(r.Name()) {
			continue
		}
		if err := o.Pin(kernel); err != nil { // CANN_OPS_… pins another one
			r.Verdict, r.Reason = Unfit, err.Error()
			b.report(message{Result: &r})
			continue
		}
		attempt(b, o, a, fresh, &r, outputs)
		if b.fail(o.Unpin()) {
			return
		}
		if r.Verdict != Unfit {
			last = kernel
		}
		if r.Verdict == OK || r.Verdict == Wrong && good == "" {
			good = kernel
		}
	}
	switch {
	case good == "": // what follows has nothing to work with
		b.err = errStop
		return
	case good == last && fresh == nil:
		return
	case fresh != nil && b.fail(fresh()):
		return
	}
	b.fail(errors.Join(o.Pin(good), o.Run(b.ctx, b.st, a), o.Unpin()))
}

// errStop ends a case whose dtype no kernel takes.
var errStop = errors.New("no kernel takes the arguments")

// attempt tries the pinned kernel.
func attempt[A any, K comparable](b *bench, o *ops.Op[A, K], a *A, fresh func() error, r *Result, outputs []output) {
	if e := o.Explain(a); e.Kernel == "" {
		r.Verdict, r.Reason = Unfit, reasonOf(e, r.Kernel)
		b.report(message{Result: r})
		return
	}
	b.report(message{Trying: &r.Step})
	if fresh != nil && b.fail(fresh()) {
		return
	}
	if b.fail(b.wait()) {
		return
	}
	span := b.st.Range(r.Name())
	begin := time.Now()
	err := o.Run(b.ctx, b.st, a)
	span.End()
	if err != nil {
		r.Verdict, r.Reason = Refused, err.Error()
		var failed *acl.Error
		if errors.As(err, &failed) && failed.Damage() != acl.DamageNone {
			b.err = err
		}
		b.report(message{Result: r})
		return
	}
	if err := b.wait(); err != nil {
		b.broken(r, err)
		return
	}
	r.First = time.Since(begin)
	r.Verdict = OK
	for _, x := range outputs {
		got, err := b.read(x.t)
		if err != nil {
			b.broken(r, err)
			return
		}
		far, err := ratio(got, x.want)
		r.Error = max(r.Error, far)
		if err == nil && far > x.limit {
			err = fmt.Errorf("the error ratio is %.3g, at most %.3g is rounding", far, x.limit)
		}
		if err != nil && r.Verdict == OK {
			r.Verdict, r.Reason = Wrong, x.name+": "+err.Error()
		}
	}
	if err := b.clock(r, func() error { return o.Run(b.ctx, b.st, a) }); err != nil {
		b.broken(r, err)
		return
	}
	b.report(message{Result: r})
}

// reasonOf returns why a kernel does not take the arguments.
func reasonOf(e ops.Explanation, kernel string) string {
	for _, c := range e.Candidates {
		if c.Kernel == kernel && c.Reason != "" {
			return c.Reason
		}
	}
	return e.String()
}

// broken ends the case: the device has failed or hangs.
func (b *bench) broken(r *Result, err error) {
	r.Verdict, r.Reason = Failed, err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		r.Verdict = Hung
	}
	b.err = err
	b.report(message{Result: r})
}

// wait waits for the stream, at most as long as a step may take.
func (b *bench) wait() error {
	ctx, cancel := context.WithTimeout(b.ctx, b.cfg.limit())
	defer cancel()
	return b.st.Synchronize(ctx)
}

// clock times repeated runs: how long the host launches, and how long the device works.
func (b *bench) clock(r *Result, run func() error) error {
	begin, err := b.st.Record(acl.EventTiming())
	if err != nil {
		return err
	}
	defer begin.Close() // an event that is lost here changes no result
	start := time.Now()
	for range repeats {
		if err := run(); err != nil {
			return err
		}
	}
	r.Host = time.Since(start) / repeats
	end, err := b.st.Record(acl.EventTiming())
	if err != nil {
		return err
	}
	defer end.Close()
	if err := b.wait(); err != nil {
		return err
	}
	took, err := end.Elapsed(begin)
	r.Device = took / repeats
	return err
}
