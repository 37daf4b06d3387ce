package engine

import (
	"context"
	"slices"

	"github.com/goascend/cann/examples/model"
)

// speculate drafts tokens for the sequences that generate, with what is left of a step's budget and of the
// blocks.
func (e *Engine) speculate(budget int) {
	for _, s := range e.running {
		if s.next != 1 || s.left() != 1 || len(s.tokens) == len(s.request.Prompt) {
			continue
		}
		room := s.request.MaxTokens - (len(s.tokens) - len(s.request.Prompt)) - 1
		if e.usual > 0 && !s.long {
			room = min(room, e.usual-len(s.tokens))
		}
		draft := e.draft(s)
		if s.guide != nil {
			draft = s.guide.draft
		}
		draft = draft[:max(min(len(draft), room, budget), 0)]
		if len(draft) == 0 || !e.blocks.extend(s, s.computed+1+len(draft)) {
			continue
		}
		s.draft = draft
		budget -= len(draft)
		e.stats.Drafted += len(draft)
	}
}

// draft returns tokens that may follow those of a sequence, if any.
func (e *Engine) draft(s *sequence) []int32 {
	if e.o.Speculate == 0 {
		return nil
	}
	if found := draftTokens(s.tokens, e.o.Speculate); len(found) > 0 {
		return found
	}
	return s.predicted
}

// predict lets the model's own layer predict a token after those that were drawn for the pieces of a step.
func (e *Engine) predict(ctx context.Context, pieces []model.Piece, members []*sequence) error {
	if e.o.Speculate == 0 || !e.team.ranks[0].model.Config.Predict {
		return nil
	}
	next, some := make([][]int32, len(pieces)), false
	for i, s := range members {
		if s.predicted = nil; slices.Contains(e.running, s) {
			next[i] = s.tokens[pieces[i].From+1 : s.computed+1]
			some = true
		}
	}
	if !some {
		return nil
	}
	logits, err := e.team.do(ctx, order{Pieces: pieces, Next: next})
	if err != nil {
		return err
	}
	for i, s := range members {
		if len(next[i]) > 0 {
			own := logits[:e.vocab]
			logits = logits[e.vocab:]
			s.predicted = []int32{likeliest(own)}
		}
	}
	return nil
}

// likeliest returns the token with the largest logit.
func likeliest(logits []float32) (token int32) {
	for i, l := range logits {
		if l > logits[token] {
			token = int32(i)
		}
	}
	return token
}

// Lengths of the ends of texts that are looked up.
const longestEnd, shortestEnd = 4, 2

// draftTokens returns at most n tokens that followed the last earlier occurrence of the text's end; the longest end
// that occurs counts.
func draftTokens(tokens []int32, n int) []int32 {
	if n <= 0 {
		return nil
	}
	best, length := 0, shortestEnd-1
	for at := len(tokens) - 1; at > length && length < longestEnd; at-- { // at is where the draft would begin
		same := 0
		for same < min(longestEnd, at) && tokens[at-1-same] == tokens[len(tokens)-1-same] {
			same++
		}
		if same > length {
			best, length = at, same
		}
	}
	if best == 0 {
		return nil
	}
	return tokens[best:min(best+n, len(tokens))]
}

// drawAll draws tokens of a sequence from the logits after its last token and after each draft token. It ends at the
// first draft token that differs from the token drawn.
func (e *Engine) drawAll(ctx context.Context, s *sequence, logits []float32) {
	draft := slices.Clone(s.draft) // it may lie in the tokens
	before, accepted := s.computed-s.next, 0
	for e.draw(s, accepted, logits[accepted*e.vocab:][:e.vocab]) && accepted < len(draft) && s.tokens[len(s.tokens)-1] == draft[accepted] {
		accepted++
		e.stats.Accepted++
		s.computed, s.next = s.computed+1, 1
		e.blocks.fill(s)
	}
	switch {
	case len(draft) == 0 || !e.recurrent:
	case accepted == len(draft):
		s.state = e.after(s)
	default: // the states are those after tokens that the text does not have
		s.computed = before
	}
	e.guideOn(ctx, s)
}
