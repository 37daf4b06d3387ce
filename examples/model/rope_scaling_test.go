package model

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// scaled returns the configuration of a model of heads with 32 features and the given rotation.
func scaled(t *testing.T, rope string) Config {
	c, err := ParseConfig([]byte(scaledText(rope)))
	require.NoError(t, err, rope)
	return c
}

func scaledText(rope string) string {
	return `{"model_type":"qwen3","vocab_size":8,"hidden_size":8,"intermediate_size":8,"num_hidden_layers":1,"num_attention_heads":2,
		"num_key_value_heads":2,"head_dim":32,"max_position_embeddings":4096,` + rope + `}`
}

// TestFrequencies compares the frequencies of each scaling with their definitions in float64: linear and dynamic after
// transformers' documentation of rope_parameters, YaRN after its paper, llama3 after Llama 3.1's description, LongRoPE after its paper.
func TestFrequencies(t *testing.T) {
	plain := func(base float64, i int) float64 { return math.Pow(base, -float64(i)/16) }
	bounded := func(x float64) float64 { return math.Max(0, math.Min(1, x)) }
	// A frequency that turns r times within the original length is divided below slow and kept above fast turns.
	yarn := func(base, original, factor, fast, slow float64, whole bool) func(int) float64 {
		feature := func(turns float64) float64 { return 16 * math.Log(original/(2*math.Pi*turns)) / math.Log(base) }
		from, to := feature(fast), feature(slow)
		if whole {
			from, to = math.Floor(from), math.Ceil(to)
		}
		from, to = math.Max(from, 0), math.Min(to, 31)
		return func(i int) float64 {
			divided := bounded((float64(i) - from) / (to - from))
			return plain(base, i) * (divided/factor + 1 - divided)
		}
	}
	for rope, want := range map[string]struct {
		length   int64
		of       func(i int) float64
		attended float64
	}{
		`"rope_theta":1e6`: {100, func(i int) float64 { return plain(1e6, i) }, 1},
		`"rope_scaling":{"type":"linear","factor":2.5},"rope_theta":5e5`:                                            {100, func(i int) float64 { return plain(5e5, i) / 2.5 }, 1},
		`"rope_parameters":{"rope_type":"dynamic","factor":4,"rope_theta":1e4}`:                                     {4096, func(i int) float64 { return plain(1e4, i) }, 1},
		`"rope_parameters":{"rope_type":"dynamic","factor":4.0,"rope_theta":1e4}`:                                   {8192, func(i int) float64 { return plain(1e4*math.Pow(4*2-3, 32./30), i) }, 1},
		`"rope_scaling":{"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":1024},"rope_theta":1e6`: {100, yarn(1e6, 1024, 4, 32, 1, true), 0.1*math.Log(4) + 1},
		`"rope_scaling":{"rope_type":"yarn","factor":8},"rope_theta":1e4`:                                           {100, yarn(1e4, 4096, 8, 32, 1, true), 0.1*math.Log(8) + 1},
		`"rope_scaling":{"type":"yarn","factor":40,"original_max_position_embeddings":4096,"beta_fast":16,"beta_slow":2,"mscale":1.0,"mscale_all_dim":0.5,"truncate":false}`: {
			100, yarn(1e4, 4096, 40, 16, 2, false), (0.1*math.Log(40) + 1) / (0.05*math.Log(40) + 1)},
		`"rope_parameters":{"full_attention":{"rope_type":"yarn","factor":2,"attention_factor":1.5,"rope_theta":1e4}}`: {100, yarn(1e4, 4096, 2, 32, 1, true), 1.5},
		`"rope_scaling":{"rope_type":"llama3","factor":8,"original_max_position_embeddings":1024,"low_freq_factor":1,"high_freq_factor":4},"rope_theta":5e5`: {100, func(i int) float64 {
			f := plain(5e5, i)
			kept := bounded((1024*f/(2*math.Pi) - 1) / (4 - 1)) // of turns within the original length
			return kept*f + (1-kept)*f/8
		}, 1},
		longRope(``):                         {1024, func(i int) float64 { return plain(1e4, i) / (1 + float64(i)/100) }, math.Sqrt(1 + math.Log(4)/math.Log(1024))},
		longRope(`,"attention_factor":1.25`): {1025, func(i int) float64 { return plain(1e4, i) / (2 + float64(i)/100) }, 1.25},
	} {
		c := scaled(t, rope)
		turn, scale := c.Rope.frequencies(c, c.Rope.regime(c, want.length))
		require.Len(t, turn, 16)
		for i, f := range turn {
			require.InEpsilon(t, want.of(i), f, 1e-6, "%s: frequency %d", rope, i)
		}
		require.InEpsilon(t, want.attended, scale, 1e-7, rope)

		text, err := describeConfig(c, 0) // an exported folder has the same
		require.NoError(t, err)
		again, err := ParseConfig(text)
		require.NoError(t, err, "%s", text)
		require.Equal(t, c, again)
	}
}

func longRope(more string) string {
	var short, long []float64
	for i := range 16 {
		short, long = append(short, 1+float64(i)/100), append(long, 2+float64(i)/100)
	}
	lists, err := json.Marshal(map[string]any{"short_factor": short, "long_factor": long})
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`"original_max_position_embeddings":1024,"rope_scaling":{"type":"longrope",%s%s}`, lists[1:len(lists)-1], more)
}

// TestRopeRefusals: what a rotation does not understand ends the reading, by name.
func TestRopeRefusals(t *testing.T) {
	for rope, want := range map[string]string{
		`"rope_scaling":{"type":"proportional","factor":2}`:                                                                         `rope_type "proportional"`,
		`"rope_scaling":{"factor":2}`:                                                                                               "no rope_type",
		`"rope_scaling":{"type":"linear"}`:                                                                                          "needs factor",
		`"rope_scaling":{"type":"linear","factor":0.5}`:                                                                             "factor is 0.5",
		`"rope_scaling":{"type":"linear","factor":-1}`:                                                                              "factor is -1",
		`"rope_scaling":{"type":"linear","rope_type":"yarn","factor":2}`:                                                            "keep one",
		`"rope_scaling":{"type":"linear","factor":2,"beta_fast":32}`:                                                                "rope_scaling.beta_fast is 32",
		`"rope_scaling":{"type":"yarn","factor":2,"alpha":1}`:                                                                       "rope_scaling.alpha is 1",
		`"rope_scaling":{"type":"linear","factor":2},"rope_parameters":{"rope_type":"default"}`:                                     "differ",
		`"rope_theta":5,"rope_parameters":{"rope_theta":6}`:                                                                         "rope_theta is 5",
		`"rope_parameters":{"full_attention":{},"sliding_attention":{}}`:                                                            "sliding_attention",
		`"rope_parameters":{"partial_rotary_factor":0.5}`:                                                                           "rotates whole heads",
		`"rope_scaling":{"type":"longrope","short_factor":[1],"long_factor":[1]}`:                                                   "there are 16 frequencies",
		`"rope_scaling":{"type":"llama3","factor":8,"original_max_position_embeddings":8,"low_freq_factor":4,"high_freq_factor":1}`: "must be below",
		`"rope_scaling":"yarn"`:                                                                                                     "rope_scaling",
	} {
		_, err := ParseConfig([]byte(scaledText(rope)))
		require.ErrorContains(t, err, want, rope)
	}
}
