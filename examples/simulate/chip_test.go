package simulate_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/simulate"
	"github.com/goascend/cann/examples/verdict"
)

// TestChips: the chips that need no file are complete, name a source for what they say, and are found by the names of the runtime.
func TestChips(t *testing.T) {
	require.Equal(t, []string{"Ascend910B2", "Ascend910B3", "Ascend910B4", "Ascend910_93"}, simulate.ChipNames())
	for soc, name := range map[string]string{"Ascend910B2": "Ascend910B2", "Ascend910B4-1": "Ascend910B4", "Ascend910_9391": "Ascend910_93"} {
		c, err := simulate.ReadChip(soc)
		require.NoError(t, err)
		require.Equal(t, name, c.Name)
		require.NotZero(t, c.Cube["bf16"])
	}
	_, err := simulate.ReadChip("Ascend310P3")
	require.ErrorContains(t, err, "Ascend910B2")
}

// TestChipFile: every key of a chip's file is needed and followed, unknown ones and figures that are none are refused by name.
func TestChipFile(t *testing.T) {
	text, err := os.ReadFile("chips/Ascend910B2.json")
	require.NoError(t, err)
	read := func(change func(keys map[string]any)) error {
		var keys map[string]any
		require.NoError(t, json.Unmarshal(text, &keys))
		change(keys)
		changed, err := json.Marshal(keys)
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "mine.json")
		require.NoError(t, os.WriteFile(path, changed, 0o600))
		_, err = simulate.ReadChip(path)
		return err
	}
	require.NoError(t, read(func(map[string]any) {}))
	for _, k := range simulate.ChipTable.Keys {
		outer, inner, nested := strings.Cut(k.Name, ".")
		if k.Name == "sources" || outer == "cube" || k.Name == "roce.dies" {
			continue
		}
		err := read(func(keys map[string]any) {
			if nested {
				delete(keys[outer].(map[string]any), inner)
			} else {
				delete(keys, outer)
			}
		})
		require.ErrorContains(t, err, outer, k.Name)
	}
	// Each key with another value makes another chip, except those without effect.
	parsed := func(change func(keys map[string]any)) (simulate.Chip, error) {
		var keys map[string]any
		require.NoError(t, json.Unmarshal(text, &keys))
		change(keys)
		changed, err := json.Marshal(keys)
		require.NoError(t, err)
		return simulate.ParseChip(changed)
	}
	want, err := parsed(func(map[string]any) {})
	require.NoError(t, err)
	for _, k := range simulate.ChipTable.Keys {
		outer, inner, nested := strings.Cut(k.Name, ".")
		value := any(7)
		if k.Name == "name" || k.Name == "soc" {
			value = "Ascend910B3"
		}
		got, err := parsed(func(keys map[string]any) {
			if nested {
				keys[outer].(map[string]any)[inner] = value
			} else {
				keys[outer] = value
			}
		})
		switch k.Kind {
		case verdict.Refused:
			require.ErrorContains(t, err, k.Name+" is 7")
		case verdict.Harmless:
			require.NoError(t, err)
			require.Equal(t, want, got, k.Name)
		default:
			require.NoError(t, err)
			require.NotEqual(t, want, got, k.Name)
		}
	}
	require.ErrorContains(t, read(func(keys map[string]any) { keys["speed"] = 1 }), "speed")
	require.ErrorContains(t, read(func(keys map[string]any) { keys["memory"] = -1 }), "memory is -1")
	require.ErrorContains(t, read(func(keys map[string]any) { keys["cube"].(map[string]any)["bf16"] = 0 }), "cube.bf16")
	require.ErrorContains(t, read(func(keys map[string]any) { delete(keys, "cube") }), "cube")
}
