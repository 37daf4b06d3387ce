package api_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/serve/api"
	"github.com/goascend/cann/examples/serve/engine"
)

// greedy asks for the likeliest tokens.
func greedy(prompt string, n int64) openai.CompletionNewParams {
	return openai.CompletionNewParams{
		Model: "small", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String(prompt)}, MaxTokens: openai.Int(n), Temperature: openai.Float(0),
	}
}

// said is a conversation of one message.
func said(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: "small", Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("be brief"), openai.UserMessage(text)},
		MaxCompletionTokens: openai.Int(12), Temperature: openai.Float(0),
	}
}

// TestCompletions: OpenAI's own client gets texts, choices, probabilities and counts.
func TestCompletions(t *testing.T) {
	s := start(t, engine.Options{Blocks: 32, BlockSize: 16}, nil)
	ctx := t.Context()
	one, err := s.client.Completions.New(ctx, greedy("the quick", 12))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(one.ID, "cmpl-"))
	require.Equal(t, "small", one.Model)
	require.Len(t, one.Choices, 1)
	require.EqualValues(t, "length", one.Choices[0].FinishReason)
	require.Len(t, one.Choices[0].Text, 12)
	require.EqualValues(t, 9, one.Usage.PromptTokens)
	require.EqualValues(t, 12, one.Usage.CompletionTokens)
	require.EqualValues(t, 21, one.Usage.TotalTokens)

	// Several prompts, as texts and as tokens, with probabilities.
	p := greedy("", 5)
	p.Prompt = openai.CompletionNewParamsPromptUnion{OfArrayOfTokenArrays: [][]int64{{'t', 'h', 'e'}, {'f', 'o', 'x'}}}
	p.N, p.Logprobs = openai.Int(2), openai.Int(3)
	four, err := s.client.Completions.New(ctx, p)
	require.NoError(t, err)
	require.Len(t, four.Choices, 4)
	require.Equal(t, four.Choices[0].Text, four.Choices[1].Text)
	for i, c := range four.Choices {
		require.EqualValues(t, i, c.Index)
		l := c.Logprobs
		require.Equal(t, c.Text, strings.Join(l.Tokens, ""))
		require.Len(t, l.TokenLogprobs, 5)
		for j, top := range l.TopLogprobs {
			require.Len(t, top, 3)
			require.Equal(t, l.TokenLogprobs[j], top[l.Tokens[j]], "greedy tokens are the likeliest")
			require.EqualValues(t, j, l.TextOffset[j])
		}
	}
	require.EqualValues(t, 6, four.Usage.PromptTokens)
	require.EqualValues(t, 20, four.Usage.CompletionTokens)

	// A text ends before a stop string.
	text := one.Choices[0].Text
	p = greedy("the quick", 12)
	p.Stop = openai.CompletionNewParamsStopUnion{OfStringArray: []string{"never", text[5:7]}}
	p.Echo = openai.Bool(true)
	stopped, err := s.client.Completions.New(ctx, p)
	require.NoError(t, err)
	before, _, _ := strings.Cut(text, text[5:7])
	require.Equal(t, "the quick"+before, stopped.Choices[0].Text)
	require.EqualValues(t, "stop", stopped.Choices[0].FinishReason)

	// The same seed gives the same text, in a stream as well.
	p = greedy("fox", 20)
	p.Temperature, p.Seed, p.TopP = openai.Float(1.5), openai.Int(7), openai.Float(.9)
	p.PresencePenalty, p.FrequencyPenalty, p.LogitBias = openai.Float(.5), openai.Float(.5), map[string]int64{"120": -100}
	drawn, err := s.client.Completions.New(ctx, p, option.WithJSONSet("top_k", 50), option.WithJSONSet("min_p", .01))
	require.NoError(t, err)
	require.NotContains(t, drawn.Choices[0].Text, "x")
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := s.client.Completions.NewStreaming(ctx, p, option.WithJSONSet("top_k", 50), option.WithJSONSet("min_p", .01))
	got, usage := "", int64(0)
	for stream.Next() {
		if c := stream.Current(); len(c.Choices) > 0 {
			got += c.Choices[0].Text
		} else {
			usage = c.Usage.CompletionTokens
		}
	}
	require.NoError(t, stream.Err())
	require.Equal(t, drawn.Choices[0].Text, got)
	require.EqualValues(t, 20, usage)
}

// TestChat: conversations, at once and streamed.
func TestChat(t *testing.T) {
	s := start(t, engine.Options{Blocks: 32, BlockSize: 16}, nil)
	ctx := t.Context()
	p := said("hello")
	p.Logprobs, p.TopLogprobs, p.N = openai.Bool(true), openai.Int(2), openai.Int(2)
	whole, err := s.client.Chat.Completions.New(ctx, p)
	require.NoError(t, err)
	require.Len(t, whole.Choices, 2)
	for _, c := range whole.Choices {
		require.EqualValues(t, "assistant", c.Message.Role)
		require.Equal(t, "length", c.FinishReason)
		require.Len(t, c.Logprobs.Content, 12)
		require.Len(t, c.Logprobs.Content[0].TopLogprobs, 2)
		require.EqualValues(t, c.Logprobs.Content[3].Token[0], c.Logprobs.Content[3].Bytes[0])
	}
	require.EqualValues(t, len("system: be brief\nuser: hello\nassistant: "), whole.Usage.PromptTokens)

	p.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := s.client.Chat.Completions.NewStreaming(ctx, p)
	var all openai.ChatCompletionAccumulator
	for stream.Next() {
		require.True(t, all.AddChunk(stream.Current()))
	}
	require.NoError(t, stream.Err())
	require.Len(t, all.Choices, 2)
	for i, c := range all.Choices {
		require.Equal(t, whole.Choices[i].Message.Content, c.Message.Content)
		require.Equal(t, "length", c.FinishReason)
		require.Len(t, c.Logprobs.Content, 12)
	}
	require.EqualValues(t, 24, all.Usage.CompletionTokens)
	require.Positive(t, all.Usage.PromptTokensDetails.CachedTokens, "the prompt was read before")
}

// TestParts: a content of several texts is read as one of lines, and developers speak as the system does.
func TestParts(t *testing.T) {
	s := start(t, engine.Options{Blocks: 32, BlockSize: 16}, nil)
	say := func(messages string) (prompt, text string) {
		_, _, answer := s.post(t, "/v1/chat/completions", `{"model":"small","temperature":0,"max_tokens":8,"messages":`+messages+`}`)
		var got struct {
			Choices []struct{ Message struct{ Content string } }
			Usage   struct {
				Prompt int `json:"prompt_tokens"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(answer), &got))
		require.Len(t, got.Choices, 1, answer)
		return strconv.Itoa(got.Usage.Prompt), got.Choices[0].Message.Content
	}
	prompt, text := say(`[{"role":"system","content":"be brief"},{"role":"user","content":"the fox\nsays"},{"role":"assistant","content":null}]`)
	prompt2, text2 := say(`[{"role":"developer","content":[{"type":"text","text":"be brief"}]},
		{"role":"user","content":[{"type":"text","text":"the fox"},{"type":"text","text":"says"}]},{"role":"assistant"}]`)
	require.Equal(t, prompt, prompt2)
	require.Equal(t, text, text2)
}

// TestOffsets: a character of several tokens is one character of the text.
func TestOffsets(t *testing.T) {
	s := start(t, engine.Options{Blocks: 32, BlockSize: 16}, nil)
	p := greedy("the", 6)
	p.Logprobs, p.LogitBias, p.FrequencyPenalty = openai.Int(0), map[string]int64{"195": 100, "169": 90}, openai.Float(20) // é is the bytes 195 and 169
	answer, err := s.client.Completions.New(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, "ééé", answer.Choices[0].Text)
	require.Equal(t, []int64{0, 0, 1, 1, 2, 2}, answer.Choices[0].Logprobs.TextOffset)
}

// TestEmbeddings: texts get vectors of length one, the same as numbers and as base64, beside requests that
// generate.
func TestEmbeddings(t *testing.T) {
	s := start(t, engine.Options{Blocks: 32, BlockSize: 16}, nil)
	end := s.long(t, t.Context())
	p := openai.EmbeddingNewParams{Model: "small", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"the fox", "a quick fox", "the fox"}}}
	all, err := s.client.Embeddings.New(t.Context(), p)
	require.NoError(t, err)
	require.Len(t, all.Data, 3)
	require.EqualValues(t, 7+11+7, all.Usage.PromptTokens)
	for i, x := range all.Data {
		require.EqualValues(t, i, x.Index)
		require.Len(t, x.Embedding, 128)
		square := 0.0
		for _, v := range x.Embedding {
			square += v * v
		}
		require.InDelta(t, 1, square, 1e-5)
	}
	require.Equal(t, all.Data[0].Embedding, all.Data[2].Embedding)
	require.NotEqual(t, all.Data[0].Embedding, all.Data[1].Embedding)
	_, _, text := s.post(t, "/v1/embeddings", `{"model":"small","input":"the fox","encoding_format":"base64"}`)
	var coded struct{ Data []struct{ Embedding []byte } }
	require.NoError(t, json.Unmarshal([]byte(text), &coded))
	for i, v := range all.Data[0].Embedding {
		require.Equal(t, float32(v), math.Float32frombits(binary.LittleEndian.Uint32(coded.Data[0].Embedding[4*i:])))
	}
	require.NoError(t, end())
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err = s.Engine.Embed(gone, []int32{1})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, s.Engine.Drain(t.Context()))
	_, err = s.Engine.Embed(t.Context(), []int32{1})
	require.ErrorIs(t, err, engine.ErrClosed)
}

func TestModels(t *testing.T) {
	s := start(t, engine.Options{Blocks: 4, BlockSize: 16}, nil)
	list, err := s.client.Models.List(t.Context())
	require.NoError(t, err)
	require.Len(t, list.Data, 1)
	m, err := s.client.Models.Get(t.Context(), "small")
	require.NoError(t, err)
	require.Equal(t, list.Data[0].ID, m.ID)
	require.EqualValues(t, "model", m.Object)
	_, err = s.client.Models.Get(t.Context(), "large")
	var reply *openai.Error
	require.ErrorAs(t, err, &reply)
	require.Equal(t, 404, reply.StatusCode)
	require.Equal(t, "model_not_found", reply.Code)
	require.Equal(t, "model", reply.Param)
}

// TestErrors: what is wrong is said in OpenAI's form.
func TestErrors(t *testing.T) {
	s := start(t, engine.Options{Blocks: 4, BlockSize: 16}, func(c *api.Config) { c.MaxChoices, c.MaxTokens = 4, 3 })
	for text, body := range map[string]string{
		"no valid JSON":                `{`,
		"n: it is a string":            `{"model":"small","n":"2"}`,
		"n: 0 is not":                  `{"model":"small","n":0}`,
		"n: 6 choices":                 `{"model":"small","prompt":["a","b"],"n":3}`,
		"prompt: it is missing":        `{"model":"small"}`,
		"prompt: it is empty":          `{"model":"small","prompt":[]}`,
		"prompt: it must be a text":    `{"model":"small","prompt":{"a":1}}`,
		"token 0 of the prompt is 256": `{"model":"small","prompt":[256]}`,
		"more than 63 tokens":          `{"model":"small","prompt":"` + strings.Repeat("x", 64) + `"}`,
		"temperature: -1 is":           `{"model":"small","prompt":"a","temperature":-1}`,
		"top_p: top-p 0":               `{"model":"small","prompt":"a","top_p":0}`,
		"max_tokens: it must be":       `{"model":"small","prompt":"a","max_tokens":-1}`,
		"logprobs: 21":                 `{"model":"small","prompt":"a","logprobs":21}`,
		"best_of: it is not supported": `{"model":"small","prompt":"a","best_of":2}`,
		"suffix: it is not supported":  `{"model":"small","prompt":"a","suffix":"b"}`,
		"response_format: \"xml\"":     `{"model":"small","prompt":"a","response_format":{"type":"xml"}}`,
		"#: minimum is not supported":  `{"model":"small","prompt":"a","response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"number","minimum":1}}}}`,
		"stop: there are 17":           `{"model":"small","prompt":"a","stop":[` + strings.Repeat(`"a",`, 16) + `"a"]}`,
		`logit_bias: "a" is not`:       `{"model":"small","prompt":"a","logit_bias":{"a":1}}`,
		"stop: it is a number":         `{"model":"small","prompt":"a","stop":5}`,
		"stop: it is a array":          `{"model":"small","prompt":"a","stop":["a",[]]}`,
		"the body is a array":          `[]`,
		"model: it is missing":         `{"prompt":"a"}`,
		"stream_options: it needs":     `{"model":"small","prompt":"a","stream_options":{"include_usage":true}}`,
		"max_token: the server does":   `{"model":"small","prompt":"a","max_token":5}`,
		"it is not from -100 to 100":   `{"model":"small","prompt":"a","logit_bias":{"5":101}}`,
		"token 256 does not exist":     `{"model":"small","prompt":"a","logit_bias":{"256":1}}`,
	} {
		status, header, answer := s.post(t, "/v1/completions", body)
		require.Equal(t, 400, status, body)
		require.Contains(t, answer, text[:strings.IndexByte(text+`"`, '"')])
		require.Contains(t, answer, `"type":"invalid_request_error"`)
		require.NotEmpty(t, header.Get("X-Request-Id"))
	}
	for text, body := range map[string]string{
		"messages: there are none":   `{"model":"small"}`,
		"top_logprobs: it needs":     `{"model":"small","messages":[{"role":"user","content":"a"}],"top_logprobs":2}`,
		"message 0 has no content":   `{"model":"small","messages":[{"role":"user"}]}`,
		"message 1 has the role":     `{"model":"small","messages":[{"role":"user","content":"a"},{"role":"bot","content":"a"}]}`,
		"part of type image_url":     `{"model":"small","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"}]}]}`,
		"message 0 is not an object": `{"model":"small","messages":["a"]}`,
		"message 0 has a content":    `{"model":"small","messages":[{"role":"user","content":5}]}`,
		"max_completion_tokens: it":  `{"model":"small","messages":[{"role":"user","content":"a"}],"max_completion_tokens":0}`,
	} {
		status, _, answer := s.post(t, "/v1/chat/completions", body)
		require.Equal(t, 400, status, body)
		require.Contains(t, answer, text)
	}
	for text, body := range map[string]string{
		"encoding_format: it is neither": `{"model":"small","input":"a","encoding_format":"int8"}`,
		"dimensions: the model":          `{"model":"small","input":"a","dimensions":3}`,
		"model: it is missing":           `{"input":"a"}`,
		"input: it is missing":           `{"model":"small"}`,
		"input: 5 texts":                 `{"model":"small","input":["a","b","c","d","e"]}`,
		"input: it is empty":             `{"model":"small","input":""}`,
	} {
		status, _, answer := s.post(t, "/v1/embeddings", body)
		require.Equal(t, 400, status, body)
		require.Contains(t, answer, text)
	}
	status, _, answer := s.post(t, "/v1/images/generations", `{}`)
	require.Equal(t, 404, status)
	require.Contains(t, answer, "/v1/images/generations")
	status, _, answer = s.post(t, "/v1/completions", `{"prompt":"`+strings.Repeat("x", 1<<16)+`"}`)
	require.Equal(t, 413, status)
	require.Contains(t, answer, "more than 65536 bytes")
	for path, body := range map[string]string{
		"/v1/completions":      `{"model":"small","prompt":"` + strings.Repeat("x", 64) + `"}`,
		"/v1/chat/completions": `{"model":"small","messages":[{"role":"user","content":"` + strings.Repeat("x", 64) + `"}]}`,
		"/v1/embeddings":       `{"model":"small","input":"` + strings.Repeat("x", 65) + `"}`,
	} {
		_, _, answer := s.post(t, path, body)
		require.Contains(t, answer, `"code":"context_length_exceeded"`)
	}
	got, err := s.HTTP.Get(s.URL + "/v1/completions")
	require.NoError(t, err)
	text, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	require.NoError(t, got.Body.Close())
	require.Equal(t, http.StatusMethodNotAllowed, got.StatusCode)
	require.Equal(t, "POST", got.Header.Get("Allow"))
	require.Contains(t, string(text), `"type":"invalid_request_error"`)
	// What changes no answer, or asks for nothing, is taken.
	status, _, answer = s.post(t, "/v1/completions", `{"model":"small","prompt":"a","user":"x","metadata":{"a":"b"},"tools":null,"guided_json":null}`)
	require.Equal(t, 200, status, answer)
	short, err := s.client.Completions.New(t.Context(), greedy("a", 50))
	require.NoError(t, err)
	require.EqualValues(t, 3, short.Usage.CompletionTokens, "the server's limit of an answer")
	_, err = api.New(api.Config{})
	require.ErrorContains(t, err, "needs Engine")
}
