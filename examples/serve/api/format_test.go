package api_test

import (
	"encoding/json"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/serve/engine"
)

// TestFormats: answers are JSON of the schema that the client gives, at once and streamed, also when tokens are
// drafted. The model knows no JSON.
func TestFormats(t *testing.T) {
	s := start(t, engine.Options{Blocks: 64, BlockSize: 16, Speculate: 4, Graph: true}, nil)
	p := said("hello")
	p.MaxCompletionTokens, p.Logprobs, p.TopLogprobs, p.N = openai.Int(600), openai.Bool(true), openai.Int(2), openai.Int(3)
	p.Temperature = openai.Float(1)
	p.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &openai.ResponseFormatJSONSchemaParam{
		JSONSchema: openai.ResponseFormatJSONSchemaJSONSchemaParam{Name: "shape", Strict: openai.Bool(true), Schema: map[string]any{
			"type": "object", "required": []string{"kind", "sides", "filled"}, "additionalProperties": false,
			"properties": map[string]any{
				"kind": map[string]any{"enum": []string{"square", "circle"}}, "filled": map[string]any{"type": []string{"boolean", "null"}},
				"sides": map[string]any{"type": "array", "items": map[string]any{"type": "integer"}, "minItems": 2, "maxItems": 2},
			},
		}},
	}}
	check := func(text, reason string) {
		var shape struct {
			Kind   *string
			Sides  []int64
			Filled *bool
		}
		require.NoError(t, json.Unmarshal([]byte(text), &shape), "%s", text)
		require.Contains(t, []string{"square", "circle"}, *shape.Kind)
		require.Len(t, shape.Sides, 2)
		require.Equal(t, "stop", reason)
	}
	whole, err := s.client.Chat.Completions.New(t.Context(), p)
	require.NoError(t, err)
	require.Len(t, whole.Choices, 3)
	for _, c := range whole.Choices {
		check(c.Message.Content, c.FinishReason)
		require.Len(t, c.Logprobs.Content, len(c.Message.Content), "a token is a byte")
	}
	p.N = openai.Int(1)
	var all openai.ChatCompletionAccumulator
	stream := s.client.Chat.Completions.NewStreaming(t.Context(), p)
	for stream.Next() {
		require.True(t, all.AddChunk(stream.Current()))
	}
	require.NoError(t, stream.Err())
	check(all.Choices[0].Message.Content, all.Choices[0].FinishReason)

	// An object of any form may be longer than the answer.
	loose, err := s.client.Chat.Completions.New(t.Context(), p, option.WithJSONSet("response_format", map[string]string{"type": "json_object"}))
	require.NoError(t, err)
	c := loose.Choices[0]
	require.Equal(t, "{", c.Message.Content[:1])
	require.Equal(t, c.FinishReason == "stop", json.Valid([]byte(c.Message.Content)))
}
