package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/examples/hub"
	"github.com/goascend/cann/examples/model"
)

// embedding is a text whose place among others is asked for, or of a classifier a pair of texts whose score is.
type embedding struct {
	ctx    context.Context
	tokens []int32
	types  []int32
	values []float32
	err    error
	done   chan struct{}
}

// Embed returns the model's last states of the tokens of a text as one vector, as Options.Pool says, with length one. It waits for
// its turn between the steps of the requests that generate. The errors are those of Submit; that of a classifier matches ErrRequest.
func (e *Engine) Embed(ctx context.Context, tokens []int32) ([]float32, error) {
	if e.config.Score {
		return nil, fmt.Errorf("%w: the model is a classifier, which gives scores and no embeddings", ErrRequest)
	}
	return e.readText(ctx, tokens, nil)
}

// Score returns the score that a classifier, such as a reranker, gives a pair of texts, encoded as one list of tokens; types are those of the tokens, which some encoders
// read. Unless the model has model.Config.RawScores, it is between 0 and 1. It waits as Embed does. The errors are those of Submit; that
// of a model that is no classifier matches ErrRequest.
func (e *Engine) Score(ctx context.Context, tokens, types []int32) (float64, error) {
	switch {
	case !e.config.Score:
		return 0, fmt.Errorf("%w: the model is no classifier, and gives no scores", ErrRequest)
	case len(types) != len(tokens):
		return 0, fmt.Errorf("%w: there are %d tokens and %d types", ErrRequest, len(tokens), len(types))
	case e.config.TokenTypes < 2: // as transformers, which then gives the model none
		types = nil
	case slices.ContainsFunc(types, func(t int32) bool { return t < 0 || int(t) >= e.config.TokenTypes }):
		return 0, fmt.Errorf("%w: a token has a type that is not between 0 and %d", ErrRequest, e.config.TokenTypes-1)
	}
	values, err := e.readText(ctx, tokens, types)
	switch {
	case err != nil:
		return 0, err
	case e.config.RawScores:
		return float64(values[0]), nil
	}
	return 1 / (1 + math.Exp(-float64(values[0]))), nil
}

func (e *Engine) readText(ctx context.Context, tokens, types []int32) ([]float32, error) {
	r := Request{Prompt: tokens, ReadOnly: true, Sampling: anySampling}
	if err := r.check(&e.o, e.vocab); err != nil {
		return nil, err
	}
	x := &embedding{ctx: ctx, tokens: tokens, types: types, done: make(chan struct{})}
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

// embed computes the next embedding or score, if one waits.
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
	values, err := e.team.do(ctx, order{Text: x.tokens, Types: x.types})
	if err != nil {
		e.answer(x, nil, failed(err))
		for _, s := range e.running {
			s.next = 0 // they had no part in it
		}
		return err
	}
	e.stats.PromptTokens += len(x.tokens)
	if !e.config.Score {
		values, err = pooled(values, len(x.tokens), e.o.Pool)
	}
	e.answer(x, values, err)
	return nil
}

// readText returns the states of a text, or of a classifier its score.
func (r *runner) readText(ctx context.Context, o order) ([]float32, error) {
	b := model.Batch{Size: 1, Length: len(o.Text), Inputs: o.Text, Types: o.Types, Labels: make([]int32, len(o.Text))}
	if r.model.Config.Score {
		return r.model.Scores(ctx, b)
	}
	return r.model.Hidden(ctx, b)
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
