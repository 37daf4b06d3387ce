package weights_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/weights"
)

func TestEnds(t *testing.T) {
	write := func(dir, name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for text, want := range map[string][]int32{
		`{}`: nil, `{"eos_token_id":null}`: nil, `{"eos_token_id":7}`: {7}, `{"eos_token_id":[7,9]}`: {7, 9}, `{"text_config":{"eos_token_id":5}}`: {5},
	} {
		dir := t.TempDir()
		write(dir, "config.json", text)
		ends, err := weights.Source{Folder: dir}.Ends()
		require.NoError(t, err)
		require.Equal(t, want, ends)
		write(dir, "generation_config.json", `{"eos_token_id":[1,2]}`)
		ends, err = weights.Source{Folder: dir}.Ends()
		require.NoError(t, err)
		require.Equal(t, []int32{1, 2}, ends, "the configuration of generation goes first")
	}
	for _, text := range []string{`{`, `{"eos_token_id":"x"}`} {
		dir := t.TempDir()
		write(dir, "config.json", text)
		_, err := weights.Source{Folder: dir}.Ends()
		require.ErrorContains(t, err, "config.json")
	}
}

func TestDType(t *testing.T) {
	for _, name := range []string{"fp32", "bf16"} {
		_, err := weights.DType(name)
		require.NoError(t, err)
	}
	_, err := weights.DType("int4")
	require.ErrorContains(t, err, "int4")
}
