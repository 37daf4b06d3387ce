package weights_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/command"
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

// TestFlags: programs choose a model with the same flags, and refuse what goes with none.
func TestFlags(t *testing.T) {
	parse := func(args ...string) (weights.Source, error) {
		s := weights.Source{Steps: 7}
		f := command.New(io.Discard, "test", "about")
		s.Flags(f)
		s.CacheFlag(f)
		if err := f.Parse(args); err != nil {
			return s, err
		}
		return s, s.Check(f)
	}
	s, err := parse()
	require.NoError(t, err)
	require.Equal(t, weights.Source{DType: aclnn.Float32, Type: "qwen3", Steps: 7}, s)
	s, err = parse("-model", "a", "-adapter", "b", "-dtype", "bf16")
	require.NoError(t, err)
	require.Equal(t, weights.Source{Folder: "a", Adapter: "b", DType: aclnn.BFloat16, Type: "qwen3", Steps: 7}, s)
	s, err = parse("-quant", "w8a8", "-dtype", "bf16")
	require.NoError(t, err)
	require.True(t, s.Quantize)
	s, err = parse("-quant", "kept", "-dtype", "bf16", "-model", "a")
	require.NoError(t, err)
	require.True(t, s.KeepCodes && !s.Quantize)
	s, err = parse("-cache", "int8", "-dtype", "bf16")
	require.NoError(t, err)
	require.True(t, s.Int8Cache)
	for text, args := range map[string][]string{"-cache int8 needs -dtype bf16": {"-cache", "int8"}, "use int8": {"-cache", "int4"}, "-quant kept needs -dtype bf16": {"-quant", "kept", "-model", "a"}, "needs a -model with quantised weights": {"-quant", "kept", "-dtype", "bf16"}, "use w8a8": {"-quant", "w4"}, "needs -dtype bf16": {"-quant", "w8a8"}, "use fp32 or bf16": {"-dtype", "int4"}, "-adapter needs": {"-adapter", "x"}, "-train-steps 0": {"-train-steps", "0"}, "-type needs": {"-model", "a", "-type", "qwen3"}, "-train-steps needs": {"-model", "a", "-train-steps", "7"}, `-type "x"`: {"-type", "x"}} {
		_, err := parse(args...)
		require.ErrorContains(t, err, text)
	}
}
