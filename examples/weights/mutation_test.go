package weights_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/chat"
	"github.com/goascend/cann/examples/hub"
	"github.com/goascend/cann/examples/verdict"
	"github.com/goascend/cann/examples/weights"
)

// template shows every variable that a folder gives to a chat template.
const template = `{{ bos_token }}|{{ eos_token }}|{{ unk_token }}|{{ sep_token }}|{{ pad_token }}|{{ cls_token }}|{{ mask_token }}|{{ messages | length }}`

// read is all that the programs read out of the files of a folder beside weights and tokenizer, or why they refuse it.
func read(folder string) (result string, warnings []string, err error) {
	if warnings, err = hub.Check(folder); err != nil {
		return "", nil, err
	}
	ends, err := weights.Source{Folder: folder}.Ends()
	if err != nil {
		return "", nil, err
	}
	t, err := chat.Load(folder)
	if err != nil {
		return "", nil, err
	}
	prompt, err := t.Render(chat.Conversation{Messages: []chat.Message{{Role: "user", Content: "hello"}}})
	if err != nil {
		return "", nil, err
	}
	pool, err := hub.ReadPooling(folder)
	if err != nil {
		return "", nil, err
	}
	lower, err := hub.LowerCase(folder)
	return fmt.Sprint(ends, prompt.Text, pool, lower), warnings, err
}

// TestEveryKey changes each key of the files of a folder to another legal value. That changes what is read; or the key is on
// the list without effect, and changes nothing; or a warning or a refusal names it.
func TestEveryKey(t *testing.T) {
	files := map[string]string{
		"config.json": `{}`, "tokenizer_config.json": `{}`, "special_tokens_map.json": `{}`, "generation_config.json": `{}`, "chat_template.json": `{"chat_template":` + fmt.Sprintf("%q", template) + `}`,
		"modules.json":              `[{"type":"sentence_transformers.models.Transformer","path":""},{"type":"sentence_transformers.models.Pooling","path":"1_Pooling"}]`,
		"1_Pooling/config.json":     `{"pooling_mode_mean_tokens":true}`,
		"sentence_bert_config.json": `{}`, "config_sentence_transformers.json": `{}`, "preprocessor_config.json": `{}`,
	}
	others := map[string]string{
		"chat_template": `"another"`, "type": `"sentence_transformers.models.Dense"`, "path": `"2_Pooling"`, "pooling_mode_mean_tokens": "false", "pooling_mode_cls_token": "true", "pooling_mode_lasttoken": "true", "pooling_mode": `"cls"`, "do_lower_case": "true",
	}
	for _, token := range []string{"bos", "eos", "unk", "sep", "pad", "cls", "mask"} {
		others[token+"_token"] = `"<x>"`
	}
	for name, table := range map[string]verdict.Table{
		"tokenizer_config.json": hub.TokenizerConfig, "special_tokens_map.json": hub.SpecialTokensMap, "generation_config.json": hub.GenerationConfig, "chat_template.json": hub.ChatTemplate, "modules.json": hub.Module,
		"1_Pooling/config.json": hub.Pooling, "sentence_bert_config.json": hub.Sentence, "config_sentence_transformers.json": hub.SentenceTransformers, "preprocessor_config.json": hub.Processor,
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(folder, "1_Pooling"), 0o777))
			for file, text := range files {
				require.NoError(t, os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600))
			}
			with := func(key, value string) (string, []string, error) {
				var all any
				require.NoError(t, json.Unmarshal([]byte(files[name]), &all))
				object, ok := all.(map[string]any)
				if !ok { // the last of a list
					list := all.([]any)
					object = list[len(list)-1].(map[string]any)
				}
				object[key] = json.RawMessage(value)
				text, err := json.Marshal(all)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(folder, name), text, 0o600))
				return read(folder)
			}
			want, none, err := read(folder)
			require.NoError(t, err)
			require.Empty(t, none)
			check := func(k verdict.Key) {
				value, ok := others[k.Name]
				if !ok {
					value = "7"
				}
				got, warnings, err := with(k.Name, value)
				switch k.Kind {
				case verdict.Refused:
					require.ErrorContains(t, err, k.Name+" is "+value)
				case verdict.Warned:
					require.NoError(t, err)
					require.Len(t, warnings, 1, k.Name)
					require.Contains(t, warnings[0], k.Name+" is "+value)
				case verdict.Harmless:
					require.NoError(t, err)
					require.Equal(t, want, got, k.Name)
					require.Empty(t, warnings)
				default:
					require.True(t, err != nil || got != want, "%s is honoured, and %s changes nothing", k.Name, value)
				}
				for _, neutral := range append([]string{"null"}, k.Neutral...) {
					if k.Kind == verdict.Honoured {
						continue
					}
					got, warnings, err := with(k.Name, neutral)
					require.NoError(t, err, "%s: %s", k.Name, neutral)
					require.Equal(t, want, got, k.Name)
					require.Empty(t, warnings)
				}
			}
			for _, k := range table.Keys {
				check(k)
			}
			check(verdict.Key{Name: "nobody_knows", Kind: table.Unknown})
		})
	}
}
