package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/sampling"
	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(acltest.Suite{M: m}) }

// folder returns the path of a golden hub folder.
func folder(t *testing.T, name string) string {
	dir, err := golden.Dir()
	require.NoError(t, err)
	return filepath.Join(dir, "hub", name)
}

// load loads a hub folder.
func load(path string, dt aclnn.DType) engine.Load {
	return func(ctx context.Context, st *acl.Stream, reg *ops.Registry, par model.Parallel) (*model.Model, error) {
		cfg, err := model.ReadConfig(filepath.Join(path, "config.json"))
		if err != nil {
			return nil, err
		}
		cfg.Frozen = true
		m, err := model.NewParallel(st, reg, cfg, dt, par)
		if err != nil {
			return nil, err
		}
		if err := m.Load(ctx, path); err != nil {
			return nil, errors.Join(err, m.Close())
		}
		return m, nil
	}
}

// open opens an engine with the model of a hub folder, and closes it with the test.
func open(t *testing.T, name string, o engine.Options) *engine.Engine {
	e, err := engine.Open(t.Context(), acltest.Open(t), 0, load(folder(t, name), aclnn.Float32), o)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, e.Close())
		require.Zero(t, e.Stats().Used, "blocks in use after the end")
		require.Zero(t, e.Stats().Waiting+e.Stats().Running)
	})
	return e
}

// greedy are options that take the likeliest token.
var greedy = sampling.Options{TopP: 1}

// collect takes all tokens of a generation.
func collect(g *engine.Generation) (ids []int32, err error) {
	for {
		t, err := g.Next()
		if err == io.EOF {
			return ids, nil
		}
		if err != nil {
			return ids, err
		}
		ids = append(ids, t.ID)
	}
}

// expected holds the tokens that transformers generates for a hub folder.
type expected struct {
	IDs            [][]int32
	Prompt, Greedy []int32
	Loss           float64
}

func expectedOf(t *testing.T, name string) (want expected) {
	text, err := os.ReadFile(filepath.Join(folder(t, name), "expected.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &want))
	return want
}

// alone generates greedy tokens for one prompt with the cache of package model.
func alone(t *testing.T, name string, prompts [][]int32, n int) (all [][]int32) {
	withModel(t, name, func(m *model.Model) { all = generate(t, m, prompts, n) })
	return all
}

// withModel loads the model of a hub folder without an engine.
func withModel(t *testing.T, name string, f func(m *model.Model)) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	reg, err := ops.NewRegistry(ops.EnvOf(dev))
	require.NoError(t, err)
	defer func() { require.NoError(t, reg.Close()) }()
	m, err := load(folder(t, name), aclnn.Float32)(t.Context(), st, reg, model.Parallel{})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	f(m)
}

func generate(t *testing.T, m *model.Model, prompts [][]int32, n int) (all [][]int32) {
	for _, prompt := range prompts {
		cache, err := m.NewCache(1, len(prompt)+n)
		require.NoError(t, err)
		var ids []int32
		s := sampling.New(greedy, prompt)
		for next := prompt; len(ids) < n; next = ids[len(ids)-1:] {
			logits, err := m.Extend(t.Context(), cache, next)
			require.NoError(t, err)
			id, err := s.Next(logits)
			require.NoError(t, err)
			ids = append(ids, id)
		}
		require.NoError(t, cache.Close())
		all = append(all, ids)
	}
	return all
}
