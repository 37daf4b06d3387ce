package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
)

// Rope says how the rotary embedding turns positions into angles, with the names and meaning that
// transformers gives the keys of rope_parameters. The zero value is the plain rotation.
type Rope struct {
	Type            string    `json:"rope_type,omitempty"` // default (or empty), linear, dynamic, yarn, llama3 or longrope
	Factor          float64   `json:"factor,omitempty"`
	Original        int       `json:"original_max_position_embeddings,omitempty"`
	AttentionFactor float64   `json:"attention_factor,omitempty"` // of cosines and sines; 0: what the type prescribes
	BetaFast        float64   `json:"beta_fast,omitempty"`        // 0: 32
	BetaSlow        float64   `json:"beta_slow,omitempty"`        // 0: 1
	MScale          float64   `json:"mscale,omitempty"`
	MScaleAllDim    float64   `json:"mscale_all_dim,omitempty"`
	Truncate        *bool     `json:"truncate,omitempty"` // nil: true
	LowFrequency    float64   `json:"low_freq_factor,omitempty"`
	HighFrequency   float64   `json:"high_freq_factor,omitempty"`
	Short           []float64 `json:"short_factor,omitempty"`
	Long            []float64 `json:"long_factor,omitempty"`
}

// scalings lists the keys that each type needs, and those that it may have.
var scalings = map[string]struct{ needs, may []string }{
	"default":  {},
	"linear":   {needs: []string{"factor"}},
	"dynamic":  {needs: []string{"factor"}},
	"yarn":     {needs: []string{"factor"}, may: []string{"original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"}},
	"llama3":   {needs: []string{"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"}},
	"longrope": {needs: []string{"short_factor", "long_factor"}, may: []string{"factor", "original_max_position_embeddings", "attention_factor"}},
}

// ropeFile is such an object as it stands in a file.
type ropeFile struct {
	Rope
	Older   string   `json:"type"`
	Theta   *float64 `json:"rope_theta"`
	Partial *float64 `json:"partial_rotary_factor"`
}

// parseRope reads the object that describes the rotation, under either of its names; it may describe that of each
// type of layers, of which only full_attention rotates here.
// original is a length outside of the object, where Phi's folders have it.
func (c *Config) parseRope(parameters, scaling json.RawMessage, original int) error {
	var all map[string]json.RawMessage
	name, text := "rope_parameters", parameters
	switch {
	case given(scaling) && given(parameters):
		var a, b any
		if json.Unmarshal(scaling, &a) != nil || json.Unmarshal(parameters, &b) != nil || !reflect.DeepEqual(a, b) {
			return fmt.Errorf("rope_scaling %s and rope_parameters %s differ; keep one", scaling, parameters)
		}
	case given(scaling):
		name, text = "rope_scaling", scaling
	case !given(parameters):
		if err := c.parsePartial(); err != nil {
			return err
		}
		return c.Rope.validate(*c)
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if inner, ok := all[slidingLayer]; ok && c.family().gemma {
		var near ropeFile
		if err := json.Unmarshal(inner, &near); err != nil {
			return fmt.Errorf("%s.%s: %w", name, slidingLayer, err)
		}
		if near.Rope.kind() != "default" {
			return fmt.Errorf("%s.%s.rope_type is %q; layers with a window have the plain rotation", name, slidingLayer, near.Type)
		}
		if near.Theta != nil {
			if c.LocalTheta != 0 && c.LocalTheta != *near.Theta {
				return fmt.Errorf("rope_local_base_freq is %g, and %s.%s.rope_theta is %g; keep one", c.LocalTheta, name, slidingLayer, *near.Theta)
			}
			c.LocalTheta = *near.Theta
		}
		delete(all, slidingLayer)
	}
	if inner, ok := all[fullLayer]; ok {
		if len(all) > 1 {
			return fmt.Errorf("%s has %v; this family rotates in layers of %s alone", name, slices.Sorted(maps.Keys(all)), fullLayer)
		}
		name, text, all = name+"."+fullLayer, inner, nil
		if err := json.Unmarshal(text, &all); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	var f ropeFile
	if err := json.Unmarshal(text, &f); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if f.Older == "mrope" {
		f.Older = "default"
	}
	if f.Type == "" {
		f.Type = f.Older
	} else if f.Older != "" && f.Older != f.Type {
		return fmt.Errorf("%s has the rope_type %q and the type %q; keep one", name, f.Type, f.Older)
	}
	if c.ModelType == "phi3" && (f.Type == "su" || f.Type == "yarn") { // as its class reads the names of older folders
		f.Type = "longrope"
	}
	if f.Type == "" && f.Factor != 0 {
		return fmt.Errorf("%s has a factor and no rope_type", name)
	}
	for key, v := range all {
		known := append([]string{"rope_type", "type", "rope_theta", "partial_rotary_factor", "mrope_section", "mrope_interleaved"}, f.keys()...)
		if given(v) && !slices.Contains(known, key) {
			return fmt.Errorf("%s.%s is %s, which rope_type %q does not have", name, key, v, f.Type)
		}
	}
	for _, same := range []struct {
		key   string
		to    *float64
		value *float64
	}{{"rope_theta", &c.RopeTheta, f.Theta}, {"partial_rotary_factor", &c.PartialRotary, f.Partial}} {
		if same.value == nil {
			continue
		}
		if *same.to != 0 && *same.to != *same.value {
			return fmt.Errorf("%s is %g, and %s.%s is %g; keep one", same.key, *same.to, name, same.key, *same.value)
		}
		*same.to = *same.value
	}
	if err := c.parsePartial(); err != nil {
		return err
	}
	if c.Rope = f.Rope; c.Rope.Original == 0 && slices.Contains(c.Rope.keys(), "original_max_position_embeddings") {
		c.Rope.Original = original
	}
	if c.Rope.Type == "default" {
		c.Rope = Rope{}
	}
	return c.Rope.validate(*c)
}

// parsePartial completes the rotated fraction of a head.
func (c *Config) parsePartial() error {
	f := c.family()
	switch {
	case f.partial():
		c.PartialRotary = cmp.Or(c.PartialRotary, f.absent.PartialRotary)
		return nil
	case c.PartialRotary != 0 && c.PartialRotary != 1:
		return fmt.Errorf("partial_rotary_factor is %g; this family rotates whole heads", c.PartialRotary)
	}
	c.PartialRotary = 0
	return nil
}

func given(value json.RawMessage) bool { return len(value) > 0 && string(value) != "null" }

// kind is the type, "default" if it is empty.
func (r Rope) kind() string {
	if r.Type == "" {
		return "default"
	}
	return r.Type
}

// keys are those of the type.
func (r Rope) keys() []string {
	s := scalings[r.kind()]
	return append(slices.Clone(s.needs), s.may...)
}

// validate refuses values from which there are no frequencies.
func (r Rope) validate(c Config) error {
	s, known := scalings[r.kind()]
	if !known {
		return fmt.Errorf("rope_type %q is not supported; use one of %s", r.Type, strings.Join(slices.Sorted(maps.Keys(scalings)), ", "))
	}
	if own := c.family().ropes; own != nil && !slices.Contains(own, r.kind()) {
		return fmt.Errorf("rope_type %q is not one of %s; use one of %s", r.Type, c.ModelType, strings.Join(own, ", "))
	}
	if of := float64(c.MaxPositions) / float64(r.original(c)); c.family().ropes != nil && r.Original != 0 && c.MaxPositions > 0 && r.Factor != 0 && r.Factor != of {
		return fmt.Errorf("factor is %g, and max_position_embeddings and original_max_position_embeddings give %g, which counts; leave the factor out", r.Factor, of)
	}
	half := c.rotaryDim() / 2
	set := map[string]bool{"factor": r.Factor != 0, "original_max_position_embeddings": r.Original != 0, "low_freq_factor": r.LowFrequency != 0,
		"high_freq_factor": r.HighFrequency != 0, "short_factor": r.Short != nil, "long_factor": r.Long != nil}
	for _, key := range s.needs {
		if !set[key] {
			return fmt.Errorf("rope_type %q needs %s", r.Type, key)
		}
	}
	positive := []struct {
		key   string
		value float64
	}{{"factor", r.Factor}, {"original_max_position_embeddings", float64(r.Original)}, {"attention_factor", r.AttentionFactor}, {"beta_fast", r.BetaFast}, {"beta_slow", r.BetaSlow},
		{"mscale", r.MScale}, {"mscale_all_dim", r.MScaleAllDim}, {"low_freq_factor", r.LowFrequency}, {"high_freq_factor", r.HighFrequency}}
	for _, p := range positive {
		if !(p.value >= 0) || math.IsInf(p.value, 1) {
			return fmt.Errorf("%s is %g; it must be positive", p.key, p.value)
		}
	}
	switch {
	case r.Factor != 0 && r.Factor < 1:
		return fmt.Errorf("factor is %g; sequences become longer by it, so it must be at least 1", r.Factor)
	case r.Type == "llama3" && r.LowFrequency >= r.HighFrequency:
		return fmt.Errorf("low_freq_factor %g must be below high_freq_factor %g", r.LowFrequency, r.HighFrequency)
	case (r.Type == "dynamic" || r.original(c) == 0 && r.kind() != "default" && r.Type != "linear") && c.MaxPositions <= 0:
		return fmt.Errorf("rope_type %q needs max_position_embeddings", r.Type)
	case r.Type == "dynamic" && half < 2:
		return fmt.Errorf("rope_type \"dynamic\" needs at least four rotated features; there are %d", 2*half)
	case r.Type == "longrope" && (len(r.Short) != half || len(r.Long) != half):
		return fmt.Errorf("short_factor has %d numbers and long_factor %d; there are %d frequencies", len(r.Short), len(r.Long), half)
	}
	for _, d := range slices.Concat(r.Short, r.Long) {
		if !(d > 0) || math.IsInf(d, 1) {
			return fmt.Errorf("short_factor and long_factor divide frequencies, and have a %g", d)
		}
	}
	return nil
}

// original is the length that the model was trained with first.
func (r Rope) original(c Config) int {
	if r.Original != 0 {
		return r.Original
	}
	return c.MaxPositions
}

// regime names the table of frequencies that sequences of a length have: 0 for all lengths whose frequencies do not
// depend on it.
func (r Rope) regime(c Config, length int64) int64 {
	switch {
	case r.Type == "dynamic" && length > int64(c.MaxPositions):
		return length
	case r.Type == "longrope" && length > int64(r.original(c)):
		return 1
	}
	return 0
}

// SwitchesAfter is the number of tokens after which a sequence has the other rotation of LongRoPE (rope_type longrope), all its keys included, or 0
// if all sequences have the same.
func (c Config) SwitchesAfter() int {
	if c.Rope.Type == "longrope" {
		return c.Rope.original(c)
	}
	return 0
}

// fitsCache refuses sequences with a cache whose length changes the rotation of each key with each token: transformers leaves keys as they were, so
// that its tokens depend on how a text was cut into steps, and are not those of a prefill.
func (c Config) fitsCache(tokens int) error {
	if c.Rope.Type == "dynamic" && tokens > c.MaxPositions {
		return fmt.Errorf("a sequence of %d tokens: rope_type \"dynamic\" rotates all keys anew with each token beyond %d (max_position_embeddings), and a cache keeps them as they are", tokens, c.MaxPositions)
	}
	return nil
}

// frequencies returns the angle by which each pair of features turns from one position to the next, and the factor of the
// cosines and sines. It computes in float32 in the order of the reference, because far positions multiply each rounding.
func (r Rope) frequencies(c Config, regime int64) (turn []float32, scale float32) {
	rotated := c.rotaryDim()
	base := c.RopeTheta
	if r.Type == "dynamic" && regime > 0 { // NTK-aware scaling: the base grows with the sequence
		ratio := r.Factor*float64(regime)/float64(c.MaxPositions) - (r.Factor - 1)
		base *= math.Pow(ratio, float64(rotated)/float64(rotated-2))
	}
	wave := make([]float32, rotated/2) // positions for a turn of one radian
	turn = make([]float32, len(wave))
	for i := range wave {
		wave[i] = float32(math.Pow(base, float64(float32(2*i)/float32(rotated))))
		turn[i] = 1 / wave[i]
	}
	factor := float32(r.Factor)
	switch r.Type {
	case "linear":
		for i := range turn {
			turn[i] /= factor
		}
	case "yarn":
		low, high := r.ramp(c)
		for i := range turn {
			keep := 1 - min(max((float32(i)-float32(low))/float32(high-low), 0), 1)
			turn[i] = float32(1/float32(factor*wave[i])*(1-keep)) + float32(turn[i]*keep) // conversions forbid fused operations
		}
	case "llama3":
		r.llama3(turn)
	case "longrope":
		divisors := r.Short
		if regime > 0 {
			divisors = r.Long
		}
		for i := range turn {
			turn[i] = 1 / (float32(divisors[i]) * wave[i])
		}
	}
	return turn, float32(r.attention(c))
}

// ramp is the range of frequencies between those that YaRN keeps and those that it divides, equation 17 and section
// 3.2 of https://arxiv.org/abs/2309.00071.
func (r Rope) ramp(c Config) (low, high float64) {
	rotated := float64(c.rotaryDim())
	at := func(rotations float64) float64 {
		return rotated * math.Log(float64(r.original(c))/(rotations*2*math.Pi)) / (2 * math.Log(c.RopeTheta))
	}
	fast, slow := 32.0, 1.0
	if r.BetaFast != 0 {
		fast = r.BetaFast
	}
	if r.BetaSlow != 0 {
		slow = r.BetaSlow
	}
	low, high = at(fast), at(slow)
	if r.Truncate == nil || *r.Truncate {
		low, high = math.Floor(low), math.Ceil(high)
	}
	if low, high = max(low, 0), min(high, rotated-1); low == high {
		high += 0.001 // a step
	}
	return low, high
}

// llama3 divides low frequencies, and those between in part.
func (r Rope) llama3(turn []float32) {
	original := float64(r.Original)
	for i, f := range turn {
		length := float32(2*math.Pi) / f
		slow := f / float32(r.Factor)
		switch {
		case length > float32(original/r.LowFrequency):
			turn[i] = slow
		case length >= float32(original/r.HighFrequency):
			keep := (float32(original)/length - float32(r.LowFrequency)) / float32(r.HighFrequency-r.LowFrequency)
			turn[i] = float32((1-keep)*f/float32(r.Factor)) + float32(keep*f)
		}
	}
}

// attention is the factor of cosines and sines, and so the root of the factor of attention's scores.
func (r Rope) attention(c Config) float64 {
	grown := func(factor, scale float64) float64 {
		if factor <= 1 {
			return 1
		}
		return 0.1*scale*math.Log(factor) + 1
	}
	switch {
	case r.AttentionFactor != 0:
		return r.AttentionFactor
	case r.Type == "yarn" && r.MScale != 0 && r.MScaleAllDim != 0:
		return grown(r.Factor, r.MScale) / grown(r.Factor, r.MScaleAllDim)
	case r.Type == "yarn":
		return grown(r.Factor, 1)
	case r.Type == "longrope":
		factor, original := r.Factor, float64(r.original(c))
		if r.Original != 0 && c.MaxPositions > 0 {
			factor = float64(c.MaxPositions) / original
		}
		if factor > 1 {
			return math.Sqrt(1 + math.Log(factor)/math.Log(original))
		}
	}
	return 1
}
