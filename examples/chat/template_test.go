package chat_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/budget"
	"github.com/goascend/cann/examples/chat"
	"github.com/goascend/cann/examples/jinja"
	"github.com/goascend/cann/examples/tokenizer"
	"github.com/goascend/cann/internal/testing/golden"
)

func TestGoldenChats(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	small := filepath.Join(dir, "tokenizer", "small")
	template, err := chat.Load(small)
	require.NoError(t, err)
	tok, err := tokenizer.Load(small)
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(small, "chat.json"))
	require.NoError(t, err)
	var cases []struct {
		Messages json.RawMessage
		Tools    json.RawMessage
		Prompt   bool  `json:"add_generation_prompt"`
		Thinking *bool `json:"enable_thinking"`
		Text     string
		IDs      []int32
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	require.NotEmpty(t, cases)
	for i, c := range cases {
		conversation := chat.Conversation{Messages: c.Messages, AddGenerationPrompt: c.Prompt, Tools: c.Tools}
		if c.Thinking != nil {
			conversation.Variables = map[string]any{"enable_thinking": *c.Thinking}
		}
		prompt, err := template.Render(conversation)
		require.NoError(t, err, "case %d", i)
		require.Equal(t, c.Text, prompt.Text, "case %d", i)
		ids, err := tok.Encode(prompt.Text)
		require.NoError(t, err)
		require.Equal(t, c.IDs, ids, "case %d", i)
	}
	_, err = template.Render(chat.Conversation{Messages: []chat.Message{{Role: "poet", Content: "?"}}})
	var raised *jinja.Raised
	require.ErrorAs(t, err, &raised)
	require.Equal(t, "unknown role poet", raised.Message)
}

// folder writes a hub folder's files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func TestTemplateOfConfiguration(t *testing.T) {
	template, err := chat.Load(folder(t, map[string]string{"tokenizer_config.json": `{
		"bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "</s>", "pad_token": null,
		"chat_template": [{"name": "default", "template": "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}{% else %}{{ m.content }}|{% endif %}{% endfor %}"},
			{"name": "tool_use", "template": "{{ tools | length }} tools{{ pad_token }}"}]}`}))
	require.NoError(t, err)
	messages := []chat.Message{{"user", "é"}, {"assistant", "yes"}, {"user", "?"}, {"assistant", "no"}}
	prompt, err := template.Render(chat.Conversation{Messages: messages})
	require.NoError(t, err)
	require.Equal(t, "<s>é|yes</s>?|no</s>", prompt.Text)
	var answers []string
	for _, a := range prompt.Answers {
		answers = append(answers, prompt.Text[a.From:a.To])
	}
	require.Equal(t, []string{"yes</s>", "no</s>"}, answers)
	prompt, err = template.Render(chat.Conversation{Messages: messages, Tools: []int{1, 2}})
	require.NoError(t, err)
	require.Equal(t, "2 tools", prompt.Text)
	_, err = template.Render(chat.Conversation{Messages: messages, Template: "rag"})
	require.ErrorContains(t, err, `"rag"`)
	_, err = template.Render(chat.Conversation{Messages: func() {}})
	require.ErrorContains(t, err, "messages")
}

// many are additional templates.
func many(n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf("additional_chat_templates/t%d.jinja", i)] = "x"
	}
	return files
}

func TestFoldersWithoutTemplate(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		is    error
		text  string
	}{
		"empty folder":     {nil, chat.ErrNoTemplate, ""},
		"base model":       {map[string]string{"tokenizer_config.json": `{"chat_template": null}`}, chat.ErrNoTemplate, ""},
		"empty list":       {map[string]string{"tokenizer_config.json": `{"chat_template": []}`}, chat.ErrNoTemplate, ""},
		"no JSON":          {map[string]string{"tokenizer_config.json": `{`}, nil, "tokenizer_config.json"},
		"wrong kind":       {map[string]string{"tokenizer_config.json": `{"chat_template": 5}`}, nil, "chat_template"},
		"broken template":  {map[string]string{"chat_template.jinja": "{% if %}"}, nil, "line 1"},
		"many templates":   {many(101), budget.ErrLimit, "101 templates"},
		"large templates":  {map[string]string{"chat_template.jinja": strings.Repeat(" ", 1<<20), "additional_chat_templates/b.jinja": "b"}, budget.ErrLimit, "1048577 bytes of templates"},
		"includes another": {map[string]string{"chat_template.jinja": "\n{% include 'x' %}"}, nil, "line 2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := chat.Load(folder(t, c.files))
			require.Error(t, err)
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
			require.ErrorContains(t, err, c.text)
		})
	}
}

// TestSpecialTokens: a token that special_tokens_map.json alone has is a variable of the template, as in transformers; that of
// tokenizer_config.json goes first.
func TestSpecialTokens(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	render := func(c chat.Conversation) (string, error) {
		tmpl, err := chat.Load(dir)
		require.NoError(t, err)
		p, err := tmpl.Render(c)
		return p.Text, err
	}
	_, err := chat.Load(dir)
	require.ErrorIs(t, err, chat.ErrNoTemplate)
	write("chat_template.json", `{"chat_template":"{{ bos_token }}|{{ eos_token }}"}`)
	write("special_tokens_map.json", `{"bos_token":"<s>","eos_token":{"content":"</s>","lstrip":false}}`)
	text, err := render(chat.Conversation{})
	require.NoError(t, err)
	require.Equal(t, "<s>|</s>", text)
	write("tokenizer_config.json", `{"bos_token":"<b>","add_bos_token":true}`)
	write("additional_chat_templates/short.jinja", "short {{ bos_token }}")
	text, err = render(chat.Conversation{})
	require.NoError(t, err)
	require.Equal(t, "<b>|</s>", text)
	text, err = render(chat.Conversation{Template: "short"})
	require.NoError(t, err)
	require.Equal(t, "short <b>", text)
	for _, name := range []string{"messages", "tools", "add_generation_prompt"} {
		_, err = render(chat.Conversation{Variables: map[string]any{name: []any{}}})
		require.ErrorIs(t, err, chat.ErrVariable)
		require.ErrorContains(t, err, name)
	}
	write("tokenizer_config.json", `{"split_special_tokens":true}`)
	_, err = chat.Load(dir)
	require.ErrorContains(t, err, "split_special_tokens is true")
}

// TestOddNames: the name of a folder is no pattern.
func TestOddNames(t *testing.T) {
	for _, name := range []string{"a[b]", "a[", "*"} {
		dir := filepath.Join(t.TempDir(), name)
		further := filepath.Join(dir, "additional_chat_templates")
		require.NoError(t, os.MkdirAll(further, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(further, "rag.jinja"), []byte("rag"), 0o600))
		template, err := chat.Load(dir)
		require.NoError(t, err, name)
		prompt, err := template.Render(chat.Conversation{Template: "rag"})
		require.NoError(t, err)
		require.Equal(t, "rag", prompt.Text)
	}
}
