package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"time"
)

// head begins every answer and every event of a stream.
type head struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []any  `json:"choices"`
	Usage   any    `json:"usage,omitempty"` // in streams null or the counts, when asked for
}

func newHead(prefix, object, model string) head {
	return head{ID: prefix + rand.Text(), Object: object, Created: time.Now().Unix(), Model: model, Choices: []any{}}
}

// shape writes choices in one of OpenAI's forms.
type shape interface {
	// first returns the first object of a choice in a stream, before its text, or nil.
	first(choice int) any
	// next returns the object of a piece in a stream, or nil.
	next(p piece) any
	// whole returns a choice from all of its pieces.
	whole(choice int, pieces []piece) any
}

// perform does the work, and answers at once or in a stream.
func (s *Server) perform(w http.ResponseWriter, r *http.Request, job work, streamed bool, h head, f shape) error {
	run, err := s.begin(r.Context(), job)
	if err != nil {
		return err
	}
	about := recordOf(r.Context())
	about.model = h.Model
	defer func() {
		run.end()
		about.usage = run.finished()
		for _, g := range run.all {
			if at := g.Began(); at.After(about.admitted) {
				about.admitted = at
			}
		}
		about.first = run.first
	}()
	if streamed {
		out := newStream(r.Context(), w)
		err := s.events(out, run, job, h, f)
		out.done(cmp.Or(err, context.Cause(r.Context())))
		return nil
	}
	pieces := make([][]piece, len(run.all))
	for p := range run.pieces {
		if p.err != nil {
			return p.err
		}
		run.count(p)
		pieces[p.choice] = append(pieces[p.choice], p)
	}
	if err := context.Cause(r.Context()); err != nil {
		return err
	}
	for i, list := range pieces {
		h.Choices = append(h.Choices, f.whole(i, list))
	}
	h.Usage = run.finished()
	answer(w, http.StatusOK, h)
	return nil
}

// events writes the stream of an answer.
func (s *Server) events(out *stream, run *running, job work, h head, f shape) error {
	if job.usage {
		h.Usage = json.RawMessage("null")
	}
	say := func(choice any) error {
		h.Choices = []any{choice}
		return out.send(h)
	}
	for i := range run.all {
		if x := f.first(i); x != nil {
			if err := say(x); err != nil {
				return err
			}
		}
	}
	for p := range run.pieces {
		if p.err != nil {
			return p.err
		}
		run.count(p)
		if p.text == "" && p.reason == "" && !job.request.LogProbs {
			continue
		}
		if x := f.next(p); x != nil {
			if err := say(x); err != nil {
				return err
			}
		}
	}
	if !job.usage || out.ctx.Err() != nil {
		return nil
	}
	h.Choices, h.Usage = []any{}, run.finished()
	return out.send(h)
}

// reasonOf returns null until a choice has ended.
func reasonOf(p piece) *string {
	if p.reason == "" {
		return nil
	}
	text := string(p.reason)
	return &text
}

// joined puts the pieces of a choice together.
func joined(pieces []piece) (all piece) {
	for _, p := range pieces {
		all.text += p.text
		all.prompt = append(all.prompt, p.prompt...)
		all.tokens = append(all.tokens, p.tokens...)
		all.reason = p.reason
	}
	return all
}
