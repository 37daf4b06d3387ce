package engine

import (
	"context"
	"errors"
	"math"

	"github.com/goascend/cann/examples/hub"
)

// embedding is a text whose place among others is asked for.
type embedding struct {
	ctx    context.Context
	tokens []int32
	values []float32
	err    error
	done   chan struct{}
}

// Embed returns the model's last states of the tokens of a text as one vector, as Options.Pool says, with length one. It waits for
// its turn between the steps of the requests that generate. The errors are those of Submit.
func (e *Engine) Embed(ctx context.Context, tokens []int32) ([]float32, error) {
	r := Request{Prompt: tokens, Sampling: anySampling}
	if err := r.check(&e.o, e.vocab); err != nil {
		return nil, err
	}
	x := &embedding{ctx: ctx, tokens: tokens, done: make(chan struct{})}
	if err := e.enqueue(x); err != nil {
		return nil, err
	}
	select {
	case <-x.done:
		return x.values, x.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (e *Engine) enqueue(x *embedding) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.refusal(); err != nil {
		return err
	}
	select {
	case e.embeddings <- x:
		e.open++
		return nil
	default:
		return ErrBusy
	}
}

// embed computes the next embedding, if one waits.
func (e *Engine) embed(ctx context.Context) error {
	x := e.embedding
	if x == nil {
		return nil
	}
	e.embedding = nil
	if x.ctx.Err() != nil {
		e.answer(x, nil, context.Cause(x.ctx))
		return nil
	}
	states, err := e.team.do(ctx, order{Text: x.tokens})
	if err != nil {
		e.answer(x, nil, failed(err))
		for _, s := range e.running {
			s.next = 0 // they had no part in it
		}
		return err
	}
	e.stats.PromptTokens += len(x.tokens)
	values, err := pooled(states, len(x.tokens), e.o.Pool)
	e.answer(x, values, err)
	return nil
}

// answer ends the wait for an embedding.
func (e *Engine) answer(x *embedding, values []float32, err error) {
	x.values, x.err = values, err
	e.publish()
	close(x.done)
	e.ended(nil)
}

// pooled returns the mean of rows, or one of them, with length one.
func pooled(states []float32, rows int, pool hub.Pool) ([]float32, error) {
	sums := make([]float64, len(states)/rows)
	switch pool {
	case hub.First:
		states = states[:len(sums)]
	case hub.Last:
		states = states[len(states)-len(sums):]
	}
	for i, v := range states {
		sums[i%len(sums)] += float64(v)
	}
	square := 0.0
	for _, v := range sums {
		square += v * v
	}
	if !(square > 0) || math.IsInf(square, 1) {
		return nil, errors.New("engine: the states of the text have no direction")
	}
	out := make([]float32, len(sums))
	for i, v := range sums {
		out[i] = float32(v / math.Sqrt(square))
	}
	return out, nil
}
