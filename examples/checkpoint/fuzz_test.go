package checkpoint_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/checkpoint"
	"github.com/goascend/cann/hccl/world"
)

// FuzzManifest: a manifest whose sum is right may say anything. Whatever it says, reading gives the
// values that were written, or an error.
func FuzzManifest(f *testing.F) {
	dir := f.TempDir()
	groups, err := world.LocalGroups(f.Context(), 1, world.GroupConfig{})
	require.NoError(f, err)
	s, err := checkpoint.NewSaver(f.Context(), groups[0], dir, 1)
	require.NoError(f, err)
	tensors := weights(3, 0, 2)
	tensors = append(tensors, checkpoint.Tensor{Part: checkpoint.Part{Name: "c", Shape: []int64{5}}, Values: value(3, "c", []int64{5})})
	require.NoError(f, s.Save(context.Background(), checkpoint.About{Step: 3, Model: json.RawMessage("{}")}, tensors))
	require.NoError(f, s.Close())
	paths, err := filepath.Glob(filepath.Join(dir, "step-*", "manifest.json"))
	require.NoError(f, err)
	content, err := os.ReadFile(paths[0])
	require.NoError(f, err)
	_, body, _ := bytes.Cut(content, []byte("\n"))
	f.Add(body)
	for old, new := range map[string]string{
		`"of":2`: `"of":1`, `"index"`: `"other"`, `"shape":[4,3]`: `"shape":[4,-3]`, `"shape":[5]`: `"shape":[1099511627776,1099511627776]`, `"rank-0`: `"../rank-0`,
		`"axis":1`: `"axis":7`, `"name":"b"`: `"name":"a"`, `"format":2`: `"format":1`, `"segment":6`: `"segment":7`, `"segment":5`: `"segment":0`,
	} {
		f.Add(bytes.ReplaceAll(body, []byte(old), []byte(new)))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		content := append(fmt.Appendf(nil, "checkpoint 2 sha256 %x\n", sha256.Sum256(body)), body...)
		require.NoError(t, os.WriteFile(paths[0], content, 0o666))
		set, err := checkpoint.Open(filepath.Dir(paths[0]))
		if err != nil {
			return
		}
		defer set.Close()
		for _, want := range tensors {
			if got, err := set.Read(want.Part); err == nil {
				require.Equal(t, want.Values, got, "%v", want.Part)
			}
		}
		_, _ = set.Read(checkpoint.Part{Name: "a", Shape: []int64{4, 3}})
	})
}
