package tools_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goascend/cann/examples/serve/tools"
)

type answer struct {
	form  tools.Form
	whole string
	text  string
	calls []tools.Call
}

func call(name, arguments string) tools.Call {
	return tools.Call{Name: name, Arguments: []byte(arguments)}
}

var answers = map[string]answer{
	"text":              {tools.Hermes, "It is 3 < 4 <tool <b>\n\n ", "It is 3 < 4 <tool <b>\n\n ", nil},
	"one":               {tools.Hermes, "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": [2]}}\n</tool_call>", "", []tools.Call{call("add", `{"a": 1, "b": [2]}`)}},
	"text before":       {tools.Hermes, "Let me see.\n\n<tool_call>\n{\"name\":\"add\",\"arguments\":{}}\n</tool_call>\n", "Let me see.", []tools.Call{call("add", `{}`)}},
	"two":               {tools.Hermes, "<tool_call>{\"name\":\"add\",\"arguments\":{\"a\":\"<tool_call>\"}}</tool_call>\n<tool_call>{\"arguments\":{},\"name\":\"now\"}</tool_call>", "", []tools.Call{call("add", `{"a":"<tool_call>"}`), call("now", `{}`)}},
	"arguments as text": {tools.Hermes, `<tool_call>{"name":"add","arguments":"{\"a\":1}"}</tool_call>`, "", []tools.Call{call("add", `{"a":1}`)}},
	"broken":            {tools.Hermes, "a <tool_call>{\"name\":\"add\"</tool_call> b", "a <tool_call>{\"name\":\"add\"</tool_call> b", nil},
	"unknown":           {tools.Hermes, `<tool_call>{"name":"sub","arguments":{}}</tool_call>`, `<tool_call>{"name":"sub","arguments":{}}</tool_call>`, nil},
	"no object":         {tools.Hermes, `<tool_call>{"name":"add","arguments":[1]}</tool_call>`, `<tool_call>{"name":"add","arguments":[1]}</tool_call>`, nil},
	"cut":               {tools.Hermes, "so\n<tool_call>\n{\"name\": \"add\", ", "so\n<tool_call>\n{\"name\": \"add\", ", nil},
	"llama":             {tools.Llama, ` {"name": "add", "parameters": {"a": 1}}`, "", []tools.Call{call("add", `{"a": 1}`)}},
	"llama two":         {tools.Llama, `{"name":"add","parameters":{}}; {"name":"now","parameters":{"b":";"}}`, "", []tools.Call{call("add", `{}`), call("now", `{"b":";"}`)}},
	"llama text":        {tools.Llama, "\n{no} braces", "\n{no} braces", nil},
	"llama says":        {tools.Llama, `The answer is {"name":"add","parameters":{}}`, `The answer is {"name":"add","parameters":{}}`, nil},
	"llama and text":    {tools.Llama, `{"name":"add","parameters":{}} done`, `{"name":"add","parameters":{}} done`, nil},
	"arguments":         {tools.Arguments, ` {"a":1} `, "", []tools.Call{call("add", `{"a":1}`)}},
	"arguments cut":     {tools.Arguments, `{"a":`, `{"a":`, nil},
	"list":              {tools.List, `[{"name":"now","arguments":{}},{"name":"add","arguments":{"a":2}}]`, "", []tools.Call{call("now", `{}`), call("add", `{"a":2}`)}},
	"none":              {tools.None, `<tool_call>{"name":"add","arguments":{}}</tool_call>`, `<tool_call>{"name":"add","arguments":{}}</tool_call>`, nil},
}

// TestReader: text and calls are the same however an answer is cut into pieces, and what is no call stays text.
func TestReader(t *testing.T) {
	for name, a := range answers {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				r := a.form.Reader([]string{"add", "now"})
				text, rest := "", a.whole
				var calls []tools.Call
				for rest != "" {
					n := rapid.IntRange(1, len(rest)).Draw(t, "bytes")
					some, more := r.Next(rest[:n])
					text, calls, rest = text+some, append(calls, more...), rest[n:]
				}
				some, more := r.Flush()
				text, calls = text+some, append(calls, more...)
				require.Equal(t, a.text, text)
				require.Equal(t, a.calls, calls)
				require.Equal(t, len(a.calls), r.Calls())
			})
		})
	}
}

// TestFormOf: templates say how their models call tools.
func TestFormOf(t *testing.T) {
	for template, want := range map[string]tools.Form{
		`{% if tools %}<tool_call>{"name": <function-name>, "arguments": <args-json-object>}</tool_call>{% endif %}`:                                                 tools.Hermes,
		`{% if tools is not none %}Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}{{ "ipython" }}{% endif %}`: tools.Llama,
		`{% if tools %}{{ tools | tojson }}{% endif %}`: tools.None, `{{ messages[0].content }} <tool_call> "arguments"`: tools.None,
	} {
		require.Equal(t, want, tools.FormOf(template), template)
		require.Empty(t, want.Unread())
	}
}

// TestUnreadForms: templates that call tools in another form are known by their marks, and the form has a name for the error. What their models write stays text.
func TestUnreadForms(t *testing.T) {
	for name, mark := range map[string]string{
		"DeepSeek":    "'<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>'",
		"GLM-4.5":     `<tool_call>{function-name} <arg_key>{arg-key-1}</arg_key><arg_value>{arg-value-1}</arg_value></tool_call> "arguments"`,
		"gpt-oss":     `<|start|>assistant to=functions.{{ name }}<|channel|>commentary json<|message|>`,
		"Kimi K2":     `<|tool_calls_section_begin|><|tool_call_begin|>{{ id }}<|tool_call_argument_begin|>`,
		"Mistral":     `[AVAILABLE_TOOLS]{{ tools }}[/AVAILABLE_TOOLS][TOOL_CALLS]`,
		"Qwen3-Coder": `<tool_call> <function=example_function_name> <parameter=example_parameter_1> "arguments"`,
		"Phi-4":       `<|tool|>{{ tools }}<|/tool|><|tool_call|>`,
	} {
		form := tools.FormOf("{% if tools %}" + mark + "{% endif %}")
		require.Equal(t, name, form.Unread())
		text, calls := form.Reader([]string{"add"}).Next(`<tool_call>{"name":"add","arguments":{}}</tool_call>`)
		require.Equal(t, `<tool_call>{"name":"add","arguments":{}}</tool_call>`, text)
		require.Empty(t, calls)
	}
}
