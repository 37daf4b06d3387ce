package dataset

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/goascend/cann/examples/chat"
)

// Encoder turns text into token ids; a tokenizer.Tokenizer is one.
type Encoder interface {
	Encode(text string) ([]int32, error)
}

// Bytes is the encoder of models whose tokens are bytes.
type Bytes struct{}

// Encode implements Encoder.
func (Bytes) Encode(text string) ([]int32, error) {
	ids := make([]int32, len(text))
	for i := range len(text) {
		ids[i] = int32(text[i])
	}
	return ids, nil
}

// Ignored is the label of positions without a loss.
const Ignored = -100

// sample holds the tokens of a sample that a model reads, and the next token of each, or Ignored.
type sample struct {
	inputs, labels []int32
	divisible      bool    // it may go on in the next row
	ids            []int32 // all tokens
}

// record is a line of a file. It has a text; or messages, a conversation; or a prompt with a response. Other programs
// name these in other ways, which are read too: see doc.go.
type record struct {
	Text     *string           `json:"text"`
	Messages []json.RawMessage `json:"messages"`
	Tools    json.RawMessage   `json:"tools"`
	System   string            `json:"system"`

	Prompt      *string `json:"prompt"`
	Query       *string `json:"query"`
	Instruction *string `json:"instruction"`
	Input       string  `json:"input"` // of an instruction

	Response   *string `json:"response"`
	Completion *string `json:"completion"`
	Output     *string `json:"output"`

	History       [][2]string       `json:"history"` // earlier prompts with their responses
	Conversations []json.RawMessage `json:"conversations"`

	Chosen   json.RawMessage `json:"chosen"`
	Rejected json.RawMessage `json:"rejected"`
}

// turn is one of a conversation in ShareGPT's form.
type turn struct {
	From  string  `json:"from"`
	Value *string `json:"value"`
	Role  string  `json:"role"`
}

// speakers are the names that turns have in ShareGPT's form.
var speakers = map[string]string{"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system", "observation": "tool", "tool": "tool"}

// normal turns the forms of other programs into messages, a prompt with a response, or a text.
func (r *record) normal() error {
	forms := []string{}
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"text", r.Text != nil}, {"messages", r.Messages != nil}, {"conversations", r.Conversations != nil},
		{"prompt", r.Prompt != nil}, {"query", r.Query != nil}, {"instruction", r.Instruction != nil},
	} {
		if f.given {
			forms = append(forms, f.name)
		}
	}
	if given(r.Chosen) || given(r.Rejected) {
		return errors.New("it has chosen and rejected answers, and no loss here compares two answers")
	}
	if len(forms) > 1 {
		return fmt.Errorf("it has %s and %s; it is not clear which is the sample", forms[0], forms[1])
	}
	for _, other := range []*string{r.Query, r.Instruction} {
		if other != nil {
			r.Prompt = other
		}
	}
	if r.Instruction != nil && r.Input != "" {
		r.Prompt = new(*r.Instruction + "\n" + r.Input)
	}
	answers := 0
	for _, other := range []*string{r.Response, r.Completion, r.Output} {
		if other != nil {
			r.Response = other
			answers++
		}
	}
	if answers > 1 {
		return errors.New("it has several of response, completion and output; it is not clear which is the answer")
	}
	var turns []json.RawMessage
	add := func(role, content string) error {
		one, err := json.Marshal(chat.Message{Role: role, Content: content})
		turns = append(turns, one)
		return err
	}
	if r.System != "" {
		if err := add("system", r.System); err != nil {
			return err
		}
	}
	for _, pair := range r.History {
		if err := errors.Join(add("user", pair[0]), add("assistant", pair[1])); err != nil {
			return err
		}
	}
	switch {
	case r.Conversations != nil:
		for i, text := range r.Conversations {
			var one turn
			if err := json.Unmarshal(text, &one); err != nil {
				return fmt.Errorf("conversations: turn %d: %w", i, err)
			}
			if one.Role != "" && one.From == "" { // messages under another name
				turns = append(turns, text)
				continue
			}
			role, known := speakers[one.From]
			if !known || one.Value == nil {
				return fmt.Errorf("conversations: turn %d is from %q and needs a value; known are human, gpt, system and observation", i, one.From)
			}
			if err := add(role, *one.Value); err != nil {
				return err
			}
		}
		r.Messages = turns
	case r.Messages != nil:
		r.Messages = append(turns, r.Messages...)
	case len(turns) > 0 && r.Prompt != nil && r.Response != nil:
		if err := errors.Join(add("user", *r.Prompt), add("assistant", *r.Response)); err != nil {
			return err
		}
		r.Messages = turns
	}
	return nil
}

func given(value json.RawMessage) bool { return len(value) > 0 && string(value) != "null" }

// builder makes samples. It is the state of one encoding: tokens and which of them are learnt.
type builder struct {
	Options
	ids   []int32
	learn []bool
}

func (b *builder) add(text string, learn bool) error {
	if text == "" {
		return nil
	}
	ids, err := b.Tokenizer.Encode(text)
	if err != nil {
		return err
	}
	for _, id := range ids {
		b.ids, b.learn = append(b.ids, id), append(b.learn, learn)
	}
	return nil
}

func (b *builder) end() {
	if b.End >= 0 {
		b.ids, b.learn = append(b.ids, b.End), append(b.learn, true)
	}
}

// sample shifts the labels: a position learns the token after it.
func (b *builder) sample(divisible bool) sample {
	if len(b.ids) < 2 {
		return sample{}
	}
	s := sample{inputs: b.ids[:len(b.ids)-1], labels: make([]int32, len(b.ids)-1), divisible: divisible, ids: b.ids}
	for i := range s.labels {
		s.labels[i] = Ignored
		if b.learn[i+1] {
			s.labels[i] = b.ids[i+1]
		}
	}
	return s
}

// encode makes the sample of a line or a text. A sample without tokens to learn is empty.
func (o Options) encode(r raw) (s sample, err error) {
	b := builder{Options: o}
	if r.err != nil {
		return s, r.err
	}
	if r.ids != nil {
		for _, id := range r.ids {
			b.ids, b.learn = append(b.ids, id), append(b.learn, true)
		}
		return b.sample(true), nil
	}
	if r.plain {
		err := b.add(r.text, true)
		b.end()
		return b.sample(true), err
	}
	var line record
	if err := json.Unmarshal([]byte(r.text), &line); err != nil {
		return s, err
	}
	if err := line.normal(); err != nil {
		return s, err
	}
	switch {
	case line.Messages != nil:
		err = b.conversation(line.Messages, line.Tools)
	case line.Prompt != nil && line.Response != nil && o.Template != nil:
		var turns []json.RawMessage
		for _, m := range []chat.Message{{Role: "user", Content: *line.Prompt}, {Role: "assistant", Content: *line.Response}} {
			turn, err := json.Marshal(m)
			if err != nil {
				return s, err
			}
			turns = append(turns, turn)
		}
		err = b.conversation(turns, nil)
	case line.Prompt != nil && line.Response != nil:
		if err = b.add(*line.Prompt, false); err == nil {
			err = b.add(*line.Response, true)
		}
		b.end()
	case line.Text != nil && *line.Text != "":
		err = b.add(*line.Text, true)
		b.end()
		return b.sample(true), err
	case line.Text != nil:
	default:
		err = errors.New("it has no text, no messages, and no prompt with a response")
	}
	return b.sample(false), err
}

// conversation encodes messages with the template. What the model said is learnt, with the token
// that ends it, unless the message says "loss": false.
func (b *builder) conversation(messages []json.RawMessage, tools json.RawMessage) error {
	if b.Template == nil {
		return errors.New("messages need a chat template, and the model's folder has none")
	}
	c := chat.Conversation{Messages: messages}
	if given(tools) {
		c.Tools = tools
		var text string // some programs write the list as a text
		if json.Unmarshal(tools, &text) == nil {
			if c.Tools = json.RawMessage(text); text == "" {
				c.Tools = nil
			} else if !json.Valid([]byte(text)) {
				return errors.New("tools is a text that is no JSON")
			}
		}
	}
	prompt, err := b.Template.RenderAnswers(c, messages)
	if err != nil {
		return err
	}
	skip, err := withoutLoss(messages)
	if err != nil {
		return err
	}
	if len(prompt.Answers) != len(skip) && len(skip) > 0 && anyOf(skip) {
		return fmt.Errorf("%d answers are found in a conversation with %d, so it is not clear which has \"loss\": false", len(prompt.Answers), len(skip))
	}
	at := 0
	for i, span := range prompt.Answers {
		if err := b.add(prompt.Text[at:span.From], false); err != nil {
			return err
		}
		if err := b.add(prompt.Text[span.From:span.To], len(skip) != len(prompt.Answers) || !skip[i]); err != nil {
			return err
		}
		at = span.To
	}
	return b.add(prompt.Text[at:], false)
}

// withoutLoss reports for each message of the assistant whether training leaves it out.
func withoutLoss(messages []json.RawMessage) (skip []bool, err error) {
	for _, m := range messages {
		var head struct {
			Role string `json:"role"`
			Loss *bool  `json:"loss"`
		}
		if err := json.Unmarshal(m, &head); err != nil {
			return nil, fmt.Errorf("messages: %w", err)
		}
		if head.Role == "assistant" {
			skip = append(skip, head.Loss != nil && !*head.Loss)
		}
	}
	return skip, nil
}

func anyOf(list []bool) bool {
	for _, yes := range list {
		if yes {
			return true
		}
	}
	return false
}
