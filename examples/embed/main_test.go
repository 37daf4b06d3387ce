package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/examples/tokenizer"
	"github.com/goascend/cann/internal/testing/golden"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// embeds runs the program on a model that is trained for a step.
func embeds(t *testing.T, in string, args ...string) (string, error) {
	acltest.Need(t)
	o, err := parseFlags(args, io.Discard)
	require.NoError(t, err)
	o.source.Steps = 1
	var out bytes.Buffer
	err = run(t.Context(), o, strings.NewReader(in), &out, io.Discard)
	require.Empty(t, acl.Live())
	return out.String(), err
}

func TestVectors(t *testing.T) {
	for _, kind := range []string{"qwen3", "qwen3_next"} {
		text, err := embeds(t, "", "-type", kind, "one", "two words")
		require.NoError(t, err)
		piped, err := embeds(t, "one\ntwo words\n", "-type", kind)
		require.NoError(t, err)
		require.Equal(t, text, piped)
		lines := strings.Split(strings.TrimSpace(text), "\n")
		require.Len(t, lines, 2)
		for i, want := range []string{"one", "two words"} {
			var got struct {
				Text      string
				Embedding []float64
			}
			require.NoError(t, json.Unmarshal([]byte(lines[i]), &got))
			require.Equal(t, want, got.Text)
			require.Len(t, got.Embedding, 128)
			square := 0.0
			for _, v := range got.Embedding {
				square += v * v
			}
			require.InDelta(t, 1, math.Sqrt(square), 1e-5)
		}
	}
}

// TestQuantized: with int8 weights the vector of a text points nearly where it did.
func TestQuantized(t *testing.T) {
	vector := func(args ...string) (v []float64) {
		text, err := embeds(t, "", append(args, "-dtype", "bf16", "two words")...)
		require.NoError(t, err)
		var got struct{ Embedding []float64 }
		require.NoError(t, json.Unmarshal([]byte(text), &got))
		return got.Embedding
	}
	for _, args := range [][]string{{"-type", "qwen3"}, {"-type", "qwen3_next", "-tp", "2"}} {
		exact, rounded, cosine := vector(args...), vector(append(args, "-quant", "w8a8")...), 0.0
		for i := range exact {
			cosine += exact[i] * rounded[i]
		}
		require.NotEqual(t, exact, rounded)
		require.InDelta(t, 1, cosine, 0.02)
	}
}

// TestQuery: the text that is the query comes first.
func TestQuery(t *testing.T) {
	text, err := embeds(t, "zebras\na red fox\na red ox\n", "-query", "a red fox")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	require.Equal(t, "1.0000\ta red fox", lines[0])
	require.True(t, strings.HasSuffix(lines[1], "\ta red ox"), "%s", text)
	require.True(t, strings.HasSuffix(lines[2], "\tzebras"), "%s", text)
}

func TestRefusals(t *testing.T) {
	_, err := embeds(t, "one\n\n")
	require.ErrorContains(t, err, "the prompt is empty")
	for text, args := range map[string][]string{`-type "gpt2"`: {"-type", "gpt2"}, `"fp8" for flag -dtype`: {"-dtype", "fp8"}, "needs -dtype bf16": {"-quant", "w8a8"}, "not defined": {"-nonsense"}} {
		_, err := parseFlags(args, io.Discard)
		require.ErrorContains(t, err, text)
	}
	_, err = embeds(t, "", "-model", "none", "x")
	require.ErrorContains(t, err, "none")
}

// TestEncoders compares the vectors of encoders with the vectors that transformers computes in float64.
func TestEncoders(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	for _, name := range []string{"bert", "bert_mean", "xlm", "roberta"} {
		folder := filepath.Join(dir, "encoders", name)
		var want struct {
			Texts      []string
			Embeddings [][]float64
		}
		text, err := os.ReadFile(filepath.Join(folder, "expected.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &want))
		out, err := embeds(t, "", append([]string{"-model", folder}, want.Texts...)...)
		require.NoError(t, err)
		lines := json.NewDecoder(strings.NewReader(out))
		for i := range want.Texts {
			var got struct{ Embedding []float64 }
			require.NoError(t, lines.Decode(&got))
			require.InDeltaSlice(t, want.Embeddings[i], got.Embedding, 1e-6, "%s: %s", name, want.Texts[i])
		}
		_, err = embeds(t, "", "-model", folder, want.Texts[len(want.Texts)-1]+" fox")
		require.ErrorIs(t, err, tokenizer.ErrLength)
		_, err = embeds(t, "", "-model", folder, "-tp", "2", "-quant", "w8a8", "-dtype", "bf16", "fox")
		require.NoError(t, err)
	}
	_, err = embeds(t, "", "-model", filepath.Join(dir, "encoders", "bert_rerank"), "fox")
	require.ErrorContains(t, err, "serve answers with scores")
}

// TestPooling: the folder's modules.json selects how states are pooled to an embedding. The first state does not depend on later tokens, and the
// mean of two states lies in their plane.
func TestPooling(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	vector := func(mode, text string) (v []float64) {
		folder := t.TempDir()
		require.NoError(t, os.CopyFS(folder, os.DirFS(filepath.Join(dir, "hub", "qwen3"))))
		if mode != "" {
			require.NoError(t, os.MkdirAll(filepath.Join(folder, "1_Pooling"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(folder, "modules.json"), []byte(`[{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},{"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"}]`), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(folder, "1_Pooling", "config.json"), []byte(`{"`+mode+`":true}`), 0o600))
		}
		out, err := embeds(t, "", "-model", folder, text)
		require.NoError(t, err)
		var got struct{ Embedding []float64 }
		require.NoError(t, json.Unmarshal([]byte(out), &got))
		return got.Embedding
	}
	dot := func(a, b []float64) (sum float64) {
		for i := range a {
			sum += a[i] * b[i]
		}
		return sum
	}
	first, last, mean := vector("pooling_mode_cls_token", "7 90"), vector("pooling_mode_lasttoken", "7 90"), vector("", "7 90")
	require.InDeltaSlice(t, vector("", "7"), first, 1e-5)
	require.InDeltaSlice(t, vector("pooling_mode_lasttoken", "7"), first, 1e-5)
	require.Equal(t, mean, vector("pooling_mode_mean_tokens", "7 90"))
	require.Less(t, dot(first, last), 0.9)
	// The part of last across first, and what the mean has outside of both.
	across := make([]float64, len(last))
	for i := range last {
		across[i] = last[i] - dot(first, last)*first[i]
	}
	outside := dot(mean, mean) - dot(mean, first)*dot(mean, first) - dot(mean, across)*dot(mean, across)/dot(across, across)
	require.InDelta(t, 0, outside, 1e-5)
	require.Greater(t, dot(mean, across), 0.1)
}
