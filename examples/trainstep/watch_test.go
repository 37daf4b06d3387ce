package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	prometheus "github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/examples/checkpoint"
	"github.com/goascend/cann/examples/meter"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/hccl/world"
)

// TestCompare draws two logs, of which one was resumed, and reports how far they are apart.
func TestCompare(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	a := write("a<b.jsonl", `{"step":1,"loss":4}`+"\n"+`{"step":2,"loss":9}`+"\n"+`{"step":2,"loss":3,"eval_loss":3.5}`+"\n")
	b := write("b.jsonl", `{"step":2,"loss":2.75}`+"\n"+`{"step":3,"loss":2}`+"\n")
	o, err := parseFlags([]string{"-compare", a, b}, io.Discard)
	require.NoError(t, err)
	var picture, report bytes.Buffer
	require.NoError(t, compare(o.compare[0], o.compare[1], &picture, &report))
	require.Equal(t, "1 steps in common; the losses differ by at most 0.25, at step 2\n", report.String())
	lines, circles := 0, 0
	for d := xml.NewDecoder(&picture); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "polyline" {
			lines++
			require.Len(t, strings.Fields(e.Attr[0].Value), 2, "one point for each step")
		} else if ok && e.Name.Local == "circle" {
			circles++
		}
	}
	require.Equal(t, 2, lines)
	require.Equal(t, 1, circles)

	require.NoError(t, compare(a, write("c", `{"step":7,"loss":1}`), io.Discard, &report))
	require.Contains(t, report.String(), "no step in common")
	for path, want := range map[string]string{filepath.Join(dir, "none"): "no such file", write("empty", ""): "has no steps", write("bad", "{\n"): "bad:1: "} {
		require.ErrorContains(t, compare(a, path, io.Discard, io.Discard), want)
		require.ErrorContains(t, compare(path, a, io.Discard, io.Discard), want)
	}
	for _, flags := range [][]string{{"-compare", a}, {"-compare", a, b, a}, {b}, {"-detect-anomaly", "-graph"}, {"-recompute", "all"}, {"-offload"}, {"-offload", "-recompute", "block", "-graph"}} {
		_, err := parseFlags(flags, io.Discard)
		require.Error(t, err, flags)
	}
}

// TestCompareWeights reports how far the weights of two checkpoints are apart, and refuses those of other models.
func TestCompareWeights(t *testing.T) {
	saved := func(name string, tensors ...checkpoint.Tensor) string {
		dir := filepath.Join(t.TempDir(), name)
		groups, err := world.LocalGroups(t.Context(), 1, world.GroupConfig{})
		require.NoError(t, err)
		defer func() { require.NoError(t, groups[0].Close()) }()
		s, err := checkpoint.NewSaver(t.Context(), groups[0], dir, 1)
		require.NoError(t, err)
		require.NoError(t, s.Save(t.Context(), checkpoint.About{Step: 3}, tensors))
		require.NoError(t, s.Close())
		return dir
	}
	weight := func(name string, values ...float32) checkpoint.Tensor {
		return checkpoint.Tensor{Part: checkpoint.Part{Name: name, Shape: []int64{int64(len(values))}}, Values: values}
	}
	a := saved("a", weight("near", 1, 2), weight("far", 1, 2, 3, 4), weight("same", 5), weight("optimizer.exp_avg.same", 1))
	b := saved("b", weight("near", 1, 2.5), weight("far", 1, 2, 3, 8), weight("same", 5), weight("optimizer.exp_avg.same", 2))
	var report strings.Builder
	require.NoError(t, compare(a, b, io.Discard, &report))
	require.Equal(t, "steps 3 and 3: of 3 weights 1 are equal; the RMS of a weight's differences is at most 2 in far\n", report.String())
	report.Reset()
	nan := saved("nan", weight("near", 1, float32(math.NaN())), weight("far", 1, 2, 3, 4), weight("same", 9))
	require.NoError(t, compare(a, nan, io.Discard, &report))
	require.Contains(t, report.String(), "at most NaN in near")
	other := saved("other", weight("near", 1, 2, 3), weight("far", 1, 2, 3, 4), weight("same", 5))
	require.ErrorContains(t, compare(a, other, io.Discard, io.Discard), "different models")
	require.ErrorIs(t, compare(a, filepath.Join(a, "none"), io.Discard, io.Discard), checkpoint.ErrNone)
}

// TestMetrics reads what node_exporter would while the training goes on.
func TestMetrics(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trainstep.prom")
	m, err := newMetrics(path)
	require.NoError(t, err)
	require.NoError(t, m.write(entry{Step: 3, Loss: 2.5, EvalLoss: 2.25, Tokens: 100, MemoryPeak: 1 << 20}))
	require.NoError(t, m.write(entry{Step: 4, Loss: 2, Tokens: 100, Ranks: []meter.Times{{Kernels: 1}, {Kernels: 0.5, Communication: 0.25, Waiting: 0.125}}}))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, line := range []string{"trainstep_step 4", "trainstep_loss 2", "trainstep_eval_loss 2.25", "trainstep_tokens_total 200", "trainstep_memory_peak_bytes 0", `trainstep_rank_seconds{on="kernels",rank="0"} 1`, `trainstep_rank_seconds{on="waiting",rank="1"} 0.125`} {
		require.Contains(t, string(text), "\n"+line+"\n")
	}
	parser := expfmt.NewTextParser(prometheus.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	require.NoError(t, err)
	require.Len(t, families, 13)
	require.Equal(t, "COUNTER", families["trainstep_tokens_total"].GetType().String())
	require.Len(t, families["trainstep_rank_seconds"].GetMetric(), 6)
	_, err = newMetrics(":9100")
	require.ErrorContains(t, err, "names end in .prom")
	_, err = newMetrics(filepath.Join(path, "a.prom"))
	require.Error(t, err, "the folder is a file")
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 1, "no file is left beside it")

	trained(t, smallFlags("-steps", "2", "-ranks", "2", "-metrics", path)...)
	text, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), "\ntrainstep_step 2\n")
}

// TestBest: the checkpoint with the least held-out loss is kept beside the newest ones, also by a run
// that goes on and does not get better.
func TestBest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	held := filepath.Join(t.TempDir(), "held.jsonl")
	require.NoError(t, os.WriteFile(held, []byte(`{"text":"a mouse ran up the clock, and down it came"}`+"\n"), 0o600))
	flags := smallFlags("-data", "testdata/rhyme.txt", "-eval", held, "-eval-every", "2", "-seq", "32", "-save", dir, "-keep", "1")
	out, _ := trained(t, append(flags, "-steps", "4")...)
	require.Contains(t, out, ", the best so far")
	least := func(out string) float64 {
		best := math.Inf(1)
		for _, m := range regexp.MustCompile(`held-out loss ([0-9.]+)`).FindAllStringSubmatch(out, -1) {
			v, err := strconv.ParseFloat(m[1], 64)
			require.NoError(t, err)
			best = min(best, v)
		}
		return best
	}
	kept := func() (step int, loss float64) {
		set, err := checkpoint.Open(filepath.Join(dir, bestFolder))
		require.NoError(t, err)
		defer func() { require.NoError(t, set.Close()) }()
		loss, err = strconv.ParseFloat(set.About().Data["eval loss"], 64)
		require.NoError(t, err)
		return set.About().Step, loss
	}
	step, loss := kept()
	require.InDelta(t, least(out), loss, 1e-4)
	out, _ = trained(t, append(flags, "-steps", "6", "-lr", "3", "-clip", "0", "-resume", dir)...) // far too much
	require.NotContains(t, out, "the best so far")
	after, same := kept()
	require.Equal(t, step, after)
	require.Equal(t, loss, same)
	resumed, err := checkpoint.Open(dir)
	require.NoError(t, err)
	require.Equal(t, 6, resumed.About().Step)
	require.NoError(t, resumed.Close())
}

// TestAnomalies: numbers that are none end the training before a checkpoint has them, and
// -detect-anomaly names the layer.
func TestAnomalies(t *testing.T) {
	acltest.Need(t)
	flags := smallFlags("-steps", "30", "-lr", "1e30", "-clip", "0", "-warmup", "0", "-dtype", "fp32")
	o, err := parseFlags(flags, t.Output())
	require.NoError(t, err)
	require.ErrorContains(t, run(t.Context(), o, io.Discard), "-detect-anomaly names")
	o, err = parseFlags(append(flags, "-detect-anomaly", "-ranks", "2"), t.Output())
	require.NoError(t, err)
	err = run(t.Context(), o, io.Discard)
	require.ErrorIs(t, err, model.ErrAnomaly)
	require.Regexp(t, `layer 0|embedding|logits|gradient of`, err.Error())
	_, plain := trained(t, smallFlags("-steps", "3")...)
	_, detected := trained(t, smallFlags("-steps", "3", "-detect-anomaly")...)
	require.Equal(t, plain, detected)
}

func TestBar(t *testing.T) {
	require.Equal(t, "[                    ]", bar(0, 50))
	require.Equal(t, "[==========          ]", bar(25, 50))
	require.Equal(t, "[====================]", bar(50, 50))
	var out bytes.Buffer
	p := progress{out: &out, terminal: true, done: 1, of: 2, left: 61e9}
	p.show("loss 2")
	require.Equal(t, fmt.Sprintf("\r%s  loss 2  1m1s left", bar(1, 2)), out.String())
}

// TestSavesMemory: with each way to save memory the program trains the same, with and without a graph.
func TestSavesMemory(t *testing.T) {
	plain, _ := trained(t, smallFlags("-steps", "3", "-layers", "4")...)
	losses := regexp.MustCompile(`loss [0-9.]+  gradient norm [0-9.]+`)
	for _, more := range [][]string{{"-recompute", "attention"}, {"-recompute", "block"}, {"-recompute", "full"}, {"-recompute", "block", "-offload"}, {"-recompute", "full", "-graph"}} {
		out, _ := trained(t, smallFlags(append([]string{"-steps", "3", "-layers", "4"}, more...)...)...)
		require.Equal(t, losses.FindAllString(plain, -1), losses.FindAllString(out, -1), more)
	}
}
