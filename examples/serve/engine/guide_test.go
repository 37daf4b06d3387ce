package engine_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/serve/engine"
)

// numbers is a grammar of texts of so many tokens, of those below some number. Its text calls wait before each look at what may follow.
type numbers struct {
	below, length int
	wait          func(length int) error
}

type numbersText struct {
	numbers
	tokens []int32
}

func (g numbers) Begin() engine.Text { return numbersText{g, nil} }

func (x numbersText) Add(id int32) (engine.Text, error) {
	return numbersText{x.numbers, append(slices.Clip(x.tokens), id)}, nil
}

func (x numbersText) Next() (n engine.Next, err error) {
	if x.wait != nil {
		err = x.wait(len(x.tokens))
	}
	if n.End = len(x.tokens) == x.length; !n.End {
		n.Tokens = make([]uint64, x.below/64+1)
		for id := range x.below {
			n.Tokens[id/64] |= 1 << (id % 64)
		}
	}
	return n, err
}

// TestGrammars: texts follow their grammar, also when tokens are drafted, and a text that is complete with the last token
// that it may have has stopped.
func TestGrammars(t *testing.T) {
	prompt := expectedOf(t, "qwen3").Prompt
	var want []int32
	for _, o := range []engine.Options{{}, {Speculate: 4}, {Speculate: 4, Budget: 16}} {
		o.Blocks, o.BlockSize = 64, 16
		e := open(t, "qwen3", o)
		for length, reason := range map[int]engine.Reason{39: engine.Stopped, 40: engine.Stopped, 41: engine.TooLong} {
			g, err := e.Submit(t.Context(), engine.Request{Prompt: prompt, MaxTokens: 40, Sampling: greedy, Grammar: numbers{below: 3, length: length}})
			require.NoError(t, err)
			got, err := collect(g)
			require.NoError(t, err)
			require.Len(t, got, min(length, 40))
			require.Less(t, slices.Max(got), int32(3))
			require.Equal(t, reason, g.Reason())
			if len(want) < len(got) {
				want = got
			}
			require.Equal(t, want[:len(got)], got)
		}
		if o.Speculate > 0 {
			require.Positive(t, e.Stats().Accepted)
		}
	}
}

// TestSlowGrammars: steps do not wait for grammars. Other requests come to their end while all goroutines follow grammars that take
// long, and these go on afterwards.
func TestSlowGrammars(t *testing.T) {
	want := expectedOf(t, "qwen3")
	e := open(t, "qwen3", engine.Options{Blocks: 64, BlockSize: 16, Sequences: 16})
	release := make(chan struct{})
	slow := numbers{below: 100, length: 5, wait: func(length int) error {
		if length == 2 {
			<-release
		}
		return nil
	}}
	var all []*engine.Generation
	for range 4 {
		g, err := e.Submit(t.Context(), engine.Request{Prompt: want.Prompt, Sampling: greedy, Grammar: slow})
		require.NoError(t, err)
		all = append(all, g)
	}
	_, err := all[0].Next() // it runs
	require.NoError(t, err)
	for range 3 {
		g, err := e.Submit(t.Context(), engine.Request{Prompt: want.Prompt, MaxTokens: len(want.Greedy), Sampling: greedy})
		require.NoError(t, err)
		got, err := collect(g)
		require.NoError(t, err)
		require.Equal(t, want.Greedy, got)
	}
	steps := e.Stats().Steps
	values, err := e.Embed(t.Context(), want.Prompt) // between the steps of no one
	require.NoError(t, err)
	require.NotEmpty(t, values)
	require.Equal(t, steps, e.Stats().Steps, "nobody steps while all wait")
	close(release)
	for i, g := range all {
		got, err := collect(g)
		require.NoError(t, err)
		require.Len(t, got, 5-min(1, max(0, 1-i)))
		require.Equal(t, engine.Stopped, g.Reason())
	}
}

// TestFailingGrammars: a request whose grammar fails ends alone.
func TestFailingGrammars(t *testing.T) {
	want := expectedOf(t, "qwen3")
	e := open(t, "qwen3", engine.Options{Blocks: 64, BlockSize: 16})
	costly := errors.New("too costly")
	for at := range 3 {
		g, err := e.Submit(t.Context(), engine.Request{Prompt: want.Prompt, Sampling: greedy, Grammar: numbers{below: 100, length: 5, wait: func(length int) error {
			if length == at {
				return costly
			}
			return nil
		}}})
		require.NoError(t, err)
		other, err := e.Submit(t.Context(), engine.Request{Prompt: want.Prompt, MaxTokens: len(want.Greedy), Sampling: greedy})
		require.NoError(t, err)
		got, err := collect(g)
		require.ErrorIs(t, err, costly)
		require.ErrorIs(t, err, engine.ErrRequest)
		require.Len(t, got, at)
		got, err = collect(other)
		require.NoError(t, err)
		require.Equal(t, want.Greedy, got)
	}
}

// TestGrammarsEnd: neither requests that end nor an engine that is closed leave anything behind that follows a grammar.
func TestGrammarsEnd(t *testing.T) {
	prompt := expectedOf(t, "qwen3").Prompt
	e := open(t, "qwen3", engine.Options{Blocks: 64, BlockSize: 16})
	submit := func(ctx context.Context) *engine.Generation {
		g, err := e.Submit(ctx, engine.Request{Prompt: prompt, Sampling: greedy, Grammar: numbers{below: 100, length: 1000, wait: func(length int) error {
			if length > 0 {
				<-ctx.Done()
			}
			return context.Cause(ctx)
		}}})
		require.NoError(t, err)
		_, err = g.Next()
		require.NoError(t, err)
		return g
	}
	ctx, cancel := context.WithCancel(t.Context())
	g := submit(ctx)
	cancel()
	_, err := g.Next()
	require.ErrorIs(t, err, context.Canceled)

	ctx, cancel = context.WithCancel(t.Context())
	g = submit(ctx)
	closed := make(chan error)
	go func() { closed <- e.Close() }()
	_, err = g.Next()
	require.ErrorIs(t, err, engine.ErrClosed)
	cancel() // as the server does then
	require.NoError(t, <-closed)
	_, err = g.Next()
	require.NotErrorIs(t, err, io.EOF)
}
