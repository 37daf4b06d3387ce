package nn

import (
	"cmp"
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// samplings draw the next token of sequences.
var samplings = table{"TopKTopPSample": sample, "TopKTopPSampleV2": sample}

// mostK is the largest k of the first version of the operator.
const mostK = 1024

// sample draws a token for each row of logits, or gives the candidates and their
// probabilities.
func sample(c *Call) (Run, error) {
	logits, topK, topP, q, minPs := c.Tensor("logits"), c.Tensor("topK"), c.Tensor("topP"), c.Optional("q"), c.optionalOf("minPs")
	newer := c.Has("minPs")
	s := sampler{most: mostK, softmax: true, weighted: q != nil, epsilon: c.Float("eps")}
	types := []dtype.Type{dtype.Float16, dtype.BFloat16}
	listed := false // the candidates are wanted, not the choice
	if newer {
		types = append(types, dtype.Float32)
		s.most, s.softmax, listed = c.Int("ksMax"), c.Bool("inputIsLogits"), c.Bool("isNeedSampleResult")
		if s.most < 1 {
			c.Invalid("ksMax is %d; it must be above 0", s.most)
		}
	}
	c.plain(logits, topK, topP)
	c.DType(logits, types...)
	c.SameDType(logits, topP)
	c.DType(topK, dtype.Int32)
	c.Rank(logits, 2, 2)
	if c.Err() != nil {
		return nil, c.Err()
	}
	rows, n := logits.Shape[0], logits.Shape[1]
	if logits.Len() == 0 {
		c.Invalid("%v is empty; there must be sequences, and tokens to choose from", logits)
	}
	for _, t := range []*Tensor{topK, topP, minPs} {
		if t != nil {
			c.plain(t)
			c.Shape(t, []int64{rows}, "one for each row of logits")
		}
	}
	if minPs != nil {
		c.SameDType(logits, minPs)
	}
	if q != nil {
		c.plain(q)
		c.DType(q, dtype.Float32)
		c.Shape(q, logits.Shape, "a weight for each token")
	}
	var choice, kept, places, probabilities *Tensor
	output := func(name string, d dtype.Type, shape []int64) *Tensor {
		t := c.Tensor(name)
		c.plain(t)
		c.DType(t, d)
		c.Shape(t, shape, "for each row of logits")
		return t
	}
	if listed {
		places, probabilities = output("logitsIdx", dtype.Int64, logits.Shape), output("logitsSortMasked", dtype.Float32, logits.Shape)
	} else {
		choice = output("logitsSelectIdx", dtype.Int64, logits.Shape[:1])
	}
	if c.Bool("isNeedLogits") {
		kept = output("logitsTopKPSelect", dtype.Float32, logits.Shape)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		ks, err := kernel.Indices(topK.View())
		if err != nil {
			return err
		}
		read := make([][]float32, 4)
		for i, t := range []*Tensor{logits, topP, q, minPs} {
			if t == nil {
				continue
			}
			if read[i], err = kernel.Floats(t.View()); err != nil {
				return err
			}
		}
		index, at, probability, values := make([]int64, rows), make([]int64, rows*n), make([]float64, rows*n), make([]float64, rows*n)
		for i := range rows {
			row, one := read[0][i*n:][:n], s
			one.k, one.p = ks[i], float64(read[1][i])
			if minPs != nil {
				one.minP = float64(read[3][i])
			}
			of, p := one.candidates(row)
			var weights []float32
			if q != nil {
				weights = read[2][i*n:][:n]
			}
			index[i] = of[one.best(p, weights)]
			outside := 0.0
			if s.softmax {
				outside = math.Inf(-1)
			}
			for j := range n {
				values[i*n+j] = outside
			}
			for j, k := range of {
				at[i*n+int64(j)], probability[i*n+int64(j)], values[i*n+k] = k, float64(p[j]), float64(row[k])
			}
		}
		if choice != nil {
			if err := kernel.SetInts(choice.View(), index); err != nil {
				return err
			}
		} else {
			if err := kernel.SetInts(places.View(), at); err != nil {
				return err
			}
			if err := kernel.SetFloats(probabilities.View(), probability); err != nil {
				return err
			}
		}
		if kept == nil {
			return nil
		}
		return kernel.SetFloats(kept.View(), values)
	}, nil
}

// sampler chooses one of the candidates of a row of scores: among the best k, of those the
// ones that together have the probability p, of those the ones that are at least minP times
// as probable as the best.
type sampler struct {
	k, most  int64   // k counts from 1 to most, else all are candidates
	p, minP  float64 // below 1 and above 0, else all are kept; of p from 0 down and minP from 1 up only the best is
	softmax  bool    // the scores become probabilities by their softmax, else they are
	weighted bool    // the choice is the largest quotient of probability and weight, else the largest probability
	epsilon  float64 // added to the weights
}

// candidates are the places of those that are kept, and their probabilities, the best first
// unless nothing but minP chose.
func (s sampler) candidates(scores []float32) (at []int64, probability []float32) {
	at = make([]int64, len(scores))
	for i := range at {
		at[i] = int64(i)
	}
	byK, byP := s.k >= 1 && s.k <= min(s.most, int64(len(scores))), s.p < 1
	if byK || byP || s.minP >= 1 {
		slices.SortStableFunc(at, func(a, b int64) int { return cmp.Compare(scores[b], scores[a]) })
	}
	if byK {
		at = at[:s.k]
	}
	probability = s.probabilities(scores, at)
	n := len(at)
	switch {
	case s.minP >= 1 || byP && s.p <= 0:
		n = min(n, 1)
	case byP:
		sum := 0.0
		for i, p := range probability {
			if sum >= s.p {
				n = i
				break
			}
			sum += float64(p)
		}
	}
	at, probability = at[:n], probability[:n]
	if byP && s.p <= 0 && s.softmax && n > 0 {
		probability[0] = 1
	}
	if s.minP > 0 && s.minP < 1 && n > 0 {
		least := slices.Max(probability) * float32(s.minP)
		kept := 0
		for i, p := range probability {
			if p >= least {
				at[kept], probability[kept] = at[i], p
				kept++
			}
		}
		at, probability = at[:kept], probability[:kept]
	}
	return at, probability
}

// probabilities are those of the scores at some places, among these.
func (s sampler) probabilities(scores []float32, at []int64) []float32 {
	p := make([]float32, len(at))
	most, sum := math.Inf(-1), 0.0
	for i, k := range at {
		p[i] = scores[k]
		most = max(most, float64(p[i]))
	}
	if !s.softmax {
		return p
	}
	for _, v := range p {
		sum += math.Exp(float64(v) - most)
	}
	for i, v := range p {
		p[i] = float32(math.Exp(float64(v)-most) / sum)
	}
	return p
}

// best is the position of the choice among candidates; weights are those of positions.
func (s sampler) best(probability, weights []float32) int {
	best, largest := 0, math.Inf(-1)
	for i, p := range probability {
		v := float64(p)
		if s.weighted {
			v /= math.Abs(float64(weights[i])) + s.epsilon
		}
		if v > largest {
			best, largest = i, v
		}
	}
	return best
}
