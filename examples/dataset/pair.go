package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/goascend/cann/examples/budget"
	"github.com/goascend/cann/examples/chat"
)

// pair is a sample with two answers.
type pair struct {
	chosen, rejected sample
	margin           float64
}

var errPairs = errors.New("dataset: samples are pairs with Options.Pairs, for Dataset.Pairs, and without it for the other methods")

// Pairs returns the next n pairs in 2n rows: the chosen sequence of pair i at 2i, and the rejected one at 2i+1. Rows are as long as the longest, rounded up to
// a multiple of step, and have one end. margins are those of the samples, by which a chosen sequence is to be the better one.
func (d *Dataset) Pairs(n, step int) (rows []Row, margins []float64, err error) {
	if d.options.Pairs == 0 {
		return nil, nil, errPairs
	}
	if n < 1 || step < 1 {
		return nil, nil, fmt.Errorf("dataset: %d pairs in multiples of %d tokens; both must be positive", n, step)
	}
	longest := 0
	for range n {
		if err := d.load(); err != nil {
			return nil, nil, err
		}
		for _, s := range []sample{d.now.pair.chosen, d.now.pair.rejected} {
			rows = append(rows, Row{Inputs: s.inputs, Labels: s.labels, Ends: []int{len(s.inputs)}})
			longest = max(longest, len(s.inputs))
		}
		margins = append(margins, d.now.pair.margin)
		d.skip()
	}
	longest = (longest + step - 1) / step * step
	for i := range rows {
		r := &rows[i]
		for len(r.Inputs) < longest {
			r.Inputs, r.Labels = append(r.Inputs, 0), append(r.Labels, Ignored)
		}
	}
	return rows, margins, nil
}

// encodePair makes the two sequences of a line. What they have in common from their beginnings is the prompt, of which nothing is learnt.
func (o Options) encodePair(text []byte) (*pair, error) {
	if err := budget.Size("a pair", len(text), mostConversation, "bytes"); err != nil {
		return nil, err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	if err := budget.Size("a pair", len(all), mostKeys, "keys"); err != nil {
		return nil, err
	}
	var p pair
	if margin, ok := all["margin"]; ok {
		if err := json.Unmarshal(margin, &p.margin); err != nil {
			return nil, fmt.Errorf("margin: %w", err)
		}
	}
	sides, err := sides(all)
	if err != nil {
		return nil, err
	}
	var lines [2]record
	for i, side := range sides {
		text, err := json.Marshal(side)
		if err != nil {
			return nil, err
		}
		if lines[i], err = o.parse(text); err != nil {
			return nil, fmt.Errorf("its %s answer: %w", names[i], err)
		}
	}
	common, err := commonMessages(lines[0].Messages, lines[1].Messages)
	if err != nil {
		return nil, err
	}
	for i, to := range []*sample{&p.chosen, &p.rejected} {
		b := builder{Options: o, from: common}
		if _, err := b.record(lines[i]); err != nil {
			return nil, fmt.Errorf("its %s answer: %w", names[i], err)
		}
		if *to = b.sample(false); o.Scored {
			*to = b.scored()
		}
		if n := len(to.inputs); n > o.Pairs {
			return nil, fmt.Errorf("its %s sequence has %d tokens, and a row has room for %d", names[i], n, o.Pairs)
		}
	}
	return &p, nil
}

// names of the sides of a pair.
var names = [2]string{"chosen", "rejected"}

// answerKeys are the keys that a single answer may have.
var answerKeys = []string{"response", "completion", "output"}

// scored labels the last of all tokens.
func (b *builder) scored() sample {
	s := sample{inputs: b.ids, labels: make([]int32, len(b.ids)), ids: b.ids}
	for i := range s.labels {
		if s.labels[i] = Ignored; i == len(s.labels)-1 {
			s.labels[i] = 0
		}
	}
	return s
}

// sides writes a line with two answers as two samples with one.
func sides(all map[string]json.RawMessage) (pair [2]map[string]json.RawMessage, err error) {
	chosen, rejected := all["chosen"], all["rejected"]
	response, messages := all["rejected_response"], all["rejected_messages"]
	shared := maps.Clone(all)
	for _, name := range []string{"chosen", "rejected", "rejected_response", "rejected_messages", "margin"} {
		delete(shared, name)
	}
	switch {
	case given(chosen) && given(rejected) && !given(response) && !given(messages):
		for _, name := range answerKeys {
			if given(all[name]) {
				return pair, fmt.Errorf("it has %s beside chosen and rejected; it is not clear which is the answer", name)
			}
		}
		for i, answer := range []json.RawMessage{chosen, rejected} {
			if pair[i], err = answered(shared, answer); err != nil {
				return pair, fmt.Errorf("%s: %w", names[i], err)
			}
		}
	case given(chosen) || given(rejected) || given(response) == given(messages):
		return pair, errors.New("it needs chosen and rejected, or one of rejected_response and rejected_messages beside a sample")
	case given(messages):
		pair[0], pair[1] = shared, maps.Clone(shared)
		pair[1]["messages"] = messages
	default:
		pair[0] = shared
		pair[1], err = replaced(shared, response)
	}
	return pair, err
}

// list reads a list of messages, or one message; ok reports whether the value is either.
func list(value json.RawMessage) (messages []json.RawMessage, ok bool, err error) {
	switch {
	case bytes.HasPrefix(value, []byte("[")):
		err = few(value, &messages)
		return messages, err == nil, err
	case bytes.HasPrefix(value, []byte("{")):
		return []json.RawMessage{value}, true, nil
	}
	return nil, false, nil
}

// answered puts an answer, a text or messages, behind the prompt of a line: a text, messages, or conversations; without one the
// answer is the whole conversation.
func answered(shared map[string]json.RawMessage, answer json.RawMessage) (map[string]json.RawMessage, error) {
	side := maps.Clone(shared)
	messages, conversation, err := list(answer)
	if err != nil {
		return nil, err
	}
	key := ""
	for _, name := range []string{"messages", "conversations"} {
		if given(side[name]) {
			key = name
		}
	}
	var before []json.RawMessage
	if prompt, ok, err := list(side["prompt"]); err != nil {
		return nil, fmt.Errorf("prompt: %w", err)
	} else if ok {
		if key != "" {
			return nil, fmt.Errorf("it has a prompt of messages and %s; it is not clear which is the prompt", key)
		}
		before, key = prompt, "messages"
		delete(side, "prompt")
	} else if key != "" {
		if before, ok, err = list(side[key]); !ok {
			return nil, errors.Join(fmt.Errorf("%s is no list of messages", key), err)
		}
	}
	if !conversation {
		var text string
		if err := json.Unmarshal(answer, &text); err != nil {
			return nil, errors.New("it is neither a text nor messages")
		}
		if key == "" {
			side["response"] = answer
			return side, nil
		}
		one := any(chat.Message{Role: "assistant", Content: text})
		if key == "conversations" {
			one = map[string]string{"from": "gpt", "value": text}
		}
		added, err := json.Marshal(one)
		if err != nil {
			return nil, err
		}
		messages = []json.RawMessage{added}
	}
	if key == "" { // a prompt that is a text is the first message
		key = "messages"
		var line record
		prompt, err := json.Marshal(side)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(prompt, &line); err != nil {
			return nil, err
		}
		if err := line.normal(); err != nil {
			return nil, err
		}
		if line.Prompt != nil {
			first, err := json.Marshal(chat.Message{Role: "user", Content: *line.Prompt})
			if err != nil {
				return nil, err
			}
			before = append(before, first)
		}
		for _, name := range []string{"prompt", "query", "instruction", "input"} {
			delete(side, name)
		}
	}
	turns, err := json.Marshal(append(before[:len(before):len(before)], messages...))
	side[key] = turns
	return side, err
}

// replaced returns a sample with a text in place of its last answer.
func replaced(shared map[string]json.RawMessage, answer json.RawMessage) (map[string]json.RawMessage, error) {
	side := maps.Clone(shared)
	for _, name := range answerKeys {
		if given(side[name]) {
			side[name] = answer
			return side, nil
		}
	}
	for _, key := range []string{"messages", "conversations"} {
		turns, _, err := list(side[key])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if len(turns) == 0 {
			continue
		}
		var last turn
		if err := json.Unmarshal(turns[len(turns)-1], &last); err != nil || last.Role != "assistant" && speakers[last.From] != "assistant" {
			return nil, fmt.Errorf("the last of its %s is not of the assistant, so there is none that rejected_response could replace", key)
		}
		side[key], _ = json.Marshal(turns[:len(turns)-1])
		return answered(side, answer)
	}
	return nil, errors.New("it has rejected_response and no answer that was chosen")
}

// canonical writes a JSON value with the keys of its objects in alphabetical order, without spaces.
func canonical(text []byte) ([]byte, error) {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

// commonMessages returns how many messages two conversations have in common from their beginnings.
func commonMessages(a, b []json.RawMessage) (n int, err error) {
	for ; n < min(len(a), len(b)); n++ {
		if bytes.Equal(a[n], b[n]) {
			continue
		}
		x, err := canonical(a[n])
		if err != nil {
			return 0, fmt.Errorf("messages: %w", err)
		}
		y, err := canonical(b[n])
		if err != nil {
			return 0, fmt.Errorf("messages: %w", err)
		}
		if !bytes.Equal(x, y) {
			return n, nil
		}
	}
	if n == len(a) && n == len(b) && n > 0 {
		return 0, errors.New("its chosen and its rejected answer are the same")
	}
	return n, nil
}
