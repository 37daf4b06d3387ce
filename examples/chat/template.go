package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/goascend/cann/examples/budget"
	"github.com/goascend/cann/examples/hub"
	"github.com/goascend/cann/examples/jinja"
	"github.com/goascend/cann/examples/verdict"
)

// ErrNoTemplate is the error of a folder without a chat template, as base models have none.
var ErrNoTemplate = errors.New("the folder has no chat template")

// ErrVariable is the error of a further variable with the name of a part of the conversation.
var ErrVariable = errors.New("the variable is the conversation's own; further variables cannot replace it")

// Template writes conversations for one model. It is safe for concurrent use.
type Template struct {
	named   map[string]*jinja.Template // "default", and "tool_use" or others where the model has them
	sources map[string]string          // of the same
	tokens  jinja.Vars                 // bos_token, eos_token, …
}

// Load reads the template of a hub folder: chat_template.jinja, else the entry "chat_template" of
// tokenizer_config.json, which may hold several by name, else that of chat_template.json; and those in
// additional_chat_templates by their names. Special tokens are those of tokenizer_config.json, else of
// special_tokens_map.json. The tables of package hub say what becomes of each key.
func Load(folder string) (*Template, error) {
	t, err := load(folder)
	if err != nil {
		return nil, fmt.Errorf("chat: %s: %w", folder, err)
	}
	return t, nil
}

// A folder has at most mostTemplates templates, and mostSource bytes of them.
const mostTemplates, mostSource = 100, 1 << 20

func load(folder string) (*Template, error) {
	var config, special, processor map[string]json.RawMessage
	for _, f := range []struct {
		name  string
		table verdict.Table
		to    *map[string]json.RawMessage
	}{
		{"tokenizer_config.json", hub.TokenizerConfig, &config}, {"special_tokens_map.json", hub.SpecialTokensMap, &special}, {"chat_template.json", hub.ChatTemplate, &processor},
	} {
		if _, err := hub.Decode(folder, f.name, f.table, f.to); err != nil { // hub.Check has the warnings
			return nil, err
		}
	}
	entry := config["chat_template"]
	if !given(entry) {
		entry = processor["chat_template"]
	}
	sources, err := sources(folder, entry)
	if err != nil {
		return nil, err
	}
	size := 0
	for _, source := range sources {
		size += len(source)
	}
	if err := cmp.Or(budget.Size("the folder", len(sources), mostTemplates, "templates"), budget.Size("the folder", size, mostSource, "bytes of templates")); err != nil {
		return nil, err
	}
	t := &Template{named: map[string]*jinja.Template{}, sources: sources, tokens: specialTokens(special)}
	maps.Copy(t.tokens, specialTokens(config))
	for name, source := range sources {
		if t.named[name], err = jinja.Parse(source); err != nil {
			return nil, fmt.Errorf("template %s: %w", name, err)
		}
	}
	return t, nil
}

func given(value json.RawMessage) bool { return len(value) > 0 && string(value) != "null" }

// sources gives the text of each template: the folder's own, or those of an entry of a configuration, and the additional ones.
func sources(folder string, entry json.RawMessage) (all map[string]string, err error) {
	all = map[string]string{}
	text, err := budget.ReadFile(filepath.Join(folder, "chat_template.jinja"), budget.Config)
	switch {
	case err == nil:
		all["default"] = string(text)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case given(entry):
		if all, err = named(entry); err != nil {
			return nil, fmt.Errorf("chat_template: %w", err)
		}
	}
	further := filepath.Join(folder, "additional_chat_templates")
	more, err := fs.Glob(os.DirFS(further), "*.jinja")
	if err != nil {
		return nil, err
	}
	for _, name := range more[:min(len(more), mostTemplates+1)] { // load refuses more
		text, err := budget.ReadFile(filepath.Join(further, name), budget.Config)
		if err != nil {
			return nil, err
		}
		all[strings.TrimSuffix(name, ".jinja")] = string(text)
	}
	if len(all) == 0 {
		return nil, ErrNoTemplate
	}
	return all, nil
}

// named reads one template, or several by name.
func named(entry json.RawMessage) (map[string]string, error) {
	var one string
	if json.Unmarshal(entry, &one) == nil {
		return map[string]string{"default": one}, nil
	}
	var several []struct{ Name, Template string }
	if err := json.Unmarshal(entry, &several); err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, s := range several {
		all[s.Name] = s.Template
	}
	return all, nil
}

// specialTokens reads the tokens that transformers passes to templates as variables, such as bos_token.
func specialTokens(config map[string]json.RawMessage) jinja.Vars {
	vars := jinja.Vars{}
	for _, name := range []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"} {
		var text string
		var added struct{ Content string }
		switch {
		case json.Unmarshal(config[name], &text) == nil && text != "":
			vars[name] = text
		case json.Unmarshal(config[name], &added) == nil && added.Content != "":
			vars[name] = added.Content
		}
	}
	return vars
}

// Message is one turn. Messages with tool calls or parts of content can be given as any value
// whose JSON has the fields that the template reads.
type Message struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

// Conversation holds the input of a template. Messages and Tools are values whose JSON templates
// understand: slices of Message, maps, or json.RawMessage, which keeps the order of keys.
type Conversation struct {
	Messages            any
	Tools               any // nil: none
	AddGenerationPrompt bool
	Template            string         // of several in the folder; empty: "tool_use" when there are tools, else "default"
	Variables           map[string]any // further ones, such as enable_thinking
}

// Prompt is a conversation as text. Answers are its parts that stand in {% generation %} blocks: what the model said. Templates
// without such blocks give none.
type Prompt struct {
	Text    string
	Answers []jinja.Span
}

// usual is the name of the template for conversations with tools or without.
func (t *Template) usual(tools bool) string {
	if _, ok := t.named["tool_use"]; ok && tools {
		return "tool_use"
	}
	return "default"
}

// Source is the text of the template for conversations with tools or without, empty if the folder has none.
func (t *Template) Source(tools bool) string { return t.sources[t.usual(tools)] }

// Render writes a conversation.
func (t *Template) Render(c Conversation) (Prompt, error) {
	return t.render(c, budget.New(context.Background(), "a conversation", math.MaxInt)) // the template has bounds of its own
}

// render is Render as one of several renderings with a budget for all of them.
func (t *Template) render(c Conversation, work *budget.Budget) (Prompt, error) {
	name := c.Template
	if name == "" {
		name = t.usual(c.Tools != nil)
	}
	template, ok := t.named[name]
	if !ok {
		return Prompt{}, fmt.Errorf("chat: the folder has no template %q", name)
	}
	vars := maps.Clone(t.tokens)
	vars["add_generation_prompt"] = c.AddGenerationPrompt
	vars["documents"] = nil
	all := map[string]any{"messages": c.Messages, "tools": c.Tools}
	for name, value := range c.Variables {
		if _, taken := all[name]; taken || name == "add_generation_prompt" {
			return Prompt{}, fmt.Errorf("chat: %q: %w", name, ErrVariable)
		}
		all[name] = value
	}
	for name, value := range all {
		var err error
		if vars[name], err = jinja.From(value); err != nil {
			return Prompt{}, fmt.Errorf("chat: %s: %w", name, err)
		}
	}
	text, answers, err := template.RenderSpans(work, vars)
	if err != nil {
		return Prompt{}, fmt.Errorf("chat: %w", err)
	}
	return Prompt{Text: text, Answers: answers}, nil
}

// answerSteps bounds RenderAnswers, whose work grows with the square of the number of answers, on every machine alike: about a second of the processor. A step is one of
// the template, or conversionBytes of messages that become values of it.
const answerSteps, conversionBytes = 4_000_000, 10

// RenderAnswers is Render of a conversation whose messages are given, with the parts that the model
// said also for templates without {% generation %} blocks. They are found by rendering what comes
// before each of the assistant's messages: an answer begins where the prompt for it ends, and ends
// with the token that ends a turn. An answer before which the template writes other text than in the
// whole conversation is left out.
func (t *Template) RenderAnswers(c Conversation, messages []json.RawMessage) (Prompt, error) {
	c.Messages = messages
	whole, err := t.Render(c)
	if err != nil || whole.Answers != nil {
		return whole, err
	}
	steps := budget.New(context.Background(), "a conversation, rendered up to each of its answers,", answerSteps)
	size, next := 0, 0 // bytes of the messages before this one, and of those up to its end
	for i, m := range messages {
		size, next = next, next+len(m)
		var head struct{ Role string }
		if err := json.Unmarshal(m, &head); err != nil {
			return whole, fmt.Errorf("chat: messages: %w", err)
		}
		if head.Role != "assistant" || i == 0 {
			continue
		}
		before := c
		before.Messages, before.AddGenerationPrompt = messages[:i], true
		err := steps.Step(size / conversionBytes)
		var prompt Prompt
		if err == nil {
			prompt, err = t.render(before, steps)
		}
		if err != nil {
			return whole, err
		}
		from := len(prompt.Text)
		if n := len(whole.Answers); !strings.HasPrefix(whole.Text, prompt.Text) || n > 0 && from < whole.Answers[n-1].To {
			continue
		}
		to := len(whole.Text)
		if end := t.end(); end != "" {
			if at := strings.Index(whole.Text[from:], end); at >= 0 {
				to = from + at + len(end)
			}
		}
		whole.Answers = append(whole.Answers, jinja.Span{From: from, To: to})
	}
	return whole, nil
}

// end is the text of the token that ends a turn: the folder's eos_token.
func (t *Template) end() string {
	text, _ := t.tokens["eos_token"].(string)
	return text
}
