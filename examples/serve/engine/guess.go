package engine

import "slices"

// speculate guesses tokens for the sequences that generate, with what is left of a step's budget and of the
// blocks.
func (e *Engine) speculate(budget int) {
	if e.o.Speculate == 0 || !e.blocks.share { // the states of delta nets cannot go back
		return
	}
	for _, s := range e.running {
		if s.next != 1 || s.left() != 1 || len(s.tokens) == len(s.request.Prompt) {
			continue
		}
		room := s.request.MaxTokens - (len(s.tokens) - len(s.request.Prompt)) - 1
		guess := guesses(s.tokens, min(e.o.Speculate, room, budget))
		if len(guess) == 0 || !e.blocks.extend(s, s.computed+1+len(guess)) {
			continue
		}
		s.guess = guess
		budget -= len(guess)
		e.stats.Guessed += len(guess)
	}
}

// Lengths of the ends of texts that are looked up.
const longestEnd, shortestEnd = 4, 2

// guesses returns at most n tokens that followed the last earlier occurrence of the text's end; the longest end
// that occurs counts.
func guesses(tokens []int32, n int) []int32 {
	if n <= 0 {
		return nil
	}
	best, length := 0, shortestEnd-1
	for at := len(tokens) - 1; at > length && length < longestEnd; at-- { // at is where the guess would begin
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

// drawAll draws tokens of a sequence from the logits after its last token and after each guess. It ends at the
// first guess that differs from the token drawn.
func (e *Engine) drawAll(s *sequence, logits []float32) {
	guess := slices.Clone(s.guess) // it may lie in the tokens
	for i := 0; e.draw(s, logits[i*e.vocab:][:e.vocab]); i++ {
		if i == len(guess) || s.tokens[len(s.tokens)-1] != guess[i] {
			return
		}
		e.stats.Accepted++
		s.computed, s.next = s.computed+1, 1
		e.blocks.fill(s)
	}
}
