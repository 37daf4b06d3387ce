package model_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/internal/testing/golden"
	"github.com/goascend/cann/ops"
)

// fromFolder makes a model with the weights of a hub folder.
func fromFolder(ctx context.Context, st *acl.Stream, reg *ops.Registry, folder string, dt aclnn.DType, par model.Parallel) (*model.Model, error) {
	cfg, err := model.ReadConfig(filepath.Join(folder, "config.json"))
	if err != nil {
		return nil, err
	}
	m, err := model.NewParallel(st, reg, cfg, dt, par)
	if err != nil {
		return nil, err
	}
	return m, m.Load(ctx, folder)
}

// TestExportedFolders: a hub folder that is loaded and exported has the same files with the same
// bytes, but for the order in the headers of weights: the same tensors.
func TestExportedFolders(t *testing.T) {
	dir, err := golden.Dir()
	require.NoError(t, err)
	folders, err := os.ReadDir(filepath.Join(dir, "hub"))
	require.NoError(t, err)
	require.Len(t, folders, 8)
	for _, f := range folders {
		t.Run(f.Name(), func(t *testing.T) {
			st, reg := setUp(t)
			path, to := filepath.Join(dir, "hub", f.Name()), t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(to, "stale.txt"), nil, 0o600))
			m, err := fromFolder(t.Context(), st, reg, path, aclnn.Float32, model.Parallel{})
			require.NoError(t, err)
			defer func() { require.NoError(t, m.Close()) }()
			require.NoError(t, m.Export(t.Context(), to, path, aclnn.BFloat16, nil))
			requireSameFolder(t, path, to)
			again, err := fromFolder(t.Context(), st, reg, to, aclnn.Float32, model.Parallel{})
			require.NoError(t, err)
			defer func() { require.NoError(t, again.Close()) }()
			require.Equal(t, baseValues(t, m), baseValues(t, again))

			// A weight that has changed is written, wherever the folder has it.
			for _, p := range m.Parameters() {
				values, err := m.Get(t.Context(), p)
				require.NoError(t, err)
				for i := range values {
					values[i] *= 2
				}
				require.NoError(t, m.Set(t.Context(), p, values))
			}
			require.NoError(t, m.Export(t.Context(), to, path, aclnn.BFloat16, nil))
			require.NoError(t, again.Load(t.Context(), to))
			require.Equal(t, baseValues(t, m), baseValues(t, again))
			require.ErrorContains(t, m.Export(t.Context(), path, path, aclnn.BFloat16, nil), "another one")
		})
	}
}

// requireSameFolder compares the files of two folders; of weights the names, dtypes, shapes and
// bytes of the tensors.
func requireSameFolder(t *testing.T, want, got string) {
	entries, err := os.ReadDir(want)
	require.NoError(t, err)
	for _, e := range entries {
		a, err := os.ReadFile(filepath.Join(want, e.Name()))
		require.NoError(t, err)
		b, err := os.ReadFile(filepath.Join(got, e.Name()))
		require.NoError(t, err)
		if filepath.Ext(e.Name()) != ".safetensors" {
			require.Equal(t, a, b, e.Name())
			continue
		}
		require.Equal(t, tensorsOf(t, filepath.Join(want, e.Name())), tensorsOf(t, filepath.Join(got, e.Name())))
	}
}

func tensorsOf(t *testing.T, path string) map[string]string {
	f, err := safetensors.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	all := map[string]string{"metadata": fmt.Sprint(f.Metadata())}
	for _, name := range f.Names() {
		x, err := f.Tensor(name)
		require.NoError(t, err)
		raw, err := io.ReadAll(x.Reader())
		require.NoError(t, err)
		all[name] = x.Info.String() + string(raw)
	}
	return all
}

// TestExportedNewModels: a model of each family that did not come from a folder is exported and
// loaded again.
func TestExportedNewModels(t *testing.T) {
	for _, name := range []string{"qwen3", "qwen3_moe", "qwen3_next", "qwen3_5"} {
		t.Run(name, func(t *testing.T) {
			st, reg := setUp(t)
			m, _ := newModel(t, st, reg, name, aclnn.Float32)
			to := filepath.Join(t.TempDir(), "new", "model")
			require.NoError(t, m.Export(t.Context(), to, "", aclnn.Float32, nil))
			again, err := fromFolder(t.Context(), st, reg, to, aclnn.Float32, model.Parallel{})
			require.NoError(t, err)
			defer func() { require.NoError(t, again.Close()) }()
			require.Equal(t, baseValues(t, m), baseValues(t, again))
			want, err := json.Marshal(m.Config)
			require.NoError(t, err)
			got, err := json.Marshal(again.Config)
			require.NoError(t, err)
			require.JSONEq(t, string(want), string(got))
			unread, err := again.Unread(t.Context(), to)
			require.NoError(t, err)
			require.Empty(t, unread)
			require.ErrorContains(t, m.Export(t.Context(), t.TempDir(), t.TempDir(), aclnn.Float32, nil), "no tensor for")
		})
	}
}
