// Package preference has losses that compare two answers to a prompt, of which people, or a model, chose one and rejected the other. The losses depend on one
// value for each sequence, and come with their derivatives, from which model.SequenceGradients computes those of weights. The values of all pairs of a batch
// stand in one list: the chosen sequence of pair i at 2i, and the rejected one at 2i+1.
package preference

import (
	"fmt"
	"math"
)

// Result is the loss of a batch of pairs, and what is reported of it.
type Result struct {
	Loss    float64
	Factors []float64 // derivatives of the loss with respect to the values
	// Chosen and Rejected are the mean rewards of the sequences, Margin their difference, and Accuracy the fraction of pairs whose
	// chosen sequence has the higher reward.
	Chosen, Rejected, Margin, Accuracy float64
}

// DPO is direct preference optimisation (arXiv:2305.18290, equation 7). The values are log-probabilities of answers, in nats: the sums over
// their tokens. The reward of an answer is Beta times the difference of the log-probabilities by the model and by the reference.
type DPO struct {
	Beta float64
	// LabelSmoothing is the probability that a pair is the other way round (section 3.1 of "A note on DPO with noisy preferences", Eric Mitchell): at least 0, below 0.5.
	LabelSmoothing float64
	// SFTWeight is the factor of the mean cross-entropy of the tokens of all chosen answers, which is added (arXiv:2404.19733).
	SFTWeight float64
}

// Check returns what is wrong with the options, or nil.
func (d DPO) Check() error {
	switch {
	case !(d.Beta > 0) || math.IsInf(d.Beta, 0):
		return fmt.Errorf("preference: beta is %g; it must be positive", d.Beta)
	case !(d.LabelSmoothing >= 0 && d.LabelSmoothing < 0.5):
		return fmt.Errorf("preference: the label smoothing is %g; it must be at least 0 and below 0.5, from where on the rejected answer would be learnt", d.LabelSmoothing)
	case !(d.SFTWeight >= 0) || math.IsInf(d.SFTWeight, 0):
		return fmt.Errorf("preference: the weight of the chosen answers' cross-entropy is %g; it must not be negative", d.SFTWeight)
	}
	return nil
}

// Compare computes the loss, a mean over the pairs. tokens is the number of tokens of all chosen answers.
func (d DPO) Compare(own, reference []float64, tokens int) Result {
	rewards := make([]float64, len(own))
	for i := range own {
		rewards[i] = d.Beta * (own[i] - reference[i])
	}
	r := compare(rewards, func(x float64) (loss, slope float64) {
		e := d.LabelSmoothing
		return -(1-e)*logSigmoid(x) - e*logSigmoid(-x), -(1-e)*sigmoid(-x) + e*sigmoid(x)
	}, nil)
	for i := range r.Factors {
		r.Factors[i] *= d.Beta
		if i%2 == 0 && d.SFTWeight > 0 {
			r.Loss -= d.SFTWeight * own[i] / float64(tokens)
			r.Factors[i] -= d.SFTWeight / float64(tokens)
		}
	}
	return r
}

// Rewards is the loss of reward models (arXiv:2203.02155, equation 1, for one pair of each prompt), a mean over the pairs. margins say by how much the score
// of a chosen sequence is to be the higher one (arXiv:2307.09288, equation 2); nil stands for 0.
func Rewards(scores, margins []float64) Result {
	return compare(scores, func(x float64) (loss, slope float64) { return -logSigmoid(x), -sigmoid(-x) }, margins)
}

// compare takes the mean of a loss of the differences of rewards, each less its margin.
func compare(rewards []float64, loss func(x float64) (loss, slope float64), margins []float64) (r Result) {
	n := float64(len(rewards) / 2)
	r.Factors = make([]float64, len(rewards))
	for i := 0; i < len(rewards); i += 2 {
		x := rewards[i] - rewards[i+1]
		r.Margin += x / n
		r.Chosen += rewards[i] / n
		r.Rejected += rewards[i+1] / n
		if x > 0 {
			r.Accuracy += 1 / n
		}
		if margins != nil {
			x -= margins[i/2]
		}
		l, slope := loss(x)
		r.Loss += l / n
		r.Factors[i], r.Factors[i+1] = slope/n, -slope/n
	}
	return r
}

func sigmoid(x float64) float64 { return math.Exp(logSigmoid(x)) }

func logSigmoid(x float64) float64 { return min(x, 0) - math.Log1p(math.Exp(-math.Abs(x))) }
