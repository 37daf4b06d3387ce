package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/budget"
	"github.com/goascend/cann/examples/quantization"
)

// Config describes a model, with the field names of Hugging Face's config.json.
type Config struct {
	ModelType         string  `json:"model_type"`
	VocabSize         int     `json:"vocab_size"`
	HiddenSize        int     `json:"hidden_size"`
	IntermediateSize  int     `json:"intermediate_size"`
	Layers            int     `json:"num_hidden_layers"`
	Heads             int     `json:"num_attention_heads"`
	KVHeads           int     `json:"num_key_value_heads"`
	HeadDim           int     `json:"head_dim"`
	RMSNormEps        float64 `json:"rms_norm_eps"` // of encoders layer_norm_eps
	TieWordEmbeddings bool    `json:"tie_word_embeddings"`
	RopeTheta         float64 `json:"rope_theta"`
	InitializerRange  float64 `json:"initializer_range"`
	// MaxPositions is the length of the longest sequence that the model is made for, or 0 if nothing is known.
	MaxPositions int  `json:"max_position_embeddings,omitempty"`
	Rope         Rope `json:"rope_parameters,omitzero"`
	// Activation is that of the gates of feed-forward parts: silu, which "" stands for, gelu, or gelu_pytorch_tanh. Experts have silu.
	Activation string `json:"hidden_act,omitempty"`
	QKNorm     bool   `json:"use_qk_norm,omitempty"` // of glm4_moe: whether attention normalises queries and keys
	// AttentionScalar is the number of which the root divides the scores of attention, and LocalTheta the base of the rotation in layers with a
	// window, of gemma3_text; 0 stands for HeadDim and for 10000.
	AttentionScalar float64 `json:"query_pre_attn_scalar,omitempty"`
	LocalTheta      float64 `json:"rope_local_base_freq,omitempty"`
	// AttentionBias says whether the projections of attention have biases, in families that have a choice.
	AttentionBias bool `json:"attention_bias,omitempty"`
	// Window is how many tokens a token sees in layers with a sliding window, itself included; 0 is no window. In families whose layers
	// differ, LayerTypes says which have one.
	Window int `json:"sliding_window,omitempty"`

	// Fields of models with experts.
	Experts         int `json:"num_experts,omitempty"`
	ExpertsPerToken int `json:"num_experts_per_tok,omitempty"`
	MoEIntermediate int `json:"moe_intermediate_size,omitempty"` // per expert
	// SharedIntermediate is the size of the shared expert, which every token passes, in families
	// that have one.
	SharedIntermediate int     `json:"shared_expert_intermediate_size,omitempty"`
	NormTopK           bool    `json:"norm_topk_prob,omitempty"`
	SparseStep         int     `json:"decoder_sparse_step,omitempty"`  // distance of layers with experts
	DenseLayers        []int   `json:"mlp_only_layers,omitempty"`      // layers without experts
	RouterLoss         bool    `json:"output_router_logits,omitempty"` // add the load balancing loss
	RouterLossScale    float64 `json:"router_aux_loss_coef,omitempty"`
	// GroupedNZ lets the products of the experts read FRACTAL_NZ copies of their weights. CANN has
	// grouped products for 16-bit dtypes and sizes that are multiples of 16; in float32 there is
	// one product per expert, for which the host waits for the number of tokens of each.
	GroupedNZ bool `json:"-"`
	// Frozen weights are read but not trained: they have neither gradients nor float32 copies, and
	// adapters train in their place.
	Frozen bool `json:"-"`
	// Predict reads the first of the layers that predict further tokens, for Model.Predict; else these are left out. It needs Frozen.
	Predict bool `json:"-"`
	// Quantization is the form of the weights in the folder, nil for plain ones. Load dequantises them.
	Quantization *quantization.Config `json:"-"`
	// Score is set for a classifier with one label, as reward models and rerankers are: its head gives a token one number, in decoders without a bias. ParseConfig
	// sets it for classes that end with ForSequenceClassification.
	Score bool `json:"-"`
	// RawScores makes a reranker return the number that its head computes as the score, in place of the sigmoid of that number.
	RawScores bool `json:"-"`
	// TokenTypes is the number of types of tokens of an encoder, type_vocab_size. PadToken is its pad_token_id where positions count from there; MaxPositions
	// is then less by it and one.
	TokenTypes int `json:"-"`
	PadToken   int `json:"-"`
	// NewScore lets Load leave out the head of a language model, and the head of a classifier to InitScore.
	NewScore bool `json:"-"`
	// KeepCodes keeps the codes of the linear layers and experts of such a folder on the device, where Load would dequantise them: products read codes of int4 and
	// int8 with inputs in the model's dtype, to which scales are rounded, and int8 of linear layers with dynamic int8 inputs where the folder says so. It needs Frozen and 16 bits. Weights whose
	// codes no product reads are dequantised, see Model.Kept. Gradients do not pass such products.
	KeepCodes bool `json:"-"`
	// Int8Cache makes caches and pages keep keys and values as codes of int8 with a scale for each token and head, in about half of the memory. Attention of
	// one new token reads the codes; that of several multiplies them by their scales first, as CANN has no kernel for these in blocks.
	// It needs 16 bits, and is not for latent attention.
	Int8Cache bool `json:"-"`

	// Fields of experts as DeepSeek has them: the number of shared experts, of first layers without experts, of groups of experts and of
	// those that a token chooses among, and a factor of the weights.
	SharedExperts int     `json:"n_shared_experts,omitempty"`
	FirstDense    int     `json:"first_k_dense_replace,omitempty"`
	Groups        int     `json:"n_group,omitempty"`
	TopGroups     int     `json:"topk_group,omitempty"`
	RoutedScale   float64 `json:"routed_scaling_factor,omitempty"`
	// NextLayers is the number of layers behind the last one that predict further tokens.
	NextLayers int    `json:"num_nextn_predict_layers,omitempty"`
	TopKMethod string `json:"topk_method,omitempty"` // of deepseek_v2: greedy, which "" stands for, or group_limited_greedy

	// Fields of latent attention: features of the latents of queries (0 for none) and of keys and values; of a head's queries and keys, those that
	// are rotated, and those of its values; and whether the features of a rotated pair are neighbours.
	QRank          int  `json:"q_lora_rank,omitempty"`
	KVRank         int  `json:"kv_lora_rank,omitempty"`
	PlainHeadDim   int  `json:"qk_nope_head_dim,omitempty"`
	RotatedHeadDim int  `json:"qk_rope_head_dim,omitempty"`
	ValueHeadDim   int  `json:"v_head_dim,omitempty"`
	Interleaved    bool `json:"rope_interleave,omitempty"`

	// Fields of models that mix gated delta nets and attention.
	PartialRotary    float64  `json:"partial_rotary_factor,omitempty"` // rotated fraction of a head
	LayerTypes       []string `json:"layer_types,omitempty"`           // linear_attention, sliding_attention or full_attention
	LinearKeyHeads   int      `json:"linear_num_key_heads,omitempty"`
	LinearValueHeads int      `json:"linear_num_value_heads,omitempty"`
	LinearKeyDim     int      `json:"linear_key_head_dim,omitempty"`
	LinearValueDim   int      `json:"linear_value_head_dim,omitempty"`
	LinearTaps       int      `json:"linear_conv_kernel_dim,omitempty"`
}

// ParseConfig reads a config.json of one of ModelTypes or EncoderTypes, or of a model that sees images, of which the text part is taken.
// ConfigTable and WrapperTable say what becomes of each key.
func ParseConfig(text []byte) (Config, error) {
	c, err := parseConfig(text)
	if err != nil {
		return c, fmt.Errorf("model: %w", err)
	}
	return c, c.Validate()
}

func parseConfig(text []byte) (Config, error) {
	var c Config
	var head struct {
		Type string `json:"model_type"`
	}
	text, err := textConfig(text)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return c, fmt.Errorf("config.json: %w", err)
	}
	if _, known := families[head.Type]; !known {
		return c, unknownType(head.Type)
	}
	f := families[head.Type]
	if f.encoder != nil {
		return parseEncoder(head.Type, text)
	}
	c = Config{InitializerRange: 0.02, RMSNormEps: cmp.Or(f.absent.RMSNormEps, 1e-6), RouterLossScale: cmp.Or(f.absent.RouterLossScale, 0.001), NormTopK: f.mixtral || f.clipped || f.absent.NormTopK, AttentionBias: f.absent.AttentionBias, TieWordEmbeddings: f.absent.TieWordEmbeddings, AttentionScalar: f.absent.AttentionScalar}
	if f.deepseek {
		a := f.absent
		c.SharedExperts, c.FirstDense, c.Groups, c.TopGroups, c.RoutedScale = a.SharedExperts, a.FirstDense, a.Groups, a.TopGroups, a.RoutedScale
		c.QRank, c.KVRank, c.PlainHeadDim, c.RotatedHeadDim, c.ValueHeadDim, c.Interleaved = a.QRank, a.KVRank, a.PlainHeadDim, a.RotatedHeadDim, a.ValueHeadDim, a.Interleaved
	}
	var more struct {
		Window     json.RawMessage `json:"sliding_window"`
		Windowed   bool            `json:"use_sliding_window"`
		Boundary   *int            `json:"max_window_layers"`
		Pattern    int             `json:"sliding_window_pattern"`
		Activation string          `json:"hidden_activation"`
		Parameters json.RawMessage `json:"rope_parameters"`
		Scaling    json.RawMessage `json:"rope_scaling"`
		Original   int             `json:"original_max_position_embeddings"`
		Experts    *int            `json:"num_local_experts"` // name in newer versions
		Interval   int             `json:"full_attention_interval"`
		NormTopK   *bool           `json:"norm_topk_prob"`
		Routed     int             `json:"n_routed_experts"`
		QRank      json.RawMessage `json:"q_lora_rank"`
		Shared     json.RawMessage `json:"n_shared_experts"`
		Groups     json.RawMessage `json:"n_group"`

		labels
	}
	if _, err := ConfigTable(head.Type).Decode(text, &c, &more); err != nil {
		return c, err
	}
	if err := c.parseLabels(more.labels); err != nil {
		return c, err
	}
	if more.Experts != nil {
		if c.Experts != 0 && c.Experts != *more.Experts {
			return c, fmt.Errorf("config.json: num_experts is %d, and num_local_experts %d; keep one", c.Experts, *more.Experts)
		}
		c.Experts = *more.Experts
	}
	if f.deepseek {
		c.Experts = more.Routed
		if string(more.Shared) == "null" {
			c.SharedExperts = 0
		}
		if string(more.Groups) == "null" {
			c.Groups, c.TopGroups = 0, 0
		}
	}
	if f.latent {
		c.KVHeads, c.HeadDim = c.Heads, c.RotatedHeadDim
		if string(more.QRank) == "null" {
			c.QRank = 0
		}
	}
	if f.divided && c.Heads > 0 {
		c.HeadDim = cmp.Or(c.HeadDim, c.HiddenSize/c.Heads)
	}
	c.HeadDim = cmp.Or(c.HeadDim, f.absent.HeadDim)
	if c.ModelType == "llama" || c.ModelType == "phi3" { // their classes have this default
		c.KVHeads = cmp.Or(c.KVHeads, c.Heads)
	}
	if !given(more.Parameters) && !given(more.Scaling) && f.absent.Rope.Type != "" {
		c.Rope = f.absent.Rope
	}
	if f.ropes != nil {
		more.Original = cmp.Or(more.Original, f.absent.Rope.Original)
	}
	if err := c.parseRope(more.Parameters, more.Scaling, more.Original); err != nil {
		return c, fmt.Errorf("config.json: %w", err)
	}
	c.RopeTheta, c.LocalTheta = cmp.Or(c.RopeTheta, f.absent.RopeTheta, 10000), cmp.Or(c.LocalTheta, f.absent.LocalTheta)
	c.Activation = cmp.Or(c.Activation, more.Activation, f.absent.Activation)
	if c.Activation == "silu" {
		c.Activation = ""
	}
	if c.family().hybrid { // their classes have other defaults
		c.NormTopK = more.NormTopK == nil || *more.NormTopK
		if c.LayerTypes == nil && c.Layers <= maxLayers {
			c.LayerTypes = HybridLayers(c.Layers, more.Interval)
		}
		return c, nil
	}
	if len(more.Window) == 0 {
		c.Window = f.absent.Window
	}
	switch on := f.windows.always() || more.Windowed; {
	case !on:
		c.Window = 0
	case given(more.Window) && c.Window < 1:
		return c, fmt.Errorf("config.json: sliding_window is %d; it must be positive, or null for no window", c.Window)
	}
	boundary := 28 // of their classes
	switch {
	case f.windows == allButNth:
		boundary = max(cmp.Or(more.Pattern, 6), 1)
	case more.Boundary != nil:
		boundary = *more.Boundary
	}
	if err := c.parseWindows(boundary); err != nil {
		return c, err
	}
	return c, nil
}

// labels are the keys that say how weights are stored and which head a model has.
type labels struct {
	Quantization json.RawMessage `json:"quantization_config"`
	Classes      []string        `json:"architectures"`
	Names        json.RawMessage `json:"id2label"`
	Labels       *int            `json:"num_labels"`
}

// parseLabels reads them.
func (c *Config) parseLabels(l labels) (err error) {
	if given(l.Quantization) {
		if c.Quantization, err = quantization.Parse(l.Quantization); err != nil {
			return err
		}
	}
	if len(l.Classes) != 1 || !strings.HasSuffix(l.Classes[0], classifier) {
		return nil
	}
	n := 2 // of their classes
	if given(l.Names) {
		var names map[string]string
		if err := json.Unmarshal(l.Names, &names); err != nil {
			return fmt.Errorf("config.json: id2label: %w", err)
		}
		n = len(names)
	} else if l.Labels != nil {
		n = *l.Labels
	}
	if c.Score = true; n != 1 {
		return fmt.Errorf("config.json: architectures is %q with %d labels (id2label, num_labels; 2 if there are none); only heads with one are read, whose value is a score", l.Classes, n)
	}
	return nil
}

// classifier ends the names of the classes of transformers whose head has a score for each label.
const classifier = "ForSequenceClassification"

// parseWindows completes the types of the layers, where boundary is max_window_layers. Those of a model without windows are of no use.
func (c *Config) parseWindows(boundary int) error {
	windows := c.family().windows
	kinds := []string{fullLayer}
	if windows.byLayer() && c.Window > 0 {
		kinds = append(kinds, slidingLayer)
	}
	if n := len(c.LayerTypes); n != 0 && (n != c.Layers || slices.ContainsFunc(c.LayerTypes, func(t string) bool { return !slices.Contains(kinds, t) })) {
		return fmt.Errorf("config.json: layer_types has %d entries for %d layers, which are %s in this configuration", n, c.Layers, strings.Join(kinds, " or "))
	}
	switch {
	case !windows.byLayer() || c.Window == 0:
		c.LayerTypes = nil
	case c.LayerTypes == nil && c.Layers <= maxLayers:
		c.LayerTypes = c.slidingLayers(boundary)
	}
	return nil
}

func unknownType(name string) error {
	return fmt.Errorf("model_type %.80q is not supported; use one of %v, or of the encoders %v", name, ModelTypes(), EncoderTypes())
}

// textConfig takes the part "text_config" out of the configuration of a model that sees images, with what the
// text part inherits.
func textConfig(text []byte) ([]byte, error) {
	var outer struct {
		Type string                     `json:"model_type"`
		Tied *bool                      `json:"tie_word_embeddings"`
		Text map[string]json.RawMessage `json:"text_config"`

		Quantization json.RawMessage `json:"quantization_config"`
	}
	if err := json.Unmarshal(text, &outer); err != nil {
		_, known := WrapperTable.Decode(text) // names a pointer of Git LFS, or a page of HTML
		return nil, cmp.Or(known, fmt.Errorf("config.json: %w", err))
	}
	if outer.Text == nil {
		return text, nil
	}
	if _, err := WrapperTable.Decode(text); err != nil {
		return nil, err
	}
	inherit := func(name string, value any) error {
		if _, ok := outer.Text[name]; ok {
			return nil
		}
		v, err := json.Marshal(value)
		outer.Text[name] = v
		return err
	}
	if err := inherit("model_type", outer.Type+"_text"); err != nil {
		return nil, err
	}
	if outer.Quantization != nil {
		if err := inherit("quantization_config", outer.Quantization); err != nil {
			return nil, err
		}
	}
	if outer.Tied != nil {
		if err := inherit("tie_word_embeddings", *outer.Tied); err != nil {
			return nil, err
		}
	}
	return json.Marshal(outer.Text)
}

// MostConfig is the size in bytes up to which a config.json is read. The largest have a few hundred kilobytes.
const MostConfig = 4 << 20

// ReadConfig reads a config.json file, see ParseConfig.
func ReadConfig(path string) (Config, error) {
	text, err := budget.ReadFile(path, MostConfig)
	if err != nil {
		return Config{}, err
	}
	return ParseConfig(text)
}

// maxLayers is far above what models have. A damaged configuration would otherwise be noticed only when
// the descriptions of its layers have filled the memory.
const maxLayers = 4096

// Validate returns what is wrong with a configuration, or nil.
func (c Config) Validate() error {
	if _, known := families[c.ModelType]; !known {
		return fmt.Errorf("model: %w", unknownType(c.ModelType))
	}
	if c.Int8Cache && !c.Generates() {
		return fmt.Errorf("model: Int8Cache with %s, which continues no texts and has no cache of keys and values: leave it out: %w", c.kind(), acl.ErrInvalidArgument)
	}
	if c.Encoder() {
		return c.validateEncoder()
	}
	for _, f := range []struct {
		name  string
		value int
	}{
		{"vocab_size", c.VocabSize}, {"hidden_size", c.HiddenSize}, {"num_hidden_layers", c.Layers}, {"num_attention_heads", c.Heads}, {"num_key_value_heads", c.KVHeads},
		{"head_dim", c.HeadDim},
	} {
		if f.value <= 0 {
			return fmt.Errorf("model: %s is %d; it must be positive", f.name, f.value)
		}
	}
	if c.Layers > maxLayers {
		return fmt.Errorf("model: num_hidden_layers is %d; more than %d are not supported", c.Layers, maxLayers)
	}
	if c.IntermediateSize <= 0 && c.dense() {
		return fmt.Errorf("model: intermediate_size is %d; it must be positive", c.IntermediateSize)
	}
	if c.family().sparse {
		if err := c.validateSparse(); err != nil {
			return err
		}
	}
	if err := c.validatePredictor(); err != nil {
		return err
	}
	if c.family().latent {
		if err := c.validateLatent(); err != nil {
			return err
		}
	}
	if c.family().hybrid {
		if err := c.validateHybrid(); err != nil {
			return err
		}
	}
	if err := c.validateWindows(); err != nil {
		return err
	}
	switch {
	case !slices.Contains([]string{"", "silu", "gelu", "gelu_pytorch_tanh"}, c.Activation):
		return fmt.Errorf("model: hidden_act is %.80q; use silu, gelu or gelu_pytorch_tanh", c.Activation)
	case c.Activation != "" && c.Activation != "silu" && c.family().sparse:
		return fmt.Errorf("model: hidden_act is %.80q; experts are SwiGLU, whose activation is silu", c.Activation)
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("model: %d attention heads are not a multiple of %d key/value heads", c.Heads, c.KVHeads)
	case c.HeadDim%2 != 0:
		return fmt.Errorf("model: head_dim %d is odd; rotary embedding needs pairs", c.HeadDim)
	case c.rotaryDim() <= 0 || c.rotaryDim() > c.HeadDim || c.rotaryDim()%2 != 0:
		return fmt.Errorf("model: partial_rotary_factor %g rotates %d of %d features of a head; it must be an even part", c.PartialRotary, c.rotaryDim(), c.HeadDim)
	case c.LocalTheta < 0 || c.AttentionScalar < 0:
		return fmt.Errorf("model: rope_local_base_freq %g and query_pre_attn_scalar %g cannot be negative", c.LocalTheta, c.AttentionScalar)
	case c.RopeTheta <= 0 || c.RMSNormEps <= 0:
		return fmt.Errorf("model: rope_theta %g and rms_norm_eps %g must be positive", c.RopeTheta, c.RMSNormEps)
	}
	if err := c.Rope.validate(c); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	return nil
}

// Parameters returns the number of weights.
func (c Config) Parameters() int {
	if c.Encoder() {
		return c.encoderParameters()
	}
	n, norms := c.VocabSize*c.HiddenSize+c.HiddenSize, 0
	for _, name := range c.normNames() {
		if name != "" {
			norms++
		}
	}
	for i := range c.Layers {
		n += c.mixerParameters(i) + c.feedForwardParameters(i) + norms*c.HiddenSize
	}
	switch {
	case c.Score:
		n += c.HiddenSize
	case !c.TieWordEmbeddings:
		n += c.VocabSize * c.HiddenSize
	}
	return n
}
