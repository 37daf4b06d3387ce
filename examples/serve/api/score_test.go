package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/serve/engine"
)

// scored is an answer of /v1/completions with probabilities.
type scored struct {
	Choices []struct {
		Text     string
		Reason   string `json:"finish_reason"`
		LogProbs struct {
			Tokens  []string
			Values  []*float64           `json:"token_logprobs"`
			Top     []map[string]float64 `json:"top_logprobs"`
			Offsets []int                `json:"text_offset"`
		}
	}
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
}

// TestEvaluation sends requests as lm-evaluation-harness does. The probabilities of a text as a prompt are those with which it was
// generated, whether the prompt is text or tokens, alone or among others, with a token more or none, at once or in a stream.
func TestEvaluation(t *testing.T) {
	s := start(t, engine.Options{Blocks: 32, BlockSize: 16}, nil)
	ask := func(body string) (a scored) {
		status, _, text := s.post(t, "/v1/completions", body)
		require.Equal(t, 200, status, text)
		require.NoError(t, json.Unmarshal([]byte(text), &a))
		return a
	}
	const context = "the quick"
	made := ask(`{"model":"small","prompt":"the quick","max_tokens":9,"temperature":0,"logprobs":2}`).Choices[0]
	require.Len(t, made.LogProbs.Values, 9)
	whole := context + made.Text
	var ids []string
	for _, b := range []byte(whole) {
		ids = append(ids, fmt.Sprint(b))
	}
	list := "[" + strings.Join(ids, ",") + "]"
	text, err := json.Marshal(whole)
	require.NoError(t, err)
	for _, c := range []struct{ prompt, more string }{
		{string(text), `"max_tokens":0`}, {list, `"max_tokens":1,"seed":1234`}, {"[" + list + ",[120,121]]", `"max_tokens":1`}, {"[" + string(text) + "]", `"max_tokens":0,"n":2`},
	} {
		a := ask(fmt.Sprintf(`{"model":"small","prompt":%s,"temperature":0,"logprobs":1,"echo":true,%s}`, c.prompt, c.more))
		got := a.Choices[0]
		more := strings.Count(c.more, `"max_tokens":1`)
		require.Len(t, got.LogProbs.Values, len(whole)+more)
		require.Len(t, got.LogProbs.Tokens, len(whole)+more)
		require.True(t, strings.HasPrefix(got.Text, whole))
		require.Equal(t, got.Text, strings.Join(got.LogProbs.Tokens, ""))
		require.Equal(t, "length", got.Reason)
		require.Nil(t, got.LogProbs.Values[0])
		require.Nil(t, got.LogProbs.Top[0])
		for i, want := range made.LogProbs.Values {
			at := len(context) + i
			require.InDelta(t, *want, *got.LogProbs.Values[at], 1e-5)
			require.Len(t, got.LogProbs.Top[at], 1)
			require.Contains(t, got.LogProbs.Top[at], got.LogProbs.Tokens[at], "greedy tokens are the likeliest")
			require.Equal(t, at, got.LogProbs.Offsets[at])
		}
		require.Equal(t, more*len(a.Choices), a.Usage.Completion)
	}
	_, _, stream := s.post(t, "/v1/completions", fmt.Sprintf(`{"model":"small","prompt":%s,"temperature":0,"logprobs":1,"echo":true,"max_tokens":3,"stream":true}`, text))
	var got scored
	said, values := "", []*float64{}
	for line := range strings.SplitSeq(stream, "\n\n") {
		if line = strings.TrimPrefix(line, "data: "); line == "" || line == "[DONE]" {
			continue
		}
		require.NoError(t, json.Unmarshal([]byte(line), &got))
		said, values = said+got.Choices[0].Text, append(values, got.Choices[0].LogProbs.Values...)
		got.Choices = nil
	}
	require.True(t, strings.HasPrefix(said, whole))
	require.Len(t, said, len(whole)+3)
	require.Len(t, values, len(whole)+3)
	for i, want := range made.LogProbs.Values {
		require.InDelta(t, *want, *values[len(context)+i], 1e-5)
	}
	empty := ask(`{"model":"small","prompt":"the","max_tokens":0}`)
	require.Empty(t, empty.Choices[0].Text)
	require.Zero(t, empty.Usage.Completion)
	status, _, refused := s.post(t, "/v1/completions", `{"model":"small","prompt":"the","max_tokens":0,"response_format":{"type":"json_object"}}`)
	require.Equal(t, 400, status)
	require.Contains(t, refused, `"param":"response_format"`)
}
