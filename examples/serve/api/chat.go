package api

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/goascend/cann/examples/chat"
	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/examples/serve/language"
)

// chatRequest is the body of /v1/chat/completions.
type chatRequest struct {
	parameters
	Messages  []json.RawMessage `json:"messages"`
	Most      *whole            `json:"max_completion_tokens"`
	LogProbs  bool              `json:"logprobs"`
	Top       *whole            `json:"top_logprobs"`
	Tools     []json.RawMessage `json:"tools"`
	Functions []json.RawMessage `json:"functions"`
	Variables map[string]any    `json:"chat_template_kwargs"`
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request) error {
	var q chatRequest
	if err := s.read(w, r, &q); err != nil {
		return err
	}
	if q.Most != nil {
		if *q.Most < 1 {
			return badParameter("max_completion_tokens", "it must be positive")
		}
		q.MaxTokens = q.Most
	}
	job, err := s.work(r.Context(), &q.parameters)
	if err != nil {
		return err
	}
	switch {
	case len(q.Tools)+len(q.Functions) > 0:
		return badParameter("tools", "the server does not read the calls of tools out of answers")
	case q.Top != nil && !q.LogProbs:
		return badParameter("top_logprobs", "it needs logprobs")
	case len(q.Messages) == 0:
		return badParameter("messages", "there are none")
	}
	if q.LogProbs {
		top := 0
		if q.Top != nil {
			top = int(*q.Top)
		}
		if err := job.probabilities("top_logprobs", top); err != nil {
			return err
		}
	}
	messages, err := plain(q.Messages)
	if err != nil {
		return err
	}
	ids, err := s.Language.Chat(chat.Conversation{Messages: messages, AddGenerationPrompt: true, Variables: q.Variables}, s.Engine.MaxLength()-1)
	if errors.Is(err, chat.ErrNoTemplate) {
		return badParameter("messages", "the model has no chat template; use /v1/completions")
	}
	if errors.Is(err, chat.ErrVariable) {
		return badParameter("chat_template_kwargs", err.Error())
	}
	if err != nil {
		return badText("messages", err)
	}
	job.prompts = [][]int32{ids}
	object := "chat.completion"
	if q.Stream {
		object = "chat.completion.chunk"
	}
	return s.perform(w, r, job, q.Stream, newHead("chatcmpl-", object, q.Model), chatShape{s.Language, q.LogProbs})
}

// chatShape writes answers of chats.
type chatShape struct {
	language      language.Language
	probabilities bool
}

// message is an answer of the model, or a part of it.
type message struct {
	Role    string `json:"role,omitempty"`
	Content string `json:"content"`
}

// chatChoice is a choice of /v1/chat/completions; streams have delta in place of message.
type chatChoice struct {
	Index    int           `json:"index"`
	Message  *message      `json:"message,omitempty"`
	Delta    *message      `json:"delta,omitempty"`
	LogProbs *chatLogProbs `json:"logprobs"`
	Reason   *string       `json:"finish_reason"`
}

// chatLogProbs are the probabilities of tokens.
type chatLogProbs struct {
	Content []chatLogProb `json:"content"`
}

type chatLogProb struct {
	Token string        `json:"token"`
	Value float64       `json:"logprob"`
	Bytes []int         `json:"bytes"`
	Top   []chatLogProb `json:"top_logprobs,omitempty"`
}

const assistant = "assistant"

func (f chatShape) first(choice int) any {
	return chatChoice{Index: choice, Delta: &message{Role: assistant}}
}

func (f chatShape) next(p piece) any {
	if len(p.tokens) > 0 && p.tokens[0].End { // which is not part of an answer
		return nil
	}
	return chatChoice{Index: p.choice, Delta: &message{Content: p.text}, LogProbs: f.logProbs(p.tokens), Reason: reasonOf(p)}
}

func (f chatShape) whole(choice int, pieces []piece) any {
	p := joined(pieces)
	return chatChoice{Index: choice, Message: &message{assistant, p.text}, LogProbs: f.logProbs(p.tokens), Reason: reasonOf(p)}
}

func (f chatShape) logProbs(tokens []engine.Token) *chatLogProbs {
	if !f.probabilities {
		return nil
	}
	l := &chatLogProbs{Content: []chatLogProb{}}
	for _, t := range tokens {
		if t.End {
			continue
		}
		x := f.logProb(t.ID, t.LogProb)
		x.Top = []chatLogProb{}
		for _, top := range t.Top {
			x.Top = append(x.Top, f.logProb(top.ID, top.Value))
		}
		l.Content = append(l.Content, x)
	}
	return l
}

func (f chatShape) logProb(id int32, value float64) chatLogProb {
	p := chatLogProb{Token: nameOf(f.language, id), Value: finite(value), Bytes: []int{}}
	for _, b := range f.language.Bytes(id) {
		p.Bytes = append(p.Bytes, int(b))
	}
	return p
}
