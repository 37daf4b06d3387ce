package sampling

import (
	"fmt"
	"math"
)

// Options say how the next token is chosen. Set TopP to 1 to choose among all tokens.
type Options struct {
	Temperature float64 // 0 takes the likeliest token
	TopK        int     // chooses among this many likeliest tokens, 0 means all
	TopP        float64 // chooses among the likeliest tokens with this total probability
	MinP        float64 // leaves out tokens with less than this part of the likeliest one's probability
	Seed        uint64

	// Presence is taken from the logits of tokens that were drawn before, and Frequency for each time
	// that they were.
	Presence, Frequency float64
	// Repetition divides the positive logits of tokens of the prompt and of drawn ones, and multiplies
	// the negative ones; 0 and 1 change nothing.
	Repetition float64
	Bias       map[int32]float64 // added to the logits
}

// penalizes reports whether it matters which tokens were drawn, and repeats whether the prompt does.
func (o *Options) penalizes() bool { return o.Presence != 0 || o.Frequency != 0 || o.repeats() }
func (o *Options) repeats() bool   { return o.Repetition != 0 && o.Repetition != 1 }

// Validate returns what is wrong with the options, or nil.
func (o *Options) Validate() error {
	switch {
	case !(o.Temperature >= 0) || math.IsInf(o.Temperature, 1):
		return fmt.Errorf("temperature %g; it must not be negative", o.Temperature)
	case o.TopK < 0:
		return fmt.Errorf("top-k %d; it must not be negative", o.TopK)
	case !(o.TopP > 0 && o.TopP <= 1):
		return fmt.Errorf("top-p %g; it must be above 0 and at most 1", o.TopP)
	case !(o.MinP >= 0 && o.MinP <= 1):
		return fmt.Errorf("min-p %g; it must be from 0 to 1", o.MinP)
	case !finite(o.Presence) || !finite(o.Frequency):
		return fmt.Errorf("presence penalty %g and frequency penalty %g; they must be finite", o.Presence, o.Frequency)
	case !(o.Repetition >= 0) || !finite(o.Repetition):
		return fmt.Errorf("repetition penalty %g; it must be positive", o.Repetition)
	}
	for id, b := range o.Bias {
		if !finite(b) {
			return fmt.Errorf("the bias of token %d is %g; it must be finite", id, b)
		}
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
