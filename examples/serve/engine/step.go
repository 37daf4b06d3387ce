package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/sampling"
)

// run is the engine's goroutine.
func (e *Engine) run(ctx context.Context) {
	defer close(e.done)
	runtime.LockOSThread() // each thread that launches gets a cache of executors from CANN, of up to 10,000 calls
	defer runtime.UnlockOSThread()
	for e.lost == nil && e.receive(ctx) {
		if out := e.suspended(); out != nil {
			e.finishAll(out)
			e.publish()
			continue
		}
		err := e.embed(ctx)
		if err == nil {
			err = e.step(ctx)
		}
		if err != nil {
			e.recover(ctx, err)
		}
		e.publish()
	}
	e.finishAll(cmp.Or(e.lost, ErrClosed))
	e.guiding.Wait()
	if e.team != nil {
		e.closed = e.team.Close()
	}
	e.publish()
}

// receive takes new requests, and drops those whose context has ended. It waits if there are none, or all wait for their grammars. It
// returns false when the engine closes, or when a rank in another process is lost meanwhile.
func (e *Engine) receive(ctx context.Context) bool {
	if e.idle || len(e.running)+len(e.waiting) == 0 {
		select {
		case <-e.wake:
		case s := <-e.arrivals:
			e.waiting = append(e.waiting, s)
		case e.embedding = <-e.embeddings:
		case x := <-e.tasks:
			e.perform(ctx, x)
		case err := <-e.team.lost():
			e.lose(err)
			return false
		case <-ctx.Done():
			return false
		}
	}
	e.idle = false
	e.performAll(ctx)
	for len(e.arrivals) > 0 {
		e.waiting = append(e.waiting, <-e.arrivals)
	}
	if e.embedding == nil {
		e.embedding = e.another()
	}
	for _, s := range slices.Concat(e.running, e.waiting) {
		if s.ctx.Err() != nil {
			e.finish(s, noReason, context.Cause(s.ctx))
		}
	}
	return ctx.Err() == nil && e.lost == nil
}

// step computes the next tokens of all running sequences.
func (e *Engine) step(ctx context.Context) error {
	e.plan(ctx)
	var pieces []model.Piece
	var members []*sequence
	for _, s := range e.running {
		if s.next == 0 {
			continue
		}
		x := model.Piece{Tokens: slices.Concat(s.tokens[s.computed:][:s.next], s.draft), Logits: s.rows(), From: s.computed, State: e.after(s), Begin: s.state + 1, Long: s.long, Adapter: s.adapter.number()}
		x.Blocks = make([]int32, s.gone) // of anyone: no token sees them
		for _, b := range s.blocks[s.gone:] {
			x.Blocks = append(x.Blocks, b.id)
		}
		pieces, members = append(pieces, x), append(members, s)
	}
	if len(pieces)+len(e.copies) == 0 {
		e.idle = len(e.running) > 0
		return nil
	}
	o := order{Copies: e.copies, Pieces: pieces}
	e.copies = nil
	logits, err := e.team.do(ctx, o)
	if err != nil {
		return err
	}
	e.stats.Steps++
	e.noteReplays()
	for _, s := range members {
		own := logits[:s.rows()*e.vocab]
		logits = logits[len(own):]
		if s.scoring() {
			e.score(s, own)
		}
		s.computed += s.next
		e.blocks.fill(s)
		e.blocks.pass(s)
		switch {
		case s.left() > 0:
		case s.request.ReadOnly:
			e.finish(s, TooLong, nil)
		default:
			e.drawAll(ctx, s, own[len(own)-(1+len(s.draft))*e.vocab:])
		}
	}
	return e.predict(ctx, pieces, members)
}

// after is the place of a sequence's states after a step: with a draft the other one of its two, if the model has states.
func (e *Engine) after(s *sequence) int {
	if e.recurrent && len(s.draft) > 0 {
		return 2*s.place + 1 - s.state
	}
	return s.state
}

// rows is the number of logits that a sequence needs in a step.
func (s *sequence) rows() int {
	if s.scoring() {
		return s.next
	}
	return 1 + len(s.draft)
}

// score notes the probabilities of the prompt's tokens that follow those of a step.
func (e *Engine) score(s *sequence, logits []float32) {
	for i := range s.next {
		at := s.computed + i + 1 // the token whose probability the logits have
		if at != s.scored+1 || at >= len(s.request.Prompt) {
			continue // it is known from before the sequence was preempted
		}
		t := Token{ID: s.tokens[at]}
		t.LogProb, t.Top = sampling.LogProbs(logits[i*e.vocab:][:e.vocab], t.ID, s.request.Top)
		s.scored = at
		s.out.change(func() { s.out.prompt = append(s.out.prompt, t) })
	}
}

// noteReplays counts replays, and logs once why graphs are not captured.
func (e *Engine) noteReplays() {
	s := e.team.ranks[0].steps
	if s == nil {
		return
	}
	e.stats.Replays += s.Replays()
	if err := s.Off(); err != nil && !e.eager {
		e.eager = true
		e.o.Logger.Warn("steps are not captured as graphs", "error", err)
	}
}

// draw draws the next token of a sequence, after some of its draft, and reports whether the sequence goes on.
func (e *Engine) draw(s *sequence, drafted int, logits []float32) bool {
	r := &s.request
	allowed := logits
	if s.guide != nil {
		allowed = slices.Clone(logits)
		if !s.guide.next[drafted].apply(allowed, r.Ends) {
			e.finish(s, noReason, fmt.Errorf("%w: no token of the model can go on the text by its grammar", ErrRequest))
			return false
		}
	}
	id, err := s.sampler.Next(allowed)
	if err != nil {
		e.finish(s, noReason, fmt.Errorf("engine: %w", err))
		return false
	}
	t := Token{ID: id}
	t.End = slices.Contains(r.Ends, t.ID)
	if r.LogProbs {
		t.LogProb, t.Top = sampling.LogProbs(logits, t.ID, r.Top)
	}
	if t.End {
		if r.LogProbs {
			s.out.add(t)
		}
		e.finish(s, Stopped, nil)
		return false
	}
	s.tokens = append(s.tokens, t.ID)
	s.out.add(t)
	e.stats.GeneratedTokens++
	if s.full() && s.guide == nil { // else the text may be complete by its grammar
		e.finish(s, TooLong, nil)
	}
	return !s.full()
}

// mostFaults is the number of failed steps after which a sequence is given up: it may be the cause.
const mostFaults = 2

// recover brings the device back after a step has failed. The sequences of the step read their tokens
// again.
func (e *Engine) recover(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, ErrRank) {
		e.lose(err)
		return
	}
	e.stats.Faults++
	e.o.Logger.Error("a step has failed", "error", err, "running", len(e.running))
	for _, s := range slices.Backward(slices.Clone(e.running)) {
		if s.next > 0 {
			s.faults++
		}
		if s.faults == mostFaults {
			e.finish(s, noReason, failed(err))
		} else {
			e.preempt(s)
		}
	}
	e.blocks.reset(e.loaded()...)
	var failure *acl.Error
	if !errors.As(err, &failure) || failure.Damage() <= acl.DamageWork {
		err = e.team.recover(ctx)
	}
	if err != nil {
		e.reopen(ctx, err)
	}
}

// lose ends the engine after the loss of a rank in another process: new requests are refused from now on.
func (e *Engine) lose(err error) {
	e.stats.Faults++
	e.o.Logger.Error("a rank is lost", "error", err, "running", len(e.running))
	e.team.broken = true
	e.lost = failed(err)
	e.setDown(e.lost)
}

// longestPause is the longest time between attempts to open the device again.
const longestPause = 10 * time.Second

// reopen closes everything on the device and opens it again, until that succeeds. Requests end meanwhile.
func (e *Engine) reopen(ctx context.Context, err error) {
	e.recovering.Store(true)
	defer e.recovering.Store(false)
	e.o.Logger.Error("the device is closed and opened again", "error", err)
	if err := e.team.Close(); err != nil {
		e.o.Logger.Warn("closing", "error", err)
	}
	e.team = nil
	for pause := 100 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, longestPause) {
		t, err := newTeam(ctx, e.rt, e.device, e.load, &e.o)
		if err == nil {
			if err = t.load(ctx, e.loaded()); err != nil {
				err = errors.Join(err, t.Close())
			}
		}
		if err == nil {
			e.team = t
			e.setDown(nil)
			e.o.Logger.Info("the device is back")
			return
		}
		e.o.Logger.Error("the device cannot be opened", "error", err, "pause", pause)
		e.setDown(failed(err))
		e.finishAll(failed(err))
		e.publish()
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (e *Engine) setDown(err error) {
	e.mu.Lock()
	e.down = err
	e.mu.Unlock()
}
