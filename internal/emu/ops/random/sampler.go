package random

import (
	"cmp"
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/op"
)

// samplings lists the operators that sample the next token of sequences.
var samplings = op.Table{"TopKTopPSample": sample, "TopKTopPSampleV2": sample, "ApplyTopKTopP": topKTopP}.Selects()

// mostK is the largest k that the first version of the operator accepts.
const mostK = 1024

// sample draws a token for each row of logits, or outputs the candidates and their
// probabilities.
func sample(c *op.Call) (op.Run, error) {
	d := drawing{logits: c.Tensor("logits"), topK: c.Tensor("topK"), topP: c.Tensor("topP"), q: c.Optional("q"), minPs: c.OptionalOf("minPs")}
	d.sampler = sampler{most: mostK, softmax: true, weighted: d.q != nil, epsilon: c.Float("eps")}
	types := op.HalfTypes
	listed := false // output the candidates instead of a choice
	if c.Has("minPs") {
		types = []dtype.Type{dtype.Float16, dtype.BFloat16, dtype.Float32}
		d.most, d.softmax, listed = c.Int("ksMax"), c.Bool("inputIsLogits"), c.Bool("isNeedSampleResult")
		if d.most < 1 {
			c.Invalid("ksMax is %d; it must be above 0", d.most)
		}
	}
	c.Plain(d.logits, d.topK, d.topP)
	c.DType(d.logits, types...)
	c.SameDType(d.logits, d.topP)
	c.DType(d.topK, dtype.Int32)
	c.Rank(d.logits, 2, 2)
	if c.Err() != nil {
		return nil, c.Err()
	}
	d.checkInputs(c)
	d.readOutputs(c, listed)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error { return d.run() }, nil
}

// drawing is a call that samples rows.
type drawing struct {
	sampler                             // the settings that all rows share
	logits, topK, topP, q, minPs        *op.Tensor
	choice, kept, places, probabilities *op.Tensor // nil if not requested
}

func (d *drawing) checkInputs(c *op.Call) {
	if d.logits.Len() == 0 {
		c.Invalid("%v is empty; there must be sequences, and tokens to choose from", d.logits)
	}
	for _, t := range []*op.Tensor{d.topK, d.topP, d.minPs} {
		if t != nil {
			c.Plain(t)
			c.Shape(t, d.logits.Shape[:1], "one for each row of logits")
		}
	}
	if d.minPs != nil {
		c.SameDType(d.logits, d.minPs)
	}
	if d.q != nil {
		c.Plain(d.q)
		c.DType(d.q, dtype.Float32)
		c.Shape(d.q, d.logits.Shape, "a weight for each token")
	}
}

func (d *drawing) readOutputs(c *op.Call, listed bool) {
	output := func(name string, kind dtype.Type, shape []int64) *op.Tensor {
		t := c.Tensor(name)
		c.Plain(t)
		c.DType(t, kind)
		c.Shape(t, shape, "for each row of logits")
		return t
	}
	if listed {
		d.places, d.probabilities = output("logitsIdx", dtype.Int64, d.logits.Shape), output("logitsSortMasked", dtype.Float32, d.logits.Shape)
	} else {
		d.choice = output("logitsSelectIdx", dtype.Int64, d.logits.Shape[:1])
	}
	if c.Bool("isNeedLogits") {
		d.kept = output("logitsTopKPSelect", dtype.Float32, d.logits.Shape)
	}
}

func (d *drawing) run() error {
	rows, n := d.logits.Shape[0], d.logits.Shape[1]
	ks, err := kernel.Indices(d.topK.View())
	if err != nil {
		return err
	}
	read := make([][]float32, 4)
	for i, t := range []*op.Tensor{d.logits, d.topP, d.q, d.minPs} {
		if t == nil {
			continue
		}
		if read[i], err = kernel.Floats(t.View()); err != nil {
			return err
		}
	}
	outside := 0.0
	if d.softmax {
		outside = math.Inf(-1)
	}
	index, at := make([]int64, rows), make([]int64, rows*n)
	probability, values := make([]float64, rows*n), slices.Repeat([]float64{outside}, int(rows*n))
	for i := range rows {
		row, one := read[0][i*n:][:n], d.sampler
		one.k, one.p = ks[i], float64(read[1][i])
		if d.minPs != nil {
			one.minP = float64(read[3][i])
		}
		of, p := one.candidates(row)
		var weights []float32
		if d.q != nil {
			weights = read[2][i*n:][:n]
		}
		index[i] = of[one.best(p, weights)]
		for j, k := range of {
			at[i*n+int64(j)], probability[i*n+int64(j)], values[i*n+k] = k, float64(p[j]), float64(row[k])
		}
	}
	return d.write(index, at, probability, values)
}

// write sets the requested outputs.
func (d *drawing) write(index, at []int64, probability, values []float64) error {
	if d.choice != nil {
		if err := kernel.SetInts(d.choice.View(), index); err != nil {
			return err
		}
	} else {
		if err := kernel.SetInts(d.places.View(), at); err != nil {
			return err
		}
		if err := kernel.SetFloats(d.probabilities.View(), probability); err != nil {
			return err
		}
	}
	if d.kept == nil {
		return nil
	}
	return kernel.SetFloats(d.kept.View(), values)
}

// sampler chooses one of the candidates of a row of scores. Three filters apply in order: the k
// best scores (top-k), the most probable of these whose probabilities sum to p (top-p), and
// those at least minP times as probable as the best (min-p).
type sampler struct {
	k, most  int64   // k applies from 1 to most; otherwise all are candidates
	p, minP  float64 // apply if p < 1 and minP > 0; p <= 0 or minP >= 1 keeps only the best
	softmax  bool    // take the softmax of the scores; otherwise they are probabilities
	weighted bool    // choose the largest probability/weight instead of the largest probability
	epsilon  float64 // added to the weights
}

// candidates returns the positions and probabilities of the kept candidates, best first unless
// only min-p filtered them.
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

// probabilities returns the probabilities of the scores at some positions, normalised over
// these.
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

// best returns the position of the choice among candidates; weights has one weight per position.
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
