package engine

import (
	"context"
	"io"
	"sync"
	"time"
)

// Generation receives the tokens of a request. Only one goroutine may call Next.
type Generation struct {
	ctx   context.Context
	ready chan struct{} // has an element when something was added

	mu     sync.Mutex
	tokens []Token // not taken yet
	prompt []Token
	cached int
	began  time.Time
	ended  bool
	reason Reason
	err    error
}

func newGeneration(ctx context.Context) *Generation {
	return &Generation{ctx: ctx, ready: make(chan struct{}, 1)}
}

// Next waits for the next token. It returns io.EOF after the last one, and otherwise why there are no
// more: the error of the context, or one that matches ErrDevice or ErrClosed.
func (g *Generation) Next() (Token, error) {
	for {
		if t, err, ok := g.take(); ok {
			return t, err
		}
		select {
		case <-g.ready:
		case <-g.ctx.Done():
			return Token{}, context.Cause(g.ctx)
		}
	}
}

func (g *Generation) take() (t Token, err error, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case len(g.tokens) > 0:
		t, g.tokens = g.tokens[0], g.tokens[1:]
	case !g.ended:
		return t, nil, false
	case g.err != nil:
		err = g.err
	default:
		err = io.EOF
	}
	return t, err, true
}

// Reason says why the text has ended, after Next has returned io.EOF.
func (g *Generation) Reason() Reason {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reason
}

// Prompt returns the prompt's tokens with the probabilities that Request.PromptLogProbs asks for, nil without it; the
// first token has none. They are known with the first token of the generation, or with its end.
func (g *Generation) Prompt() []Token {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.prompt
}

// Cached returns how many tokens of the prompt were found in the cache. It is known with the first token.
func (g *Generation) Cached() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cached
}

// Began returns when the request left the queue, zero before.
func (g *Generation) Began() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.began
}

// change changes the generation and wakes Next.
func (g *Generation) change(f func()) {
	g.mu.Lock()
	f()
	g.mu.Unlock()
	select {
	case g.ready <- struct{}{}:
	default:
	}
}

func (g *Generation) add(t Token) { g.change(func() { g.tokens = append(g.tokens, t) }) }

func (g *Generation) end(reason Reason, err error) {
	g.change(func() { g.ended, g.reason, g.err = true, reason, err })
}
