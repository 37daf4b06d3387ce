package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/sampling"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// generated runs the program.
func generated(t *testing.T, flags ...string) (out string, err error) {
	acltest.Need(t)
	o, err := parseFlags(flags, t.Output())
	require.NoError(t, err)
	var b bytes.Buffer
	err = run(t.Context(), o, &b, t.Output())
	require.Empty(t, acl.Live())
	return b.String(), err
}

// TestGeneratesBytes trains a small model of each family briefly and generates text.
func TestGeneratesBytes(t *testing.T) {
	for _, kind := range model.ModelTypes() {
		t.Run(kind, func(t *testing.T) {
			flags := []string{"-type", kind, "-train-steps", "2", "-prompt", "if err", "-n", "20"}
			greedy, err := generated(t, flags...)
			require.NoError(t, err)
			require.Len(t, greedy, len("if err")+20)
			require.True(t, strings.HasPrefix(greedy, "if err"))
			again, err := generated(t, append(flags, "-temperature", "1", "-top-k", "1")...)
			require.NoError(t, err)
			require.Equal(t, greedy, again, "one candidate is the likeliest")
			graph, err := generated(t, append(flags, "-graph")...)
			require.NoError(t, err)
			require.Equal(t, greedy, graph)
			sampled, err := generated(t, append(flags, "-temperature", "1.5", "-top-p", "0.9", "-dtype", "bf16")...)
			require.NoError(t, err)
			require.NotEqual(t, greedy, sampled)
			if kind != "qwen3" && kind != "qwen3_next" {
				return // the others have the same linear layers
			}
			flags = append(flags, "-dtype", "bf16", "-quant", "w8a8")
			rounded, err := generated(t, flags...)
			require.NoError(t, err)
			require.Len(t, rounded, len("if err")+20)
			graph, err = generated(t, append(flags, "-graph")...)
			require.NoError(t, err)
			require.Equal(t, rounded, graph, "with int8 weights")
			cached, err := generated(t, append(flags, "-cache", "int8")...)
			require.NoError(t, err)
			require.Len(t, cached, len("if err")+20)
		})
	}
}

// folder writes a golden model in Hugging Face's format, and returns the tokens that it generates
// without a cache, with one forward pass over all previous tokens per new token.
func folder(t *testing.T, name string, prompt []int32, n int, eos any) (dir string, want []int32) {
	acltest.Need(t)
	dir = t.TempDir()
	run := golden.Model(t, name)
	var config map[string]any
	require.NoError(t, json.Unmarshal(run.Config.Raw, &config))
	config["eos_token_id"] = eos
	text, err := json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600))

	rt, err := acl.Open(acl.Config{})
	require.NoError(t, err)
	dev, err := rt.Device(0)
	require.NoError(t, err)
	st, err := dev.NewStream()
	require.NoError(t, err)
	reg, err := ops.NewRegistry(ops.EnvOf(dev))
	require.NoError(t, err)
	cfg, err := model.ParseConfig(text)
	require.NoError(t, err)
	m, err := model.New(st, reg, cfg, aclnn.Float32)
	require.NoError(t, err)
	var infos []safetensors.Info
	for _, p := range m.Parameters() {
		infos = append(infos, safetensors.Info{Name: p.Name, DType: aclnn.Float32, Shape: run.Sub("init").Shape(p.Name)})
	}
	w, err := safetensors.Create(filepath.Join(dir, "model.safetensors"), infos, nil)
	require.NoError(t, err)
	for _, p := range m.Parameters() {
		values := run.Sub("init").Float32(p.Name)
		require.NoError(t, m.Set(t.Context(), p, values))
		var raw []byte
		for _, v := range values {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
		}
		require.NoError(t, w.Write(p.Name, raw))
	}
	require.NoError(t, w.Commit())
	require.NoError(t, w.Close())
	all := prompt
	for range n {
		labels := make([]int32, len(all))
		logits, err := m.Logits(t.Context(), model.Batch{Size: 1, Length: len(all), Inputs: all, Labels: labels})
		require.NoError(t, err)
		next, err := sampling.New(sampling.Options{TopP: 1}, nil).Next(logits[len(logits)-cfg.VocabSize:])
		require.NoError(t, err)
		want, all = append(want, next), append(all[:len(all):len(all)], next)
	}
	require.NoError(t, m.Close())
	require.NoError(t, reg.Close())
	require.NoError(t, st.Close())
	require.NoError(t, dev.Close())
	require.NoError(t, rt.Close())
	return dir, want
}

// TestGeneratesFromHuggingFace checks that the cache does not change the generated tokens, and that
// generation stops at a token that ends the text.
func TestGeneratesFromHuggingFace(t *testing.T) {
	numbers := func(ids []int32) string {
		text := ""
		for _, id := range ids {
			text += strconv.Itoa(int(id)) + " "
		}
		return text
	}
	for _, name := range []string{"qwen3", "qwen3_moe", "qwen3_next", "qwen3_5"} {
		t.Run(name, func(t *testing.T) {
			const n = 12
			dir, want := folder(t, name, []int32{5, 77, 3}, n, nil)
			flags := []string{"-model", dir, "-ids", "5, 77,3", "-n", strconv.Itoa(n)}
			out, err := generated(t, flags...)
			require.NoError(t, err)
			require.Equal(t, numbers(want), out)

			// Some token later than the first ends the text.
			end := 1
			for end < n-1 && want[end] == want[0] {
				end++
			}
			for _, eos := range []any{want[end], []int32{1000, want[end]}} {
				dir, _ := folder(t, name, []int32{5, 77, 3}, 1, eos)
				flags[1] = dir
				out, err = generated(t, flags...)
				require.NoError(t, err)
				first := 0
				for want[first] != want[end] {
					first++
				}
				require.Equal(t, numbers(want[:first]), out)
			}

			_, err = generated(t, "-model", dir, "-prompt", "text")
			require.ErrorContains(t, err, "128 tokens")
			_, err = generated(t, "-model", dir, "-ids", "128")
			require.ErrorContains(t, err, "vocabulary")
		})
	}
}

func TestBadFlags(t *testing.T) {
	for text, flags := range map[string][]string{
		"-n 0": {"-n", "0"}, "-train-steps 0": {"-train-steps", "0"}, `-type "gpt2"`: {"-type", "gpt2"}, `"fp8" for flag -dtype`: {"-dtype", "fp8"},
		"needs -dtype bf16": {"-quant", "w8a8"}, "-top-p 0": {"-top-p", "0"}, "invalid value": {"-ids", "1,x"}, "not defined": {"-nonsense"}, "unknown argument": {"text"},
		"-system needs -chat": {"-system", "x"}, "not -ids": {"-chat", "-ids", "1"},
	} {
		_, err := parseFlags(flags, new(bytes.Buffer))
		require.ErrorContains(t, err, text, "%v", flags)
	}
	for text, flags := range map[string][]string{
		"type " + strings.Join(model.ModelTypes(), ", "): {"-model", "none"}, "-prompt is empty": {"-train-steps", "1", "-prompt", ""}, "-chat needs": {"-train-steps", "1", "-chat"}, "99": {"-device", "99"},
	} {
		_, err := generated(t, flags...)
		require.ErrorContains(t, err, text, "%v", flags)
	}
}

// TestGeneratesText reads and writes text with the tokenizer and the chat template of a folder.
func TestGeneratesText(t *testing.T) {
	const n = 12
	vocab := map[string]int{}
	for c := byte('!'); c <= '~'; c++ {
		vocab[string(c)] = len(vocab)
	}
	vocab["\u0120"], vocab["<eos>"] = 94, 127 // the space
	letters := func(ids []int32) string {
		text := ""
		for _, id := range ids {
			for token, i := range vocab {
				if int32(i) == id && token != "<eos>" {
					text += strings.ReplaceAll(token, "\u0120", " ")
				}
			}
		}
		return text
	}
	ids := func(text string) (ids []int32) {
		for _, c := range strings.ReplaceAll(text, " ", "\u0120") {
			ids = append(ids, int32(vocab[string(c)]))
		}
		return ids
	}
	file, err := json.Marshal(map[string]any{
		"added_tokens":  []any{map[string]any{"id": 127, "content": "<eos>", "special": true}},
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false},
		"decoder":       map[string]any{"type": "ByteLevel"}, "model": map[string]any{"vocab": vocab},
	})
	require.NoError(t, err)
	dir, want := folder(t, "qwen3", ids("Hello"), n, nil)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), file, 0o600))
	out, err := generated(t, "-model", dir, "-prompt", "Hello", "-n", strconv.Itoa(n))
	require.NoError(t, err)
	require.Equal(t, "Hello"+letters(want), out)

	_, err = generated(t, "-model", dir, "-prompt", "Hello", "-chat")
	require.ErrorContains(t, err, "chat template")
	sentence := filepath.Join(dir, "sentence_bert_config.json")
	require.NoError(t, os.WriteFile(sentence, []byte(`{"do_lower_case":true}`), 0o600))
	_, err = generated(t, "-model", dir, "-prompt", "Hello")
	require.ErrorContains(t, err, "do_lower_case of sentence_*_config.json is true")
	dir, want = folder(t, "qwen3", ids("be:brief user:Hello"), n, nil)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), file, 0o600))
	template := "{% for m in messages %}{{ 'be' if m.role == 'system' else ' ' + m.role }}:{{ m.content }}{% endfor %}"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(template), 0o600))
	out, err = generated(t, "-model", dir, "-chat", "-system", "brief", "-prompt", "Hello", "-n", strconv.Itoa(n))
	require.NoError(t, err)
	require.Equal(t, letters(want), out)
}

// TestSamples checks the commands in the help text.
func TestSamples(t *testing.T) {
	for _, s := range samples {
		_, flags, _ := strings.Cut(s, "/generate")
		_, err := parseFlags(strings.Fields(flags), t.Output())
		require.NoError(t, err, s)
	}
}
