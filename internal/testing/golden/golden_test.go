package golden

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/safetensors"
)

// outcome is a testing.TB that notes how a test would have ended instead of ending it.
type outcome struct {
	testing.TB
	fatal, skip string
}

func (o *outcome) Helper() {}

func (o *outcome) Fatal(args ...any) {
	o.fatal = fmt.Sprint(args...)
	runtime.Goexit()
}

func (o *outcome) Fatalf(format string, args ...any) { o.Fatal(fmt.Sprintf(format, args...)) }

func (o *outcome) Skipf(format string, args ...any) {
	o.skip = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// observe runs f as a test of its own; Goexit needs a goroutine to end.
func observe(t *testing.T, f func(testing.TB)) *outcome {
	o := &outcome{TB: t}
	var wg sync.WaitGroup
	wg.Go(func() { f(o) })
	wg.Wait()
	return o
}

// TestGoldenFiles reads every tensor of every case and checks it against the case's options.
func TestGoldenFiles(t *testing.T) {
	dir := mustDir(t)
	text, err := os.ReadFile(filepath.Join(dir, casesFile))
	require.NoError(t, err)
	all, err := parseCases(text)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	total := 0
	for _, head := range all {
		cases := Cases(t, head.Op)
		i := slices.IndexFunc(cases, func(c *Case) bool { return c.Name == head.Name })
		require.GreaterOrEqual(t, i, 0, head.Name)
		names := cases[i].Names()
		require.NotEmpty(t, names, head.Name)
		for _, name := range names {
			tensor := cases[i].Tensor(name)
			require.Len(t, cases[i].Bytes(name), int(tensor.Size()))
			if tensor.DType.IsFloat() {
				for _, v := range cases[i].Float32(name) {
					require.False(t, math.IsNaN(float64(v)), "%s/%s", head.Name, name)
				}
			} else {
				require.Len(t, cases[i].Int64(name), tensor.Len())
			}
		}
		total += len(names)
	}
	file, err := safetensors.Open(filepath.Join(dir, "ops.safetensors"))
	require.NoError(t, err)
	defer file.Close()
	assert.Equal(t, len(file.Names()), total, "a tensor belongs to no case")
}

// TestGoldenSwiGLU computes one operator from its definition: data, options and comparison
// together must come out right.
func TestGoldenSwiGLU(t *testing.T) {
	for _, c := range Cases(t, "swiglu") {
		c.Run(t, func(t *testing.T, c *Case) {
			rows, h := c.Int("rows"), c.Int("H")
			require.Equal(t, []int{rows, 2 * h}, c.Shape("x"))
			require.Equal(t, c.DType, c.Tensor("x").DType)
			x, y := c.Float32("x"), make([]float64, rows*h)
			for i := range y {
				gate, up := float64(x[i/h*2*h+i%h]), float64(x[i/h*2*h+h+i%h])
				y[i] = gate / (1 + math.Exp(-gate)) * up
			}
			require.NoError(t, CheckRMS(y, c.Float32("y"), 1e-7))
			require.NoError(t, CheckClose(y, c.Float32("y"), 1e-30, 1e-6))
			y[1] += 1
			require.ErrorContains(t, CheckRMS(y, c.Float32("y"), 1e-7), "element 1 of")
		})
	}
}

func TestGoldenModels(t *testing.T) {
	dir := mustDir(t)
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	require.NoError(t, err)
	for _, file := range files {
		name := filepath.Base(file[:len(file)-len(".json")])
		if name == "ops" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			m := Model(t, name)
			assert.Contains(t, Models(t, m.Architecture), name)
			init, final, grad := m.Sub("init"), m.Sub("final"), m.Sub("grad0")
			require.NotEmpty(t, init.Names())
			require.Equal(t, init.Names(), final.Names())
			for _, weight := range init.Names() {
				require.Equal(t, init.Shape(weight), final.Shape(weight))
				require.NotEqual(t, init.Float32(weight), final.Float32(weight), "%s did not train", weight)
			}
			squares := 0.0
			for _, weight := range grad.Names() {
				require.Equal(t, init.Shape(weight), grad.Shape(weight))
				for _, v := range grad.Float32(weight) {
					squares += float64(v) * float64(v)
				}
			}
			// The recorded norm is over exactly the recorded gradients.
			assert.InEpsilon(t, m.GradNorms[0], math.Sqrt(squares), 1e-5)
			assert.Equal(t, []int{m.Batch, m.Seq, m.Config.VocabSize}, m.Shape("logits0"))
			assert.Equal(t, []int{m.Config.VocabSize, m.Config.HiddenSize}, init.Shape("model.embed_tokens.weight"))
			if m.Config.LayerTypes != nil {
				assert.Len(t, m.Config.LayerTypes, m.Config.Layers)
			}
			assert.Positive(t, m.Config.Rope.Theta)
			assert.True(t, json.Valid(m.Config.Raw))
			valid := m.Int64("attention_mask")
			for b, length := range m.Lengths {
				count := 0
				for _, v := range valid[b*m.Seq : (b+1)*m.Seq] {
					count += int(v)
				}
				assert.Equal(t, length, count, "sequence %d", b)
			}
		})
	}
}

func TestTrainingFields(t *testing.T) {
	if os.Getenv(dirVariable) != "" {
		t.Skip("checks figures of the project's own set")
	}
	m := Model(t, "qwen3_padded")
	assert.Equal(t, "Qwen3ForCausalLM", m.Architecture)
	assert.Equal(t, []int{40, 23, 9}, m.Lengths)
	assert.Equal(t, Optimizer{"AdamW", 0.001, [2]float64{0.9, 0.95}, 1e-8, 0.1, 1}, m.Optimizer)
	assert.Equal(t, 4.851088058234618, m.Losses[0])
	assert.True(t, m.Config.TieWordEmbeddings)
	assert.Equal(t, []string{"qwen3", "qwen3_padded"}, Models(t, "Qwen3ForCausalLM"))

	next := Model(t, "qwen3_next").Config
	assert.Equal(t, Rope{Theta: 10000, PartialFactor: 0.25}, next.Rope)
	assert.Equal(t, []int{8, 2, 4}, []int{next.Experts, next.ExpertsPerToken, next.ConvKernel})

	assert.Equal(t, 8, Model(t, "qwen3_moe").Config.Experts)

	adamw := Cases(t, "adamw")[0]
	assert.Equal(t, dtype.Float32, adamw.DType)
	assert.Equal(t, []float64{0.9, 0.95}, adamw.Floats("betas"))
}

// writeSet makes a set of the same form as the project's and points CANN_GOLDEN_DIR at it.
func writeSet(t *testing.T, files map[string]string, infos ...safetensors.Info) {
	dir := t.TempDir()
	t.Setenv(dirVariable, dir)
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for _, name := range []string{"ops", "tiny"} {
		w, err := safetensors.Create(filepath.Join(dir, name+".safetensors"), infos, nil)
		require.NoError(t, err)
		for _, info := range infos {
			require.NoError(t, w.Write(info.Name, make([]byte, info.Size())))
		}
		require.NoError(t, w.Commit())
	}
}

func TestAnotherSet(t *testing.T) {
	writeSet(t, map[string]string{casesFile: `[{"op":"o","case":"o/1","dtype":"f64","n":3,"x":0.5,"on":true,"s":"t","l":[1,2],"no":null}]`},
		safetensors.Info{Name: "o/1/a", DType: dtype.Float64, Shape: []int{2}},
		safetensors.Info{Name: "o/1/deep/b", DType: dtype.Bool, Shape: nil},
		safetensors.Info{Name: "o/10/a", DType: dtype.Float64, Shape: []int{2}},
		safetensors.Info{Name: "c", DType: dtype.Complex64, Shape: nil})
	cases := Cases(t, "o")
	require.Len(t, cases, 1)
	c := cases[0]
	assert.Equal(t, dtype.Float64, c.DType)
	assert.Equal(t, []string{"a", "deep/b"}, c.Names())
	assert.Equal(t, []float32{0, 0}, c.Float32("a"))
	assert.Equal(t, []int64{0}, c.Int64("deep/b"))
	assert.True(t, c.HasTensor("a"))
	assert.False(t, c.HasTensor("b"))
	assert.Equal(t, 3, c.Int("n"))
	assert.Equal(t, 0.5, c.Float("x"))
	assert.Equal(t, 3.0, c.Float("n"))
	assert.True(t, c.Bool("on"))
	assert.Equal(t, "t", c.Text("s"))
	assert.Equal(t, []int{1, 2}, c.Ints("l"))
	assert.True(t, c.Has("n"))
	assert.False(t, c.Has("no"))
	assert.False(t, c.Has("absent"))

	assert.Contains(t, observe(t, func(tb testing.TB) { Cases(tb, "unheard") }).skip, `no case of operator "unheard"`)
	assert.Contains(t, observe(t, func(tb testing.TB) { Models(tb, "Unheard") }).skip, `no training run of "Unheard"`)
	for _, f := range []struct {
		call func(c *Case)
		want string
	}{
		{func(c *Case) { c.Int("absent") }, `case "o/1" has no option "absent"`},
		{func(c *Case) { c.Int("no") }, `no option "no"`},
		{func(c *Case) { c.Int("x") }, `option "x" is 0.5`},
		{func(c *Case) { c.Ints("n") }, `option "n" is 3`},
		{func(c *Case) { c.Text("on") }, `option "on" is true`},
		{func(c *Case) { c.Tensor("absent") }, `"o/1/absent"`},
		{func(c *Case) { c.Int64("a") }, "float64 cannot be read as int64"},
		{func(c *Case) { c.Float32("deep/b") }, "bool cannot be read as float32"},
	} {
		got := observe(t, func(tb testing.TB) {
			bound := *c
			bound.Tensors = c.In(tb)
			f.call(&bound)
		})
		assert.Contains(t, got.fatal, f.want)
	}
}

func TestBrokenSets(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                                    "cannot unmarshal object",
		`[{"case":"a"}]`:                        "record 0 needs op and case",
		`[{"op":"o"}]`:                          "record 0 needs op and case",
		`[{"op":"o","case":"a","dtype":"f12"}]`: `unknown dtype "f12"`,
		`[{"op":"o","case":"a"},{"op":"p","case":"a"}]`: `case "a" is there twice`,
	} {
		writeSet(t, map[string]string{casesFile: text})
		assert.Contains(t, observe(t, func(tb testing.TB) { Cases(tb, "o") }).fatal, want)
	}
	const good = `{"model":"M","config":{},"B":1,"S":2,"steps":1,"losses":[1],"grad_norms":[1],"lengths":null}`
	for text, want := range map[string]string{
		`[]`: "cannot unmarshal array",
		`{}`: "model or config is missing",
		`{"model":"M","config":{},"B":1,"S":2,"steps":0}`:                                                      "must be positive",
		`{"model":"M","config":{},"B":1,"S":2,"steps":2,"losses":[1],"grad_norms":[1]}`:                        "1 losses and 1 gradient norms for 2 steps",
		`{"model":"M","config":{},"B":1,"S":2,"steps":1,"losses":[1],"grad_norms":[1],"lengths":[1,2]}`:        "2 lengths for a batch of 1",
		`{"model":"M","config":{"num_hidden_layers":"2"},"B":1,"S":2,"steps":1,"losses":[1],"grad_norms":[1]}`: "config: json",
		good: "",
	} {
		writeSet(t, map[string]string{"tiny.json": text},
			safetensors.Info{Name: "ids", DType: dtype.Int64, Shape: []int{1, 1, 2}},
			safetensors.Info{Name: "labels", DType: dtype.Int64, Shape: []int{1, 1, 2}},
			safetensors.Info{Name: "attention_mask", DType: dtype.Int64, Shape: []int{1, 2}})
		for _, load := range []func(testing.TB){func(tb testing.TB) { Model(tb, "tiny") }, func(tb testing.TB) { Models(tb, "M") }} {
			got := observe(t, load)
			if want == "" {
				assert.Empty(t, got.fatal+got.skip)
			} else {
				assert.Contains(t, got.fatal, want)
			}
		}
	}
	writeSet(t, map[string]string{"tiny.json": good},
		safetensors.Info{Name: "ids", DType: dtype.Int64, Shape: []int{3}},
		safetensors.Info{Name: "labels", DType: dtype.Int64, Shape: []int{1, 1, 2}},
		safetensors.Info{Name: "attention_mask", DType: dtype.Int64, Shape: []int{1, 2}})
	assert.Contains(t, observe(t, func(tb testing.TB) { Model(tb, "tiny") }).fatal, "ids is [3]")
	assert.Contains(t, observe(t, func(tb testing.TB) { Model(tb, "absent") }).fatal, "absent.json")
}

func TestDir(t *testing.T) {
	dir := mustDir(t)
	require.FileExists(t, filepath.Join(dir, "README.md"))
	assert.Contains(t, observe(t, func(tb testing.TB) { Cases(tb, "unheard") }).fatal, `no case of operator "unheard"`)

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for path, want := range map[string]string{file: "is not a folder", file + ".absent": "no such file"} {
		t.Setenv(dirVariable, path)
		_, err := Dir()
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, dirVariable)
	}
}

// TestMissingData: a module from the module cache has no golden data, and its tests skip; a
// clone that lost it fails.
func TestMissingData(t *testing.T) {
	t.Setenv(dirVariable, "")
	for _, c := range []struct {
		name        string
		files       []string
		fatal, skip string
	}{
		{"no module", nil, "no module above", ""},
		{"module cache", []string{"go.mod", "ops/ops.go"}, "", "the module's download has no reference data"},
		{"clone", []string{"go.mod", ".git"}, "has no testdata/golden", ""},
		{"clone without its history", []string{"go.mod", "testdata/go.mod"}, "has no testdata/golden", ""},
		{"the programs of a clone", []string{"go.mod", ".git", "ops/go.mod"}, "has no testdata/golden", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			below := filepath.Join(root, "ops")
			require.NoError(t, os.Mkdir(below, 0o700))
			for _, file := range c.files {
				file = filepath.Join(root, filepath.FromSlash(file))
				require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
				require.NoError(t, os.WriteFile(file, nil, 0o600))
			}
			t.Chdir(below)
			for _, read := range []func(testing.TB){
				func(tb testing.TB) { Models(tb, "M") },
				func(tb testing.TB) { Model(tb, "m") },
				func(tb testing.TB) { Cases(tb, "c") },
			} {
				o := observe(t, read)
				if c.fatal == "" {
					assert.Empty(t, o.fatal)
					assert.Contains(t, o.skip, c.skip)
				} else {
					assert.Contains(t, o.fatal, c.fatal)
					assert.Empty(t, o.skip)
				}
			}
		})
	}
}
