package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/model"
)

// comparisons is a file of pairs: the right square, and a wrong one.
func comparisons(t *testing.T) string {
	var b strings.Builder
	for i := range 24 {
		fmt.Fprintf(&b, `{"prompt": "square of %d: ", "chosen": "%d", "rejected": "%d, or more"}`+"\n", i, i*i, i*i+7)
	}
	path := filepath.Join(t.TempDir(), "pairs.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

// base is the folder of a small model of bytes.
func base(t *testing.T, flags ...string) string {
	folder := filepath.Join(t.TempDir(), "model")
	trained(t, smallFlags(append(flags, "-layers", "2", "-steps", "1", "-dtype", "fp32", "-export", folder)...)...)
	return folder
}

// TestTrainsPreferences: losses of pairs fall, alike on any ranks; the loss of dpo begins with ln 2, as the model is its reference, also with an adapter, and
// goes on exactly after a stop.
func TestTrainsPreferences(t *testing.T) {
	folder, path := base(t), comparisons(t)
	for loss, rates := range map[string]string{"dpo": "0.003", "reward": "0.003"} {
		flags := []string{"-model", folder, "-data", path, "-eval", path, "-loss", loss, "-batch", "4", "-seq", "48", "-steps", "6", "-warmup", "1", "-dtype", "fp32", "-lr", rates}
		dir := t.TempDir()
		out, last := trained(t, append(flags, "-log", filepath.Join(dir, "log"), "-save", filepath.Join(dir, "saved"), "-save-every", "3", "-export", filepath.Join(dir, "result"))...)
		first := regexp.MustCompile(`step 1/6  loss ([0-9.]+)`).FindStringSubmatch(out)
		require.NotNil(t, first, out)
		began, err := strconv.ParseFloat(first[1], 64)
		require.NoError(t, err)
		require.Less(t, last, began)
		require.Regexp(t, `held-out loss [0-9.]+  accuracy [0-9.]+, margin -?[0-9.]+`, out)
		text, err := os.ReadFile(filepath.Join(dir, "log"))
		require.NoError(t, err)
		require.Contains(t, string(text), `"rewards":{"chosen":`)
		require.Contains(t, string(text), `"eval_rewards":{"chosen":`)
		cfg, err := model.ReadConfig(filepath.Join(dir, "result", "config.json"))
		require.NoError(t, err)
		require.Equal(t, loss == reward, cfg.Score)
		if loss == dpo {
			require.InDelta(t, 0.6931, began, 1e-4)
		}
		sets, err := filepath.Glob(filepath.Join(dir, "saved", "step-00000006-*"))
		require.NoError(t, err)
		require.Len(t, sets, 1)
		require.NoError(t, os.RemoveAll(sets[0]))
		_, resumed := trained(t, append(flags, "-save", filepath.Join(dir, "saved"), "-auto-resume")...)
		require.Equal(t, last, resumed)
		compareLosses(t, flags, "", "-ranks 2 -tp 2", "-ranks 2 -fsdp", "-ranks 2 -cp 2", "-ranks 2 -micro 2", "-ranks 2 -pp 2 -micro 2")
	}
	adapter := []string{"-model", folder, "-data", path, "-loss", "dpo", "-batch", "4", "-seq", "48", "-steps", "4", "-warmup", "1", "-dtype", "fp32", "-lr", "0.02", "-lora", "4"}
	out, last := trained(t, adapter...)
	require.Contains(t, out, "step 1/4  loss 0.6931")
	require.Less(t, last, 0.69)
	compareLosses(t, adapter, "", "-ranks 2 -tp 2")
	experts := []string{"-model", base(t, "-model", "qwen3_moe", "-experts", "4", "-expert-size", "32"), "-data", path, "-loss", "dpo", "-batch", "4", "-seq", "48", "-steps", "4", "-warmup", "1", "-dtype", "fp32", "-lr", "0.003"}
	compareLosses(t, experts, "-ranks 2", "-ranks 2 -ep 2", "-ranks 2 -fsdp") // each rank balances the experts of its own rows
}

// compareLosses trains with one layout and with others, and compares the losses of the steps.
func compareLosses(t *testing.T, flags []string, first string, layouts ...string) {
	t.Helper()
	logged := func(layout string) map[int]float64 {
		log := filepath.Join(t.TempDir(), "log")
		trained(t, append(append(flags, "-log", log), strings.Fields(layout)...)...)
		return losses(t, log)
	}
	want := logged(first)
	for _, layout := range layouts {
		several := logged(layout)
		require.Len(t, several, len(want))
		for step, loss := range several {
			require.InEpsilon(t, want[step], loss, 5e-5, "%s, step %d", layout, step)
		}
	}
}

func TestPreferenceFlags(t *testing.T) {
	for _, c := range []struct{ flags, text string }{
		{"-loss kto", "use cross-entropy, dpo or reward"}, {"-loss dpo", "needs a folder in -model"}, {"-loss dpo -model .", "needs -data"}, {"-beta 0.2", "-beta needs -loss dpo"},
		{"-loss reward -model . -data x -sft-weight 1", "-sft-weight needs -loss dpo"}, {"-loss dpo -model . -data x -graph", "-graph needs -loss cross-entropy"},
		{"-loss dpo -model . -data x -pack=false", "-pack needs -loss cross-entropy"}, {"-loss dpo -model . -data x -lora 4 -lora-dropout 0.1", "-lora-dropout needs -loss cross-entropy"},
		{"-loss dpo -model . -data x -label-smoothing 0.5", "below 0.5"}, {"-loss dpo -model . -data x -beta 0", "must be positive"},
		{"-loss reward -model . -data x -tp 2 -sp", "excludes -sp"}, {"-loss dpo -model . -data x -tokenize x.tokens", "-tokenize needs -loss cross-entropy"},
	} {
		_, err := parseFlags(strings.Fields(c.flags), t.Output())
		require.ErrorContains(t, err, c.text, c.flags)
	}
	folder := base(t)
	for _, c := range []struct {
		flags []string
		text  string
	}{
		{[]string{"-loss", "reward", "-lora", "2", "-data", comparisons(t)}, "has the head of a language model"}, {[]string{"-loss", "dpo", "-data", "testdata/rhyme.txt"}, "has a text"},
		{[]string{"-data", comparisons(t)}, "losses that compare two answers"}, {[]string{"-loss", "dpo", "-data", questions(t, `{"prompt": "%d", "response": "%d"}`)}, "it needs chosen and rejected"},
		{[]string{"-loss", "dpo", "-seq", "8", "-data", comparisons(t)}, "a row has room for 8"},
		{[]string{"-loss", "dpo", "-data", questions(t, `{"prompt": "%d", "chosen": "a%d", "rejected": "b", "margin": 2}`)}, "the margin 2, which only -loss reward takes"},
	} {
		o, err := parseFlags(append([]string{"-model", folder, "-batch", "2", "-steps", "1"}, c.flags...), t.Output())
		require.NoError(t, err)
		require.ErrorContains(t, run(t.Context(), o, new(strings.Builder)), c.text, "%v", c.flags)
	}
}
