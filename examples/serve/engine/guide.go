package engine

import (
	"context"
	"fmt"
	"runtime"
	"slices"
)

// guide is how the text of a sequence can go on by its grammar. A goroutine finds that out while steps of other
// sequences run: a grammar of a stranger delays its own request only.
type guide struct {
	text  Text // nil before the first tokens were added
	added int  // tokens of the answer in it
	// next is how the text can go on, and after it how it can after each token of draft. It is empty while it is being found out.
	next  []Next
	draft []int32
	found chan found // has room for one
	asked bool       // an answer comes to found
}

type found struct {
	text  Text
	next  []Next
	draft []int32
	err   error
}

// guides is the number of goroutines that follow grammars at the same time: half of the processors are left to steps.
func guides() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// guideOn begins to find out how a text goes on after the tokens that it has now.
func (e *Engine) guideOn(ctx context.Context, s *sequence) {
	g := s.guide
	if g == nil || g.asked || s.ended {
		return
	}
	answer := s.tokens[len(s.request.Prompt):]
	tokens, text := slices.Clone(answer[g.added:]), g.text
	if text == nil {
		text = s.request.Grammar.Begin()
	}
	draft := slices.Clone(e.draft(s))
	g.added, g.next, g.draft, g.asked = len(answer), nil, nil, true
	e.guiding.Go(func() {
		select {
		case e.guides <- struct{}{}:
			g.found <- follow(text, tokens, draft)
			<-e.guides
		case <-s.ctx.Done():
			g.found <- found{err: context.Cause(s.ctx)}
		case <-ctx.Done():
			g.found <- found{err: ErrClosed}
		}
		select {
		case e.wake <- struct{}{}:
		default:
		}
	})
}

// follow adds tokens to a text, and finds out how it can go on, also after the tokens of a draft that it allows.
func follow(text Text, tokens, draft []int32) (f found) {
	for _, id := range tokens {
		if text, f.err = text.Add(id); f.err != nil {
			return f
		}
	}
	next, err := text.Next()
	if err != nil {
		return found{err: err}
	}
	f.text, f.next = text, []Next{next}
	for _, id := range draft {
		if !next.Has(id) {
			break
		}
		if text, err = text.Add(id); err != nil {
			break
		}
		if next, err = text.Next(); err != nil || next.Tokens == nil {
			break
		}
		f.next, f.draft = append(f.next, next), append(f.draft, id)
	}
	return f
}

// guided takes what was found out about the text of a sequence, which may end it.
func (e *Engine) guided(s *sequence) {
	g := s.guide
	if g == nil {
		return
	}
	var f found
	select {
	case f = <-g.found:
	default:
		return
	}
	g.asked = false
	g.text, g.next, g.draft = f.text, f.next, f.draft
	switch {
	case f.err != nil:
		e.finish(s, noReason, fmt.Errorf("%w: %w", ErrRequest, f.err))
	case f.next[0].Tokens == nil: // nothing can follow
		e.finish(s, Stopped, nil)
	case s.full():
		e.finish(s, TooLong, nil)
	}
}
