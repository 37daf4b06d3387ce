package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// questions is a file of samples, one of which is no JSON.
func questions(t *testing.T, line string) string {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, line+"\n", i, i*i)
	}
	b.WriteString("no JSON\n")
	path := filepath.Join(t.TempDir(), "questions.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

// TestTrainsSamples: samples train the same on any ranks, packed and padded, and a run that is
// resumed in the middle of an epoch has the losses of one without a break.
func TestTrainsSamples(t *testing.T) {
	path := questions(t, `{"prompt": "square of %d: ", "response": "%d"}`)
	for _, pack := range []string{"-pack=true", "-pack=false"} {
		// On a device products of float32 are rounded to HF32 by default, which differs between ranks.
		flags := smallFlags("-data", path, "-seq", "32", "-steps", "6", "-dtype", "fp32", pack)
		dir := t.TempDir()
		out, loss := trained(t, append(flags, "-save", dir, "-save-every", "3")...)
		require.Contains(t, out, "questions.jsonl:41: it is no JSON object")
		sets, err := filepath.Glob(filepath.Join(dir, "step-00000003-*"))
		require.NoError(t, err)
		require.Len(t, sets, 1)
		resumed, last := trained(t, append(flags, "-resume", sets[0])...)
		require.Equal(t, loss, last)
		require.NotContains(t, resumed, "not as it was")
		for _, ranks := range []string{"-ranks 2 -micro 2", "-ranks 2 -fsdp", "-ranks 2 -cp 2 -ulysses 2", "-ranks 2 -tp 2 -sp"} {
			_, several := trained(t, append(flags, strings.Fields(ranks)...)...)
			require.InDelta(t, loss, several, 5e-4, ranks)
		}
	}
}

// TestTrainsConversations trains an adapter of a model with a tokenizer and a chat template.
func TestTrainsConversations(t *testing.T) {
	model := chatModel(t)
	path := questions(t, `{"messages": [{"role": "user", "content": "square of %d"}, {"role": "assistant", "content": "%d"}]}`)
	flags := []string{"-model", model, "-data", path, "-batch", "4", "-seq", "64", "-lora", "8", "-lr", "0.03", "-warmup", "1"}
	first, one := trained(t, append(flags, "-steps", "1")...)
	require.Contains(t, first, "samples read")
	_, later := trained(t, append(flags, "-steps", "8")...)
	require.Less(t, later, one-0.3)
	require.NoError(t, os.WriteFile(filepath.Join(model, "sentence_bert_config.json"), []byte(`{"do_lower_case":true}`), 0o600))
	o, err := parseFlags(append(flags, "-steps", "1"), t.Output())
	require.NoError(t, err)
	require.ErrorContains(t, run(t.Context(), o, io.Discard), "do_lower_case of sentence_*_config.json is true")
}

// TestEvaluates: held-out samples have the same loss on any ranks, and before training that of a
// model that knows nothing; it is reported when it is due and stands in the log.
func TestEvaluates(t *testing.T) {
	path := questions(t, `{"prompt": "square of %d: ", "response": "%d"}`)
	log := filepath.Join(t.TempDir(), "log")
	flags := smallFlags("-dtype", "fp32", "-data", path, "-eval", path, "-seq", "32", "-steps", "5", "-eval-every", "2", "-eval-batches", "100", "-layers", "2")
	out, _ := trained(t, append(flags, "-log", log)...)
	reported := regexp.MustCompile(`held-out loss ([0-9.]+), perplexity`).FindAllStringSubmatch(out, -1)
	require.Len(t, reported, 3, "after steps 2, 4 and 5")
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(text), `"eval_loss":`))
	for _, ranks := range []string{"-ranks 2 -fsdp", "-ranks 2 -tp 2", "-ranks 2 -pp 2 -micro 2"} {
		several, _ := trained(t, append(flags, strings.Fields(ranks)...)...)
		again := regexp.MustCompile(`held-out loss ([0-9.]+), perplexity`).FindAllStringSubmatch(several, -1)
		for i := range reported {
			one, err := strconv.ParseFloat(reported[i][1], 64)
			require.NoError(t, err)
			other, err := strconv.ParseFloat(again[i][1], 64)
			require.NoError(t, err)
			require.InDelta(t, one, other, 5e-4)
		}
	}
	for _, flags := range [][]string{{"-eval-every", "2"}, {"-eval", path, "-eval-batches", "0"}} {
		_, err := parseFlags(flags, t.Output())
		require.ErrorContains(t, err, "-eval")
	}
}
