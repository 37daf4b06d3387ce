package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
	"github.com/goascend/cann/examples/budget"
	"github.com/goascend/cann/examples/durable"
)

// quantizedFiles are files of a folder that describe its codes.
var quantizedFiles = []string{"model.safetensors.index.json", "quantize_config.json", "quant_config.json", "recipe.yaml"}

// plain writes a quantised folder as if it had never been quantised, and with Config.NewScore a language model's folder as the folder of a
// classifier. Weights that were quantised, or are new, are written in dt.
func (e *exporter) plain(ctx context.Context, folder, like string, c Config, dt aclnn.DType) (err error) {
	entries, err := os.ReadDir(like)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		from, to := filepath.Join(like, name), filepath.Join(folder, name)
		switch {
		case entry.IsDir() || strings.HasPrefix(name, ".") || filepath.Ext(name) == ".safetensors" || otherWeights(name) || slices.Contains(quantizedFiles, name):
		case name == "config.json":
			err = c.plainFile(from, to)
		default:
			err = copyFile(from, to)
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
	}
	f, err := safetensors.Open(like)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	view, err := c.Quantization.View(f)
	if err != nil {
		return err
	}
	var infos []safetensors.Info
	for _, name := range view.Names() {
		if c.NewScore && name == "lm_head.weight" {
			continue
		}
		t, err := view.Tensor(name)
		if err != nil {
			return err
		}
		if own, err := f.Tensor(name); err != nil || own.DType != t.DType {
			t.DType = dt
		}
		infos = append(infos, t.Info)
	}
	if c.NewScore {
		infos = append(infos, safetensors.Info{Name: "score.weight", Shape: []int{1, c.HiddenSize}, DType: dt})
	}
	w, err := createFolder(folder, infos)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	missing := maps.Clone(e.shapes)
	if err := e.tensors(w, infos, view, missing); err != nil {
		return err
	}
	if err := complete(like, missing); err != nil {
		return err
	}
	return w.Commit()
}

// plainFile copies a config.json without its quantization_config, and with NewScore lets it describe a classifier with one label.
func (c Config) plainFile(from, to string) error {
	text, err := budget.ReadFile(from, MostConfig)
	if err != nil {
		return err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	delete(all, "quantization_config")
	if c.NewScore {
		for name, value := range map[string]any{"architectures": []string{c.class()}, "id2label": oneLabel, "label2id": map[string]int{oneLabel["0"]: 0}} {
			if all[name], err = json.Marshal(value); err != nil {
				return err
			}
		}
	}
	if inner, ok := all["text_config"]; ok {
		var text map[string]json.RawMessage
		if err := json.Unmarshal(inner, &text); err != nil {
			return err
		}
		delete(text, "quantization_config")
		if all["text_config"], err = json.Marshal(text); err != nil {
			return err
		}
	}
	if text, err = json.MarshalIndent(all, "", "  "); err != nil {
		return err
	}
	return durable.Write(to, bytes.NewReader(text))
}
