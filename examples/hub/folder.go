package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goascend/cann/examples/budget"
	"github.com/goascend/cann/examples/verdict"
)

// File is the verdict on the files of a folder whose names match a pattern.
type File struct {
	Pattern string // of path.Match, in lower case
	Kind    verdict.Kind
	Why     string
	Table   *verdict.Table // of its keys, if Check looks at them
}

// Files are the verdicts of the files and folders in a model's folder; the first pattern that matches counts. Files that
// match none are named in a warning.
var Files = []File{
	{"config.json", verdict.Honoured, "the model", nil},
	{"model.safetensors", verdict.Honoured, "the weights", nil},
	{"model-*-of-*.safetensors", verdict.Honoured, "the weights", nil},
	{"model.safetensors.index.json", verdict.Honoured, "which file has which weight", nil},
	{"tokenizer.json", verdict.Honoured, "the tokenizer", nil},
	{"tokenizer_config.json", verdict.Honoured, "special tokens and chat template", &TokenizerConfig},
	{"special_tokens_map.json", verdict.Honoured, "special tokens", &SpecialTokensMap},
	{"generation_config.json", verdict.Honoured, "tokens that end a text", &GenerationConfig},
	{"chat_template.jinja", verdict.Honoured, "template of conversations", nil},
	{"chat_template.json", verdict.Honoured, "template of conversations", &ChatTemplate},
	{"additional_chat_templates", verdict.Honoured, "further templates by name", nil},
	{"modules.json", verdict.Honoured, "how states become an embedding", nil},
	{"[0-9]_pooling", verdict.Honoured, "how states become an embedding", nil},
	{"[0-9]_normalize", verdict.Harmless, "embeddings have length one", nil},
	{"[0-9]_dense", verdict.Refused, "embeddings are not projected", nil},
	{"sentence_*_config.json", verdict.Honoured, "see its keys", &Sentence},
	{"config_sentence_transformers.json", verdict.Honoured, "see its keys", &SentenceTransformers},
	{"preprocessor_config.json", verdict.Harmless, images, &Processor},
	{"processor_config.json", verdict.Harmless, images, &Processor},
	{"video_preprocessor_config.json", verdict.Harmless, images, &Processor},
	{"adapter_config.json", verdict.Refused, "transformers would add the adapter to the weights; move it to a folder of its own and give -adapter", nil},
	{"quantize_config.json", verdict.Harmless, quantised, nil},
	{"quant_config.json", verdict.Harmless, quantised, nil},
	{"hf_quant_config.json", verdict.Refused, "weights of ModelOpt are not read; convert the folder to bfloat16", nil},
	{"recipe.yaml", verdict.Harmless, quantised, nil},
	{"vocab.json", verdict.Harmless, "tokenizer.json has the vocabulary", nil},
	{"vocab.txt", verdict.Harmless, "tokenizer.json has the vocabulary", nil},
	{"merges.txt", verdict.Harmless, "tokenizer.json has the merges", nil},
	{"added_tokens.json", verdict.Honoured, "further tokens beside tokenizer.model; tokenizer.json, where it is there, has them", nil},
	{"tokenizer.model", verdict.Honoured, "the tokenizer, a model of SentencePiece, where there is no tokenizer.json", nil},
	{"*.tiktoken", verdict.Harmless, "tokenizer.json has the tokenizer", nil},
	{"params.json", verdict.Harmless, "config.json has the configuration", nil},
	{"*.safetensors", verdict.Warned, "the model's weights are in model.safetensors, or in the files of its index", nil},
	{"*.bin", verdict.Harmless, converted, nil},
	{"*.pt", verdict.Harmless, converted, nil},
	{"*.pth", verdict.Harmless, converted, nil},
	{"*.gguf", verdict.Harmless, converted, nil},
	{"*.onnx", verdict.Harmless, converted, nil},
	{"*.h5", verdict.Harmless, converted, nil},
	{"*.msgpack", verdict.Harmless, converted, nil},
	{"*.bin.index.json", verdict.Harmless, converted, nil},
	{"original", verdict.Harmless, converted, nil},
	{"onnx", verdict.Harmless, converted, nil},
	{"openvino", verdict.Harmless, converted, nil},
	{"optimizer*", verdict.Harmless, "state of a training", nil},
	{"scheduler*", verdict.Harmless, "state of a training", nil},
	{"rng_state*", verdict.Harmless, "state of a training", nil},
	{"checkpoint-*", verdict.Harmless, "state of a training", nil},
	{"global_step*", verdict.Harmless, "state of a training", nil},
	{"runs", verdict.Harmless, "records of a training", nil},
	{"trainer_state.json", verdict.Harmless, "records of a training", nil},
	{"*_results.json", verdict.Harmless, "records of a training", nil},
	{"trainer_log.jsonl", verdict.Harmless, "records of a training", nil},
	{"configuration.json", verdict.Harmless, "ModelScope's description of the folder", nil},
	{"configuration_*.py", verdict.Warned, "the folder's own Python code is not run", nil},
	{"modeling_*.py", verdict.Warned, "the folder's own Python code is not run", nil},
	{"tokenization_*.py", verdict.Warned, "the folder's own Python code is not run", nil},
	{".*", verdict.Harmless, "hidden", nil},
	{"*.md", verdict.Harmless, "for people", nil},
	{"*.txt", verdict.Harmless, "for people", nil},
	{"*.pdf", verdict.Harmless, "for people", nil},
	{"*.png", verdict.Harmless, "for people", nil},
	{"*.jpg", verdict.Harmless, "for people", nil},
	{"*.jpeg", verdict.Harmless, "for people", nil},
	{"*.svg", verdict.Harmless, "for people", nil},
	{"*.gif", verdict.Harmless, "for people", nil},
	{"license*", verdict.Harmless, "for people", nil},
	{"notice*", verdict.Harmless, "for people", nil},
	{"use_policy*", verdict.Harmless, "for people", nil},
	{"assets", verdict.Harmless, "for people", nil},
	{"figures", verdict.Harmless, "for people", nil},
	{"images", verdict.Harmless, "for people", nil},
	{"__pycache__", verdict.Harmless, "compiled Python code", nil},
}

// Check looks at the files of a folder, and at the keys of those with a table. It returns a line for each that is left out
// though it might matter. Files that would change the result are an error.
func Check(folder string) (warnings []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	shards, err := shards(folder)
	if err != nil {
		return nil, err
	}
	var errs []error
	more := 0   // warnings of further files
	other := "" // a file of weights that are not read
	for _, e := range entries {
		f := find(e.Name())
		if f.Why == converted && f.Kind == verdict.Harmless && !e.IsDir() {
			other = e.Name()
		}
		switch {
		case shards[e.Name()]:
		case f.Kind == verdict.Refused:
			errs = append(errs, fmt.Errorf("%s: %s", filepath.Join(folder, e.Name()), f.Why))
		case f.Kind == verdict.Warned && len(warnings) >= mostWarnings:
			more++
		case f.Kind == verdict.Warned:
			warnings = append(warnings, fmt.Sprintf("%s: %s", e.Name(), f.Why))
		case f.Table != nil && !e.IsDir():
			table := *f.Table
			if f.Table == &TokenizerConfig && HasPieces(folder) {
				table = PiecesConfig
			}
			lines, err := Decode(folder, e.Name(), table)
			warnings, errs = append(warnings, lines...), append(errs, err)
		}
	}
	if more > 0 {
		warnings = append(warnings, fmt.Sprintf("%d more files are not read", more))
	}
	if len(shards) == 0 && other != "" {
		errs = append(errs, fmt.Errorf("%s has its weights in %s, which is not read: convert the folder to safetensors", folder, other))
	}
	return warnings, errors.Join(errs...)
}

// After mostWarnings lines the files that are not read are only counted.
const mostWarnings = 100

// HasPieces reports whether the tokenizer of a folder is a model of SentencePiece: tokenizer.model without a tokenizer.json.
func HasPieces(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "tokenizer.json"))
	_, none := os.Stat(filepath.Join(folder, "tokenizer.model"))
	return errors.Is(err, fs.ErrNotExist) && none == nil
}

// mostIndex is the size in bytes up to which aclnn/safetensors reads an index.
const mostIndex = 100_000_000

// shards are the files with the weights.
func shards(folder string) (map[string]bool, error) {
	const single, index = "model.safetensors", "model.safetensors.index.json"
	files := map[string]bool{}
	if _, err := os.Stat(filepath.Join(folder, single)); err == nil {
		files[single] = true
	}
	text, err := budget.ReadFile(filepath.Join(folder, index), mostIndex)
	if errors.Is(err, fs.ErrNotExist) {
		return files, nil
	}
	if err != nil {
		return nil, err
	}
	var x struct {
		Files map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &x); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(folder, index), err)
	}
	for _, file := range x.Files {
		files[file] = true
	}
	return files, nil
}

func find(name string) File {
	for _, f := range Files {
		if ok, err := path.Match(f.Pattern, strings.ToLower(name)); ok && err == nil {
			return f
		}
	}
	return File{Kind: verdict.Warned, Why: "it is not known what this is, and it is not read"}
}

// Decode reads a file of a folder through a table. A file that is not there is read as one without keys.
func Decode(folder, name string, t verdict.Table, to ...any) (warnings []string, err error) {
	t.Format = filepath.Join(folder, name)
	text, err := budget.ReadFile(t.Format, budget.Config)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return t.Decode(text, to...)
}

// Pool is how the states of a text become one embedding.
type Pool int

// Ways of pooling.
const (
	Mean  Pool = iota // the mean of all states
	First             // the state of the first token
	Last              // the state of the last token
)

// ReadPooling reads modules.json and the configuration of its pooling module. A folder without modules.json has the mean,
// and so has a model without a folder.
func ReadPooling(folder string) (pool Pool, err error) {
	if folder == "" {
		return Mean, nil
	}
	file := filepath.Join(folder, "modules.json")
	text, err := budget.ReadFile(file, budget.Config)
	if errors.Is(err, fs.ErrNotExist) {
		return Mean, nil
	}
	if err != nil {
		return 0, err
	}
	var modules []json.RawMessage
	if err := json.Unmarshal(text, &modules); err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	found := false
	for _, one := range modules {
		var m struct{ Type, Path string }
		t := Module
		t.Format = file
		if _, err := t.Decode(one, &m); err != nil {
			return 0, err
		}
		switch kind := m.Type[strings.LastIndexByte(m.Type, '.')+1:]; {
		case !strings.HasPrefix(m.Type, "sentence_transformers."):
			return 0, fmt.Errorf("%s: the module %q is not of sentence_transformers", file, m.Type)
		case kind == "Transformer" || kind == "Normalize":
		case kind == "Pooling" && !found && filepath.IsLocal(m.Path):
			if pool, err = readPool(folder, m.Path); err != nil {
				return 0, err
			}
			found = true
		default:
			return 0, fmt.Errorf("%s: the module %q in %q is not supported; Transformer, one Pooling and Normalize are", file, m.Type, m.Path)
		}
	}
	if !found {
		return 0, fmt.Errorf("%s: it has no module that pools", file)
	}
	return pool, nil
}

// LowerCase reads whether texts become lower case before they are encoded: do_lower_case of sentence_bert_config.json. A folder without one leaves them.
func LowerCase(folder string) (bool, error) {
	names, err := fs.Glob(os.DirFS(folder), "sentence_*_config.json")
	if err != nil || len(names) == 0 {
		return false, err
	}
	if len(names) > 1 {
		return false, fmt.Errorf("%s: there are %d files of this form; keep one", filepath.Join(folder, names[0]), len(names))
	}
	var c struct {
		Lower bool `json:"do_lower_case"`
	}
	_, err = Decode(folder, names[0], Sentence, &c)
	return c.Lower, err
}

// AsWritten refuses a folder whose texts become lower case first, for programs that read and write texts as they are.
func AsWritten(folder string) error {
	lower, err := LowerCase(folder)
	if err == nil && lower {
		err = fmt.Errorf("%s: do_lower_case of sentence_*_config.json is true: texts to embed and to score become lower case, and a text that goes on, a conversation or a sample would not: set it to false, and write texts in lower case", folder)
	}
	return err
}

func readPool(folder, module string) (Pool, error) {
	var c struct {
		Mean bool   `json:"pooling_mode_mean_tokens"`
		CLS  bool   `json:"pooling_mode_cls_token"`
		Last bool   `json:"pooling_mode_lasttoken"`
		Mode string `json:"pooling_mode"`
	}
	name := filepath.Join(module, "config.json")
	if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
		return 0, err
	}
	if _, err := Decode(folder, name, Pooling, &c); err != nil {
		return 0, err
	}
	set := []Pool{}
	for _, m := range []struct {
		given bool
		word  string
		pool  Pool
	}{{c.Mean, "mean", Mean}, {c.CLS, "cls", First}, {c.Last, "lasttoken", Last}} {
		if m.given || c.Mode == m.word {
			set = append(set, m.pool)
		}
	}
	if len(set) != 1 {
		return 0, fmt.Errorf("%s: %d ways of pooling are chosen of mean, cls and lasttoken; one is needed", filepath.Join(folder, name), len(set))
	}
	return set[0], nil
}
