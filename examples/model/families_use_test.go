package model_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/hccl/world"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
)

// kindFolder is a golden folder with what a model computes from it.
type kindFolder struct {
	path           string
	IDs            [][]int32
	Loss           float64
	Prompt, Greedy []int32
}

// eachKind runs a test with the golden folder of each kind of model.
func eachKind(t *testing.T, f func(t *testing.T, k kindFolder)) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	folders, err := filepath.Glob(filepath.Join(dir, "families", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	for _, path := range folders {
		t.Run(filepath.Base(path), func(t *testing.T) {
			k := kindFolder{path: path}
			text, err := os.ReadFile(filepath.Join(path, "expected.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &k))
			f(t, k)
		})
	}
}

func (k kindFolder) config(t *testing.T) model.Config {
	cfg, err := model.ReadConfig(filepath.Join(k.path, "config.json"))
	require.NoError(t, err)
	return cfg
}

// batch has the golden ids as inputs and as labels.
func (k kindFolder) batch() model.Batch {
	b := model.Batch{Size: len(k.IDs), Length: len(k.IDs[0]) - 1}
	for _, row := range k.IDs {
		b.Inputs, b.Labels = append(b.Inputs, row[:b.Length]...), append(b.Labels, row[1:]...)
	}
	return b
}

// longer is batch with tokens that are not counted, so that ranks can divide the positions.
func (k kindFolder) longer() model.Batch {
	b := model.Batch{Size: len(k.IDs), Length: len(k.IDs[0])}
	for _, row := range k.IDs {
		b.Inputs, b.Labels = append(b.Inputs, row...), append(b.Labels, append(slices.Clone(row[1:]), -1)...)
	}
	return b
}

func (k kindFolder) load(t *testing.T, st *acl.Stream, reg *ops.Registry, change func(*model.Config)) *model.Model {
	cfg := k.config(t)
	change(&cfg)
	m, err := model.New(st, reg, cfg, aclnn.Float32)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	require.NoError(t, m.Load(t.Context(), k.path))
	return m
}

// norm returns the norm of all gradients of a loss, which an update computes.
func norm(ctx context.Context, m *model.Model, b model.Batch) (loss, norm float64, err error) {
	o, err := model.NewOptimizer(m, model.AdamW{LR: 1e-3, Beta1: .9, Beta2: .95, Epsilon: 1e-8, MaxNorm: 1})
	if err != nil {
		return 0, 0, err
	}
	defer closing(&err, o)
	if loss, err = m.Gradients(ctx, b); err == nil {
		norm, err = o.Step(ctx)
	}
	return loss, norm, err
}

// dividesExperts reports whether ranks may share each expert.
func (k kindFolder) dividesExperts(t *testing.T) bool {
	cfg := k.config(t)
	return cfg.Experts > 0 && cfg.ModelType != "gpt_oss"
}

// TestKindsOnRanks: with every parallelism each kind of model has the golden loss, and gradients with the norm of one device.
func TestKindsOnRanks(t *testing.T) {
	eachKind(t, func(t *testing.T, k kindFolder) {
		st, reg := setUp(t)
		_, want, err := norm(t.Context(), k.load(t, st, reg, func(*model.Config) {}), k.longer())
		require.NoError(t, err)
		experts := k.config(t).Experts > 0
		layouts := []spread{
			{layout: world.Layout{TP: 2}, sequence: experts}, {layout: world.Layout{TP: 2}, sequence: true},
			{layout: world.Layout{CP: 2}}, {layout: world.Layout{CP: 2}, ulysses: 2}, {shard: true}, {layout: world.Layout{PP: 2}},
		}
		if experts {
			layouts = append(layouts[1:], spread{layout: world.Layout{EP: 2}}, spread{layout: world.Layout{EP: 2}, capacity: 1.25})
		}
		if k.dividesExperts(t) {
			layouts = append(layouts, spread{layout: world.Layout{ExpertTP: 2}}, spread{layout: world.Layout{ExpertTP: 2}, capacity: 1})
		}
		for _, s := range layouts {
			s.model, s.ranks = filepath.Base(k.path), 2
			t.Run(s.String(), func(t *testing.T) {
				onRanks(t, s.ranks, s.whole(), func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) (err error) {
					par := ranks.Parallel
					par.Sequence, par.Shard, par.ExpertCapacity = s.sequence, s.shard, s.capacity
					m, err := model.NewParallel(st, reg, k.config(t), aclnn.Float32, par)
					if err != nil {
						return err
					}
					defer closing(&err, m)
					if err := m.Load(ctx, k.path); err != nil {
						return err
					}
					b := k.longer()
					b.Targets = len(k.IDs) * (len(k.IDs[0]) - 1)
					rows := b.Size / ranks.Parts
					loss, got, err := norm(ctx, m, b.Rows(ranks.Index*rows, rows))
					switch {
					case err != nil:
						return err
					case math.Abs(loss-k.Loss) > 2e-6:
						return fmt.Errorf("loss %v, want %v", loss, k.Loss)
					case math.Abs(got-want) > 1e-5*want:
						return fmt.Errorf("norm of the gradients %v, want %v", got, want)
					}
					return nil
				})
			})
		}
	})
}

// TestKindsInPages: the tokens after a prompt are the golden ones when a pass reads the prompt in two pieces and a graph each further token,
// alone and beside other sequences, and with tensor parallelism.
func TestKindsInPages(t *testing.T) {
	eachKind(t, func(t *testing.T, k kindFolder) {
		if len(k.Greedy) == 0 {
			t.Skip("no tokens")
		}
		layouts := []world.Layout{{TP: 1}, {TP: 2}}
		if k.dividesExperts(t) {
			layouts = append(layouts, world.Layout{TP: 2, ExpertTP: 2})
		}
		for _, layout := range layouts {
			onRanks(t, layout.TP, model.Layout{Layout: layout}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, r *model.Ranks) (err error) {
				cfg := k.config(t)
				cfg.Frozen = true
				m, err := model.NewParallel(st, reg, cfg, aclnn.Float32, r.Parallel)
				if err != nil {
					return err
				}
				defer closing(&err, m)
				if err := m.Load(ctx, k.path); err != nil {
					return err
				}
				return k.generate(ctx, m, r.Tensor == nil || r.Tensor.Rank() == 0)
			})
		}
	})
}

// generate compares the tokens of two sequences, of which one starts later.
func (k kindFolder) generate(ctx context.Context, m *model.Model, first bool) (err error) {
	all, vocab := slices.Concat(k.Prompt, k.Greedy), m.Config.VocabSize
	const block = 16
	blocks := (len(all) + block - 1) / block
	g, err := m.NewPages(model.PageSizes{Blocks: 2 * blocks, Block: block, States: 2})
	if err != nil {
		return err
	}
	defer closing(&err, g)
	steps, err := g.NewSteps()
	if err != nil {
		return err
	}
	defer closing(&err, steps)
	var table [2][]int32
	for i := range 2 * blocks {
		table[i%2] = append(table[i%2], int32(2*blocks-1-i))
	}
	half := len(k.Prompt) / 2
	read := [2]int{}
	for round := 0; read[1] < len(all)-1; round++ {
		var pieces []model.Piece
		for s := range 2 {
			from, n := read[s], 1
			switch {
			case s == 1 && round < 5 || from >= len(all)-1:
				continue
			case from == 0:
				n = half
			case from == half:
				n = len(k.Prompt) - half
			}
			pieces = append(pieces, model.Piece{Tokens: all[from:][:n], From: from, Blocks: table[s], State: s})
			read[s] += n
		}
		logits, err := m.Advance(ctx, g, pieces)
		if err != nil {
			return err
		}
		for i, x := range pieces {
			if end := x.From + len(x.Tokens); first && end >= len(k.Prompt) && int32(likeliest(logits[i*vocab:][:vocab])) != all[end] {
				return fmt.Errorf("sequence %d: token %d is %d, want %d", x.State, end, likeliest(logits[i*vocab:][:vocab]), all[end])
			}
		}
	}
	if steps.Replays() == 0 {
		return fmt.Errorf("no graph was replayed: %w", steps.Off())
	}
	return nil
}

// TestKindsInDecoder: a decoder, whose graphs read a cache without blocks, gives the golden tokens.
func TestKindsInDecoder(t *testing.T) {
	eachKind(t, func(t *testing.T, k kindFolder) {
		if len(k.Greedy) == 0 {
			t.Skip("no tokens")
		}
		st, reg := setUp(t)
		m := k.load(t, st, reg, func(*model.Config) {})
		cache, err := m.NewCache(2, len(k.Prompt)+len(k.Greedy))
		require.NoError(t, err)
		defer func() { require.NoError(t, cache.Close()) }()
		d, err := m.NewDecoder(t.Context(), cache)
		require.NoError(t, err)
		defer func() { require.NoError(t, d.Close()) }()
		logits, err := m.Extend(t.Context(), cache, slices.Concat(k.Prompt, k.Prompt))
		require.NoError(t, err)
		for i, want := range k.Greedy {
			require.EqualValues(t, want, likeliest(logits[:m.Config.VocabSize]), "token %d", i)
			require.EqualValues(t, want, likeliest(logits[m.Config.VocabSize:]), "token %d", i)
			if i+1 < len(k.Greedy) {
				logits, err = d.Next(t.Context(), []int32{want, want})
				require.NoError(t, err)
			}
		}
	})
}

// TestKindsPacked: two rows that are packed into one have the loss of a batch, and so have rows with padding.
func TestKindsPacked(t *testing.T) {
	eachKind(t, func(t *testing.T, k kindFolder) {
		st, reg := setUp(t)
		m := k.load(t, st, reg, func(*model.Config) {})
		b := k.batch()
		packed := b
		packed.Size, packed.Length, packed.CuSeqLens = 1, b.Size*b.Length, []int64{0, int64(b.Length), int64(2 * b.Length)}
		padded := k.longer()
		padded.Lengths = []int64{int64(b.Length), int64(b.Length)}
		for _, b := range []model.Batch{packed, padded} {
			loss, err := m.Gradients(t.Context(), b)
			require.NoError(t, err)
			require.InDelta(t, k.Loss, loss, 1e-6)
		}
	})
}

// TestKindsExported: a folder that is loaded and exported has the same tensors, and so has a model without a folder that is exported and loaded.
func TestKindsExported(t *testing.T) {
	eachKind(t, func(t *testing.T, k kindFolder) {
		st, reg := setUp(t)
		m := k.load(t, st, reg, func(*model.Config) {})
		to := t.TempDir()
		require.NoError(t, m.Export(t.Context(), to, k.path, aclnn.BFloat16, nil))
		requireSameFolder(t, k.path, to)
		to = filepath.Join(t.TempDir(), "new")
		require.NoError(t, m.Export(t.Context(), to, "", aclnn.Float32, nil))
		again := kindFolder{path: to}.load(t, st, reg, func(*model.Config) {})
		want, err := json.Marshal(m.Config)
		require.NoError(t, err)
		got, err := json.Marshal(again.Config)
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got))
		require.Equal(t, baseValues(t, m), baseValues(t, again))
		unread, err := again.Unread(t.Context(), to)
		require.NoError(t, err)
		require.Empty(t, unread)
		weights := int64(0)
		for _, p := range m.Parameters() {
			weights += p.Value.Len()
		}
		require.EqualValues(t, m.Config.Parameters(), weights)
	})
}

// TestKindsAdapted: an adapter of all linear layers trains with tensor parallelism as on one device, and a folder of it gives the same logits.
func TestKindsAdapted(t *testing.T) {
	eachKind(t, func(t *testing.T, k kindFolder) {
		st, reg := setUp(t)
		lora := model.LoRA{Rank: 4, Alpha: 8, Targets: []string{model.AllLinear}}
		train := func(ctx context.Context, m *model.Model) (a *model.Adapter, losses []float64, err error) {
			if a, err = model.NewAdapter(ctx, m, lora, 1); err != nil {
				return nil, nil, err
			}
			o, err := a.NewOptimizer(model.AdamW{LR: 1e-2, Beta1: .9, Beta2: .95, Epsilon: 1e-8, MaxNorm: 1})
			if err != nil {
				return a, nil, err
			}
			defer closing(&err, o)
			if err := m.Use(a); err != nil {
				return a, nil, err
			}
			for range 3 {
				loss, err := m.Gradients(ctx, k.longer())
				if err == nil {
					_, err = o.Step(ctx)
				}
				if err != nil {
					return a, nil, err
				}
				losses = append(losses, loss)
			}
			return a, losses, nil
		}
		m := k.load(t, st, reg, func(c *model.Config) { c.Frozen = true })
		a, want, err := train(t.Context(), m)
		require.NoError(t, err)
		defer func() { require.NoError(t, a.Close()) }()
		require.InDelta(t, k.Loss, want[0], 1e-6)
		require.Less(t, want[2], want[0]-.01)
		logits, err := m.Logits(t.Context(), k.batch())
		require.NoError(t, err)
		folder := t.TempDir()
		require.NoError(t, a.Save(t.Context(), folder, k.path, nil))
		loaded, err := model.LoadAdapter(t.Context(), m, folder, 1)
		require.NoError(t, err)
		defer func() { require.NoError(t, loaded.Close()) }()
		require.NoError(t, m.Use(loaded))
		again, err := m.Logits(t.Context(), k.batch())
		require.NoError(t, err)
		require.Equal(t, logits, again)
		require.NoError(t, loaded.Merge(t.Context()))
		merged, err := m.Logits(t.Context(), k.batch())
		require.NoError(t, err)
		require.LessOrEqual(t, farthest(merged, logits), 1e-4)

		onRanks(t, 2, model.Layout{Layout: world.Layout{TP: 2}}, func(ctx context.Context, st *acl.Stream, reg *ops.Registry, ranks *model.Ranks) (err error) {
			cfg := k.config(t)
			cfg.Frozen = true
			ranks.Parallel.Sequence = cfg.Experts > 0
			m, err := model.NewParallel(st, reg, cfg, aclnn.Float32, ranks.Parallel)
			if err != nil {
				return err
			}
			defer closing(&err, m)
			if err := m.Load(ctx, k.path); err != nil {
				return err
			}
			a, losses, err := train(ctx, m)
			if a != nil {
				defer closing(&err, a)
			}
			for i := range losses {
				if math.Abs(losses[i]-want[i]) > 5e-6 {
					return fmt.Errorf("losses %v, want %v", losses, want)
				}
			}
			return err
		})
	})
}
