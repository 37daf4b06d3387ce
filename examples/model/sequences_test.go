package model_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/preference"
	"github.com/goascend/cann/internal/testing/golden"
)

// comparison holds the reference of one loss in testdata/golden/preference.
type comparison struct {
	Pairs []struct {
		Prompt           int
		Chosen, Rejected []int32
	}
	Reference [][2]float64
	Cases     map[string]struct {
		Beta, Smoothing, SFT, Loss float64
		Margins                    []float64
		Own                        [][2]float64
	}
}

func readComparison(t *testing.T, name string) (c comparison, gradients *safetensors.File) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(dir, "preference", name+".json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &c))
	gradients, err = safetensors.Open(filepath.Join(dir, "preference", name+".safetensors.golden"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, gradients.Close()) })
	return c, gradients
}

// batch returns the pairs, as padded rows or as packed sequences. Scored sequences have their last token, and a label there.
func (c comparison) batch(packed, scored bool) (b model.Batch, tokens int) {
	longest := 0
	for _, p := range c.Pairs {
		longest = max(longest, len(p.Chosen), len(p.Rejected))
		tokens += len(p.Chosen) - p.Prompt
	}
	if packed {
		b.CuSeqLens = []int64{0}
	}
	for _, p := range c.Pairs {
		for _, ids := range [][]int32{p.Chosen, p.Rejected} {
			inputs, labels := ids[:len(ids)-1], append([]int32(nil), ids[1:]...)
			if scored {
				inputs, labels = ids, make([]int32, len(ids))
			}
			for i := range labels {
				if !scored && i < p.Prompt-1 || scored && i < len(ids)-1 {
					labels[i] = -100
				}
			}
			b.Inputs, b.Labels = append(b.Inputs, inputs...), append(b.Labels, labels...)
			b.Numbers = append(b.Numbers, len(b.Numbers))
			if packed {
				b.CuSeqLens = append(b.CuSeqLens, int64(len(b.Inputs)))
				continue
			}
			b.Lengths = append(b.Lengths, int64(len(inputs)))
			for range longest - len(inputs) {
				b.Inputs, b.Labels = append(b.Inputs, 0), append(b.Labels, -100)
			}
		}
	}
	if b.Size, b.Length = 1, len(b.Inputs); !packed {
		b.Size, b.Length = len(b.Lengths), longest
	}
	return b, tokens
}

// TestGoldenPreferences compares direct preference optimisation of models and of an adapter with float64: log-probabilities, the loss, and gradients.
func TestGoldenPreferences(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	for name, folder := range map[string]string{
		"llama_llama3": "families/llama_llama3", "glm4_moe": "families/glm4_moe", "mixtral": "families/mixtral", "qwen3_5": "hub/qwen3_5", "qwen3_tied": "hub/qwen3_tied",
		"mistral_lora": "families/mistral",
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			st, reg := setUp(t)
			cfg, err := model.ReadConfig(filepath.Join(dir, folder, "config.json"))
			require.NoError(t, err)
			lora := strings.HasSuffix(name, "_lora")
			cfg.Frozen, cfg.RouterLoss = lora, false
			m, err := model.New(st, reg, cfg, aclnn.Float32)
			require.NoError(t, err)
			defer func() { require.NoError(t, m.Close()) }()
			require.NoError(t, m.Load(ctx, filepath.Join(dir, folder)))
			want, gradients := readComparison(t, name)
			b, tokens := want.batch(false, false)
			known, err := m.SequenceValues(ctx, b, len(b.Numbers))
			require.NoError(t, err)
			trained := m.Parameters()
			if lora {
				a, err := model.LoadAdapter(ctx, m, filepath.Join(dir, "lora", folder), 1)
				require.NoError(t, err)
				defer func() { require.NoError(t, a.Close()) }()
				require.NoError(t, m.Use(a))
				trained = a.Parameters()
			} else {
				raise(t, m, cfg)
			}
			for form, packed := range map[string]bool{"padded": false, "packed": true} {
				for kind, c := range want.Cases {
					t.Run(form+" "+kind, func(t *testing.T) {
						b, _ := want.batch(packed, false)
						own, err := m.SequenceValues(ctx, b, len(b.Numbers))
						require.NoError(t, err)
						for i := range own {
							require.InEpsilon(t, want.Reference[i/2][i%2], known[i], 1e-6)
							require.InEpsilon(t, c.Own[i/2][i%2], own[i], 1e-6)
						}
						r := preference.DPO{Beta: c.Beta, LabelSmoothing: c.Smoothing, SFTWeight: c.SFT}.Compare(own, known, tokens)
						// Log-probabilities of some 60 are rounded to float32, and beta multiplies the roundings.
						more := max(1, c.Beta/0.2)
						require.InEpsilon(t, c.Loss, r.Loss, 1e-6*more)
						_, err = m.SequenceGradients(ctx, b, r.Factors)
						require.NoError(t, err)
						compareSampled(t, st, trained, gradients, kind+"/", 2e-6*more)
					})
				}
			}
		})
	}
}

// raise makes the policy of a folder: its last norm times 1.5.
func raise(t *testing.T, m *model.Model, cfg model.Config) {
	for _, p := range m.Parameters() {
		if p.Name != "model.norm.weight" {
			continue
		}
		values, err := m.Get(t.Context(), p)
		require.NoError(t, err)
		plus := float32(0)
		if strings.HasPrefix(cfg.ModelType, "qwen3_5") {
			plus = 1
		}
		for i, v := range values {
			values[i] = 1.5*(v+plus) - plus
		}
		require.NoError(t, m.Set(t.Context(), p, values))
	}
}

// TestGoldenRewards compares the scores, the loss and the gradients of reward models, whose heads are new, with float64.
func TestGoldenRewards(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	for _, name := range []string{"llama_llama3", "qwen3_bias"} {
		for form, packed := range map[string]bool{"padded": false, "packed": true} {
			t.Run(name+" "+form, func(t *testing.T) {
				ctx, folder := t.Context(), filepath.Join(dir, "families", name)
				st, reg := setUp(t)
				cfg, err := model.ReadConfig(filepath.Join(folder, "config.json"))
				require.NoError(t, err)
				cfg.Score, cfg.NewScore = true, true
				m, err := model.New(st, reg, cfg, aclnn.Float32)
				require.NoError(t, err)
				defer func() { require.NoError(t, m.Close()) }()
				require.NoError(t, m.Load(ctx, folder))
				head := make([]float32, cfg.HiddenSize)
				for i := range head {
					head[i] = (float32(i*37%64) - 31.5) / 64
				}
				all := m.Parameters()
				require.NoError(t, m.Set(ctx, all[len(all)-1], head))
				weights := 0
				for _, p := range all {
					weights += int(p.Value.Len())
				}
				require.Equal(t, cfg.Parameters(), weights)
				want, gradients := readComparison(t, name+"_reward")
				b, _ := want.batch(packed, true)
				for kind, c := range want.Cases {
					own, err := m.SequenceValues(ctx, b, len(b.Numbers))
					require.NoError(t, err)
					for i := range own {
						require.InDelta(t, c.Own[i/2][i%2], own[i], 1e-6*math.Abs(c.Own[i/2][i%2])+1e-6)
					}
					r := preference.Rewards(own, c.Margins)
					require.InEpsilon(t, c.Loss, r.Loss, 1e-6)
					_, err = m.SequenceGradients(ctx, b, r.Factors)
					require.NoError(t, err)
					compareSampled(t, st, all, gradients, kind+"/", 2e-6)
				}
				exported := filepath.Join(t.TempDir(), "reward")
				require.NoError(t, m.Export(ctx, exported, folder, aclnn.Float32, nil))
				again, err := model.ReadConfig(filepath.Join(exported, "config.json"))
				require.NoError(t, err)
				require.True(t, again.Score)
				other, err := model.New(st, reg, again, aclnn.Float32)
				require.NoError(t, err)
				defer func() { require.NoError(t, other.Close()) }()
				require.NoError(t, other.Load(ctx, exported))
				first, err := m.SequenceValues(ctx, b, len(b.Numbers))
				require.NoError(t, err)
				second, err := other.SequenceValues(ctx, b, len(b.Numbers))
				require.NoError(t, err)
				require.Equal(t, first, second)
				text := b
				text.Numbers = nil
				_, err = m.Loss(ctx, text)
				require.ErrorIs(t, err, acl.ErrInvalidArgument, "a classifier has no cross-entropy of tokens")
			})
		}
	}
}

// compareSampled compares elements of gradients with a golden file's.
func compareSampled(t *testing.T, st *acl.Stream, trained []*model.Parameter, f *safetensors.File, prefix string, most float64) {
	t.Helper()
	compared := 0
	for _, p := range trained {
		name := prefix + p.Name
		if strings.HasSuffix(name, "e_score_correction_bias") {
			continue
		}
		at, values, rms := read[int64](t, f, name+"/at"), read[float32](t, f, name+"/values"), read[float32](t, f, name+"/rms")
		got, sum := download(t, st, p.Grad), 0.0
		for i, where := range at {
			d := float64(got[where] - values[i])
			sum += d * d
		}
		require.LessOrEqual(t, math.Sqrt(sum/float64(len(at))), most*float64(rms[0]), p.Name)
		compared++
	}
	require.NotZero(t, compared)
}
