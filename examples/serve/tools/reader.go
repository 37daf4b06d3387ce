package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode"
)

// Form is how the answers of a model call tools.
type Form int

// Forms.
const (
	None Form = iota
	// Hermes has each call between <tool_call> and </tool_call>, as {"name": …, "arguments": {…}}, with text around them.
	// Qwen's models have it too.
	Hermes
	// Llama has calls alone, as {"name": …, "parameters": {…}}, with semicolons between them.
	Llama
	// Arguments is the arguments of the only tool alone, as JSON.
	Arguments
	// List is a list of calls as in Hermes, without anything around it.
	List

	// Forms that are known and not read.
	deepSeek
	glm
	gptOSS
	kimi
	mistral
	qwenCoder
	phi
)

// unread are the names of the forms that are not read, and what only their templates have.
var unread = []struct {
	form       Form
	name, mark string
}{
	{deepSeek, "DeepSeek", "<｜tool▁call"},
	{glm, "GLM-4.5", "<arg_key>"},
	{gptOSS, "gpt-oss", "<|channel|>"},
	{kimi, "Kimi K2", "<|tool_calls_section_begin|>"},
	{mistral, "Mistral", "[TOOL_CALLS]"},
	{qwenCoder, "Qwen3-Coder", "<function="},
	{phi, "Phi-4", "<|tool_call|>"},
}

// Unread is the name of a form whose calls are not read, and empty for the others.
func (f Form) Unread() string {
	for _, u := range unread {
		if u.form == f {
			return u.name
		}
	}
	return ""
}

// FormOf finds the form in the text of a chat template that reads tools; None if it reads none, or calls them in
// a form that nobody knows.
func FormOf(template string) Form {
	if !strings.Contains(template, "tools") {
		return None
	}
	for _, u := range unread {
		if strings.Contains(template, u.mark) {
			return u.form
		}
	}
	switch {
	case strings.Contains(template, "<tool_call>") && strings.Contains(template, `"arguments"`):
		return Hermes
	case strings.Contains(template, `"parameters"`) && strings.Contains(template, "ipython"):
		return Llama
	}
	return None
}

// Call is a call of a tool.
type Call struct {
	Name      string
	Arguments json.RawMessage // an object
}

// Reader reads one answer, which comes in pieces.
type Reader struct {
	form   Form
	names  []string
	held   string // which may belong to a call
	called bool   // a call was the last
	calls  int    // so far
}

// Reader makes a reader for an answer in a conversation with tools of these names.
func (f Form) Reader(names []string) *Reader {
	if f.Unread() != "" {
		f = None
	}
	return &Reader{form: f, names: names}
}

const begin, end = "<tool_call>", "</tool_call>"

// Next takes the next piece of the answer, and returns the text that is certain not to belong to a call, and the calls that
// are complete.
func (r *Reader) Next(piece string) (text string, calls []Call) {
	r.held += piece
	switch r.form {
	case None:
		return r.all(), nil
	case Hermes:
		return r.tagged(false)
	case Llama:
		if t := strings.TrimLeftFunc(r.held, unicode.IsSpace); t != "" && t[0] != '{' {
			r.form = None
			return r.all(), nil
		}
	}
	return "", nil
}

// Flush ends the answer.
func (r *Reader) Flush() (text string, calls []Call) {
	switch r.form {
	case Hermes:
		return r.tagged(true)
	case Llama:
		calls = r.sequence()
	case List:
		calls = r.list()
	case Arguments:
		if arguments := json.RawMessage(strings.TrimSpace(r.held)); isObject(arguments) && json.Valid(arguments) {
			calls = []Call{{r.names[0], arguments}}
		}
	}
	if calls == nil {
		return r.all(), nil
	}
	r.calls, r.held = len(calls), ""
	return "", calls
}

// Calls is the number of calls so far.
func (r *Reader) Calls() int { return r.calls }

// all returns what is held.
func (r *Reader) all() string {
	text := r.held
	r.held = ""
	return text
}

// tagged takes text and calls in the form of Hermes. White space beside a call is dropped.
func (r *Reader) tagged(last bool) (text string, calls []Call) {
	for {
		if r.called {
			r.held = strings.TrimLeftFunc(r.held, unicode.IsSpace)
			r.called = r.held == ""
		}
		at := strings.Index(r.held, begin)
		n := strings.Index(r.held[max(at, 0):], end)
		if at < 0 || n < 0 {
			break
		}
		to := at + n + len(end)
		c, err := r.parse([]byte(r.held[at+len(begin) : at+n]))
		if err != nil { // it stays text
			text, r.held = text+r.held[:to], r.held[to:]
			continue
		}
		text += strings.TrimRightFunc(r.held[:at], unicode.IsSpace)
		r.held, r.called, r.calls, calls = r.held[to:], true, r.calls+1, append(calls, c)
	}
	keep := len(r.held)
	if !last {
		keep = r.certain()
	}
	text, r.held = text+r.held[:keep], r.held[keep:]
	return text, calls
}

// certain is the length of the held text that cannot belong to a call, with the white space before it.
func (r *Reader) certain() int {
	at := strings.Index(r.held, begin)
	for n := min(len(begin)-1, len(r.held)); at < 0; n-- {
		if strings.HasSuffix(r.held, begin[:n]) {
			at = len(r.held) - n
		}
	}
	return len(strings.TrimRightFunc(r.held[:at], unicode.IsSpace))
}

// parse reads one call.
func (r *Reader) parse(text []byte) (Call, error) {
	var c struct {
		Name       string          `json:"name"`
		Arguments  json.RawMessage `json:"arguments"`
		Parameters json.RawMessage `json:"parameters"`
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return Call{}, err
	}
	arguments := c.Arguments
	if r.form == Llama {
		arguments = c.Parameters
	}
	var inner string
	if json.Unmarshal(arguments, &inner) == nil { // an object in a string
		arguments = json.RawMessage(inner)
	}
	if !slices.Contains(r.names, c.Name) || !isObject(arguments) || !json.Valid(arguments) {
		return Call{}, errors.New("no call of a tool of the conversation")
	}
	return Call{c.Name, arguments}, nil
}

func isObject(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) > 0 && text[0] == '{'
}

// sequence reads calls with semicolons between them; nil if anything else is there.
func (r *Reader) sequence() (calls []Call) {
	rest := []byte(r.held)
	for {
		rest = bytes.TrimLeft(rest, " \t\r\n;")
		if len(rest) == 0 {
			return calls
		}
		d := json.NewDecoder(bytes.NewReader(rest))
		var one json.RawMessage
		if err := d.Decode(&one); err != nil {
			return nil
		}
		c, err := r.parse(one)
		if err != nil {
			return nil
		}
		calls, rest = append(calls, c), rest[d.InputOffset():]
	}
}

// list reads a list of calls; nil if it is none.
func (r *Reader) list() (calls []Call) {
	var all []json.RawMessage
	d := json.NewDecoder(strings.NewReader(r.held))
	if err := d.Decode(&all); err != nil {
		return nil
	}
	if _, err := d.Token(); err != io.EOF {
		return nil
	}
	for _, one := range all {
		c, err := r.parse(one)
		if err != nil {
			return nil
		}
		calls = append(calls, c)
	}
	return calls
}
