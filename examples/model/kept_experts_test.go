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

// expertsForm says how a test quantises a folder of experts.
type expertsForm struct {
	method     string // gptq, awq, packed (compressed-tensors of int4), int8, or fused: int8 with one tensor for the experts of a layer
	group      int    // inputs that share a scale
	asymmetric bool
}

// weightCodes holds a weight [out, in] in unsigned codes: an element is (code − zero)·scale.
type weightCodes struct {
	out, in, group int
	codes          []uint8
	zeros          []uint8   // [out, in/group]
	scales         []float32 // likewise
}

// encode quantises a weight to so many bits.
func encode(values []float32, out, in, group, bits int, asymmetric bool) weightCodes {
	w := weightCodes{out: out, in: in, group: group, codes: make([]uint8, len(values))}
	most := float32(int(1)<<bits - 1)
	for row := range out {
		for from := 0; from < in; from += group {
			some := values[row*in+from:][:group]
			low, high := float32(0), float32(0)
			for _, x := range some {
				low, high = min(low, x), max(high, x)
			}
			zero := float32(int(1) << (bits - 1))
			scale := max(-low, high) / (zero - 1)
			if asymmetric {
				scale = (high - low) / most
			}
			scale = math.Float32frombits(math.Float32bits(scale) &^ 0xffff) // as products have it in bfloat16
			if asymmetric {
				zero = float32(math.RoundToEven(float64(-low / scale)))
			}
			w.zeros, w.scales = append(w.zeros, uint8(zero)), append(w.scales, scale)
			for i, x := range some {
				w.codes[row*in+from+i] = uint8(min(max(float32(math.RoundToEven(float64(x/scale)))+zero, 0), most))
			}
		}
	}
	return w
}

// words packs codes of four bits, eight in each int32.
func words(count int, code func(word, place int) uint8) []int32 {
	list := make([]int32, count)
	for i := range list {
		for place := range 8 {
			list[i] |= int32(uint32(code(i, place)) << (4 * place))
		}
	}
	return list
}

// transposedFloats is the transpose of [rows, columns].
func transposedFloats(values []float32, columns int) []float32 {
	rows := len(values) / columns
	t := make([]float32, len(values))
	for i, v := range values {
		t[i%columns*rows+i/columns] = v
	}
	return t
}

// tensors are those of a weight in a folder of the form.
func (f expertsForm) tensors(module string, w weightCodes) []safetensors.Data {
	groups := w.in / w.group
	switch f.method {
	case "gptq":
		order := make([]int32, w.in)
		for i := range order {
			order[i] = int32(i / w.group)
		}
		return []safetensors.Data{
			safetensors.Of(module+".qweight", words(w.in/8*w.out, func(at, place int) uint8 { return w.codes[at%w.out*w.in+at/w.out*8+place] }), w.in/8, w.out),
			safetensors.Of(module+".qzeros", words(groups*w.out/8, func(at, place int) uint8 { return (w.zeros[(at%(w.out/8)*8+place)*groups+at/(w.out/8)] - 1) & 15 }), groups, w.out/8),
			safetensors.Of(module+".scales", transposedFloats(w.scales, groups), groups, w.out), safetensors.Of(module+".g_idx", order, w.in),
		}
	case "awq":
		order := [8]int{0, 2, 4, 6, 1, 3, 5, 7}
		return []safetensors.Data{
			safetensors.Of(module+".qweight", words(w.in*w.out/8, func(at, place int) uint8 { return w.codes[(at%(w.out/8)*8+order[place])*w.in+at/(w.out/8)] }), w.in, w.out/8),
			safetensors.Of(module+".qzeros", words(groups*w.out/8, func(at, place int) uint8 { return w.zeros[(at%(w.out/8)*8+order[place])*groups+at/(w.out/8)] }), groups, w.out/8),
			safetensors.Of(module+".scales", transposedFloats(w.scales, groups), groups, w.out),
		}
	case "packed":
		return []safetensors.Data{
			safetensors.Of(module+".weight_packed", words(w.out*w.in/8, func(at, place int) uint8 { return w.codes[at*8+place] }), w.out, w.in/8),
			safetensors.Of(module+".weight_scale", w.scales, w.out, groups), safetensors.Of(module+".weight_shape", []int64{int64(w.out), int64(w.in)}, 2),
		}
	}
	signed := make([]int8, len(w.codes))
	for i, c := range w.codes {
		signed[i] = int8(int(c) - 128)
	}
	return []safetensors.Data{safetensors.Of(module+".weight", signed, w.out, w.in), safetensors.Of(module+".weight_scale", w.scales, w.out, groups)}
}

// config is the quantization_config of the form.
func (f expertsForm) config() map[string]any {
	switch f.method {
	case "gptq":
		return map[string]any{"quant_method": "gptq", "bits": 4, "group_size": f.group, "desc_act": false, "sym": !f.asymmetric, "checkpoint_format": "gptq"}
	case "awq":
		return map[string]any{"quant_method": "awq", "bits": 4, "group_size": f.group, "zero_point": true, "version": "gemm"}
	}
	weights := map[string]any{"num_bits": 8, "type": "int", "symmetric": true, "strategy": "channel"}
	format := "int-quantized"
	if f.method == "packed" {
		format, weights["num_bits"], weights["strategy"], weights["group_size"] = "pack-quantized", 4, "group", f.group
	} else if f.group > 0 {
		weights["strategy"], weights["group_size"] = "group", f.group
	}
	return map[string]any{"quant_method": "compressed-tensors", "format": format, "ignore": []string{"lm_head", "re:.*mlp.gate$"}, "config_groups": map[string]any{
		"group_0": map[string]any{"targets": []string{"Linear", "re:.*experts.*"}, "weights": weights},
	}}
}

// folder quantises the linear layers of a golden folder of Qwen3-MoE. Weights of experts are made larger, so that experts matter. It returns the number of elements of experts,
// and that of others that are quantised.
func (f expertsForm) folder(t *testing.T) (path string, experts, others int) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	change, err := json.Marshal(map[string]any{"quantization_config": f.config()})
	require.NoError(t, err)
	source := filepath.Join(dir, "hub", "qwen3_moe")
	path = changedFolder(t, source, string(change))
	files, err := filepath.Glob(filepath.Join(path, "*.safetensors*"))
	require.NoError(t, err)
	for _, file := range files {
		require.NoError(t, os.Remove(file))
	}
	file, err := safetensors.Open(source)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	bits := 4
	if f.method == "int8" || f.method == "fused" {
		bits = 8
	}
	var all []safetensors.Data
	stacks := map[string][]float32{}
	for _, name := range file.Names() {
		tensor, err := file.Tensor(name)
		require.NoError(t, err)
		values := read[float32](t, file, name)
		if !strings.HasSuffix(name, "_proj.weight") {
			all = append(all, safetensors.Of(name, values, tensor.Shape...))
			continue
		}
		out, in, expert := tensor.Shape[0], tensor.Shape[1], strings.Contains(name, ".experts.")
		if expert {
			experts += len(values)
			for i := range values {
				values[i] *= 8
			}
		} else {
			others += len(values)
		}
		if f.method == "fused" && expert {
			stacks[name] = values
			continue
		}
		group := f.group
		if group == 0 {
			group = in
		}
		all = append(all, f.tensors(strings.TrimSuffix(name, ".weight"), encode(values, out, in, group, bits, f.asymmetric))...)
	}
	for layer := 0; len(stacks) > 0; layer++ {
		for stack, projections := range map[string][]string{"gate_up_proj": {"gate_proj", "up_proj"}, "down_proj": {"down_proj"}} {
			var codes []int8
			var scales []float32
			of := fmt.Sprintf("model.layers.%d.mlp.experts.", layer)
			for e := range 8 {
				for _, projection := range projections {
					name := fmt.Sprintf("%s%d.%s.weight", of, e, projection)
					in := 64
					if stack == "down_proj" {
						in = 32
					}
					w := encode(stacks[name], len(stacks[name])/in, in, in, 8, false)
					for _, c := range w.codes {
						codes = append(codes, int8(int(c)-128))
					}
					scales = append(scales, w.scales...)
					delete(stacks, name)
				}
			}
			all = append(all, safetensors.Of(of+stack, codes, 8, len(scales)/8, len(codes)/len(scales)), safetensors.Of(of+stack+"_scale", scales, 8, len(scales)/8, 1))
		}
	}
	require.NoError(t, safetensors.WriteFile(filepath.Join(path, "model.safetensors"), all, nil))
	return path, experts, others
}

var expertsForms = map[string]expertsForm{
	"gptq": {method: "gptq", group: 16}, "gptq, zero points": {method: "gptq", group: 32, asymmetric: true}, "awq": {method: "awq", group: 32, asymmetric: true}, "packed": {method: "packed", group: 16},
	"int8": {method: "int8"}, "fused": {method: "fused"},
}

// TestKeptExperts: grouped products of the codes of experts have the logits of the numbers that these stand for, with a cache too and beside an adapter, and the codes take the
// memory of codes.
func TestKeptExperts(t *testing.T) {
	for name, form := range expertsForms {
		t.Run(name, func(t *testing.T) {
			folder, experts, others := form.folder(t)
			st, reg := setUp(t)
			used := func() int { return st.Device().Allocator().Stats().InUse }
			before := used()
			m := keptModel(t, st, reg, folder, true)
			held := used() - before
			bits := 4
			if form.group == 0 {
				bits = 8
			}
			count := 48 // of two layers, eight experts and three projections
			if form.method == "fused" {
				count = 4
			}
			t.Log(strings.Join(m.Kept(), "\n"))
			require.Contains(t, m.Kept(), fmt.Sprintf("%d weights of experts in int%d with inputs in bfloat16 (W%dA16, GroupedMatmulV5)", count, bits, bits))
			whole := keptModel(t, st, reg, plainCopy(t, folder), false)
			saved := used() - before - 2*held
			perWeight := 2 - float64(bits)/8
			if form.group > 0 {
				perWeight -= 4 / float64(form.group) // scales and offsets
			} else {
				perWeight -= 4. / 32
			}
			t.Logf("%d bytes, %d fewer than dequantised", held, saved)
			least := experts
			if form.group != 16 { // which no product of linear layers takes
				least += others
			}
			require.GreaterOrEqual(t, float64(saved), .93*perWeight*float64(least))

			ids := []int32{5, 9, 2, 77, 31, 8, 5, 9, 120, 3, 44}
			b := model.Batch{Size: 1, Length: len(ids), Inputs: ids, Labels: ids}
			want, err := whole.Logits(t.Context(), b)
			require.NoError(t, err)
			same := func(what string, want, got []float32) {
				require.Len(t, got, len(want), what)
				for i := range got {
					require.InDelta(t, want[i], got[i], 1e-5, "%s, logit %d", what, i)
				}
			}
			got, err := m.Logits(t.Context(), b)
			require.NoError(t, err)
			same("logits", want, got)
			decoded := func(m *model.Model) (all []float32) {
				cache, err := m.NewCache(1, len(ids))
				require.NoError(t, err)
				defer func() { require.NoError(t, cache.Close()) }()
				for _, part := range [][]int32{ids[:7], ids[7:8], ids[8:9]} {
					logits, err := m.Extend(t.Context(), cache, part)
					require.NoError(t, err)
					all = append(all, logits...)
				}
				return all
			}
			same("with a cache", decoded(whole), decoded(m))
			for _, of := range []*model.Model{m, whole} {
				a, err := model.NewAdapter(t.Context(), of, model.LoRA{Rank: 2, Alpha: 2, Targets: []string{"q_proj", "v_proj"}, Parameters: []string{"mlp.experts.gate_up_proj", "experts.down_proj"}}, 1)
				require.NoError(t, err)
				defer func() { require.NoError(t, a.Close()) }()
				for _, p := range a.Parameters() {
					values := make([]float32, p.Shape()[0]*p.Shape()[1])
					for i := range values {
						values[i] = float32(i%7-3) / 8
					}
					require.NoError(t, a.Set(t.Context(), p, values))
				}
				require.NoError(t, of.Use(a))
			}
			adapted := decoded(whole)
			same("with an adapter of attention and experts", adapted, decoded(m))
			require.Less(t, cosine(adapted[len(adapted)-len(got)/len(ids):], want[8*len(got)/len(ids):][:len(got)/len(ids)]), .999999)
			_, err = m.Gradients(t.Context(), b)
			require.ErrorContains(t, err, "quantised")
		})
	}
}

// TestKeptExpertsOnRanks: ranks that divide experts, or each expert, have the loss of the numbers that their codes stand for.
func TestKeptExpertsOnRanks(t *testing.T) {
	for name, c := range map[string]struct {
		form   expertsForm
		ranks  int
		layout world.Layout
		kept   string // or why not
	}{
		"ep": {expertsForms["gptq"], 2, world.Layout{EP: 2}, "24 weights of experts in int4"}, "tp": {expertsForms["awq"], 2, world.Layout{TP: 2}, "24 weights of experts in int4"},
		"tp of int8": {expertsForms["int8"], 2, world.Layout{TP: 2}, "24 weights of experts in int8"}, "ep of one tensor": {expertsForms["fused"], 2, world.Layout{EP: 2}, "4 weights of experts in int8"},
		"etp": {expertsForms["packed"], 2, world.Layout{ExpertTP: 2}, "48 weights of experts in int4"}, "etp in a group": {expertsForms["gptq"], 4, world.Layout{ExpertTP: 4}, "48 weights of experts in int4"},
		"etp of one tensor": {expertsForms["fused"], 4, world.Layout{EP: 2, ExpertTP: 2}, "4 weights of experts in int8"},
	} {
		t.Run(name, func(t *testing.T) {
			folder, _, _ := c.form.folder(t)
			plain := plainCopy(t, folder)
			onRanks(t, c.ranks, model.Layout{Layout: c.layout}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) (err error) {
				var losses []float64
				for _, from := range []string{folder, plain} {
					cfg, err := model.ReadConfig(filepath.Join(from, "config.json"))
					if err != nil {
						return err
					}
					cfg.Frozen, cfg.KeepCodes = true, from == folder
					m, err := model.NewParallel(st, reg, cfg, aclnn.BFloat16, ranks.Parallel)
					if err != nil {
						return err
					}
					defer closing(&err, m)
					if err := m.Load(ctx, from); err != nil {
						return err
					}
					if lines := m.Kept(); cfg.KeepCodes && !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, c.kept) }) {
						return fmt.Errorf("kept: %q", lines)
					}
					b := model.Batch{Size: 4, Length: 6, Targets: 24}
					for i := range 24 {
						b.Inputs, b.Labels = append(b.Inputs, int32(i*37%160)), append(b.Labels, int32(i*11%160))
					}
					rows := b.Size / ranks.Parts
					loss, err := m.Loss(ctx, b.Rows(ranks.Index*rows, rows))
					if err != nil {
						return err
					}
					losses = append(losses, loss)
				}
				if math.Abs(losses[0]-losses[1]) > 1e-5 {
					return fmt.Errorf("loss %v with codes, %v with the numbers that they stand for", losses[0], losses[1])
				}
				return nil
			})
		})
	}
}

// TestExpertsThatAreDequantised: the model dequantises experts whose form grouped products do not read, and Kept gives the reason.
func TestExpertsThatAreDequantised(t *testing.T) {
	st, reg := setUp(t)
	folder, _, _ := expertsForm{method: "int8", group: 16}.folder(t)
	m := keptModel(t, st, reg, folder, true)
	require.Contains(t, strings.Join(m.Kept(), "\n"), "int8 codes have a scale for each output there, not for blocks of 16 inputs")
	whole := keptModel(t, st, reg, plainCopy(t, folder), false)
	ids := []int32{5, 9, 2, 77, 31, 8, 5, 9}
	b := model.Batch{Size: 1, Length: len(ids), Inputs: ids, Labels: ids}
	got, err := m.Logits(t.Context(), b)
	require.NoError(t, err)
	want, err := whole.Logits(t.Context(), b)
	require.NoError(t, err)
	require.Greater(t, cosine(got, want), .9995)
}
