package model_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/internal/testing/golden"
)

// TestExpertsReadNZ checks that the weight format does not change results: three training steps
// with FRACTAL_NZ weights are bit-identical.
func TestExpertsReadNZ(t *testing.T) {
	run := golden.Model(t, "qwen3_moe")
	var losses [2][]float64
	for i, nz := range []bool{false, true} {
		t.Run(fmt.Sprintf("nz %t", nz), func(t *testing.T) {
			st, reg := setUp(t)
			cfg, err := model.ParseConfig(run.Config.Raw)
			require.NoError(t, err)
			cfg.GroupedNZ = nz
			m, err := model.New(st, reg, cfg, aclnn.BFloat16)
			require.NoError(t, err)
			defer func() { require.NoError(t, m.Close()) }()
			for _, p := range m.Parameters() {
				require.NoError(t, m.Set(t.Context(), p, run.Sub("init").Float32(p.Name)))
			}
			opt, err := model.NewOptimizer(m, model.AdamW{LR: 1e-3, Beta1: .9, Beta2: .99, Epsilon: 1e-8, MaxNorm: 1})
			require.NoError(t, err)
			defer func() { require.NoError(t, opt.Close()) }()
			for step := range 3 {
				loss, err := m.Gradients(t.Context(), batch(run, step))
				require.NoError(t, err)
				require.InDelta(t, run.Losses[0], loss, 0.5)
				losses[i] = append(losses[i], loss)
				_, err = opt.Step(t.Context())
				require.NoError(t, err)
			}
		})
	}
	require.Equal(t, losses[0], losses[1])
}

// TestBalanceOfExperts checks that the loss and the gradients of the routers include the balance
// over all layers in proportion to its scale.
func TestBalanceOfExperts(t *testing.T) {
	run := golden.Model(t, "qwen3_moe")
	st, reg := setUp(t)
	cfg, err := model.ParseConfig(run.Config.Raw)
	require.NoError(t, err)
	cfg.RouterLoss = true
	var losses []float64
	var grads [][]float32
	for _, scale := range []float64{0, 1, 2} {
		cfg.RouterLossScale = scale
		m, err := model.New(st, reg, cfg, aclnn.Float32)
		require.NoError(t, err)
		for _, p := range m.Parameters() {
			require.NoError(t, m.Set(t.Context(), p, run.Sub("init").Float32(p.Name)))
		}
		loss, err := m.Gradients(t.Context(), batch(run, 0))
		require.NoError(t, err)
		losses = append(losses, loss)
		var all []float32
		for _, p := range m.Parameters() {
			if strings.HasSuffix(p.Name, "mlp.gate.weight") {
				all = append(all, download(t, st, p.Grad)...)
			}
		}
		grads = append(grads, all)
		require.NoError(t, m.Close())
	}
	// With two of eight experts per token, the balance is two if all are equally busy and larger
	// otherwise.
	require.InDelta(t, 2.2, losses[1]-losses[0], 0.2)
	require.InDelta(t, losses[1]-losses[0], losses[2]-losses[1], 1e-5)
	changed := 0.0
	for i := range grads[0] {
		first, second := float64(grads[1][i]-grads[0][i]), float64(grads[2][i]-grads[1][i])
		require.InDelta(t, first, second, 1e-6)
		changed = max(changed, math.Abs(first))
	}
	require.Greater(t, changed, 1e-5)
}

// TestLoadsExpertsOfTheHub checks that a checkpoint with one tensor per expert and projection gives
// the same logits as one with fused tensors.
func TestLoadsExpertsOfTheHub(t *testing.T) {
	run := golden.Model(t, "qwen3_moe")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), run.Config.Raw, 0o600))
	tensors := map[string][]float32{}
	var infos []safetensors.Info
	add := func(name string, values []float32, shape ...int) {
		tensors[name] = values
		infos = append(infos, safetensors.Info{Name: name, DType: aclnn.Float32, Shape: shape})
	}
	weights := run.Sub("init")
	for _, name := range weights.Names() {
		v, shape := weights.Float32(name), weights.Shape(name)
		prefix, projection, of := strings.Cut(name, "experts.")
		if !of {
			add(name, v, shape...)
			continue
		}
		projections := []string{"down_proj"}
		if projection == "gate_up_proj" {
			projections = []string{"gate_proj", "up_proj"}
		}
		rows, columns := shape[1]/len(projections), shape[2]
		for i := range shape[0] * len(projections) {
			add(fmt.Sprintf("%sexperts.%d.%s.weight", prefix, i/len(projections), projections[i%len(projections)]), v[i*rows*columns:][:rows*columns], rows, columns)
		}
	}
	w, err := safetensors.Create(filepath.Join(dir, "model.safetensors"), infos, nil)
	require.NoError(t, err)
	for name, v := range tensors {
		require.NoError(t, w.Write(name, unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), 4*len(v))))
	}
	require.NoError(t, w.Commit())

	st, reg := setUp(t)
	cfg, err := model.ReadConfig(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	m, err := model.New(st, reg, cfg, aclnn.Float32)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	require.NoError(t, m.Load(t.Context(), dir))
	logits, err := m.Logits(t.Context(), batch(run, 0))
	require.NoError(t, err)
	require.NoError(t, compareValid(run, logits))
}
