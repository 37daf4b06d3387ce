package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/serve/api"
	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/examples/serve/language"
	"github.com/goascend/cann/examples/serve/tools"
)

// caller is a language whose answers call tools.
type caller struct {
	language.Language
	form tools.Form
}

func (c caller) Tools() tools.Form { return c.form }

// with starts a server whose model calls tools in a form.
func with(t *testing.T, form tools.Form) *server {
	return start(t, engine.Options{Blocks: 64, BlockSize: 16, MaxLength: 256}, func(c *api.Config) {
		c.Language = caller{c.Language, form}
		c.MaxTokens = 200
	})
}

// add is a tool whose one argument is one.
var add = openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
	Name: "add", Description: openai.String("adds"),
	Parameters: shared.FunctionParameters{"type": "object", "properties": map[string]any{"a": map[string]any{"const": 1}}, "required": []string{"a"}, "additionalProperties": false},
})

// TestTools: OpenAI's own client gets the calls that an answer has, at once and in a stream; tool_choice makes them come; and
// the next request has them and their results in its messages.
func TestTools(t *testing.T) {
	s := with(t, tools.Llama)
	ctx := t.Context()
	for name, change := range map[string]func(p *openai.ChatCompletionNewParams){
		"auto": func(p *openai.ChatCompletionNewParams) { // the format makes the model say what it would
			p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "call", Schema: map[string]any{
				"type": "object", "required": []string{"name", "parameters"}, "additionalProperties": false,
				"properties": map[string]any{"name": map[string]any{"const": "add"}, "parameters": map[string]any{"const": map[string]any{"a": 1}}},
			}}}
		},
		"required": func(p *openai.ChatCompletionNewParams) {
			p.ToolChoice.OfAuto = openai.String("required")
			p.ParallelToolCalls = openai.Bool(false)
		},
		"stop": func(p *openai.ChatCompletionNewParams) {
			p.ToolChoice = openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: "add"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := said("one and one")
			p.MaxCompletionTokens = openai.Int(100)
			p.Tools = []openai.ChatCompletionToolUnionParam{add}
			change(&p)
			reason := "tool_calls"
			if name == "stop" {
				reason = name
			}
			whole, err := s.client.Chat.Completions.New(ctx, p)
			require.NoError(t, err)
			require.EqualValues(t, reason, whole.Choices[0].FinishReason)
			m := whole.Choices[0].Message
			require.Empty(t, m.Content)
			require.Contains(t, whole.RawJSON(), `"content":null`)
			require.Len(t, m.ToolCalls, 1)
			c := m.ToolCalls[0]
			require.True(t, strings.HasPrefix(c.ID, "call_"))
			require.Equal(t, "add", c.Function.Name)
			require.JSONEq(t, `{"a":1}`, c.Function.Arguments)

			stream := s.client.Chat.Completions.NewStreaming(ctx, p)
			acc := openai.ChatCompletionAccumulator{}
			for stream.Next() {
				require.True(t, acc.AddChunk(stream.Current()))
			}
			require.NoError(t, stream.Err())
			require.Empty(t, acc.Choices[0].Message.Content)
			require.Len(t, acc.Choices[0].Message.ToolCalls, 1)
			require.JSONEq(t, `{"a":1}`, acc.Choices[0].Message.ToolCalls[0].Function.Arguments)
			require.EqualValues(t, reason, acc.Choices[0].FinishReason)

			next := said("one and one")
			next.Messages = append(next.Messages, m.ToParam(), openai.ToolMessage("2", c.ID))
			next.Tools = p.Tools
			_, err = s.client.Chat.Completions.New(ctx, next)
			require.NoError(t, err)
		})
	}
	p := said("one and one")
	p.Tools, p.ToolChoice.OfAuto = []openai.ChatCompletionToolUnionParam{add}, openai.String("none")
	none, err := s.client.Chat.Completions.New(ctx, p)
	require.NoError(t, err)
	p.Tools = nil
	p.ToolChoice.OfAuto = openai.String("none")
	without, err := s.client.Chat.Completions.New(ctx, p)
	require.NoError(t, err)
	require.Equal(t, without.Choices[0].Message.Content, none.Choices[0].Message.Content)
}

// TestToolRefusals: what is malformed is refused with the parameter's name.
func TestToolRefusals(t *testing.T) {
	s, none := with(t, tools.Hermes), with(t, tools.None)
	const one = `{"type":"function","function":{"name":"add","parameters":{"type":"object"}}}`
	for _, c := range []struct{ s, param, body, want string }{
		{"none", "tools", `"tools":[` + one + `]`, "no tools whose calls"},
		{"", "tools", `"tools":[7]`, "tool 0"},
		{"", "tools", `"tools":[{"type":"retrieval"}]`, `the type \"retrieval\"`},
		{"", "tools", `"tools":[{"type":"function","function":{"name":"a b"}}]`, `the name \"a b\"`},
		{"", "tools", `"tools":[` + one + `,` + one + `]`, "which another has"},
		{"", "tools", `"tools":[{"type":"function","function":{"name":"a","parameters":[]}}]`, "no JSON schema"},
		{"", "tools", `"tool_choice":"required","tools":[{"type":"function","function":{"name":"a","parameters":{"type":"object","properties":{"n":{"type":"number","minimum":1}}}}}]`, "minimum is not supported"},
		{"", "tools", `"tools":[{"type":"function","function":{"name":"a","strict":true}}]`, `the tool \"a\" has strict`},
		{"", "tool_choice", `"tool_choice":"required"`, "it needs tools"},
		{"", "tool_choice", `"tool_choice":"maybe","tools":[` + one + `]`, `\"maybe\" is not`},
		{"", "tool_choice", `"tool_choice":{"type":"function","function":{"name":"sub"}},"tools":[` + one + `]`, `no tool \"sub\"`},
		{"", "tool_choice", `"tool_choice":[1],"tools":[` + one + `]`, "neither a text nor a function"},
		{"", "tool_choice", `"tool_choice":"required","response_format":{"type":"json_object"},"tools":[` + one + `]`, "excludes response_format"},
		{"", "functions", `"functions":[{"name":"a"}]`, "use tools"},
		{"", "messages", `"messages":[{"role":"user","content":"a","tool_calls":[{}]}]`, "an assistant calls tools"},
		{"", "messages", `"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"add","arguments":"{"}}]}]`, "no JSON object"},
		{"", "messages", `"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"x","function":{"name":"add","arguments":"{}"}}]}]`, `type \"x\"`},
		{"", "messages", `"messages":[{"role":"assistant","tool_calls":7}]`, "no list of calls"},
		{"", "messages", `"messages":[{"role":"tool","content":"2"}]`, "no tool_call_id"},
	} {
		body := `{"model":"small",` + c.body
		if c.param != "messages" {
			body += `,"messages":[{"role":"user","content":"a"}]`
		}
		at := s
		if c.s == "none" {
			at = none
		}
		status, _, text := at.post(t, "/v1/chat/completions", body+"}")
		require.Equal(t, 400, status, "%s: %s", c.body, text)
		require.Contains(t, text, `"param":"`+c.param+`"`, c.body)
		require.Contains(t, text, c.want, c.body)
		require.True(t, json.Valid([]byte(text)))
	}
}
