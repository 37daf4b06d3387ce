package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/goascend/cann/examples/budget"
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
	divisible      bool     // it may go on in the next row
	ids            []int32  // all tokens
	pair           *pair    // in place of all of these
	unread         []string // keys that are not read
}

// record is a line of a file. It has a text; or messages, a conversation; or a prompt with a response. Other programs
// name these in other ways, which are read too: see doc.go.
type record struct {
	Text     *string         `json:"text"`
	Messages turns           `json:"messages"`
	Tools    json.RawMessage `json:"tools"`
	System   string          `json:"system"`

	Variables map[string]any `json:"chat_template_kwargs"`

	Prompt      *string `json:"prompt"`
	Query       *string `json:"query"`
	Instruction *string `json:"instruction"`
	Input       string  `json:"input"` // of an instruction

	Response   *string `json:"response"`
	Completion *string `json:"completion"`
	Output     *string `json:"output"`

	History       rounds `json:"history"` // earlier prompts with their responses
	Conversations turns  `json:"conversations"`

	Chosen           json.RawMessage `json:"chosen"`
	Rejected         json.RawMessage `json:"rejected"`
	RejectedResponse *string         `json:"rejected_response"`
	RejectedMessages turns           `json:"rejected_messages"`
	Margin           json.RawMessage `json:"margin"` // of two answers
}

// A conversation, or a pair, may have mostTurns messages and mostConversation bytes, because its bytes are parsed several times.
const (
	mostTurns        = 10_000
	mostConversation = 2 << 20
	mostKeys         = 1000 // of a pair
)

// turns are messages.
type turns []json.RawMessage

// UnmarshalJSON implements json.Unmarshaler.
func (t *turns) UnmarshalJSON(text []byte) error { return few(text, (*[]json.RawMessage)(t)) }

// rounds are prompts with their responses.
type rounds []round

// UnmarshalJSON implements json.Unmarshaler.
func (r *rounds) UnmarshalJSON(text []byte) error { return few(text, (*[]round)(r)) }

// round is a prompt with its response.
type round [2]string

// UnmarshalJSON implements json.Unmarshaler. encoding/json would fill an array of two from a list of any length.
func (r *round) UnmarshalJSON(text []byte) error {
	var both []*string
	if err := json.Unmarshal(text, &both); err != nil || len(both) != 2 || both[0] == nil || both[1] == nil {
		return fmt.Errorf("history has the round %.80s; a round is a list of two texts, a prompt and its response", text)
	}
	r[0], r[1] = *both[0], *both[1]
	return nil
}

// few reads a JSON array, whose parts may take more memory than its text, or null.
func few[T any](text []byte, list *[]T) error {
	if *list = nil; string(text) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if begin, err := d.Token(); err != nil || begin != json.Delim('[') {
		return errors.Join(fmt.Errorf("%.20s is no list", text), err)
	}
	*list = []T{}
	for d.More() {
		if err := budget.Size("a conversation", len(*list)+1, mostTurns, "messages"); err != nil {
			return err
		}
		var one T
		if err := d.Decode(&one); err != nil {
			return err
		}
		*list = append(*list, one)
	}
	return nil
}

// turn is one of a conversation in ShareGPT's form.
type turn struct {
	From   string   `json:"from"`
	Value  *string  `json:"value"`
	Role   string   `json:"role"`
	Loss   *bool    `json:"loss"`
	Weight *float64 `json:"weight"`
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
	if given(r.Chosen) || given(r.Rejected) || r.RejectedResponse != nil || r.RejectedMessages != nil {
		return errors.New("its keys chosen and rejected are for losses that compare two answers, as -loss dpo")
	}
	if given(r.Margin) {
		return fmt.Errorf("its key margin is %.80s: it is for losses that compare two answers, as -loss dpo", r.Margin)
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
	if r.Input != "" && r.Instruction == nil {
		return errors.New("it has input without the instruction above it")
	}
	conversation, text := r.Messages != nil || r.Conversations != nil, r.Text != nil
	for _, beside := range []struct {
		name   string
		given  bool
		unread bool
	}{
		{"an answer", answers > 0, conversation || text}, {"system", r.System != "", text}, {"history", len(r.History) > 0, text},
		{"tools", given(r.Tools), text}, {"chat_template_kwargs", len(r.Variables) > 0, text},
	} {
		if beside.given && beside.unread {
			return fmt.Errorf("it has %s beside %s, which would not be read", beside.name, forms[0])
		}
	}
	var turns []json.RawMessage
	add := func(role, content string) error {
		one, err := json.Marshal(chat.Message{Role: role, Content: content})
		turns = append(turns, one)
		return err
	}
	without := func(role, content string) error { // its loss
		one, err := json.Marshal(struct {
			chat.Message
			Loss bool `json:"loss"`
		}{Message: chat.Message{Role: role, Content: content}})
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
			learn, err := learnt(role, one.Loss, one.Weight)
			if err != nil {
				return fmt.Errorf("conversations: turn %d: %w", i, err)
			}
			put := add
			if role == "assistant" && !learn {
				put = without
			}
			if err := put(role, *one.Value); err != nil {
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
	ids    []int32
	labels []int32 // those of ids that are learnt, and Ignored
	from   int     // messages before this one are not learnt
}

func (b *builder) add(text string, learn bool) error {
	if text == "" {
		return nil
	}
	ids, err := b.Tokenizer.Encode(text)
	if err != nil {
		return err
	}
	b.append(ids, learn)
	return nil
}

func (b *builder) append(ids []int32, learn bool) {
	b.ids = append(slices.Grow(b.ids, len(ids)+1), ids...) // an end may follow
	b.labels = slices.Grow(b.labels, len(ids)+1)
	for _, id := range ids {
		if !learn {
			id = Ignored
		}
		b.labels = append(b.labels, id)
	}
}

func (b *builder) end() {
	if b.End >= 0 {
		b.append([]int32{b.End}, true)
	}
}

// sample shifts the labels: a position learns the token after it.
func (b *builder) sample(divisible bool) sample {
	if len(b.ids) < 2 {
		return sample{}
	}
	return sample{inputs: b.ids[:len(b.ids)-1], labels: b.labels[1:], divisible: divisible, ids: b.ids}
}

// encode makes the sample of a line or a text. A sample without tokens to learn is empty.
func (o Options) encode(r raw) (s sample, err error) {
	b := builder{Options: o}
	if r.err != nil {
		return s, r.err
	}
	if r.ids != nil {
		b.append(r.ids, true)
		return b.sample(true), nil
	}
	if r.plain {
		err := b.add(r.text, true)
		b.end()
		return b.sample(true), err
	}
	text := []byte(r.text)
	if o.Pairs > 0 {
		s.pair, err = o.encodePair(text)
	} else if line, wrong := o.parse(text); wrong != nil {
		err = wrong
	} else {
		divisible, wrong := b.record(line)
		s, err = b.sample(divisible), wrong
	}
	if err != nil {
		return s, err
	}
	s.unread, err = o.check(text)
	return s, err
}

// cause is the reason why a sample is bad: a key that is refused, if it has one, since that often causes other errors.
func (o Options) cause(r raw, err error) error {
	if text := []byte(r.text); !errors.Is(err, budget.ErrLimit) && !r.plain && len(text) > 0 && text[0] == '{' && json.Valid(text) {
		if _, wrong := o.check(text); wrong != nil {
			return wrong
		}
	}
	return err
}

var errNoObject = errors.New("it is no JSON object")

// parse reads a sample. With a template, a prompt with a response becomes messages.
func (o Options) parse(text []byte) (line record, err error) {
	if len(text) == 0 || text[0] != '{' {
		return line, errNoObject
	}
	if err := json.Unmarshal(text, &line); err != nil {
		return line, err
	}
	if err := line.normal(); err != nil {
		return line, err
	}
	if line.Messages != nil {
		if err := budget.Size("a conversation", len(text), mostConversation, "bytes"); err != nil {
			return line, err
		}
	}
	if line.Messages == nil && line.Prompt != nil && line.Response != nil && o.Template != nil {
		for _, m := range []chat.Message{{Role: "user", Content: *line.Prompt}, {Role: "assistant", Content: *line.Response}} {
			turn, err := json.Marshal(m)
			if err != nil {
				return line, err
			}
			line.Messages = append(line.Messages, turn)
		}
	}
	return line, nil
}

// record encodes a sample, and reports whether it may go on in the next row.
func (b *builder) record(line record) (divisible bool, err error) {
	switch {
	case line.Messages != nil:
		err = b.conversation(line)
	case line.Prompt != nil && line.Response != nil && (given(line.Tools) || len(line.Variables) > 0):
		err = errors.New("tools and chat_template_kwargs need a chat template, and the model's folder has none")
	case line.Prompt != nil && line.Response != nil:
		if err = b.add(*line.Prompt, false); err == nil {
			err = b.add(*line.Response, true)
		}
		b.end()
	case line.Text != nil && *line.Text != "":
		err = b.add(*line.Text, true)
		b.end()
		return true, err
	case line.Text != nil:
	default:
		err = errors.New("it has no text, no messages, and no prompt with a response")
	}
	return false, err
}

// conversation encodes messages with the template. What the model said is learnt, with the token
// that ends it, unless the message says "loss": false or "weight": 0.
func (b *builder) conversation(line record) error {
	if b.Template == nil {
		return errors.New("messages need a chat template, and the model's folder has none")
	}
	messages, tools := line.Messages, line.Tools
	c := chat.Conversation{Messages: messages, Variables: line.Variables}
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
	skip, err := withoutLoss(messages, b.from)
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

// withoutLoss reports for each message of the assistant whether training leaves it out, as it does before a number.
func withoutLoss(messages []json.RawMessage, from int) (skip []bool, err error) {
	for i, m := range messages {
		var head struct {
			Role    string   `json:"role"`
			Content content  `json:"content"`
			Loss    *bool    `json:"loss"`
			Weight  *float64 `json:"weight"`
		}
		if err := json.Unmarshal(m, &head); err != nil {
			return nil, fmt.Errorf("messages: %w", err)
		}
		if head.Role == "" {
			return nil, fmt.Errorf("messages: message %d, %.80s, has no role", i, m)
		}
		learn, err := learnt(head.Role, head.Loss, head.Weight)
		if err != nil {
			return nil, fmt.Errorf("messages: message %d: %w", i, err)
		}
		if head.Role == "assistant" {
			skip = append(skip, i < from || !learn)
		}
	}
	return skip, nil
}

// content checks the content of a message, which the template reads: of a list of parts, each is text.
type content struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*content) UnmarshalJSON(text []byte) error {
	if !bytes.HasPrefix(text, []byte("[")) {
		return nil
	}
	var parts []json.RawMessage
	if err := few(text, &parts); err != nil {
		return err
	}
	for i, p := range parts {
		if bytes.HasPrefix(p, []byte(`"`)) {
			continue
		}
		var part struct{ Type, Text *string }
		var keys map[string]json.RawMessage
		if json.Unmarshal(p, &part) == nil && json.Unmarshal(p, &keys) == nil && part.Text != nil && (part.Type == nil || *part.Type == "text") {
			delete(keys, "type")
			delete(keys, "text")
			if len(keys) == 0 {
				continue
			}
		}
		return fmt.Errorf("part %d of its content is %.80s: parts are texts, with the keys type and text; %s", i, p, pictures)
	}
	return nil
}

func anyOf(list []bool) bool {
	for _, yes := range list {
		if yes {
			return true
		}
	}
	return false
}
