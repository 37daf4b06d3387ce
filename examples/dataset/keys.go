package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/goascend/cann/examples/verdict"
)

const (
	pictures = "images, sound and video are refused"
	prompts  = "a prompt: what comes before the answer, of which nothing is learnt"
	answers  = "the answer, which is learnt"
)

// Keys is the table of the keys of a sample. Data sets have columns of their own beside them, which other trainers leave out too.
var Keys = verdict.Table{Format: "a sample of a data set", Unknown: verdict.Warned, Keys: slices.Concat(
	[]verdict.Key{
		verdict.Honour("text", "a text, all of which is learnt"),
		verdict.Honour("messages", "a conversation: of each message role and content, loss or weight (false or 0: the answer is not learnt), and what the chat template reads"),
		verdict.Honour("conversations", "a conversation in ShareGPT's form, see below, or messages"),
		verdict.Honour("tools", "what the model may call in a conversation, as JSON or as a text with JSON"),
		verdict.Honour("system", "the first message of a conversation"),
		verdict.Honour("history", "earlier prompts with their answers"),
		verdict.Honour("chat_template_kwargs", "further variables of the chat template"),
	},
	verdict.Each("prompt query instruction", verdict.Honour("", prompts)),
	[]verdict.Key{verdict.Honour("input", "stands below an instruction")},
	verdict.Each("response completion output", verdict.Honour("", answers)),
	verdict.Each("chosen rejected rejected_response rejected_messages", verdict.Honour("", "two answers, for losses that compare them; without such a loss they are refused")),
	[]verdict.Key{verdict.Honour("margin", "by how much the chosen answer is the better one")},
	verdict.Each("images image videos video audios audio rejected_images objects", verdict.Refuse("", pictures, `[]`, `""`)),
	[]verdict.Key{
		verdict.Refuse("functions", "what the model may call is in tools", `[]`, `""`),
		verdict.Refuse("function_call", "calls are in the messages", `""`),
		verdict.Warn("label", "an answer that is marked as a bad one is learnt like the others", "true"),
		verdict.Refuse("loss_scale", "a token is learnt or not, without a factor"),
		verdict.NoEffect("parallel_tool_calls", "the messages have the calls"),
	},
)}

// TurnKeys is the table of the keys of a turn in ShareGPT's form.
var TurnKeys = verdict.Table{Format: "a turn of ShareGPT's conversations", Unknown: verdict.Warned, Keys: slices.Concat(
	[]verdict.Key{
		verdict.Honour("from", "who speaks: human or user, gpt or assistant, system, observation or tool"),
		verdict.Honour("value", "what is said"),
		verdict.Honour("loss", "false: an answer that is not learnt"),
		verdict.Honour("weight", "0: an answer that is not learnt; else it is 1"),
	},
	verdict.Each("role content", verdict.Honour("", "of messages, in place of from and value")),
	verdict.Each("images image videos video audios audio", verdict.Refuse("", pictures, `[]`, `""`)),
)}

// mostUnread is the number of keys that a report names.
const mostUnread = 100

// honoured gives each key of a table that is read a bit.
func honoured(t verdict.Table) map[string]uint64 {
	bits := map[string]uint64{}
	for _, k := range t.Keys {
		if k.Kind == verdict.Honoured {
			bits[k.Name] = 1 << len(bits)
		}
	}
	return bits
}

var readKeys, readTurnKeys = honoured(Keys), honoured(TurnKeys)

// check judges the keys of a sample and of its turns, and returns the names of those that are not read. The text is known to be JSON.
func (o Options) check(text []byte) (unread []string, err error) {
	judge := func(t verdict.Table, path string, text []byte) error {
		left, err := t.Check(text)
		for _, l := range left {
			if o.Strict {
				return l
			}
			unread = append(unread, path+l.Key)
		}
		return err
	}
	has, all := keysOf(text, readKeys)
	if !all {
		if err := judge(Keys, "", text); err != nil {
			return nil, err
		}
	}
	if has&(readKeys["conversations"]|readKeys["chosen"]|readKeys["rejected"]) == 0 {
		return unread, nil
	}
	var lists struct{ Conversations, Chosen, Rejected json.RawMessage }
	if err := json.Unmarshal(text, &lists); err != nil {
		return nil, err
	}
	for _, value := range []json.RawMessage{lists.Conversations, lists.Chosen, lists.Rejected} {
		turns, _, err := list(value)
		if err != nil {
			return nil, err
		}
		for _, text := range turns {
			// Without from it is a message, whose keys the template reads.
			if has, all := keysOf(text, readTurnKeys); has&readTurnKeys["from"] == 0 || all {
				continue
			}
			if err := judge(TurnKeys, "conversations.", text); err != nil {
				return nil, err
			}
		}
	}
	return unread, nil
}

// keysOf returns the bits of the keys that an object has, and whether it has no others and none twice, as nearly every sample: that is known much faster
// than the verdicts of a table. The text is known to be JSON.
func keysOf(text []byte, bits map[string]uint64) (has uint64, all bool) {
	depth, value := 0, false
	all = true
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ':', ',':
			value = text[i] == ':'
		case '"':
			from, escaped := i, false
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					escaped = true
					i++
				}
			}
			if depth != 1 || value {
				continue
			}
			bit := bits[string(text[from+1:i])]
			if escaped {
				var key string
				_ = json.Unmarshal(text[from:i+1], &key) // it is JSON
				bit = bits[key]
			}
			all = all && bit != 0 && has&bit == 0
			has |= bit
		}
	}
	return has, all
}

// learnt reports whether an answer is learnt: OpenAI's and ShareGPT's weight is 0 for one that is not.
func learnt(loss *bool, weight *float64) (bool, error) {
	if weight != nil && *weight != 0 && *weight != 1 {
		return false, fmt.Errorf("weight is %g; an answer is learnt (1) or not (0)", *weight)
	}
	if loss != nil && weight != nil && *loss != (*weight == 1) {
		return false, errors.New("loss and weight contradict each other")
	}
	return (loss == nil || *loss) && (weight == nil || *weight == 1), nil
}
