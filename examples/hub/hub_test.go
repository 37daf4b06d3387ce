package hub_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/hub"
	"github.com/goascend/cann/examples/verdict"
)

func write(t *testing.T, dir, name, text string) {
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// TestCheck: every file of a folder has a verdict, and every key of those with a table.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"config.json": "{}", "model.safetensors": "", "model-00001-of-00002.safetensors": "", "tokenizer.json": "{}", "README.md": "", "LICENSE": "", ".gitattributes": "",
		"vocab.json": "{}", "pytorch_model.bin": "", "1_Pooling/config.json": "{}", "preprocessor_config.json": `{"size":{"a":1}}`, "chat_template.jinja": "",
		"generation_config.json": `{"eos_token_id":7,"top_p":1.0,"do_sample":false}`, "tokenizer_config.json": `{"eos_token":"a","added_tokens_decoder":{"7":{}}}`,
	} {
		write(t, dir, name, text)
	}
	warnings, err := hub.Check(dir)
	require.NoError(t, err)
	require.Empty(t, warnings)
	write(t, dir, "generation_config.json", `{"top_p":0.8,"nobody":1}`)
	write(t, dir, "weights.xyz", "")
	warnings, err = hub.Check(dir)
	require.NoError(t, err)
	require.Len(t, warnings, 3)
	require.Contains(t, fmt.Sprint(warnings), "top_p is 0.8: flags and requests say how tokens are chosen")
	require.Contains(t, fmt.Sprint(warnings), "nobody is 1: this key is not known")
	require.Contains(t, fmt.Sprint(warnings), "weights.xyz: it is not known what this is")
	for name, want := range map[string]string{
		"adapter_config.json": "-adapter", "hf_quant_config.json": "ModelOpt", "2_Dense/config.json": "not projected", "generation_config.json": "num_beams is 4", "tokenizer_config.json": "split_special_tokens is true",
	} {
		sub := t.TempDir()
		text := map[string]string{"generation_config.json": `{"num_beams":4}`, "tokenizer_config.json": `{"split_special_tokens":true}`}[name]
		write(t, sub, name, text)
		_, err := hub.Check(sub)
		require.ErrorContains(t, err, want, name)
	}
	sub := t.TempDir()
	write(t, sub, "pytorch_model.bin", "")
	_, err = hub.Check(sub)
	require.ErrorContains(t, err, "its weights in pytorch_model.bin, which is not read")
	write(t, sub, "model.safetensors.index.json", `{"weight_map":{"a":"part-1.safetensors"}}`)
	write(t, sub, "part-1.safetensors", "")
	write(t, sub, "consolidated.safetensors", "")
	warnings, err = hub.Check(sub)
	require.NoError(t, err)
	require.Equal(t, []string{"consolidated.safetensors: the model's weights are in model.safetensors, or in the files of its index"}, warnings)
	for i := range 1000 {
		write(t, sub, fmt.Sprintf("strange-%d", i), "")
	}
	warnings, err = hub.Check(sub)
	require.NoError(t, err)
	require.Len(t, warnings, 101)
	require.Equal(t, "901 more files are not read", warnings[100])
	_, err = hub.Check(filepath.Join(dir, "none"))
	require.Error(t, err)
}

// TestTables: each key of each table does what its verdict says: a refused one is an error that names it, one with a warning is
// named in a line, a neutral value is neither.
func TestTables(t *testing.T) {
	for _, table := range []verdict.Table{
		hub.GenerationConfig, hub.TokenizerConfig, hub.SpecialTokensMap, hub.ChatTemplate, hub.Processor, hub.Module, hub.Pooling, hub.Sentence, hub.SentenceTransformers,
	} {
		seen := map[string]bool{}
		for _, k := range table.Keys {
			require.False(t, seen[k.Name], "%s: %s is there twice", table.Format, k.Name)
			seen[k.Name] = true
			require.NotEmpty(t, k.Why, k.Name)
			lines, err := table.Decode(fmt.Appendf(nil, `{%q:[77]}`, k.Name))
			switch k.Kind {
			case verdict.Refused:
				require.ErrorContains(t, err, k.Name+" is [77]: "+k.Why)
			case verdict.Warned:
				require.Equal(t, []string{table.Format + ": " + k.Name + " is [77]: " + k.Why}, lines)
			default:
				require.NoError(t, err)
				require.Empty(t, lines)
			}
			for _, value := range append(k.Neutral, "null") {
				lines, err := table.Decode(fmt.Appendf(nil, `{%q:%s}`, k.Name, value))
				require.NoError(t, err)
				require.Empty(t, lines)
			}
		}
	}
}

// TestPooling reads modules.json as sentence-transformers does.
func TestPooling(t *testing.T) {
	modules := func(last string) string {
		return `[{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"},{"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"}` + last + `]`
	}
	normal := modules(`,{"idx":2,"name":"2","path":"2_Normalize","type":"sentence_transformers.models.Normalize"}`)
	pool, err := hub.ReadPooling(t.TempDir())
	require.NoError(t, err)
	require.Equal(t, hub.Mean, pool)
	for config, want := range map[string]hub.Pool{
		`{"pooling_mode_mean_tokens":true,"pooling_mode_max_tokens":false,"word_embedding_dimension":8}`: hub.Mean,
		`{"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":false}`:                               hub.First,
		`{"pooling_mode_lasttoken":true,"include_prompt":true}`:                                          hub.Last,
		`{"pooling_mode":"lasttoken","embedding_dimension":8}`:                                           hub.Last,
	} {
		dir := t.TempDir()
		write(t, dir, "modules.json", normal)
		write(t, dir, "1_Pooling/config.json", config)
		pool, err := hub.ReadPooling(dir)
		require.NoError(t, err, config)
		require.Equal(t, want, pool, config)
	}
	for want, c := range map[string][2]string{
		"pooling_mode_max_tokens is true": {normal, `{"pooling_mode_max_tokens":true}`},
		"0 ways of pooling":               {normal, `{}`},
		"2 ways of pooling":               {normal, `{"pooling_mode_cls_token":true,"pooling_mode_lasttoken":true}`},
		"include_prompt is false":         {normal, `{"pooling_mode_lasttoken":true,"include_prompt":false}`},
		"Dense":                           {modules(`,{"idx":2,"name":"2","path":"2_Dense","type":"sentence_transformers.models.Dense"}`), `{"pooling_mode_cls_token":true}`},
		"no module that pools":            {`[]`, `{}`},
		"not of sentence_transformers":    {`[{"type":"mine.Pooling","path":"1_Pooling"}]`, `{}`},
		"cannot unmarshal":                {`{}`, `{}`},
	} {
		dir := t.TempDir()
		write(t, dir, "modules.json", c[0])
		write(t, dir, "1_Pooling/config.json", c[1])
		_, err := hub.ReadPooling(dir)
		require.ErrorContains(t, err, want)
	}
}

// TestOddNames: the name of a folder is no pattern.
func TestOddNames(t *testing.T) {
	for _, name := range []string{"a[b]", "a[", "*", "a?b", "[a-z]"} {
		dir := filepath.Join(t.TempDir(), name)
		write(t, dir, "sentence_bert_config.json", `{"do_lower_case":true}`)
		lower, err := hub.LowerCase(dir)
		require.NoError(t, err, name)
		require.True(t, lower, name)
		require.ErrorContains(t, hub.AsWritten(dir), name)
		write(t, dir, "sentence_roberta_config.json", `{}`)
		_, err = hub.LowerCase(dir)
		require.ErrorContains(t, err, "there are 2 files of this form", name)
	}
}
