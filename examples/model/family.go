package model

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
)

// family holds the properties in which the model types differ.
type family struct {
	// hybrid models mix gated delta nets and attention, gate the output of attention, rotate only a
	// part of each head, and store norm scales as their difference from one.
	hybrid bool
	// grouped delta nets have the rows of their projections ordered by key head.
	grouped bool
	// sparse models have experts in some feed-forward layers.
	sparse bool
	// plain attention has no norms of queries and keys.
	plain bool
	// normed is attention with those norms where use_qk_norm says so.
	normed bool
	// shared models have a shared expert in addition to the routed ones.
	shared bool
	// class is the name of the language model in transformers.
	class string
	// biases says which projections of attention have biases, and windows which layers have a sliding window.
	biases  biases
	windows windows
	// divided heads have hidden_size/num_attention_heads features where the configuration does not say.
	divided bool
	// absent has the values of keys that a configuration lacks, where they are not those of most families.
	absent Config
	// joined says which projections share a weight: those to queries, keys and values, and those to the gate and the unit that it multiplies.
	joined joined
	// interleaved rotations turn pairs of neighbouring features, in place of the halves of a head.
	interleaved bool
	// ropes are the types of rotation of a family that has not all of them.
	ropes []string
	// gemma has norm scales as their difference from one, scaled embeddings, a scale of attention from the configuration, and a rotation of its
	// own in layers with a window.
	gemma bool
	// norms are the names of the norms before and after attention, and before and after the feed-forward part; "" is none.
	norms [4]string
	// mixtral names the tensors of experts in its own way, and their size is intermediate_size; their weights are always normalised.
	mixtral bool
	// sinks says that the heads of attention have sinks.
	sinks bool
	// clipped experts limit the values of their gated unit, whose gate and up projection take turns, and have biases; their weights are stored
	// as [experts, in, out], and their size is intermediate_size.
	clipped bool
	// latent attention has keys and values of all heads from one latent of a token.
	latent bool
	// deepseek has experts from first_k_dense_replace on, a shared expert without a gate, and factors of weights.
	deepseek bool
	// sigmoid scores experts one by one, with a bias for the choice.
	sigmoid bool
	// encoder is set for models whose tokens see all others, see encoder.go; no other property is then.
	encoder *encoder
}

// joined says which projections share a weight.
type joined struct{ inputs, units bool }

// biases says which projections of attention have a bias.
type biases int

const (
	noBiases     biases = iota
	chosenBiases        // all four, with attention_bias
	inputBiases         // of queries, keys and values
	chosenInputs        // of queries, keys and values, with attention_bias
)

// windows says which layers have sliding-window attention.
type windows int

const (
	noWindows     windows = iota
	allWindows            // all, with a sliding_window
	switchedAll           // all, with use_sliding_window
	switchedLater         // those from max_window_layers on, with use_sliding_window
	allButNth             // all except each sliding_window_pattern-th
	switchedOther         // every other one of the first max_window_layers, with use_sliding_window
	everyOther            // every other one, from the first on
)

// byLayer reports whether layers differ, so that layer_types says which has a window.
func (w windows) byLayer() bool {
	return w == switchedLater || w == switchedOther || w == everyOther || w == allButNth
}

// always reports whether a sliding_window counts without use_sliding_window.
func (w windows) always() bool { return w == allWindows || w == everyOther || w == allButNth }

// before are the norms of most families.
var before = [4]string{"input_layernorm", "", "post_attention_layernorm", ""}

// normNames returns the names of a layer's norms.
func (c Config) normNames() [4]string {
	if n := c.family().norms; n[0] != "" {
		return n
	}
	return before
}

// qwen3 is also the family of a configuration without a type.
var qwen3 = family{class: "Qwen3ForCausalLM", biases: chosenBiases, windows: switchedLater, absent: Config{Window: 4096}}

var deepseekV3 = family{class: "DeepseekV3ForCausalLM", plain: true, sparse: true, shared: true, deepseek: true, sigmoid: true, latent: true, absent: Config{
	KVRank: 512, QRank: 1536, PlainHeadDim: 128, RotatedHeadDim: 64, ValueHeadDim: 128, Interleaved: true, SharedExperts: 1, FirstDense: 3,
	Groups: 8, TopGroups: 4, RoutedScale: 2.5, NormTopK: true,
}}

var families = map[string]family{
	"": qwen3,
	"gemma3_text": {
		class: "Gemma3ForCausalLM", gemma: true, biases: chosenBiases, windows: allButNth,
		norms:  [4]string{"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"},
		absent: Config{HeadDim: 256, Window: 4096, RopeTheta: 1e6, LocalTheta: 10000, Activation: "gelu_pytorch_tanh", AttentionScalar: 256, TieWordEmbeddings: true},
	},
	"glm4": {
		class: "Glm4ForCausalLM", plain: true, biases: chosenInputs, interleaved: true, joined: joined{units: true},
		norms:  [4]string{"input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm"},
		absent: Config{HeadDim: 128, RMSNormEps: 0.00000015625, PartialRotary: 0.5, AttentionBias: true},
	},
	"deepseek_v2": {class: "DeepseekV2ForCausalLM", plain: true, sparse: true, shared: true, deepseek: true, latent: true, absent: Config{
		KVRank: 512, QRank: 1536, PlainHeadDim: 128, RotatedHeadDim: 64, ValueHeadDim: 128, SharedExperts: 2, RoutedScale: 1,
	}},
	"bert":        {class: "BertModel", encoder: &bert},
	"roberta":     {class: "RobertaModel", encoder: &roberta},
	"xlm-roberta": {class: "XLMRobertaModel", encoder: &roberta},
	"deepseek_v3": deepseekV3,
	"kimi_k2":     deepseekV3, // with other sizes
	"glm4_moe": {
		class: "Glm4MoeForCausalLM", normed: true, divided: true, biases: chosenInputs, sparse: true, shared: true, deepseek: true, sigmoid: true,
		absent: Config{RMSNormEps: 1e-5, PartialRotary: 0.5, SharedExperts: 1, FirstDense: 1, Groups: 1, TopGroups: 1, RoutedScale: 1, NormTopK: true},
	},
	"gpt_oss": {class: "GptOssForCausalLM", plain: true, biases: chosenBiases, windows: everyOther, sparse: true, sinks: true, clipped: true, absent: Config{
		AttentionBias: true, Window: 128, RMSNormEps: 1e-5, RopeTheta: 150000, HeadDim: 64, RouterLossScale: 0.9,
		Rope: Rope{Type: "yarn", Factor: 32, Original: 4096, BetaFast: 32, BetaSlow: 1, Truncate: new(false)},
	}},
	"llama":            {class: "LlamaForCausalLM", plain: true, divided: true, biases: chosenBiases},
	"mistral":          {class: "MistralForCausalLM", plain: true, divided: true, windows: allWindows, absent: Config{Window: 4096}},
	"mixtral":          {class: "MixtralForCausalLM", plain: true, divided: true, windows: allWindows, sparse: true, mixtral: true, absent: Config{RMSNormEps: 1e-5, RopeTheta: 1e6}},
	"phi3":             {class: "Phi3ForCausalLM", plain: true, divided: true, windows: allWindows, joined: joined{true, true}, ropes: []string{"default", "longrope"}, absent: Config{RMSNormEps: 1e-5, PartialRotary: 1, Rope: Rope{Original: 4096}}},
	"qwen2":            {class: "Qwen2ForCausalLM", plain: true, divided: true, biases: inputBiases, windows: switchedLater, absent: Config{Window: 4096}},
	"qwen2_moe":        {class: "Qwen2MoeForCausalLM", plain: true, divided: true, biases: inputBiases, windows: switchedOther, sparse: true, shared: true, absent: Config{Window: 4096}},
	"qwen3":            qwen3,
	"qwen3_moe":        {class: "Qwen3MoeForCausalLM", biases: chosenBiases, windows: switchedAll, sparse: true, absent: Config{Window: 4096}},
	"qwen3_next":       {class: "Qwen3NextForCausalLM", hybrid: true, grouped: true, sparse: true, shared: true, absent: Config{PartialRotary: 0.25}},
	"qwen3_5_text":     {class: "Qwen3_5ForCausalLM", hybrid: true, absent: Config{PartialRotary: 0.25}},
	"qwen3_5_moe_text": {class: "Qwen3_5MoeForCausalLM", hybrid: true, sparse: true, shared: true, absent: Config{PartialRotary: 0.25}},
}

func (c Config) family() family { return families[c.ModelType] }

// ModelTypes lists the values of Config.ModelType of language models in alphabetical order; empty means qwen3.
func ModelTypes() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(families)), func(name string) bool { return name == "" || families[name].encoder != nil })
}

// EncoderTypes lists the values of Config.ModelType of encoders in alphabetical order.
func EncoderTypes() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(families)), func(name string) bool { return families[name].encoder == nil })
}

const (
	linearLayer  = "linear_attention"
	fullLayer    = "full_attention"
	slidingLayer = "sliding_attention"
)

// biased reports whether the projections of attention to queries, keys and values have a bias, and whether that to the output has one.
func (c Config) biased() (inputs, output bool) {
	switch c.family().biases {
	case chosenBiases:
		return c.AttentionBias, c.AttentionBias
	case inputBiases:
		return true, false
	case chosenInputs:
		return c.AttentionBias, false
	}
	return false, false
}

// window returns how many tokens a token sees in a layer of attention, itself included; 0 stands for all.
func (c Config) window(layer int) int64 {
	if c.family().windows.byLayer() && (c.LayerTypes == nil || c.LayerTypes[layer] != slidingLayer) {
		return 0
	}
	return int64(c.Window)
}

// Reach is the number of tokens, itself included, of which a token sees keys and values in any layer, or 0 if it sees all in some layer.
func (c Config) Reach() int {
	for i := range c.Layers {
		if c.linear(i) || c.window(i) == 0 {
			return 0
		}
	}
	if c.Predict { // its layer has no window
		return 0
	}
	return c.Window
}

// slidingLayers returns the types of the layers where the configuration gives none: the first layers up to a number, or those from it on,
// differ from the others; of allButNth it is the distance of layers without a window.
func (c Config) slidingLayers(boundary int) (types []string) {
	for i := range c.Layers {
		kind := fullLayer
		if w := c.family().windows; w == switchedLater && i >= boundary || w == switchedOther && i < boundary && i%2 == 0 || w == everyOther && i%2 == 0 || w == allButNth && (i+1)%boundary != 0 {
			kind = slidingLayer
		}
		types = append(types, kind)
	}
	return types
}

// validateWindows checks the fields for sliding windows.
func (c Config) validateWindows() error {
	switch w := c.family().windows; {
	case c.Window < 0:
		return fmt.Errorf("model: sliding_window is %d; it must be positive", c.Window)
	case c.Window > 0 && w == noWindows:
		return fmt.Errorf("model: sliding_window is %d; attention of %s sees all earlier tokens", c.Window, c.ModelType)
	case c.Window == 0 || !w.byLayer():
		return nil
	case len(c.LayerTypes) != c.Layers:
		return fmt.Errorf("model: layer_types has %d entries for %d layers", len(c.LayerTypes), c.Layers)
	}
	for i, t := range c.LayerTypes {
		if t != slidingLayer && t != fullLayer {
			return fmt.Errorf("model: layer_types[%d] is %.80q; use %q or %q", i, t, slidingLayer, fullLayer)
		}
	}
	return nil
}

// ExpertSize returns the feed-forward size of an expert.
func (c Config) ExpertSize() int {
	if f := c.family(); f.mixtral || f.clipped {
		return c.IntermediateSize
	}
	return c.MoEIntermediate
}

// HybridLayers returns the types of the given number of layers: every interval-th (4 if 0) is
// attention, the others are gated delta nets.
func HybridLayers(layers, interval int) []string {
	if interval <= 0 {
		interval = 4
	}
	types := make([]string, max(layers, 0))
	for i := range types {
		types[i] = linearLayer
		if (i+1)%interval == 0 {
			types[i] = fullLayer
		}
	}
	return types
}

// Recurrent reports whether some layer keeps a state of all tokens so far, as delta nets do.
func (c Config) Recurrent() bool {
	for layer := range c.Layers {
		if c.linear(layer) {
			return true
		}
	}
	return false
}

// linear reports whether a layer is a gated delta net. The one behind the last, which predicts a further token, is none.
func (c Config) linear(layer int) bool {
	return c.family().hybrid && layer < len(c.LayerTypes) && c.LayerTypes[layer] == linearLayer
}

// sparse reports whether a layer has experts.
func (c Config) sparse(layer int) bool {
	return c.family().sparse && c.Experts > 0 && layer >= c.FirstDense && !slices.Contains(c.DenseLayers, layer) && (layer+1)%max(c.SparseStep, 1) == 0
}

// dense reports whether some layer has a plain feed-forward part.
func (c Config) dense() bool {
	for layer := range c.Layers {
		if !c.sparse(layer) {
			return true
		}
	}
	return false
}

// balanceScale returns the weight of the load balancing loss.
func (c Config) balanceScale() float64 {
	if !c.family().sparse || !c.RouterLoss {
		return 0
	}
	return c.RouterLossScale
}

// validateSparse checks the fields for experts.
func (c Config) validateSparse() error {
	switch {
	case c.Experts <= 0 || c.ExpertsPerToken <= 0 || c.ExpertsPerToken > c.Experts:
		return fmt.Errorf("model: num_experts_per_tok %d of num_experts %d; both must be positive, the first at most the second", c.ExpertsPerToken, c.Experts)
	case c.ExpertSize() <= 0:
		return fmt.Errorf("model: the size of an expert is %d (moe_intermediate_size, of gpt_oss and mixtral intermediate_size); it must be positive", c.ExpertSize())
	case c.family().deepseek:
		return c.validateRouting()
	case c.family().shared && c.SharedIntermediate <= 0:
		return fmt.Errorf("model: shared_expert_intermediate_size is %d; it must be positive", c.SharedIntermediate)
	}
	return nil
}

// feedForwardParameters returns the number of weights of a layer's feed-forward part.
func (c Config) feedForwardParameters(layer int) int {
	if !c.sparse(layer) {
		return 3 * c.HiddenSize * c.IntermediateSize
	}
	n := c.Experts * (3*c.ExpertSize() + 1) * c.HiddenSize
	switch f := c.family(); {
	case f.deepseek:
		n += 3 * c.SharedExperts * c.MoEIntermediate * c.HiddenSize
	case f.shared:
		n += (3*c.SharedIntermediate + 1) * c.HiddenSize
	}
	if c.family().sigmoid {
		n += c.Experts
	}
	if c.family().clipped {
		n += c.Experts * (2*c.ExpertSize() + c.HiddenSize + 1)
	}
	return n
}

// ExpertParameters returns the number of weights of all experts that a router chooses from, in all layers.
func (c Config) ExpertParameters() (n int) {
	for layer := range c.Layers {
		if c.sparse(layer) {
			n += c.Experts * 3 * c.ExpertSize() * c.HiddenSize
		}
	}
	return n
}

// IdleParameters returns the number of those whose experts do not compute a token.
func (c Config) IdleParameters() int {
	if c.Experts == 0 {
		return 0
	}
	return c.ExpertParameters() / c.Experts * (c.Experts - c.ExpertsPerToken)
}

// partial reports whether the family may rotate a part of each head only.
func (f family) partial() bool { return f.absent.PartialRotary != 0 }

// normsHeads reports whether attention normalises queries and keys.
func (c Config) normsHeads() bool {
	f := c.family()
	return !f.plain && (!f.normed || c.QKNorm)
}

// attentionScale returns the factor of attention's scores.
func (c Config) attentionScale() float64 {
	if c.family().gemma && c.AttentionScalar != 0 {
		return 1 / math.Sqrt(c.AttentionScalar)
	}
	return 1 / math.Sqrt(float64(c.HeadDim))
}

// near describes the rotation in layers with a window, where it is another one.
func (c Config) near() Config {
	c.Rope, c.RopeTheta = Rope{}, cmp.Or(c.LocalTheta, c.family().absent.LocalTheta)
	return c
}

// rotaryDim returns the number of rotated features of a head.
func (c Config) rotaryDim() int {
	if c.family().latent {
		return c.RotatedHeadDim
	}
	if c.family().partial() {
		return int(float64(c.HeadDim) * c.PartialRotary)
	}
	return c.HeadDim
}

func (c Config) validateHybrid() error {
	if len(c.LayerTypes) != c.Layers {
		return fmt.Errorf("model: layer_types has %d entries for %d layers", len(c.LayerTypes), c.Layers)
	}
	for i, t := range c.LayerTypes {
		if t != linearLayer && t != fullLayer {
			return fmt.Errorf("model: layer_types[%d] is %.80q; use %q or %q", i, t, linearLayer, fullLayer)
		}
	}
	for _, f := range []struct {
		name  string
		value int
	}{
		{"linear_num_key_heads", c.LinearKeyHeads}, {"linear_num_value_heads", c.LinearValueHeads},
		{"linear_key_head_dim", c.LinearKeyDim}, {"linear_value_head_dim", c.LinearValueDim}, {"linear_conv_kernel_dim", c.LinearTaps},
	} {
		if f.value <= 0 {
			return fmt.Errorf("model: %s is %d; it must be positive", f.name, f.value)
		}
	}
	if c.LinearValueHeads%c.LinearKeyHeads != 0 {
		return fmt.Errorf("model: %d linear value heads are not a multiple of %d linear key heads", c.LinearValueHeads, c.LinearKeyHeads)
	}
	return nil
}

// mixerParameters returns the number of weights of a layer's attention or delta net.
func (c Config) mixerParameters(layer int) int {
	if c.linear(layer) {
		keys, values := c.LinearKeyHeads*c.LinearKeyDim, c.LinearValueHeads*c.LinearValueDim
		projected := c.HiddenSize * (2*keys + 3*values + 2*c.LinearValueHeads)
		return projected + (2*keys+values)*c.LinearTaps + 2*c.LinearValueHeads + c.LinearValueDim
	}
	if c.family().latent {
		return c.latentParameters()
	}
	projections := 2*c.Heads + 2*c.KVHeads
	if c.family().hybrid {
		projections += c.Heads // the gate of the output
	}
	n := c.HiddenSize * c.HeadDim * projections
	if c.normsHeads() {
		n += 2 * c.HeadDim
	}
	inputs, output := c.biased()
	if inputs {
		n += (c.Heads + 2*c.KVHeads) * c.HeadDim
	}
	if output {
		n += c.HiddenSize
	}
	if c.family().sinks {
		n += c.Heads
	}
	return n
}
