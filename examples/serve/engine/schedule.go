package engine

import (
	"context"
	"slices"
	"time"
)

// plan chooses the tokens of the next step: the last token of each sequence that generates, then as much
// as fits of the prompts that are being read, then sequences that wait.
func (e *Engine) plan(ctx context.Context) {
	for _, s := range slices.Clone(e.running) {
		s.next, s.draft = 0, nil
		if !s.long && e.long(s) {
			e.preempt(s)
			continue
		}
		e.guided(s)
	}
	budget, before := e.o.Budget, e.stats.Preemptions
	for _, reading := range []bool{false, true} {
		for i := 0; i < len(e.running) && budget > 0; i++ {
			s := e.running[i]
			if s.next > 0 || s.reading() != reading {
				continue
			}
			if n := min(s.readable(), budget); n > 0 && e.room(s, n) {
				s.next = n
				budget -= n
			}
		}
	}
	if e.stats.Preemptions > before { // there is no memory for others
		return
	}
	e.speculate(e.admit(ctx, budget))
}

// long reports whether a sequence has so many tokens that all its keys have another rotation.
func (e *Engine) long(s *sequence) bool { return e.usual > 0 && len(s.tokens) > e.usual }

// room gives a sequence blocks for n more tokens, if need be those of the sequences that came last. It
// reports whether the sequence still runs.
func (e *Engine) room(s *sequence, n int) bool {
	for !e.blocks.extend(s, s.computed+n) {
		last := e.running[len(e.running)-1]
		e.preempt(last)
		e.stats.Preemptions++
		if last == s {
			return false
		}
	}
	return true
}

// preempt makes a running sequence wait before all others. It will read its tokens again.
func (e *Engine) preempt(s *sequence) {
	e.stop(s)
	e.waiting = slices.Insert(e.waiting, 0, s)
}

// stop takes a sequence out of the running ones.
func (e *Engine) stop(s *sequence) {
	e.blocks.drop(s)
	e.states = append(e.states, s.place)
	e.running = slices.DeleteFunc(e.running, func(x *sequence) bool { return x == s })
}

// admit lets waiting sequences run while there are tokens in the budget, and blocks for all their tokens. It
// returns what is left of the budget.
func (e *Engine) admit(ctx context.Context, budget int) (left int) {
	for i := 0; i < len(e.waiting) && budget > 0 && len(e.running) < e.o.Sequences; {
		s := e.waiting[i]
		s.long = e.long(s)
		if e.soonShared(s) {
			i++
			continue
		}
		if from, to := e.blocks.adopt(s); from != nil {
			e.copies = append(e.copies, [2]int32{to.id, from.id})
		}
		whole := min(len(s.tokens)+1, e.o.MaxLength)
		if e.blocks.count(whole)-len(s.blocks) > e.blocks.available() {
			e.blocks.drop(s)
			return budget
		}
		e.waiting = slices.Delete(e.waiting, i, i+1)
		e.enter(s)
		if s.guide != nil && len(s.guide.next) == 0 {
			e.guideOn(ctx, s)
		}
		s.next = min(s.readable(), budget)
		budget -= s.next
		e.blocks.extend(s, s.computed+s.next)
	}
	return budget
}

// enter adds a sequence to the running ones.
func (e *Engine) enter(s *sequence) {
	last := len(e.states) - 1
	s.place, e.states = e.states[last], e.states[:last]
	s.state = s.place
	e.running = append(e.running, s)
	if s.admitted {
		return
	}
	s.admitted = true
	e.left(1)
	s.out.change(func() { s.out.cached, s.out.began = s.computed, time.Now() })
	e.stats.PrefixHits += s.computed
	e.stats.PromptTokens += len(s.tokens)
}

// soonShared reports whether a running sequence is about to compute blocks that this one can share.
func (e *Engine) soonShared(s *sequence) bool {
	if !e.blocks.share || s.scoring() {
		return false
	}
	known := -1
	for _, r := range e.running {
		if r.adapter != s.adapter || r.long != s.long {
			continue
		}
		n := min(prefix(r.tokens, s.tokens), len(s.tokens)-1) / e.blocks.size
		if n == 0 || r.computed >= n*e.blocks.size {
			continue
		}
		if known < 0 {
			full, _, _ := e.blocks.match(s)
			known = len(full)
		}
		if n > known {
			return true
		}
	}
	return false
}
