package weights_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/dataset"
	"github.com/goascend/cann/examples/hub"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/quantization"
	"github.com/goascend/cann/examples/serve/api"
	"github.com/goascend/cann/examples/simulate"
	"github.com/goascend/cann/examples/tokenizer"
	"github.com/goascend/cann/examples/verdict"
	"github.com/goascend/cann/examples/weights"
)

var update = flag.Bool("update", false, "write FORMATS.md")

// formats is the documentation of all tables.
func formats() string {
	var b strings.Builder
	b.WriteString(`# What becomes of files and keys

Every file of a model's folder, every key of its JSON files, of samples and of requests has a verdict. It is *honoured*; it is known to be *without effect*, for the
reason that stands beside it; a *warning* names it once, because Hugging Face's libraries follow it and the programs do not (with ` + "`-strict`" + `
that is an error); or it is *refused*: reading ends with an error that has its name and value. The readers follow the tables below, of which
this document is printed: ` + "`go test ./examples/weights -run TestDocument -update`" + ` writes it.

## Files of a folder

| name | verdict | meaning or reason |
|---|---|---|
`)
	for _, f := range hub.Files {
		b.WriteString("| `" + f.Pattern + "` | " + f.Kind.String() + " | " + f.Why + " |\n")
	}
	b.WriteString("| any other | warning | |\n\nTensors of the weights that are neither of the model nor of a vision tower or of heads for further tokens are refused, with the\nmethod that writes them.\n\n## config.json\n\nKeys that nobody knows may change every number, so they are refused.\n\n")
	writeTypes(&b, "all types of language models", model.ModelTypes())
	writeTypes(&b, "all types of encoders", model.EncoderTypes())
	outer := model.WrapperTable
	outer.Format = "config.json of a model that sees images"
	b.WriteString(outer.Markdown() + "\n## Quantised weights\n\nOther values of quant_method are refused.\n\n")
	for _, method := range quantization.Methods {
		t := quantization.Table(method)
		t.Format += ", " + method
		b.WriteString(t.Markdown() + "\n")
	}
	b.WriteString(quantization.Dynamic.Markdown() + "\n" + quantization.Group.Markdown() + "\n## Other files\n\nKeys of a message of a sample that are not on its table are read if the text of the chat template has their names, and so are tools and chat_template_kwargs.\n\n")
	for _, t := range []verdict.Table{
		hub.GenerationConfig, hub.TokenizerConfig, hub.PiecesConfig, hub.SpecialTokensMap, hub.ChatTemplate, hub.Processor, hub.Module, hub.Pooling, hub.Sentence, hub.SentenceTransformers, model.AdapterTable, tokenizer.Table, simulate.ChipTable, dataset.Keys, dataset.MessageKeys, dataset.TurnKeys,
	} {
		b.WriteString(t.Markdown() + "\n")
	}
	b.WriteString(`## Weights and rank tables

The header of a safetensors file has dtype, shape and data_offsets of each tensor, and __metadata__; an index has weight_map and metadata. They are
honoured, metadata without effect on a model, and any other key is refused. So it is with the keys of HCCL's rank tables of versions 1.0 and 1.2.

## Requests to serve

`)
	for _, t := range []verdict.Table{api.CompletionKeys, api.ChatKeys, api.EmbeddingKeys, api.RerankKeys, api.AdapterKeys} {
		b.WriteString(t.Markdown() + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// writeTypes writes the tables of some types: the keys that all have first, and then those that each has beside them.
func writeTypes(b *strings.Builder, all string, kinds []string) {
	shared := verdict.Table{Format: "config.json, " + all}
	for _, k := range model.ConfigTable(kinds[0]).Keys {
		if !slices.ContainsFunc(kinds, func(kind string) bool { return !has(model.ConfigTable(kind), k) }) {
			shared.Keys = append(shared.Keys, k)
		}
	}
	b.WriteString(shared.Markdown() + "\n")
	for _, kind := range kinds {
		own := verdict.Table{Format: "config.json, " + kind}
		for _, k := range model.ConfigTable(kind).Keys {
			if !has(shared, k) {
				own.Keys = append(own.Keys, k)
			}
		}
		b.WriteString(own.Markdown() + "\n")
	}
}

func has(t verdict.Table, k verdict.Key) bool {
	return slices.ContainsFunc(t.Keys, func(other verdict.Key) bool { return reflect.DeepEqual(k, other) })
}

// TestDocument: FORMATS.md is current; -update prints it from the tables.
func TestDocument(t *testing.T) {
	const path = "../FORMATS.md"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(formats()), 0o644))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, formats(), string(text), "write it anew with -update")
}

// TestStrict: what a warning names is an error with -strict.
func TestStrict(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "generation_config.json"), []byte(`{"temperature":0.6}`), 0o600))
	var report bytes.Buffer
	require.NoError(t, weights.Source{Folder: dir}.Inspect(&report))
	require.Contains(t, report.String(), "warning: "+filepath.Join(dir, "generation_config.json")+": temperature is 0.6")
	require.ErrorContains(t, weights.Source{Folder: dir, Strict: true}.Inspect(&report), "temperature is 0.6")
}
