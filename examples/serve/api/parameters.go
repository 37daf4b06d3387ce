package api

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/goascend/cann/examples/sampling"
	"github.com/goascend/cann/examples/serve/engine"
)

// parameters are common to completions and chats.
type parameters struct {
	Model         string             `json:"model"`
	MaxTokens     *int               `json:"max_tokens"`
	N             *int               `json:"n"`
	Stream        bool               `json:"stream"`
	StreamOptions streamOptions      `json:"stream_options"`
	Stop          oneOrMore[string]  `json:"stop"`
	Temperature   *float64           `json:"temperature"`
	TopP          *float64           `json:"top_p"`
	TopK          int                `json:"top_k"`
	MinP          float64            `json:"min_p"`
	Presence      float64            `json:"presence_penalty"`
	Frequency     float64            `json:"frequency_penalty"`
	Repetition    float64            `json:"repetition_penalty"`
	Bias          map[string]float64 `json:"logit_bias"`
	Seed          *int64             `json:"seed"`
	Format        *format            `json:"response_format"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// oneOrMore is a value, a list of values, or null.
type oneOrMore[T any] []T

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
)

// work checks the parameters and turns them into a request to the engine without a prompt.
func (s *Server) work(p *parameters) (work, error) {
	w := work{n: 1, stops: p.Stop, usage: p.StreamOptions.IncludeUsage}
	adapter, err := s.adapter(p.Model)
	if err != nil {
		return w, err
	}
	w.request.Adapter = adapter
	if p.N != nil {
		w.n = *p.N
	}
	switch {
	case w.n < 1 || w.n > mostChoice:
		return w, badParameter("n", fmt.Sprintf("%d is not from 1 to %d", w.n, mostChoice))
	case len(p.Stop) > mostStops:
		return w, badParameter("stop", fmt.Sprintf("there are %d strings, more than %d", len(p.Stop), mostStops))
	case p.MaxTokens != nil && *p.MaxTokens < 1:
		return w, badParameter("max_tokens", "it must be positive")
	}
	if w.request.Grammar, err = s.grammar(p.Format); err != nil {
		return w, badParameter("response_format", err.Error())
	}
	w.request.Ends = s.Ends
	if p.MaxTokens != nil {
		w.request.MaxTokens = *p.MaxTokens
	}
	if s.MaxTokens > 0 && (w.request.MaxTokens == 0 || w.request.MaxTokens > s.MaxTokens) {
		w.request.MaxTokens = s.MaxTokens
	}
	o := sampling.Options{
		Temperature: 1, TopP: 1, TopK: max(p.TopK, 0), MinP: p.MinP, Seed: rand.Uint64(),
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
	for text, b := range p.Bias {
		id, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return w, badParameter("logit_bias", fmt.Sprintf("%q is not the number of a token", text))
		}
		if o.Bias == nil {
			o.Bias = map[int32]float64{}
		}
		o.Bias[int32(id)] = b
	}
	if err := o.Validate(); err != nil {
		return w, &Error{Status: 400, Message: err.Error(), Type: invalid}
	}
	w.request.Sampling = o
	return w, nil
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
