package api

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/examples/serve/replicas"
)

// piece is a part of a choice.
type piece struct {
	choice int
	text   string
	prompt []engine.Token // of the first piece, if the request asks for their probabilities
	tokens []engine.Token
	reason engine.Reason // of the last piece
	err    error         // the choice ends early
}

// usage counts tokens.
type usage struct {
	Prompt     int          `json:"prompt_tokens"`
	Completion int          `json:"completion_tokens"`
	Total      int          `json:"total_tokens"`
	Details    usageDetails `json:"prompt_tokens_details"`
}

type usageDetails struct {
	Cached int `json:"cached_tokens"`
}

// running is work that has begun.
type running struct {
	pieces chan piece
	stop   context.CancelFunc
	all    []*replicas.Generation
	usage  usage
	first  time.Time // when the first token came
}

// begin submits all choices, or none. The caller reads pieces until the channel is closed, and calls end.
func (s *Server) begin(ctx context.Context, w work) (*running, error) {
	if n := len(w.prompts) * w.n; s.MaxChoices > 0 && n > s.MaxChoices {
		return nil, badParameter("n", fmt.Sprintf("%d choices of all prompts; at most %d are possible", n, s.MaxChoices))
	}
	ctx, stop := context.WithCancel(ctx)
	r := &running{pieces: make(chan piece), stop: stop}
	type one struct {
		g    *replicas.Generation
		stop context.CancelFunc
		at   time.Time
	}
	var choices []one
	for _, prompt := range w.prompts {
		r.usage.Prompt += len(prompt)
		for i := range w.n {
			request := w.request
			request.Prompt = prompt
			request.Sampling.Seed += uint64(i)
			own, leave := context.WithCancel(ctx)
			at := time.Now()
			g, err := s.Engine.Submit(own, request)
			if err != nil {
				leave()
				stop()
				return nil, err
			}
			choices, r.all = append(choices, one{g, leave, at}), append(r.all, g)
		}
	}
	var open sync.WaitGroup
	for i, c := range choices {
		open.Go(func() {
			defer c.stop()
			s.follow(ctx, i, c.g, c.at, w.stops, r.pieces)
		})
	}
	go func() {
		open.Wait()
		close(r.pieces)
	}()
	return r, nil
}

// end stops what still runs and waits for it.
func (r *running) end() {
	r.stop()
	for range r.pieces {
	}
}

// count adds up the tokens.
func (r *running) count(p piece) {
	if len(p.tokens) == 0 || p.tokens[0].End {
		return
	}
	r.usage.Completion += len(p.tokens)
	if r.first.IsZero() {
		r.first = time.Now()
	}
}

// finished completes the counts when all choices have ended.
func (r *running) finished() usage {
	for _, g := range r.all {
		r.usage.Details.Cached = max(r.usage.Details.Cached, g.Cached())
	}
	r.usage.Total = r.usage.Prompt + r.usage.Completion
	return r.usage
}

// follow turns the tokens of a choice into text, until it ends or ctx does.
func (s *Server) follow(ctx context.Context, choice int, g *replicas.Generation, submitted time.Time, stops []string, to chan<- piece) {
	text, search := s.Language.Stream(), engine.NewStops(stops)
	at, last, tokens := times{queued: submitted}, time.Time{}, 0
	scored := false // the prompt's probabilities are sent
	var failed error
	defer func() {
		at.admitted, at.ended = g.Began(), time.Now()
		s.phases(ctx, choice, at, g, tokens, failed)
	}()
	send := func(p piece) bool {
		p.choice = choice
		select {
		case to <- p:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for {
		t, err := g.Next()
		var p piece
		if !scored && (err == nil || err == io.EOF) {
			p.prompt, scored = g.Prompt(), true
		}
		switch {
		case err == io.EOF:
			rest, found := search.Next(text.Flush())
			p.reason = g.Reason()
			if p.text = rest + search.Flush(); found {
				p.reason = engine.Stopped
			}
		case err != nil:
			p.err, failed = err, err
		default:
			if p.tokens = []engine.Token{t}; t.End {
				break
			}
			now := time.Now()
			s.metrics.token(at.queued, last, now)
			if last, tokens = now, tokens+1; tokens == 1 {
				at.first = now
			}
			var found bool
			if p.text, found = search.Next(text.Next(t.ID)); found {
				p.reason = engine.Stopped
			}
		}
		if p.reason != "" || p.err != nil {
			s.metrics.ended(p, time.Since(at.queued))
		}
		if !send(p) || p.reason != "" || p.err != nil {
			return
		}
	}
}
