package random

import (
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/random"
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
	d.sampler = random.Sampler{Most: mostK, Softmax: true, Weighted: d.q != nil, Epsilon: c.Float("eps")}
	types := op.HalfTypes
	listed := false // output the candidates instead of a choice
	if c.Has("minPs") {
		types = []dtype.Type{dtype.Float16, dtype.BFloat16, dtype.Float32}
		d.sampler.Most, d.sampler.Softmax, listed = c.Int("ksMax"), c.Bool("inputIsLogits"), c.Bool("isNeedSampleResult")
		if d.sampler.Most < 1 {
			c.Invalid("ksMax is %d; it must be above 0", d.sampler.Most)
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
	sampler                             random.Sampler // the settings that all rows share
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
	ks, err := elementwise.Indices(d.topK.View())
	if err != nil {
		return err
	}
	read := make([][]float32, 4)
	for i, t := range []*op.Tensor{d.logits, d.topP, d.q, d.minPs} {
		if t == nil {
			continue
		}
		if read[i], err = elementwise.Floats(t.View()); err != nil {
			return err
		}
	}
	outside := 0.0
	if d.sampler.Softmax {
		outside = math.Inf(-1)
	}
	index, at := make([]int64, rows), make([]int64, rows*n)
	probability, values := make([]float64, rows*n), slices.Repeat([]float64{outside}, int(rows*n))
	for i := range rows {
		row, one := read[0][i*n:][:n], d.sampler
		one.K, one.P = ks[i], float64(read[1][i])
		if d.minPs != nil {
			one.MinP = float64(read[3][i])
		}
		of, p := one.Candidates(row)
		var weights []float32
		if d.q != nil {
			weights = read[2][i*n:][:n]
		}
		index[i] = of[one.Best(p, weights)]
		for j, k := range of {
			at[i*n+int64(j)], probability[i*n+int64(j)], values[i*n+k] = k, float64(p[j]), float64(row[k])
		}
	}
	return d.write(index, at, probability, values)
}

// write sets the requested outputs.
func (d *drawing) write(index, at []int64, probability, values []float64) error {
	if d.choice != nil {
		if err := indexing.SetInts(d.choice.View(), index); err != nil {
			return err
		}
	} else {
		if err := indexing.SetInts(d.places.View(), at); err != nil {
			return err
		}
		if err := elementwise.SetFloats(d.probabilities.View(), probability); err != nil {
			return err
		}
	}
	if d.kept == nil {
		return nil
	}
	return elementwise.SetFloats(d.kept.View(), values)
}
