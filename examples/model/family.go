package model

import (
	"fmt"
	"maps"
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
	// shared models have a shared expert in addition to the routed ones.
	shared bool
}

var families = map[string]family{
	"":                 {},
	"llama":            {plain: true},
	"qwen3":            {},
	"qwen3_moe":        {sparse: true},
	"qwen3_next":       {hybrid: true, grouped: true, sparse: true, shared: true},
	"qwen3_5_text":     {hybrid: true},
	"qwen3_5_moe_text": {hybrid: true, sparse: true, shared: true},
}

func (c Config) family() family { return families[c.ModelType] }

// ModelTypes lists the values of Config.ModelType in alphabetical order; empty means qwen3.
func ModelTypes() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(families)), func(name string) bool { return name == "" })
}

const (
	linearLayer = "linear_attention"
	fullLayer   = "full_attention"
)

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

// linear reports whether a layer is a gated delta net.
func (c Config) linear(layer int) bool {
	return c.family().hybrid && c.LayerTypes[layer] == linearLayer
}

// sparse reports whether a layer has experts.
func (c Config) sparse(layer int) bool {
	return c.family().sparse && c.Experts > 0 && !slices.Contains(c.DenseLayers, layer) && (layer+1)%max(c.SparseStep, 1) == 0
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
	case c.MoEIntermediate <= 0:
		return fmt.Errorf("model: moe_intermediate_size is %d; it must be positive", c.MoEIntermediate)
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
	n := c.Experts * (3*c.MoEIntermediate + 1) * c.HiddenSize
	if c.family().shared {
		n += (3*c.SharedIntermediate + 1) * c.HiddenSize
	}
	return n
}

// ExpertParameters returns the number of weights of all experts that a router chooses from, in all layers.
func (c Config) ExpertParameters() (n int) {
	for layer := range c.Layers {
		if c.sparse(layer) {
			n += c.Experts * 3 * c.MoEIntermediate * c.HiddenSize
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

// rotaryDim returns the number of rotated features of a head.
func (c Config) rotaryDim() int {
	if c.family().hybrid {
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
			return fmt.Errorf("model: layer_types[%d] is %q; use %q or %q", i, t, linearLayer, fullLayer)
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
	if r := c.rotaryDim(); r <= 0 || r > c.HeadDim || r%2 != 0 {
		return fmt.Errorf("model: partial_rotary_factor %g rotates %d of %d features of a head; it must be an even part", c.PartialRotary, r, c.HeadDim)
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
	projections := 2*c.Heads + 2*c.KVHeads
	if c.family().hybrid {
		projections += c.Heads // the gate of the output
	}
	if c.family().plain {
		return c.HiddenSize * c.HeadDim * projections
	}
	return c.HiddenSize*c.HeadDim*projections + 2*c.HeadDim
}
