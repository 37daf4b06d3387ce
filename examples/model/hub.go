package model

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/safetensors"
)

// hubTensor finds a tensor by the name that it has in a model of text, and checks its shape and element type.
func (f family) hubTensor(file *safetensors.File, name string, shape []int64) (safetensors.Tensor, error) {
	t, err := file.Tensor(name)
	for _, other := range f.otherNames(name) {
		if !errors.Is(err, safetensors.ErrNotFound) {
			break
		}
		if found, inner := file.Tensor(other); !errors.Is(inner, safetensors.ErrNotFound) {
			t, err = found, inner
		}
	}
	switch {
	case err != nil:
		return t, err
	case fmt.Sprint(t.Shape) != fmt.Sprint(shape):
		return t, fmt.Errorf("model: %s has shape %v in the checkpoint, the model needs %v", name, t.Shape, shape)
	case !slices.Contains([]aclnn.DType{aclnn.Float32, aclnn.BFloat16, aclnn.Float16, aclnn.Float64}, t.DType):
		return t, fmt.Errorf("model: %s has elements of %v, and config.json has no quantization_config that says what they stand for", name, t.DType)
	}
	return t, nil
}

// otherNames are the names that a tensor of a model of text may have in place of its own. Models that see images keep the text part one level deeper, and
// models without a head one level higher; an encoder with a head keeps its own part under the name of its type.
func (f family) otherNames(name string) (names []string) {
	if f.encoder != nil {
		return []string{f.encoder.prefix + name}
	}
	if other := mixtralNames.Replace(name); f.mixtral && other != name {
		names = append(names, other)
	}
	if rest, ok := strings.CutPrefix(name, "model."); ok {
		names = append(names, nestedPrefix+rest, rest)
	}
	return names
}

const nestedPrefix = "model.language_model."

// mixtralNames gives the tensors of a layer of experts the names that they have in folders of Mixtral, and canonical takes them back.
var (
	mixtralNames = strings.NewReplacer(".mlp.", ".block_sparse_moe.", ".gate_proj.", ".w1.", ".up_proj.", ".w3.", ".down_proj.", ".w2.")
	mixtralPart  = ".block_sparse_moe."
	plainNames   = strings.NewReplacer(mixtralPart, ".mlp.", ".w1.", ".gate_proj.", ".w3.", ".up_proj.", ".w2.", ".down_proj.")
)

// canonical is the name that a tensor of a hub folder has in a model of text: otherNames has the way back.
func (f family) canonical(name string) string {
	if f.encoder != nil {
		return strings.TrimPrefix(name, f.encoder.prefix)
	}
	if f.mixtral && strings.Contains(name, mixtralPart) {
		name = plainNames.Replace(name)
	}
	if rest, ok := strings.CutPrefix(name, nestedPrefix); ok {
		return "model." + rest
	}
	for _, bare := range []string{"layers.", "embed_tokens.", "norm."} {
		if strings.HasPrefix(name, bare) {
			return "model." + name
		}
	}
	return name
}

// other is a kind of tensor that is no weight of the language model.
type other struct {
	pattern *regexp.Regexp
	left    bool
	what    string
}

// others are tensors that are not weights of the language model; the first pattern that matches counts. Parts that are
// left out change no result. Partners of quantised weights are refused if config.json does not describe them, since the weights mean
// nothing without them.
var others = []other{
	{regexp.MustCompile(`^(model\.)?visual\.`), true, "the vision tower"},
	{regexp.MustCompile(`^(model\.)?mtp\.`), true, "heads that predict further tokens"},
	{regexp.MustCompile(`\.rotary_emb\.inv_freq$`), true, "frequencies, which config.json gives"},
	{regexp.MustCompile(`\.[kv]_scale$`), true, "scales of an 8-bit key-value cache"},
	{regexp.MustCompile(`\.weight_scale_inv$`), false, "scales of FP8 weights in blocks"},
	{regexp.MustCompile(`\.weight_scale_2$`), false, "scales of NVFP4 weights"},
	{regexp.MustCompile(`\.(weight_packed|weight_shape|weight_g_idx|weight_zero_point|input_zero_point|input_global_scale|weight_global_scale)$`), false, "quantised weights of compressed-tensors"},
	{regexp.MustCompile(`\.(weight_scale|input_scale|activation_scale)$`), false, "scales of FP8 or int8 weights"},
	{regexp.MustCompile(`\.(qweight|qzeros|scales|g_idx)$`), false, "quantised weights of GPTQ or AWQ"},
	{regexp.MustCompile(`(_blocks|_scales)$`), false, "MXFP4 weights"},
	{regexp.MustCompile(`\.(absmax|quant_map|nested_absmax|nested_quant_map|SCB|weight_format)$|\.quant_state\.`), false, "quantised weights of bitsandbytes"},
	{regexp.MustCompile(`\.(codes|codebooks|Qidxs|SU|SV)$`), false, "quantised weights of AQLM or QuIP#"},
	{regexp.MustCompile(`\.lora_|^optimizer\.`), false, "an adapter or a checkpoint, not a model"},
	{regexp.MustCompile(`\.bias$`), false, aBias},
	{regexp.MustCompile(`^(score|classifier|v_head|value_head)\.`), false, "another head than that of a language model"},
	{regexp.MustCompile(``), false, "no weight of this model"},
}

// encoderOthers are further such tensors, of encoders, and all are left out. Their patterns are for names without the prefix of the type.
var encoderOthers = []other{
	{regexp.MustCompile(`^pooler\.dense\.`), true, "a pooler, which no embedding comes from"},
	{regexp.MustCompile(`^embeddings\.position_ids$`), true, "the numbers of the positions"},
}

// aBias names a tensor that GPTQ's programs write beside every weight. Loading leaves it out if it is zero.
const aBias = "a bias, which this family does not have"

// isZero reports whether all elements of a tensor are zero.
func isZero(f *safetensors.File, name string) (bool, error) {
	t, err := f.Tensor(name)
	if err != nil {
		return false, err
	}
	values, err := safetensors.Values[float32](t)
	return !slices.ContainsFunc(values, func(v float32) bool { return v != 0 }), err
}

// places finds what becomes of each tensor of a hub folder: a line for each part that is left out, with the number of its
// tensors. A tensor without a place is an error.
func (m *Model) places(f *safetensors.File) (parts []string, err error) {
	counts, lost := map[string]int{}, map[string][]string{}
	own := m.Config.family()
	found := map[string]string{} // names of the file by those of the model
	for _, name := range f.Names() {
		place := own.canonical(name)
		if m.placed(place) {
			if first, twice := found[place]; twice {
				return nil, fmt.Errorf("model: %.200s and %.200s are one weight under two names; keep one", first, name)
			}
			found[place] = name
			continue
		}
		if m.predicts(name) {
			counts["layers that predict further tokens"]++
			continue
		}
		if m.Config.Encoder() && slices.ContainsFunc(encoderOthers, func(o other) bool { return o.pattern.MatchString(place) }) {
			counts[part(name)]++
			continue
		}
		for _, o := range others {
			if !o.pattern.MatchString(name) && (m.Config.Encoder() || !o.pattern.MatchString(place)) {
				continue
			}
			left := o.left
			if o.what == aBias {
				if left, err = isZero(f, name); err != nil {
					return nil, err
				}
			}
			if left {
				counts[part(name)]++
			} else {
				lost[o.what] = append(lost[o.what], name)
			}
			break
		}
	}
	for _, name := range f.Names() {
		place := own.canonical(name)
		if whole := found[stacked(place)]; oneExpertWeight.MatchString(place) && whole != "" && err == nil {
			err = fmt.Errorf("model: %.200s is a part of %.200s, which is there too; keep one of both forms", name, whole)
		}
	}
	for what, names := range lost {
		err = errors.Join(err, fmt.Errorf("model: %d tensors have no place in a model of type %s: %.200s is %s", len(names), m.Config.ModelType, names[0], what))
	}
	for name, n := range counts {
		parts = append(parts, fmt.Sprintf("%s: %d tensors", name, n))
	}
	slices.Sort(parts)
	return parts, err
}

// predicts reports whether a tensor is of the layers behind the last one that predict further tokens, as folders of DeepSeek V3 have one.
func (m *Model) predicts(name string) bool {
	at := layerNumber.FindStringSubmatch(name)
	if at == nil || !m.Config.family().deepseek {
		return false
	}
	n, err := strconv.Atoi(at[1])
	return err == nil && n >= m.Config.Layers && n < m.Config.Layers+m.Config.NextLayers
}

var (
	oneExpertWeight = regexp.MustCompile(`^(.*\.experts\.)(\d+)\.(gate|up|down)_proj\.weight$`)
	layerNumber     = regexp.MustCompile(`^model\.layers\.(\d+)\.`)
)

// placed reports whether a tensor is a weight, or one expert of it, of the whole model. A stage of a pipeline has only
// some layers: for others it compares the name with those of its own.
func (m *Model) placed(name string) bool {
	if m.Config.Encoder() {
		return slices.ContainsFunc(m.params.all, func(p *Parameter) bool { return p.Name == name })
	}
	if name == "lm_head.weight" && (!m.Config.Score || m.Config.NewScore) || name == "model.embed_tokens.weight" || name == "model.norm.weight" {
		return true // with a tied head the embedding counts
	}
	if one := oneExpertWeight.FindStringSubmatch(name); one != nil {
		if n, err := strconv.Atoi(one[2]); err != nil || n >= m.Config.Experts {
			return false
		}
		name = stacked(name)
	}
	own := func(name string) bool {
		return slices.ContainsFunc(m.params.all, func(p *Parameter) bool { return p.Name == name })
	}
	if _, stages := m.par.stage(); stages == 1 || own(name) {
		return own(name)
	}
	at := layerNumber.FindStringSubmatchIndex(name)
	if at == nil {
		return false
	}
	if n, err := strconv.Atoi(name[at[2]:at[3]]); err != nil || n >= m.Config.Layers {
		return false
	}
	return slices.ContainsFunc(m.params.all, func(p *Parameter) bool {
		other := layerNumber.FindStringIndex(p.Name)
		return other != nil && p.Name[other[1]:] == name[at[1]:]
	}) || m.Config.family().hybrid || m.Config.family().sparse // whose layers differ
}

// Unread lists the parts of a hub folder that Load leaves out, such as the weights of a vision tower and of prediction
// heads for further tokens: one line for each part of the model, with the number of its tensors. A tensor that is neither
// of the model nor of such a part is an error, as it is for Load.
func (m *Model) Unread(ctx context.Context, path string) (parts []string, err error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	view, err := m.Config.Quantization.View(f)
	if err != nil {
		return nil, err
	}
	if parts, err = m.places(view); err != nil {
		return nil, err
	}
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
