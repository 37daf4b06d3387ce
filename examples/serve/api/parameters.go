package api

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"

	"github.com/goascend/cann/examples/sampling"
	"github.com/goascend/cann/examples/serve/engine"
)

// parameters are common to completions and chats.
type parameters struct {
	Model         string             `json:"model"`
	MaxTokens     *whole             `json:"max_tokens"`
	N             *whole             `json:"n"`
	Stream        bool               `json:"stream"`
	StreamOptions *streamOptions     `json:"stream_options"`
	Stop          oneOrMore[string]  `json:"stop"`
	Temperature   *float64           `json:"temperature"`
	TopP          *float64           `json:"top_p"`
	TopK          whole              `json:"top_k"`
	MinP          float64            `json:"min_p"`
	Presence      float64            `json:"presence_penalty"`
	Frequency     float64            `json:"frequency_penalty"`
	Repetition    float64            `json:"repetition_penalty"`
	Bias          map[string]float64 `json:"logit_bias"`
	Seed          *whole             `json:"seed"`
	Format        *format            `json:"response_format"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// whole is a number without a fraction, which may be written with one: 4.0.
type whole int

// UnmarshalJSON reads such a number.
func (n *whole) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	if i, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		*n = whole(i)
		return nil
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		*n = whole(f)
		return nil
	}
	kind := "number " + string(text)
	if err != nil {
		kind = map[byte]string{'"': "string", '[': "list", '{': "object", 't': "bool", 'f': "bool"}[text[0]]
	}
	return &json.UnmarshalTypeError{Value: kind, Type: reflect.TypeFor[int]()}
}

// oneOrMore is a value, a list of values, or null.
type oneOrMore[T any] []T

// UnmarshalJSON reads any of them.
func (l *oneOrMore[T]) UnmarshalJSON(text []byte) error {
	var one T
	if string(text) != "null" && json.Unmarshal(text, &one) == nil {
		*l = oneOrMore[T]{one}
		return nil
	}
	return json.Unmarshal(text, (*[]T)(l))
}

// Limits of OpenAI's interface.
const (
	mostStops  = 16 // OpenAI has 4
	mostTop    = 20
	mostChoice = 128
	mostBias   = 100

	// More makes no difference to an answer.
	hottest     = 100
	mostPenalty = 100
)

// work checks the parameters and turns them into a request to the engine without a prompt.
func (s *Server) work(ctx context.Context, p *parameters) (work, error) {
	w := work{n: 1, stops: p.Stop}
	adapter, err := s.adapter(p.Model)
	if err != nil {
		return w, err
	}
	w.request.Adapter = adapter
	if p.N != nil {
		w.n = int(*p.N)
	}
	switch {
	case p.StreamOptions != nil && !p.Stream:
		return w, badParameter("stream_options", "it needs stream")
	case p.StreamOptions != nil:
		w.usage = p.StreamOptions.IncludeUsage
	}
	switch {
	case w.n < 1 || w.n > mostChoice:
		return w, badParameter("n", fmt.Sprintf("%d is not from 1 to %d", w.n, mostChoice))
	case len(p.Stop) > mostStops:
		return w, badParameter("stop", fmt.Sprintf("there are %d strings, more than %d", len(p.Stop), mostStops))
	case p.MaxTokens != nil && *p.MaxTokens < 1:
		return w, badParameter("max_tokens", "it must be positive")
	}
	if w.request.Grammar, err = s.grammar(ctx, p.Format); err != nil {
		return w, badParameter("response_format", err.Error())
	}
	w.request.Ends = s.Ends
	if p.MaxTokens != nil {
		w.request.MaxTokens = int(*p.MaxTokens)
	}
	if s.MaxTokens > 0 && (w.request.MaxTokens == 0 || w.request.MaxTokens > s.MaxTokens) {
		w.request.MaxTokens = s.MaxTokens
	}
	o := sampling.Options{
		Temperature: 1, TopP: 1, TopK: max(int(p.TopK), 0), MinP: p.MinP, Seed: rand.Uint64(),
		Presence: p.Presence, Frequency: p.Frequency, Repetition: p.Repetition,
	}
	if p.Temperature != nil {
		o.Temperature = *p.Temperature
	}
	if p.TopP != nil {
		o.TopP = *p.TopP
	}
	if p.Seed != nil {
		o.Seed = uint64(*p.Seed)
	}
	if o.Bias, err = s.bias(p.Bias); err != nil {
		return w, err
	}
	for _, x := range []struct {
		name             string
		value, low, high float64
	}{
		{"temperature", o.Temperature, 0, hottest}, {"top_p", o.TopP, 0, 1}, {"min_p", o.MinP, 0, 1}, {"presence_penalty", o.Presence, -mostPenalty, mostPenalty},
		{"frequency_penalty", o.Frequency, -mostPenalty, mostPenalty}, {"repetition_penalty", o.Repetition, 0, mostPenalty},
	} {
		if !(x.value >= x.low && x.value <= x.high) {
			return w, badParameter(x.name, fmt.Sprintf("%g is not from %g to %g", x.value, x.low, x.high))
		}
	}
	if err := o.Validate(); err != nil { // nothing that has no name above, except for top_p 0
		return w, badParameter("top_p", err.Error())
	}
	w.request.Sampling = o
	return w, nil
}

// bias reads what to add to the logits of tokens.
func (s *Server) bias(given map[string]float64) (map[int32]float64, error) {
	all := make(map[int32]float64, len(given))
	for text, b := range given {
		id, err := strconv.ParseInt(text, 10, 32)
		switch {
		case err != nil:
			return nil, badParameter("logit_bias", fmt.Sprintf("%q is not the number of a token", text))
		case id < 0 || id >= int64(s.Engine.Vocab()):
			return nil, badParameter("logit_bias", fmt.Sprintf("token %d does not exist; the model has %d", id, s.Engine.Vocab()))
		case math.Abs(b) > mostBias:
			return nil, badParameter("logit_bias", fmt.Sprintf("%g of token %d; it is not from -%d to %d", b, id, mostBias, mostBias))
		}
		all[int32(id)] = b
	}
	return all, nil
}

// probabilities asks for the probabilities of tokens.
func (w *work) probabilities(name string, top int) error {
	if top < 0 || top > mostTop {
		return badParameter(name, fmt.Sprintf("%d is not from 0 to %d", top, mostTop))
	}
	w.request.LogProbs, w.request.Top = true, top
	return nil
}

// work is a request in the engine's terms: n choices for each prompt.
type work struct {
	prompts [][]int32
	n       int
	stops   []string
	usage   bool // the last chunk of a stream has it
	request engine.Request
}
