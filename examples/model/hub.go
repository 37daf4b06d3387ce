package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goascend/cann/aclnn/safetensors"
)

// hubTensor finds a tensor by the name that it has in a model of text, and checks its shape. Models
// that see images keep the text part one level deeper.
func hubTensor(f *safetensors.File, name string, shape []int64) (safetensors.Tensor, error) {
	t, err := f.Tensor(name)
	if rest, ok := strings.CutPrefix(name, "model."); ok && errors.Is(err, safetensors.ErrNotFound) {
		if nested, inner := f.Tensor(nestedPrefix + rest); !errors.Is(inner, safetensors.ErrNotFound) {
			t, err = nested, inner
		}
	}
	if err == nil && fmt.Sprint(t.Shape) != fmt.Sprint(shape) {
		err = fmt.Errorf("model: %s has shape %v in the checkpoint, the model needs %v", name, t.Shape, shape)
	}
	return t, err
}

const nestedPrefix = "model.language_model."

// Unread lists the tensors of a hub folder that Load leaves out, such as the weights of a vision
// tower and of prediction heads for further tokens: one line for each part of the model, with the number of its tensors.
func (m *Model) Unread(ctx context.Context, path string) (parts []string, err error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	read := map[string]bool{}
	for _, p := range m.params.all {
		read[p.Name] = true
	}
	counts := map[string]int{}
	for _, name := range f.Names() {
		inner := name
		if rest, ok := strings.CutPrefix(name, nestedPrefix); ok {
			inner = "model." + rest
		}
		if !read[inner] && !read[stacked(inner)] && !(m.Config.TieWordEmbeddings && name == "lm_head.weight") {
			counts[part(name)]++
		}
	}
	for name, n := range counts {
		parts = append(parts, fmt.Sprintf("%s: %d tensors", name, n))
	}
	slices.Sort(parts)
	return parts, ctx.Err()
}

// stacked names the tensor of all experts that the tensor of one expert belongs to.
func stacked(name string) string {
	layer, rest, ok := strings.Cut(name, ".experts.")
	if !ok {
		return name
	}
	if strings.HasSuffix(rest, ".down_proj.weight") {
		return layer + ".experts.down_proj"
	}
	return layer + ".experts.gate_up_proj"
}

// part is the first two names on the path of a tensor.
func part(name string) string {
	names := strings.SplitN(name, ".", 3)
	return strings.Join(names[:min(2, len(names))], ".")
}
