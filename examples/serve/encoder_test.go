package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/testing/golden"
)

// reference holds the results of transformers in float64 for a folder of testdata/golden/encoders.
type reference struct {
	Texts      []string
	Pairs      [][2]string
	IDs        [][]int32
	Embeddings [][]float64
	Scores     []float64
}

// encoderFolder copies a folder of the golden data, with the tokenizer of another one if it has none, and with keys added to its config.json.
func encoderFolder(t *testing.T, name, tokenizer, keys string) (folder string, want reference) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	folder = filepath.Join(t.TempDir(), name)
	require.NoError(t, os.CopyFS(folder, os.DirFS(filepath.Join(dir, "encoders", name))))
	text, err := os.ReadFile(filepath.Join(folder, "expected.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &want))
	if tokenizer != "" {
		text, err := os.ReadFile(filepath.Join(dir, tokenizer, "tokenizer.json"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, "tokenizer.json"), text, 0o600))
	}
	file := filepath.Join(folder, "config.json")
	text, err = os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), "{", "{"+keys, 1)), 0o600))
	return folder, want
}

// request posts a request and reads the answer.
func (p program) request(t *testing.T, path string, body, answer any) (status int, text string) {
	data, err := json.Marshal(body)
	require.NoError(t, err)
	p.curl = fmt.Sprintf("curl %s%s -d '%s'", p.url, path, data)
	status, text = p.post(t, http.DefaultClient, "")
	if status == http.StatusOK && answer != nil {
		require.NoError(t, json.Unmarshal([]byte(text), answer))
	}
	return status, text
}

type object map[string]any

// TestEncoders: /v1/embeddings gives the embeddings that transformers computes in float64, of texts and of tokens, and the command that the program prints works.
func TestEncoders(t *testing.T) {
	for _, name := range []string{"bert", "bert_mean", "xlm", "roberta"} {
		t.Run(name, func(t *testing.T) {
			folder, want := encoderFolder(t, name, "", "")
			p := begin(t, "-model", folder)
			status, text := p.post(t, http.DefaultClient, "")
			require.Equal(t, http.StatusOK, status, "%s: %s", p.curl, text)
			for _, input := range []any{want.Texts, want.IDs} {
				var got struct {
					Data  []struct{ Embedding []float64 }
					Usage struct {
						Prompt int `json:"prompt_tokens"`
					}
				}
				status, text := p.request(t, "/v1/embeddings", object{"model": name, "input": input}, &got)
				require.Equal(t, http.StatusOK, status, text)
				require.Len(t, got.Data, len(want.Embeddings))
				for i, x := range got.Data {
					require.InDeltaSlice(t, want.Embeddings[i], x.Embedding, 1e-6, "text %d", i)
				}
				require.Equal(t, len(slices.Concat(want.IDs...)), got.Usage.Prompt)
			}
			long := want.Texts[len(want.Texts)-1] + " fox" // the last one fills the positions
			status, text = p.request(t, "/v1/embeddings", object{"model": name, "input": long}, nil)
			require.Equal(t, http.StatusBadRequest, status)
			require.Contains(t, text, `"code":"context_length_exceeded"`)
			for path, body := range map[string]object{
				"/v1/completions":      {"model": name, "prompt": "fox"},
				"/v1/chat/completions": {"model": name, "messages": []object{{"role": "user", "content": "fox"}}},
				"/v1/rerank":           {"model": name, "query": "fox", "documents": []string{"fox"}},
			} {
				status, text := p.request(t, path, body, nil)
				require.Equal(t, http.StatusBadRequest, status, "%s: %s", path, text)
			}
		})
	}
}

// TestJudge: with -judge a language model gives documents the probability of its answer, in Qwen3-Reranker's prompt, as transformers computes it in float64.
func TestJudge(t *testing.T) {
	folder, want := encoderFolder(t, "qwen3_judge", "tokenizer/small", "")
	p := begin(t, "-model", folder, "-judge", "no,not")
	for i, pair := range want.Pairs {
		var got ranking
		status, text := p.request(t, "/v1/rerank", object{"model": "qwen3_judge", "query": pair[0], "documents": []string{pair[1]}}, &got)
		require.Equal(t, http.StatusOK, status, text)
		require.InDelta(t, 1/(1+math.Exp(-want.Scores[i])), got.Results[0].Score, 2e-6)
		require.Equal(t, len(want.IDs[i]), got.Usage.Prompt)
	}
	require.NoError(t, p.stop())
	other := begin(t, "-model", folder, "-judge", "no,not", "-judge-task", "Find what has no foxes")
	var got ranking
	status, text := other.request(t, "/v1/rerank", object{"model": "qwen3_judge", "query": want.Pairs[0][0], "documents": []string{want.Pairs[0][1]}}, &got)
	require.Equal(t, http.StatusOK, status, text)
	require.NotEqual(t, len(want.IDs[0]), got.Usage.Prompt)
	require.NoError(t, other.stop())
	for part, flags := range map[string][]string{
		"-judge needs -model": {"-judge", "no,yes"}, "-judge-task needs -judge": {"-judge-task", "x"}, "are not two tokens": {"-model", folder, "-judge", "no"}, "are one token twice": {"-model", folder, "-judge", "no,no"}, `"maybe" is no token`: {"-model", folder, "-judge", "no,maybe"},
	} {
		_, err := parseFlags(flags, io.Discard)
		require.ErrorContains(t, err, part)
	}
	bert, _ := encoderFolder(t, "bert", "", "")
	o, err := parseFlags([]string{"-model", bert, "-judge", "a,b"}, io.Discard)
	require.NoError(t, err)
	require.ErrorContains(t, run(t.Context(), o, io.Discard, io.Discard), "answers nothing")
}

type ranking struct {
	Model   string
	Results []struct {
		Index    int
		Score    float64 `json:"relevance_score"`
		Document *struct{ Text string }
	}
	Usage struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	}
}

// TestRerankers: /v1/rerank gives the scores that transformers computes in float64, through a sigmoid unless the folder says otherwise.
func TestRerankers(t *testing.T) {
	for _, c := range []struct {
		name, tokenizer, keys string
		raw                   bool
	}{
		{name: "bert_rerank"},
		{name: "bert_rerank", keys: `"sentence_transformers":{"activation_fn":"torch.nn.modules.linear.Identity","version":"5.0"},`, raw: true},
		{name: "xlm_rerank", tokenizer: "encoders/xlm"},
		{name: "qwen3_rerank", tokenizer: "tokenizer/small"},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder, want := encoderFolder(t, c.name, c.tokenizer, c.keys)
			p := begin(t, "-model", folder)
			status, text := p.post(t, http.DefaultClient, "")
			require.Equal(t, http.StatusOK, status, "%s: %s", p.curl, text)
			for i, pair := range want.Pairs {
				score := want.Scores[i]
				if !c.raw {
					score = 1 / (1 + math.Exp(-score))
				}
				var got ranking
				status, text := p.request(t, "/v1/rerank", object{"model": c.name, "query": pair[0], "documents": []any{"another", object{"text": pair[1]}, "one more"}, "return_documents": true}, &got)
				require.Equal(t, http.StatusOK, status, text)
				require.Len(t, got.Results, 3)
				require.Equal(t, got.Usage.Prompt, got.Usage.Total)
				for at, r := range got.Results {
					if r.Index == 1 {
						require.InDelta(t, score, r.Score, 2e-6)
						require.Equal(t, pair[1], r.Document.Text)
					}
					require.True(t, at == 0 || got.Results[at-1].Score >= r.Score, text)
				}
				best := got.Results[0]
				var one ranking
				status, text = p.request(t, "/v1/rerank", object{"model": c.name, "query": pair[0], "documents": []string{"another", pair[1], "one more"}, "top_n": 1}, &one)
				require.Equal(t, http.StatusOK, status, text)
				require.Len(t, one.Results, 1)
				require.Equal(t, best.Index, one.Results[0].Index)
				require.Equal(t, best.Score, one.Results[0].Score)
				require.Nil(t, one.Results[0].Document)
			}
			for part, body := range map[string]object{
				`"param":"query"`:                     {"documents": []string{"a"}},
				"documents: it is missing":            {"query": "a"},
				"documents: it is missing or empty":   {"query": "a", "documents": []string{}},
				"top_n: it must be positive":          {"query": "a", "documents": []string{"a"}, "top_n": 0},
				"neither a text nor an object":        {"query": "a", "documents": []any{object{"title": "a"}}},
				`{\"text\":null} is neither`:          {"query": "a", "documents": []any{object{"text": nil}}},
				"null is neither a text":              {"query": "a", "documents": []any{nil}},
				`\"text\":\"b\"} is neither`:          {"query": "a", "documents": []any{object{"text": "b", "other": 1}}},
				"documents: 33 documents; at most 32": {"query": "a", "documents": slices.Repeat([]string{"a"}, 33)},
				"raw_scores: the server":              {"query": "a", "documents": []string{"a"}, "raw_scores": true},
				"context_length_exceeded":             {"query": "a", "documents": []string{"a", strings.Repeat("fox ", 600)}},
			} {
				body["model"] = c.name
				status, text := p.request(t, "/v1/rerank", body, nil)
				require.Equal(t, http.StatusBadRequest, status, text)
				require.Contains(t, text, part)
			}
			status, text = p.request(t, "/v1/embeddings", object{"model": c.name, "input": "fox"}, nil)
			require.Equal(t, http.StatusBadRequest, status, text)
			status, text = p.request(t, "/v1/rerank", object{"model": "other", "query": "fox", "documents": []string{"fox"}}, nil)
			require.Equal(t, http.StatusNotFound, status, text)
		})
	}
}
