package qwen

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
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
	RMSNormEps        float64 `json:"rms_norm_eps"`
	TieWordEmbeddings bool    `json:"tie_word_embeddings"`
	RopeTheta         float64 `json:"rope_theta"`
	InitializerRange  float64 `json:"initializer_range"`
}

// ParseConfig reads a config.json of model type qwen3.
func ParseConfig(text []byte) (Config, error) {
	c := Config{InitializerRange: 0.02, RMSNormEps: 1e-6}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("qwen: config.json: %w", err)
	}
	// Newer versions of transformers keep the base of the rotation in a record of its own.
	var rope struct {
		Parameters struct {
			Theta float64 `json:"rope_theta"`
			Type  string  `json:"rope_type"`
		} `json:"rope_parameters"`
		Bias    bool `json:"attention_bias"`
		Sliding bool `json:"use_sliding_window"`
	}
	if err := json.Unmarshal(text, &rope); err != nil {
		return c, fmt.Errorf("qwen: config.json: %w", err)
	}
	if c.RopeTheta == 0 {
		c.RopeTheta = rope.Parameters.Theta
	}
	if t := rope.Parameters.Type; t != "" && t != "default" {
		return c, fmt.Errorf("qwen: rope_type %q is not supported, only \"default\"", t)
	}
	if rope.Bias || rope.Sliding {
		return c, errors.New("qwen: attention_bias and use_sliding_window are not supported")
	}
	return c, c.Validate()
}

// ReadConfig is ParseConfig of a file.
func ReadConfig(path string) (Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, err
	}
	return ParseConfig(text)
}

// Validate says what is wrong with a configuration.
func (c Config) Validate() error {
	if c.ModelType != "" && c.ModelType != "qwen3" {
		return fmt.Errorf("qwen: model_type %q is not supported, only \"qwen3\"", c.ModelType)
	}
	for _, f := range []struct {
		name  string
		value int
	}{
		{"vocab_size", c.VocabSize}, {"hidden_size", c.HiddenSize}, {"intermediate_size", c.IntermediateSize},
		{"num_hidden_layers", c.Layers}, {"num_attention_heads", c.Heads}, {"num_key_value_heads", c.KVHeads},
		{"head_dim", c.HeadDim},
	} {
		if f.value <= 0 {
			return fmt.Errorf("qwen: %s is %d; it must be positive", f.name, f.value)
		}
	}
	switch {
	case c.Heads%c.KVHeads != 0:
		return fmt.Errorf("qwen: %d attention heads are no multiple of %d key/value heads", c.Heads, c.KVHeads)
	case c.HeadDim%2 != 0:
		return fmt.Errorf("qwen: head_dim %d is odd; rotary embedding needs pairs", c.HeadDim)
	case c.RopeTheta <= 0 || c.RMSNormEps <= 0:
		return fmt.Errorf("qwen: rope_theta %g and rms_norm_eps %g must be positive", c.RopeTheta, c.RMSNormEps)
	}
	return nil
}

// Parameters is the number of weights.
func (c Config) Parameters() int {
	attention := c.HiddenSize*c.HeadDim*(2*c.Heads+2*c.KVHeads) + 2*c.HeadDim
	layer := attention + 3*c.HiddenSize*c.IntermediateSize + 2*c.HiddenSize
	n := c.VocabSize*c.HiddenSize + c.Layers*layer + c.HiddenSize
	if !c.TieWordEmbeddings {
		n += c.VocabSize * c.HiddenSize
	}
	return n
}
