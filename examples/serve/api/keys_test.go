package api_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/serve/api"
	"github.com/goascend/cann/examples/serve/api/apitest"
	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/examples/serve/language"
	"github.com/goascend/cann/examples/serve/tools"
	"github.com/goascend/cann/examples/verdict"
	"github.com/goascend/cann/examples/weights"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
)

// changing are the parts of an answer that differ between equal requests.
var changing = regexp.MustCompile(`"(id|created|cached_tokens)":("[^"]*"|\d+)`)

// judge starts a server with a language model that gives documents scores, as serve -judge does.
func judge(t *testing.T) *server {
	dir, err := golden.Dir()
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder, os.DirFS(filepath.Join(dir, "encoders", "qwen3_judge"))))
	text, err := os.ReadFile(filepath.Join(dir, "tokenizer", "small", "tokenizer.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "tokenizer.json"), text, 0o600))
	load := func(ctx context.Context, st *acl.Stream, reg *ops.Registry, par model.Parallel) (*model.Model, error) {
		return weights.Source{Folder: folder, Parallel: par, DType: aclnn.Float32, Answers: &[2]int32{300, 301}}.Model(ctx, st, reg, io.Discard)
	}
	return &server{Server: apitest.StartModel(t, load, engine.Options{Blocks: 32, BlockSize: 16}, func(c *api.Config) {
		l, err := language.Load(folder, c.Engine.Vocab())
		require.NoError(t, err)
		c.Language = language.Judge(l, language.JudgeTask)
	})}
}

// TestEveryKey changes each parameter of a request to another legal value. That changes the answer; or the parameter is on the list
// without effect, and changes nothing; or the request is refused with the parameter's name.
func TestEveryKey(t *testing.T) {
	s := start(t, engine.Options{Blocks: 64, BlockSize: 16, MaxLength: 256}, func(c *api.Config) {
		c.Language, c.MaxTokens, c.Adapters = caller{c.Language, tools.Llama}, 200, t.TempDir()
	})
	type object = map[string]any
	merged := func(base, more object) object {
		all := maps.Clone(base)
		maps.Copy(all, more)
		return all
	}
	completion := object{"model": "small", "prompt": "the quick", "max_tokens": 24, "seed": 1}
	chat := object{"model": "small", "messages": []any{object{"role": "user", "content": "hello"}}, "max_tokens": 24, "seed": 1}
	schema := object{"type": "json_schema", "json_schema": object{"name": "a", "schema": object{"const": 1}}}
	tool := object{"type": "function", "function": object{"name": "add", "parameters": object{"type": "object", "properties": object{}, "required": []string{}, "additionalProperties": false}}}
	// mutation is a change of a request to which some parameters were added.
	type mutation struct{ base, change object }
	mutations := map[string]mutation{
		"model": {nil, object{"model": "large"}}, "max_tokens": {nil, object{"max_tokens": 3}}, "n": {nil, object{"n": 2}}, "stream": {nil, object{"stream": true}},
		"stream_options.include_usage":       {object{"stream": true}, object{"stream_options": object{"include_usage": true}}},
		"stream_options.include_obfuscation": {object{"stream": true}, object{"stream_options": object{"include_obfuscation": false}}},
		"stop":                               {nil, object{"stop": strings.Split("etaoinshrdlu .,;-", "")[:16]}}, "temperature": {nil, object{"temperature": 0}}, "top_p": {nil, object{"top_p": .01}}, "top_k": {nil, object{"top_k": 1}}, "min_p": {nil, object{"min_p": 1}},
		"presence_penalty": {object{"temperature": 0}, object{"presence_penalty": 100}}, "frequency_penalty": {object{"temperature": 0}, object{"frequency_penalty": 100}}, "repetition_penalty": {object{"temperature": 0}, object{"repetition_penalty": 50}},
		"logit_bias": {nil, object{"logit_bias": object{"120": 100}}}, "seed": {nil, object{"seed": 2}},
		"response_format.type":                    {nil, object{"response_format": object{"type": "json_object"}}},
		"response_format.json_schema.schema":      {object{"response_format": schema}, object{"response_format": object{"type": "json_schema", "json_schema": object{"name": "a", "schema": object{"const": 2}}}}},
		"response_format.json_schema.name":        {object{"response_format": schema}, object{"response_format": object{"type": "json_schema", "json_schema": object{"name": "b", "schema": object{"const": 1}}}}},
		"response_format.json_schema.description": {object{"response_format": schema}, object{"response_format": object{"type": "json_schema", "json_schema": object{"description": "b", "schema": object{"const": 1}}}}},
		"response_format.json_schema.strict":      {object{"response_format": schema}, object{"response_format": object{"type": "json_schema", "json_schema": object{"strict": false, "schema": object{"const": 1}}}}},
		"prompt":                                  {nil, object{"prompt": "brown"}}, "echo": {nil, object{"echo": true}}, "best_of": {nil, object{"best_of": 2}},
		"messages": {nil, object{"messages": []any{object{"role": "user", "content": "good bye"}}}}, "max_completion_tokens": {nil, object{"max_completion_tokens": 3}},
		"top_logprobs": {object{"logprobs": true}, object{"top_logprobs": 2}}, "tools": {nil, object{"tools": []any{tool}, "tool_choice": "required"}},
		"tool_choice": {object{"tools": []any{tool}}, object{"tool_choice": "required"}}, "parallel_tool_calls": {object{"tools": []any{tool}, "tool_choice": "required", "n": 8, "max_tokens": 100}, object{"parallel_tool_calls": false}},
		"chat_template_kwargs": {nil, object{"chat_template_kwargs": object{"messages": []any{}}}}, "functions": {nil, object{"functions": []any{tool}}},
		"input": {nil, object{"input": "another"}}, "encoding_format": {nil, object{"encoding_format": "base64"}},
		"query": {nil, object{"query": "bread"}}, "documents": {nil, object{"documents": []string{"bread"}}}, "top_n": {nil, object{"top_n": 1}}, "return_documents": {nil, object{"return_documents": true}},
		"lora_name": {nil, object{"lora_name": "other"}}, "lora_path": {nil, object{"lora_path": "../other"}},
	}
	for _, c := range []struct {
		server *server
		table  verdict.Table
		path   string
		base   object
		other  mutation // of logprobs
	}{
		{s, api.CompletionKeys, "/v1/completions", completion, mutation{nil, object{"logprobs": 1}}},
		{s, api.ChatKeys, "/v1/chat/completions", chat, mutation{nil, object{"logprobs": true}}},
		{s, api.EmbeddingKeys, "/v1/embeddings", object{"model": "small", "input": "the quick"}, mutation{}},
		{judge(t), api.RerankKeys, "/v1/rerank", object{"model": "small", "query": "fox", "documents": []string{"the quick brown fox", "no"}}, mutation{}},
		{s, api.AdapterKeys, "/v1/load_lora_adapter", object{"lora_name": "some", "lora_path": "none"}, mutation{}},
	} {
		t.Run(c.table.Format, func(t *testing.T) {
			ask := func(body object) (int, string) {
				text, err := json.Marshal(body)
				require.NoError(t, err)
				status, _, answer := c.server.post(t, c.path, string(text))
				return status, changing.ReplaceAllString(answer, "")
			}
			check := func(k verdict.Key) {
				m, ok := mutations[k.Name]
				switch {
				case k.Name == "logprobs":
					m, ok = c.other, true
				case !ok:
					require.NotEqual(t, verdict.Honoured, k.Kind, "%s is honoured and has no mutation", k.Name)
					m.change = object{k.Name: "other"}
				}
				base := merged(c.base, m.base)
				wanted, want := ask(base)
				if c.path != "/v1/load_lora_adapter" {
					require.Equal(t, 200, wanted, want)
				}
				status, got := ask(merged(base, m.change))
				switch k.Kind {
				case verdict.Refused:
					require.Equal(t, 400, status)
					require.Contains(t, got, `"param":"`+k.Name+`"`)
				case verdict.Harmless:
					require.Equal(t, want, got, k.Name)
				default:
					require.NotEqual(t, want, got, "%s is honoured, and %v changes nothing", k.Name, m.change)
				}
			}
			for _, k := range c.table.Keys {
				check(k)
			}
			check(verdict.Key{Name: "nobody_knows", Kind: c.table.Unknown})
			first := c.table.Keys[0].Name
			_, got := ask(merged(c.base, object{strings.ToUpper(first): "other"}))
			require.Contains(t, got, "differs from "+first+" only in its case")
		})
	}
	for _, body := range []string{`{"model":"small","prompt":"a","stream":true,"stream_options":{"usage":true}}`, `{"model":"small","prompt":"a","response_format":{"type":"json_object","schema":{}}}`} {
		status, _, text := s.post(t, "/v1/completions", body)
		require.Equal(t, 400, status, body)
		require.Contains(t, text, "does not know this parameter")
	}
	_, _, text := s.post(t, "/v1/completions", `{"model":"small","prompt":"a","max_tokens":1,"max_tokens":2}`)
	require.Contains(t, text, "the key \\\"max_tokens\\\" twice")
}
