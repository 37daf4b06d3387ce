package model_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
)

// keptModel loads a quantised folder in bfloat16, with its codes or dequantised.
func keptModel(t *testing.T, st *acl.Stream, reg *ops.Registry, folder string, keep bool) *model.Model {
	cfg, err := model.ReadConfig(filepath.Join(folder, "config.json"))
	require.NoError(t, err)
	cfg.Frozen, cfg.KeepCodes = true, keep
	m, err := model.New(st, reg, cfg, aclnn.BFloat16)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	require.NoError(t, m.Load(t.Context(), folder))
	return m
}

// plainCopy is a quantised folder with the numbers in bfloat16 that products of its codes stand for: scales are rounded to it, and then the weights.
func plainCopy(t *testing.T, folder string) string {
	cfg, err := model.ReadConfig(filepath.Join(folder, "config.json"))
	require.NoError(t, err)
	f, err := safetensors.Open(folder)
	require.NoError(t, err)
	codes, _, err := cfg.Quantization.Codes(f)
	require.NoError(t, err)
	f, err = cfg.Quantization.View(f)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	rounded := func(x float32) float32 {
		bits := math.Float32bits(x)
		return math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
	}
	var all []safetensors.Data
	for _, name := range f.Names() {
		tensor, err := f.Tensor(name)
		require.NoError(t, err)
		values := read[float32](t, f, name)
		if c, ok := codes[name]; ok {
			list, scales, offsets, err := c.Read(0, c.Outputs)
			require.NoError(t, err)
			groups := len(scales) / c.Outputs
			for i := range values {
				at := i/c.Inputs*groups + i%c.Inputs/c.Group
				values[i] = rounded((float32(list[i]) + offsets[at]) * rounded(scales[at]))
			}
		}
		all = append(all, safetensors.Of(name, values, tensor.Shape...))
	}
	to := changedFolder(t, folder, `{"quantization_config": null}`)
	names, err := filepath.Glob(filepath.Join(to, "*.safetensors*"))
	require.NoError(t, err)
	for _, name := range names {
		require.NoError(t, os.Remove(name))
	}
	require.NoError(t, safetensors.WriteFile(filepath.Join(to, "model.safetensors"), all, nil))
	return to
}

// TestKeptCodes: products of the codes of a folder have the logits of the numbers that these stand for, those with inputs in int8 nearly, and the codes
// take the memory of codes. Both are near transformers' logits in float64.
func TestKeptCodes(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	for name, ways := range map[string][]string{
		"int8":    {"10 weights in int8 with inputs in int8 (W8A8, DynamicQuant and QuantMatmulV4)", "dequantised"},
		"mixed":   {"dequantised: no product of this package reads its codes", "in int8 with inputs in bfloat16 (W8A16, WeightQuantBatchMatmulV2)"},
		"packed4": {"in int4 with inputs in bfloat16 (W4A16, WeightQuantBatchMatmulV2)", "g_idx"},
		"gptq4":   {"dequantised: the inputs of a group are not next to each other (g_idx)"},
		"gptq3":   {"14 weights in int4 with inputs in bfloat16 (W4A16, WeightQuantBatchMatmulV2)"},
		"awq4":    {"12 weights in int4 with inputs in bfloat16 (W4A16, WeightQuantBatchMatmulV2)", "2 weights dequantised: the folder has them in plain form"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(dir, "quantized", name)
			st, reg := setUp(t)
			used := func() int { return st.Device().Allocator().Stats().InUse }
			before := used()
			m := keptModel(t, st, reg, folder, true)
			held := used() - before
			lines := strings.Join(m.Kept(), "\n")
			t.Log(lines)
			for _, way := range ways {
				require.Contains(t, lines, way)
			}
			whole := keptModel(t, st, reg, plainCopy(t, folder), false)
			t.Logf("%d bytes, dequantised %d", held, used()-before-held)
			if name != "gptq4" {
				require.Less(t, held, used()-before-held)
			}
			expected, err := safetensors.Open(filepath.Join(folder, "expected.safetensors.golden"))
			require.NoError(t, err)
			defer func() { require.NoError(t, expected.Close()) }()
			wide := read[float32](t, expected, "logits")
			var text struct{ IDs [][]int32 }
			raw, err := os.ReadFile(filepath.Join(folder, "expected.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(raw, &text))
			vocab, same, rows, least, of, worst := m.Config.VocabSize, 0, 0, 1., 1., 0.
			for i, ids := range text.IDs {
				b := model.Batch{Size: 1, Length: len(ids), Inputs: ids, Labels: make([]int32, len(ids))}
				got, err := m.Logits(t.Context(), b)
				require.NoError(t, err)
				want, err := whole.Logits(t.Context(), b)
				require.NoError(t, err)
				of = min(of, cosine(got, wide[i*len(got):][:len(got)]))
				for at := 0; at < len(got); at += vocab {
					g, float64s := got[at:][:vocab], wide[i*len(got)+at:][:vocab]
					least = min(least, cosine(g, float64s))
					if rows++; likeliest(g) == likeliest(float64s) {
						same++
					}
					for j := range g {
						worst = max(worst, math.Abs(float64(g[j]-want[at+j])))
					}
				}
			}
			t.Logf("largest difference from dequantised weights %.1e; cosine with float64 %.5f, of a row at least %.5f; %d of %d likeliest tokens are the same", worst, of, least, same, rows)
			require.Greater(t, of, .999)
			require.Greater(t, least, .998)
			if name != "int8" { // whose inputs are rounded too
				require.LessOrEqual(t, worst, 1e-5)
			}
		})
	}
}

// TestKeptOnRanks: two ranks that divide the codes compute what one does, and what codes cannot do is named.
func TestKeptOnRanks(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	for name, layer := range map[string]string{"int8": "k_proj", "packed4": "up_proj", "gptq3": "k_proj", "awq4": "up_proj"} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(dir, "quantized", name)
			st, reg := setUp(t)
			m := keptModel(t, st, reg, folder, true)
			ids := []int32{5, 9, 2, 77, 31, 8, 5, 9}
			b := model.Batch{Size: 1, Length: len(ids), Inputs: ids, Labels: ids}
			want, err := m.Hidden(t.Context(), b)
			require.NoError(t, err)
			onRanks(t, 2, model.Layout{Layout: world.Layout{TP: 2}}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) (err error) {
				cfg, err := model.ReadConfig(filepath.Join(folder, "config.json"))
				if err != nil {
					return err
				}
				cfg.Frozen, cfg.KeepCodes = true, true
				m, err := model.NewParallel(st, reg, cfg, aclnn.BFloat16, ranks.Parallel)
				if err != nil {
					return err
				}
				defer closing(&err, m)
				if err := m.Load(ctx, folder); err != nil {
					return err
				}
				if !slices.ContainsFunc(m.Kept(), func(line string) bool { return strings.Contains(line, "(W") }) {
					return fmt.Errorf("no codes are kept: %q", m.Kept())
				}
				got, err := m.Hidden(ctx, b)
				if err == nil && cosine(got, want) < .9995 {
					err = fmt.Errorf("cosine %v", cosine(got, want))
				}
				return err
			})
			p := m.Parameters()[slices.IndexFunc(m.Parameters(), func(p *model.Parameter) bool { return strings.HasSuffix(p.Name, layer+".weight") })]
			_, err = m.Get(t.Context(), p)
			require.ErrorContains(t, err, "quantised")
			a, err := model.NewAdapter(t.Context(), m, model.LoRA{Rank: 2, Alpha: 2, Targets: []string{layer}}, 1)
			require.NoError(t, err)
			defer func() { require.NoError(t, a.Close()) }()
			require.NoError(t, m.Use(a))
			_, err = m.Gradients(t.Context(), b)
			require.ErrorContains(t, err, "quantised")
			require.ErrorContains(t, a.Merge(t.Context()), "quantised")
		})
	}
	st, reg := setUp(t)
	for folder, want := range map[string]string{"quantized/fp8_blocks": "has no products of 8-bit or 4-bit floats", "families/llama": "needs a folder with quantised weights"} {
		cfg, err := model.ReadConfig(filepath.Join(dir, folder, "config.json"))
		require.NoError(t, err)
		cfg.Frozen, cfg.KeepCodes = true, true
		_, err = model.New(st, reg, cfg, aclnn.BFloat16)
		require.ErrorContains(t, err, want)
		if cfg.Quantization != nil {
			require.ErrorContains(t, err, "Ascend910B")
		}
		cfg.KeepCodes = true
		_, err = model.New(st, reg, cfg, aclnn.Float32)
		require.Error(t, err)
	}
}

// TestAdapterOfQuantizedFolder: an adapter trains over the numbers that codes stand for. Merged into them it has the logits that it had, and so has the plain
// folder that is exported then.
func TestAdapterOfQuantizedFolder(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	folder := filepath.Join(dir, "quantized", "gptq3") // whose layers all are quantised: an export gives plain ones the type that they have
	st, reg := setUp(t)
	k := kindFolder{path: folder}
	m := k.load(t, st, reg, func(c *model.Config) { c.Frozen = true })
	a, err := model.NewAdapter(t.Context(), m, model.LoRA{Rank: 4, Alpha: 8, Targets: []string{model.AllLinear}}, 1)
	require.NoError(t, err)
	defer func() { require.NoError(t, a.Close()) }()
	o, err := a.NewOptimizer(model.AdamW{LR: 1e-2, Beta1: .9, Beta2: .95, Epsilon: 1e-8, MaxNorm: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, o.Close()) }()
	require.NoError(t, m.Use(a))
	ids := []int32{5, 9, 2, 77, 31, 8, 5, 9, 2, 77}
	b := model.Batch{Size: 1, Length: len(ids) - 1, Inputs: ids[:len(ids)-1], Labels: ids[1:]}
	var losses []float64
	for range 4 {
		loss, err := m.Gradients(t.Context(), b)
		require.NoError(t, err)
		_, err = o.Step(t.Context())
		require.NoError(t, err)
		losses = append(losses, loss)
	}
	require.Less(t, losses[3], losses[0]-.05)
	want, err := m.Logits(t.Context(), b)
	require.NoError(t, err)
	require.NoError(t, a.Merge(t.Context()))
	to := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, m.Export(t.Context(), to, folder, aclnn.Float32, nil))
	for _, m := range []*model.Model{m, kindFolder{path: to}.load(t, st, reg, func(*model.Config) {})} {
		got, err := m.Logits(t.Context(), b)
		require.NoError(t, err)
		require.NoError(t, golden.CheckClose(got, want, 1e-5, 2e-5))
	}
}
