package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/examples/model"
)

// smallFlags are flags of a model that trains in a moment.
func smallFlags(more ...string) []string {
	return append([]string{
		"-data", "testdata/rhyme.txt", "-layers", "1", "-hidden", "64", "-intermediate", "128", "-heads", "4", "-kv-heads", "2",
		"-head-dim", "16", "-batch", "4", "-seq", "64", "-warmup", "5",
	}, more...)
}

// trained runs the program and returns its output and the loss of its last line.
func trained(t *testing.T, flags ...string) (out string, last float64) {
	acltest.Need(t)
	o, err := parseFlags(flags, t.Output())
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, run(t.Context(), o, &b))
	for kind, n := range acl.Live() {
		require.Zero(t, n, "%v left open", kind)
	}
	steps := regexp.MustCompile(`loss ([0-9.]+)  gradient`).FindAllStringSubmatch(b.String(), -1)
	require.NotEmpty(t, steps, b.String())
	last, err = strconv.ParseFloat(steps[len(steps)-1][1], 64)
	require.NoError(t, err)
	return b.String(), last
}

// losses returns the losses of a log by step, which are the same where a step was made again.
func losses(t *testing.T, path string) map[int]float64 {
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	all := map[int]float64{}
	for line := range bytes.Lines(content) {
		var e entry
		require.NoError(t, json.Unmarshal(line, &e))
		if earlier, made := all[e.Step]; made {
			require.Equal(t, earlier, e.Loss, "step %d", e.Step)
		}
		all[e.Step] = e.Loss
	}
	return all
}

// TestElementType checks the default of -dtype, and that hf32 trains in fp32 with rounded products.
func TestElementType(t *testing.T) {
	require.Equal(t, "bf16", options{}.elementType(false))
	require.Equal(t, "fp32", options{}.elementType(true))
	require.Equal(t, "hf32", options{dtype: "hf32"}.elementType(false))
	out, _ := trained(t, smallFlags("-steps", "3")...)
	require.Equal(t, strings.Contains(out, "(emulated)"), strings.Contains(out, "parameters in fp32"), out)
	_, fp32 := trained(t, smallFlags("-steps", "3", "-dtype", "fp32")...)
	out, rounded := trained(t, smallFlags("-steps", "3", "-dtype", "hf32")...)
	require.Contains(t, out, "parameters in hf32")
	require.InDelta(t, fp32, rounded, 1e-2)
	out, half := trained(t, smallFlags("-steps", "3", "-dtype", "fp16")...)
	require.Contains(t, out, "parameters in fp16")
	require.InDelta(t, fp32, half, 1e-2)
}

// TestLearnsMoreThanFrequencies checks that the loss falls below that of byte frequencies alone.
func TestLearnsMoreThanFrequencies(t *testing.T) {
	dtypes := []string{"bf16", "fp32"}
	if testing.Short() {
		dtypes = dtypes[:1]
	}
	for _, dtype := range dtypes {
		t.Run(dtype, func(t *testing.T) {
			out, _ := trained(t, smallFlags("-steps", "60", "-dtype", dtype)...)
			sums := regexp.MustCompile(`loss ([0-9.]+) over the last steps, ([0-9.]+) for a unigram`).FindStringSubmatch(out)
			require.Len(t, sums, 3, out)
			loss, _ := strconv.ParseFloat(sums[1], 64)
			unigram, _ := strconv.ParseFloat(sums[2], 64)
			require.Less(t, loss, 0.7*unigram)
		})
	}
}

// TestResumeGoesOnExactly checks that stopping and resuming does not change the results.
func TestResumeGoesOnExactly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "checkpoints")
	_, whole := trained(t, smallFlags("-steps", "12")...)
	// The learning rate depends on the last step, so the first half must know it: it is
	// interrupted rather than asked for fewer steps.
	o, err := parseFlags(smallFlags("-steps", "12", "-save", dir, "-save-every", "6"), t.Output())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	w := writerFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("step 6/12")) {
			cancel()
		}
		return len(p), nil
	})
	require.ErrorIs(t, run(ctx, o, w), context.Canceled)
	out, resumed := trained(t, smallFlags("-steps", "12", "-resume", dir)...)
	require.Equal(t, whole, resumed)
	require.Regexp(t, `resumed after step 6 from .*/step-00000006-[0-9a-f]{8}, saved by tp1 cp1 dp1 pp1\n`, out)
	out, _ = trained(t, smallFlags("-steps", "12", "-resume", dir, "-seed", "2", "-ranks", "2")...)
	require.Contains(t, out, `not as it was: seed was "1" and is "2"`)
}

// TestGraphTrainsTheSame: captured steps train as launched ones do, alone and on several ranks.
func TestGraphTrainsTheSame(t *testing.T) {
	acltest.Need(t)
	for name, flags := range map[string][]string{
		"alone": nil, "bf16": {"-dtype", "bf16"}, "data": {"-ranks", "2"}, "shards": {"-ranks", "2", "-fsdp"},
		"tensor": {"-ranks", "2", "-tp", "2", "-sp"}, "context": {"-ranks", "2", "-cp", "2"}, "micro-batches": {"-micro", "2"},
		"distributed optimiser": {"-ranks", "2", "-distributed-optimizer"}, "experts": {"-ranks", "2", "-model", "qwen3_moe", "-ep", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			flags = smallFlags(append(flags, "-steps", "6")...)
			_, plain := trained(t, flags...)
			_, graph := trained(t, append(flags, "-graph")...)
			require.InDelta(t, plain, graph, 2e-3)
		})
	}
	o, err := parseFlags(smallFlags("-steps", "2", "-graph", "-ranks", "2", "-model", "qwen3_moe", "-ep", "2", "-expert-capacity", "0"), t.Output())
	require.NoError(t, err)
	require.ErrorContains(t, run(t.Context(), o, new(bytes.Buffer)), "needs Parallel.ExpertCapacity")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestBadFlags(t *testing.T) {
	acltest.Need(t)
	for _, c := range []struct {
		flags []string
		text  string
	}{
		{[]string{"-steps", "0"}, "must be positive"}, {[]string{"-model", "a", "-resume", "b"}, "exclude each other"},
		{[]string{"-nonsense"}, "not defined"}, {[]string{"-steps", "5", "now"}, `unknown argument "now"`},
		{[]string{"-model", "gpt2"}, `-model "gpt2" is neither a folder nor a type of a new model; the types are ` + strings.Join(model.ModelTypes(), ", ")},
		{[]string{"-model", "testdata/rhyme.txt"}, "is neither a folder"},
		{[]string{"-lora", "-1"}, "positive"}, {[]string{"-lora", "4"}, "need -model"}, {[]string{"-model", ".", "-lora", "4", "-adapter", "."}, "its own rank"},
		{[]string{"-model", ".", "-lora", "4", "-merge"}, "-merge needs"}, {[]string{"-dtype", "fp8"}, "-dtype"}, {[]string{"-lr", "-1"}, "-lr"}, {[]string{"-clip", "nan"}, "-clip"},
		{[]string{"-save-every", "2"}, "-save-every needs -save"}, {[]string{"-keep", "2"}, "-keep needs -save"}, {[]string{"-lora-dropout", ".1"}, "-lora-dropout needs -lora"},
		{[]string{"-eval-batches", "2"}, "-eval-batches needs -eval"}, {[]string{"-cooldown", "2"}, "-cooldown needs -schedule wsd"}, {[]string{"-sp"}, "-sp needs -tp"},
		{[]string{"-ulysses", "2"}, "-ulysses needs -cp"}, {[]string{"-ranks", "6", "-cp", "6", "-ulysses", "4"}, "-ulysses 4 does not divide the 6 ranks of -cp"},
		{[]string{"-pp-schedule", "zero-bubble"}, "-pp-schedule needs -pp"}, {[]string{"-pp", "2", "-pp-schedule", "zero-bubble", "-fsdp"}, "-pp-schedule zero-bubble excludes -fsdp"}, {[]string{"-pp", "2", "-pp-schedule", "gpipe"}, "use 1f1b, interleaved or zero-bubble"},
		{[]string{"-pp", "2", "-pp-chunks", "2"}, "-pp-chunks 2 is for -pp-schedule interleaved"}, {[]string{"-pp", "2", "-pp-schedule", "interleaved"}, "needs -pp-chunks of 2 or more"},
		{[]string{"-pp", "2", "-micro", "3", "-pp-schedule", "interleaved", "-pp-chunks", "2"}, "so give a multiple"},
		{[]string{"-expert-capacity", "2"}, "-expert-capacity needs -ep or -etp"}, {[]string{"-etp", "0"}, "-etp is 0; it is a number of ranks"}, {[]string{"-ep", "2", "-expert-capacity", "0.5"}, "1 at least"},
		{[]string{"-model", ".", "-lora", "4", "-expert-bias-rate", "0.1"}, "-expert-bias-rate changes the biases"},
		{[]string{"-fsdp", "-distributed-optimizer"}, "-distributed-optimizer excludes -fsdp"},
		{[]string{"-tp", "0"}, "-tp is 0; it is a number of ranks"}, {[]string{"-cp", "2", "-ulysses", "-1"}, "-ulysses is -1"}, {[]string{"-model", ".", "-layers", "2"}, "-layers needs the type of a new model"},
	} {
		_, err := parseFlags(c.flags, t.Output())
		require.ErrorContains(t, err, c.text, "%v", c.flags)
	}
	for _, c := range []struct {
		flags []string
		text  string
	}{
		{smallFlags("-heads", "3"), "multiple"}, {smallFlags("-data", "testdata/none"), "no such file"},
		{smallFlags("-seq", "100000"), "tokens"}, {smallFlags("-device", "99"), "99"},
	} {
		o, err := parseFlags(c.flags, t.Output())
		require.NoError(t, err)
		require.ErrorContains(t, run(t.Context(), o, new(bytes.Buffer)), c.text, "%v", c.flags)
		for kind, n := range acl.Live() {
			require.Zero(t, n, "%v left open after %v", kind, c.flags)
		}
	}
}

// TestSamples checks the commands in the help text.
func TestSamples(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("Qwen3-0.6B", 0o700))
	for _, s := range samples {
		_, flags, _ := strings.Cut(s, "/trainstep")
		_, err := parseFlags(strings.Fields(flags), t.Output())
		require.NoError(t, err, s)
	}
}

func TestUnigramLoss(t *testing.T) {
	c := byteCorpus([]byte("aabb"), "test")
	require.InDelta(t, 0.6931, c.unigramLoss(), 1e-4)
	c, err := tokenCorpus([]byte{1, 0, 0, 1}, "test")
	require.NoError(t, err)
	require.Equal(t, []int32{1, 256}, c.tokens)
	require.Equal(t, 257, c.vocab)
	_, err = tokenCorpus([]byte{1}, "test")
	require.Error(t, err)
}

func TestBatchDependsOnSeedAndStep(t *testing.T) {
	c := byteCorpus([]byte(fmt.Sprintf("%01000d", 7)), "test")
	for i := range c.tokens {
		c.tokens[i] = int32(i % 256)
	}
	a, labels, err := c.batch(1, 3, 0, 2, 10)
	require.NoError(t, err)
	b, _, err := c.batch(1, 3, 0, 2, 10)
	require.NoError(t, err)
	other, _, err := c.batch(1, 4, 0, 2, 10)
	require.NoError(t, err)
	require.Equal(t, a, b)
	require.NotEqual(t, a, other)
	for i := range a {
		require.Equal(t, (a[i]+1)%256, labels[i], "a label is what follows")
	}
}

// TestTrainsDeltaNets checks the same for families that mix delta nets and attention.
func TestTrainsDeltaNets(t *testing.T) {
	models := []string{"qwen3_next", "qwen3_5_text"}
	if testing.Short() {
		models = models[:1]
	}
	for _, model := range models {
		t.Run(model, func(t *testing.T) {
			_, last := trained(t, smallFlags("-model", model, "-layers", "2", "-full-interval", "2", "-experts", "4", "-expert-size", "32", "-steps", "30")...)
			require.Less(t, last, 2.9)
		})
	}
}

// TestTrainsExperts checks that a model with experts learns with ND and with FRACTAL_NZ weights.
func TestTrainsExperts(t *testing.T) {
	flags := smallFlags("-model", "qwen3_moe", "-experts", "4", "-expert-size", "32", "-steps", "30", "-dtype", "bf16")
	_, plain := trained(t, flags...)
	require.Less(t, plain, 2.9)
	out, nz := trained(t, append(flags, "-gmm-nz")...)
	require.Equal(t, plain, nz)
	// CANN 8.1 is not known to read such weights transposed.
	require.Equal(t, os.Getenv("CANN_EMU_API") != "", strings.Contains(out, "the gradients of experts read theirs in ND"))
}

// TestRanks checks that a run over several ranks equals that of one, and that impossible divisions
// are refused.
func TestRanks(t *testing.T) {
	acltest.Need(t)
	for _, c := range []struct{ model, ranks string }{
		{"qwen3", "-ranks 4"}, {"qwen3", "-ranks 4 -fsdp"}, {"qwen3", "-ranks 4 -tp 2 -distributed-optimizer"}, {"qwen3_moe", "-ranks 4 -fsdp -shard-rules self_attn.*/weight=whole,mlp.experts/*=whole -ep 2"}, {"qwen3", "-ranks 4 -tp 2 -sp -cp 2 -micro 2"}, {"qwen3_moe", "-ranks 4 -ep 2"}, {"qwen3_moe", "-ranks 4 -tp 2 -ep 2 -etp 2"}, {"qwen3_5_text", "-ranks 2 -cp 2 -ulysses 2"},
		{"qwen3_5_text", "-ranks 2 -tp 2"},
	} {
		t.Run(c.model+" "+c.ranks, func(t *testing.T) {
			flags := smallFlags("-model", c.model, "-experts", "4", "-expert-size", "32", "-steps", "5")
			_, one := trained(t, flags...)
			out, several := trained(t, append(flags, strings.Fields(c.ranks)...)...)
			require.Contains(t, out, " × ")
			require.InEpsilon(t, one, several, 1e-3)
		})
	}
	sparse := smallFlags("-model", "qwen3_moe", "-experts", "4", "-expert-size", "32", "-steps", "2", "-ranks", "2", "-tp", "2")
	out, switched := trained(t, sparse...)
	require.Contains(t, out, "sequence parallelism (-sp) is on")
	_, asked := trained(t, append(sparse, "-sp")...)
	require.Equal(t, asked, switched)
	for flags, want := range map[string]string{
		"-ranks 4 -batch 6":                   "-batch 6 is not a multiple",
		"-ranks 4 -tp 3":                      "4 ranks are not a multiple",
		"-ranks 4 -ep 2 -etp 3":               "4 ranks are not a multiple",
		"-ranks 4 -etp 4 -batch 4":            "4 ranks of experts, and qwen3 has none",
		"-ranks 4 -tp 4":                      "num_key_value_heads 2 is not a multiple of the 4",
		"-ranks 2 -pp 2":                      "2 stages for 1 layers",
		"-ranks 2 -tp 2 -seq 9 -sp":           "9 tokens of a micro-batch are not a multiple",
		"-ranks 3 -fsdp -replicas 2 -batch 3": "are not a multiple of replica 2",
	} {
		o, err := parseFlags(append(smallFlags("-batch", "1"), strings.Fields(flags)...), t.Output())
		require.NoError(t, err)
		require.ErrorContains(t, run(t.Context(), o, io.Discard), want, flags)
		require.Empty(t, acl.Live())
	}
}

// TestProfile checks that the profiler gets its folder, for the devices of the ranks alone.
func TestProfile(t *testing.T) {
	acltest.Need(t)
	dir := t.TempDir()
	trained(t, smallFlags("-steps", "1", "-ranks", "2", "-device", "1", "-profile", dir)...)
	made, err := filepath.Glob(filepath.Join(dir, "PROF_*", "device_*"))
	require.NoError(t, err)
	var names []string
	for _, path := range made {
		names = append(names, filepath.Base(path))
	}
	require.Equal(t, []string{"device_1", "device_2"}, names)
}
