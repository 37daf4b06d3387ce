package api

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/goascend/cann/examples/chat"
	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/examples/serve/language"
	"github.com/goascend/cann/examples/serve/tools"
)

// chatRequest is the body of /v1/chat/completions.
type chatRequest struct {
	parameters
	Messages  []json.RawMessage `json:"messages"`
	Most      *whole            `json:"max_completion_tokens"`
	LogProbs  bool              `json:"logprobs"`
	Top       *whole            `json:"top_logprobs"`
	Tools     []json.RawMessage `json:"tools"`
	Choice    json.RawMessage   `json:"tool_choice"`
	Parallel  *bool             `json:"parallel_tool_calls"`
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
	calls, err := q.calls(s.Language.Tools())
	if err != nil {
		return err
	}
	conversation := chat.Conversation{Messages: messages, AddGenerationPrompt: true, Variables: q.Variables}
	if calls.names != nil {
		conversation.Tools = q.Tools
	}
	if calls.schema != nil {
		if job.request.Grammar != nil {
			return badParameter("tool_choice", "a call that must come excludes response_format")
		}
		if job.request.Grammar, err = grammarOf(s.vocabulary().Compile(r.Context(), calls.schema)); err != nil {
			return badParameter("tools", err.Error())
		}
	}
	ids, err := s.Language.Chat(conversation, s.Engine.MaxLength()-1)
	if errors.Is(err, chat.ErrNoTemplate) && len(q.Variables) > 0 {
		return badParameter("chat_template_kwargs", "the model has no chat template, which would read them")
	}
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
	return s.perform(w, r, job, q.Stream, newHead("chatcmpl-", object, q.Model), newChatShape(s.Language, q.LogProbs, calls, job.n))
}

// chatShape writes answers of chats.
type chatShape struct {
	language      language.Language
	probabilities bool
	calls         calls
	readers       []*tools.Reader // of each choice
}

func newChatShape(l language.Language, probabilities bool, c calls, n int) chatShape {
	f := chatShape{language: l, probabilities: probabilities, calls: c}
	for range n {
		f.readers = append(f.readers, c.form.Reader(c.names))
	}
	return f
}

// message is an answer of the model, or a part of it.
type message struct {
	Role    string     `json:"role,omitempty"`
	Content *string    `json:"content"` // null with calls alone
	Calls   []toolCall `json:"tool_calls,omitempty"`
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
	return chatChoice{Index: choice, Delta: &message{Role: assistant, Content: new("")}}
}

func (f chatShape) next(p piece) any {
	if len(p.tokens) > 0 && p.tokens[0].End { // which is not part of an answer
		return nil
	}
	before := f.readers[p.choice].Calls()
	m, reason := f.read(p)
	if m.Content == nil && m.Calls == nil && reason == nil && !f.probabilities {
		return nil
	}
	for i := range m.Calls {
		m.Calls[i].Index = new(before + i)
	}
	return chatChoice{Index: p.choice, Delta: m, LogProbs: f.logProbs(p.tokens), Reason: reason}
}

func (f chatShape) whole(choice int, pieces []piece) any {
	p := joined(pieces)
	p.choice = choice
	m, reason := f.read(p)
	m.Role = assistant
	if m.Content == nil && m.Calls == nil {
		m.Content = new("")
	}
	return chatChoice{Index: choice, Message: m, LogProbs: f.logProbs(p.tokens), Reason: reason}
}

// read takes text and calls out of a piece, and says why the choice has ended, or nil.
func (f chatShape) read(p piece) (*message, *string) {
	r := f.readers[p.choice]
	before := r.Calls()
	text, found := r.Next(p.text)
	if p.reason != "" {
		rest, more := r.Flush()
		text, found = text+rest, append(found, more...)
	}
	m := &message{}
	if text != "" {
		m.Content = &text
	}
	for i, c := range found {
		if f.calls.single && before+i > 0 {
			break
		}
		m.Calls = append(m.Calls, toolCall{ID: "call_" + rand.Text(), Type: "function", Function: calledFunction{c.Name, string(c.Arguments)}})
	}
	reason := reasonOf(p)
	if p.reason == engine.Stopped && r.Calls() > 0 && f.calls.form != tools.Arguments { // of a tool that is named, the interface says stop
		reason = new("tool_calls")
	}
	return m, reason
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
