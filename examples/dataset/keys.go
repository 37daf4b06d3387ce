package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

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
		verdict.Honour("messages", "a conversation of messages, see below"),
		verdict.Honour("conversations", "a conversation of turns in ShareGPT's form, see below, or of messages"),
		verdict.Honour("tools", "what the model may call in a conversation, as JSON or as a text with JSON"),
		verdict.Honour("system", "the first message of a conversation"),
		verdict.Honour("history", "earlier rounds: lists of two texts, a prompt and its answer"),
		verdict.Honour("chat_template_kwargs", "further variables of the chat template"),
	},
	verdict.Each("prompt query instruction", verdict.Honour("", prompts)),
	[]verdict.Key{verdict.Honour("input", "stands below an instruction")},
	verdict.Each("response completion output", verdict.Honour("", answers)),
	verdict.Each("chosen rejected rejected_response rejected_messages", verdict.Honour("", "two answers, for losses that compare them; without such a loss they are refused")),
	[]verdict.Key{verdict.Honour("margin", "by how much the chosen answer is the better one; without two answers it is refused")},
	verdict.Each("images image videos video audios audio rejected_images objects", verdict.Refuse("", pictures, `[]`, `""`)),
	[]verdict.Key{
		verdict.Refuse("functions", "what the model may call is in tools", `[]`, `""`),
		verdict.Refuse("function_call", "calls are in the messages", `""`),
		verdict.Warn("label", "an answer that is marked as a bad one is learnt like the others", "true"),
		verdict.Refuse("loss_scale", "a token is learnt or not, without a factor"),
		verdict.NoEffect("parallel_tool_calls", "the messages have the calls"),
	},
)}

// learning are the keys with which a message or a turn of the assistant says whether it is learnt.
var learning = []verdict.Key{
	verdict.Honour("loss", "false: an answer that is not learnt; true only of an answer"),
	verdict.Honour("weight", "0: an answer that is not learnt; 1 only of an answer"),
}

// media are the keys with images, sound and video, which are refused.
var media = verdict.Each("images image videos video audios audio", verdict.Refuse("", pictures, `[]`, `""`))

// TurnKeys is the table of the keys of a turn in ShareGPT's form, which has from.
var TurnKeys = verdict.Table{Format: "a turn of ShareGPT's conversations", Unknown: verdict.Warned, Keys: slices.Concat(
	[]verdict.Key{
		verdict.Honour("from", "who speaks: human or user, gpt or assistant, system, observation or tool"),
		verdict.Honour("value", "what is said"),
	},
	learning,
	verdict.Each("role content", verdict.Refuse("", "a turn has from and value; a message has role and content, and no from")),
	media,
)}

// MessageKeys is the table of the keys of a message, which the chat template reads. Others are read if the template's text has their names.
var MessageKeys = verdict.Table{Format: "a message", Unknown: verdict.Warned, Keys: slices.Concat(
	[]verdict.Key{
		verdict.Honour("role", "who speaks"),
		verdict.Honour("content", "what is said: a text, or parts with a text, and the type text or none"),
	},
	learning,
	verdict.Each("from value", verdict.Refuse("", "a message has role and content; a turn of conversations has from and value, and no role")),
	media,
)}

// mostUnread is the number of keys that a report names.
const mostUnread = 100

// table is a table of keys, with a bit for each key that is read.
type table struct {
	*verdict.Index
	bits      map[string]uint64
	templated bool // the chat template may read other keys
}

func newTable(t verdict.Table, templated bool) table {
	to := table{t.Index(), map[string]uint64{}, templated}
	for _, k := range t.Keys {
		if k.Kind == verdict.Honoured {
			to.bits[k.Name] = 1 << len(to.bits)
		}
	}
	return to
}

var sampleTable, turnTable, messageTable = newTable(Keys, false), newTable(TurnKeys, false), newTable(MessageKeys, true)

// judged collects the keys of a sample that are not read.
type judged struct {
	strict bool
	source string // of the chat template
	unread []string
}

// judge checks the keys of an object, whose names begin with a path in reports.
func (j *judged) judge(t table, path string, text []byte) (has uint64, err error) {
	has, all := keysOf(text, t.bits)
	if all {
		return has, nil
	}
	left, err := t.CheckIn(path, text)
	for _, l := range left {
		if name := l.Key[len(path):]; t.templated && mentions(j.source, name, true) {
			continue
		}
		if j.strict {
			return has, l
		}
		j.unread = append(j.unread, l.Key)
	}
	return has, err
}

// check judges the keys of a sample and of its turns, and returns the names of those that are not read. The text is known to be JSON.
func (o Options) check(text []byte) (unread []string, err error) {
	j := judged{strict: o.Strict}
	has, err := j.judge(sampleTable, "", text)
	if err != nil {
		return nil, err
	}
	bits := sampleTable.bits
	if has&(bits["messages"]|bits["conversations"]|bits["chosen"]|bits["rejected"]|bits["rejected_messages"]|bits["tools"]|bits["chat_template_kwargs"]) == 0 {
		return j.unread, nil
	}
	var lists struct {
		Prompt, Messages, Conversations, Chosen, Rejected json.RawMessage
		RejectedMessages                                  json.RawMessage `json:"rejected_messages"`
		Tools                                             json.RawMessage
		Variables                                         map[string]json.RawMessage `json:"chat_template_kwargs"`
	}
	if err := json.Unmarshal(text, &lists); err != nil {
		return nil, err
	}
	if o.Template != nil {
		tools := given(lists.Tools) && string(lists.Tools) != `""`
		j.source = o.Template.Source(tools)
		for _, name := range slices.Sorted(maps.Keys(lists.Variables)) {
			if err := j.variable("chat_template_kwargs."+name, name, lists.Variables[name]); err != nil {
				return nil, err
			}
		}
		if tools && string(lists.Tools) != "[]" {
			if err := j.variable("tools", "tools", lists.Tools); err != nil {
				return nil, err
			}
		}
	}
	for _, l := range []struct {
		name  string
		value json.RawMessage
		turns bool // it may have turns of ShareGPT's form
	}{
		{"prompt", lists.Prompt, false}, {"messages", lists.Messages, false}, {"conversations", lists.Conversations, true}, {"chosen", lists.Chosen, true},
		{"rejected", lists.Rejected, true}, {"rejected_messages", lists.RejectedMessages, false},
	} {
		turns, _, err := list(l.value)
		if err != nil {
			return nil, err
		}
		path := l.name + "."
		if bytes.HasPrefix(l.value, []byte("[")) {
			path = l.name + "[]."
		}
		for _, text := range turns {
			table := messageTable
			if l.turns {
				if has, _ := keysOf(text, turnTable.bits); has&turnTable.bits["from"] != 0 {
					table = turnTable
				}
			}
			if _, err := j.judge(table, path, text); err != nil {
				return nil, err
			}
		}
	}
	return j.unread, nil
}

// mentions reports whether a template's text has a name, as a whole word; that of a member stands behind a dot or a quotation mark.
func mentions(source, name string, member bool) bool {
	part := func(at int) bool { // reports whether a longer name goes on at this byte
		return at >= 0 && at < len(source) && (source[at] == '_' || '0' <= source[at] && source[at] <= '9' || 'a' <= source[at]|0x20 && source[at]|0x20 <= 'z')
	}
	for at := 0; name != ""; {
		i := strings.Index(source[at:], name)
		if i < 0 {
			break
		}
		if at += i; !part(at-1) && !part(at+len(name)) && (!member || at > 0 && strings.IndexByte(`.'"`, source[at-1]) >= 0) {
			return true
		}
		at++
	}
	return false
}

// variable adds a variable of the chat template whose name its text does not have.
func (j *judged) variable(path, name string, value []byte) error {
	if mentions(j.source, name, false) {
		return nil
	}
	if j.strict {
		return fmt.Errorf("%s is %.80s: the chat template has no such name", path, value)
	}
	j.unread = append(j.unread, path)
	return nil
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

// learnt reports whether a message is learnt: an answer is, unless its loss is false or its weight, as OpenAI and ShareGPT write it, is 0.
func learnt(role string, loss *bool, weight *float64) (bool, error) {
	if weight != nil && *weight != 0 && *weight != 1 {
		return false, fmt.Errorf("weight is %g; an answer is learnt (1) or not (0)", *weight)
	}
	if loss != nil && weight != nil && *loss != (*weight == 1) {
		return false, errors.New("loss and weight contradict each other")
	}
	if role == "assistant" {
		return (loss == nil || *loss) && (weight == nil || *weight == 1), nil
	}
	switch {
	case loss != nil && *loss:
		return false, fmt.Errorf("loss is true for the role %.80q; only what the assistant says is learnt", role)
	case weight != nil && *weight == 1:
		return false, fmt.Errorf("weight is 1 for the role %.80q; only what the assistant says is learnt", role)
	}
	return false, nil
}
