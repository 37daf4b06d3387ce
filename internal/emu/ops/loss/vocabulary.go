package loss

import (
	"fmt"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// vocabularyLosses lists the parts of the cross entropy of a linear layer whose weight rows, the
// vocabulary, are divided among ranks. Between the three operators the ranks reduce two sets of
// per-row numbers: first the maximum, then the sum and the predicted logit.
var vocabularyLosses = op.Table{
	"FusedLinearOnlineMaxSum": onlineMaxSum, "FusedCrossEntropyLossWithMaxSum": maxSumLoss, "FusedLinearCrossEntropyLossGrad": linearLossGrad,
}

// linear checks the layer: input is [rows, width], weight is [words, width].
func linear(c *op.Call, input, weight *op.Tensor) (rows, words int64) {
	c.Plain(input, weight)
	c.DType(input, dtype.Float16, dtype.BFloat16)
	c.SameDType(input, weight)
	c.Rank(input, 2, 2)
	c.Rank(weight, 2, 2)
	if c.Err() != nil {
		return 0, 0
	}
	if weight.Shape[0] == 0 || weight.Shape[1] != input.Shape[1] {
		c.Invalid("%v does not fit %v; it must have rows as long, and one at least", weight, input)
	}
	return input.Shape[0], weight.Shape[0]
}

// perRow checks vectors with one number per row.
func perRow(c *op.Call, rows int64, d dtype.Type, vectors ...*op.Tensor) {
	for _, t := range vectors {
		c.Plain(t)
		c.DType(t, d)
		c.Shape(t, []int64{rows}, "one for each row")
	}
}

// logitsOf sets logits [rows, words] to input · weightᵀ.
func logitsOf(logits kernel.View, input, weight *op.Tensor) error {
	return gemm.Gemm(gemm.Product{Out: logits, A: input.View(), B: op.Permuted(weight.View(), []int64{1, 0}), Alpha: 1})
}

// exponentials sets x to exp(x - most), row by row.
func exponentials(x, most kernel.View) error {
	in := []elementwise.Input{elementwise.Of(x), elementwise.Of(op.Column(most))}
	if err := elementwise.Map(elementwise.Add, dtype.Float32, x, in, elementwise.Real(-1)); err != nil {
		return err
	}
	return elementwise.Map(elementwise.Exp, dtype.Float32, x, in[:1])
}

func onlineMaxSum(c *op.Call) (op.Run, error) {
	input, weight, target := c.Tensor("input"), c.Tensor("weight"), c.Tensor("target")
	first, last := c.Int("vocabStartIndex"), c.Int("vocabEndIndex")
	most, sum, predicted := c.Tensor("logitsMaxLocalOut"), c.Tensor("sumExpLogitsLocalOut"), c.Tensor("predictedLogitsLocalOut")
	mask, masked, logits := c.Tensor("targetMaskOut"), c.Tensor("maskedTargetOut"), c.Optional("vocabParallelLogitsOutOptional")
	rows, words := linear(c, input, weight)
	if first < 0 || last < first {
		c.Invalid("vocabStartIndex is %d and vocabEndIndex %d; they must be ascending and not negative", first, last)
	}
	c.DType(target, op.IndexTypes...)
	perRow(c, rows, target.DType, target, masked)
	perRow(c, rows, dtype.Float32, most, sum, predicted)
	c.Plain(mask)
	c.DType(mask, dtype.Uint8)
	c.Shape(mask, []int64{(rows + 7) / 8}, "a bit for each row")
	if logits != nil {
		c.Plain(logits)
		c.SameDType(input, logits)
		c.Shape(logits, []int64{rows, words}, "a logit for each row and word")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if rows == 0 {
			return nil
		}
		at, err := elementwise.Indices(target.View())
		if err != nil {
			return err
		}
		bits, err := localTargets(at, first, last, words)
		if err != nil {
			return err
		}
		if err := indexing.SetInts(mask.View(), bits); err != nil {
			return err
		}
		if err := indexing.SetInts(masked.View(), at); err != nil {
			return err
		}
		x, release := kernel.Temporary(rows, words)
		defer release()
		if err := logitsOf(x, input, weight); err != nil {
			return err
		}
		if logits != nil {
			if err := elementwise.Copy(logits.View(), x); err != nil {
				return err
			}
		}
		if err := rowwise.Reduce(rowwise.ReduceMax, most.View(), x, []int{1}, 0); err != nil {
			return err
		}
		for i := range rows {
			cell := predicted.View().Narrow(0, i, 1)
			if bits[i/8]&(0x80>>(i%8)) != 0 {
				err = elementwise.Zero(cell)
			} else {
				in := []elementwise.Input{elementwise.Of(x.Select(0, i).Narrow(0, at[i], 1)), elementwise.Of(most.View().Narrow(0, i, 1))}
				err = elementwise.Map(elementwise.Add, dtype.Float32, cell, in, elementwise.Real(-1))
			}
			if err != nil {
				return err
			}
		}
		if err := exponentials(x, most.View()); err != nil {
			return err
		}
		return rowwise.Reduce(rowwise.ReduceSum, sum.View(), x, []int{1}, 0)
	}, nil
}

// localTargets converts the targets of all rows to indices among the words, which start at
// first. A target outside [first, last] becomes 0 and its bit is set, as are the bits that pad
// the last byte.
func localTargets(at []int64, first, last, words int64) (bits []int64, err error) {
	rows := int64(len(at))
	bits = make([]int64, (rows+7)/8)
	for i := range 8 * int64(len(bits)) {
		outside := i >= rows || at[i] < first || at[i] > last
		if outside {
			bits[i/8] |= 0x80 >> (i % 8)
		}
		switch {
		case i >= rows:
		case outside:
			at[i] = 0
		default:
			if at[i] -= first; at[i] >= words {
				return nil, fmt.Errorf("target %d of row %d is beyond the %d words from %d on", at[i]+first, i, words, first)
			}
		}
	}
	return bits, nil
}

// unsmoothed refuses label smoothing, which the device does not support either.
func unsmoothed(c *op.Call) {
	if s := c.Float("labelSmoothing"); s != 0 {
		c.Invalid("labelSmoothing is %g; only 0 is supported", s)
	}
}

// onlyNull refuses tensors that the operator declares but the device does not support.
func onlyNull(c *op.Call, names ...string) {
	for _, name := range names {
		if t := c.Optional(name); t != nil {
			c.Invalid("%v is given; only null is supported", t)
		}
	}
}

func maxSumLoss(c *op.Call) (op.Run, error) {
	most, sum, predicted, loss := c.Tensor("logitsMax"), c.Tensor("sumExpLogits"), c.Tensor("predictedLogits"), c.Tensor("lossOut")
	logits, softmax := c.Optional("vocabParallelLogitsOptional"), c.Optional("softMaxOutOptional")
	// The operands of the product serve only to recompute the logits. A caller that has the
	// logits may still pass them, but they are not read.
	if unsmoothed(c); logits == nil {
		onlyNull(c, "inputOptional", "weightOptional")
	}
	c.Rank(most, 1, 1)
	perRow(c, most.Len(), dtype.Float32, most, sum, predicted, loss)
	if (logits == nil) != (softmax == nil) {
		c.Invalid("one of vocabParallelLogitsOptional and softMaxOutOptional is null; give both or none")
	}
	if logits != nil && c.Err() == nil {
		c.Plain(logits, softmax)
		c.DType(logits, op.FloatTypes...)
		c.DType(softmax, dtype.Float32)
		c.SameShape(logits, softmax)
		c.Rank(logits, 2, 2)
		if logits.Rank() == 2 && logits.Shape[0] != most.Len() {
			c.Invalid("%v must have a row for each of %v", logits, most)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if most.Len() == 0 {
			return nil
		}
		if err := elementwise.Map(elementwise.Log, dtype.Float32, loss.View(), []elementwise.Input{elementwise.Of(sum.View())}); err != nil {
			return err
		}
		in := []elementwise.Input{elementwise.Of(loss.View()), elementwise.Of(predicted.View())}
		if err := elementwise.Map(elementwise.Add, dtype.Float32, loss.View(), in, elementwise.Real(-1)); err != nil || softmax == nil || softmax.Len() == 0 {
			return err
		}
		if err := elementwise.Copy(softmax.View(), logits.View()); err != nil {
			return err
		}
		return softened(softmax.View(), most.View(), sum.View())
	}, nil
}

// softened turns logits into probabilities, given the maximum and the sum of each row.
func softened(x, most, sum kernel.View) error {
	if err := exponentials(x, most); err != nil {
		return err
	}
	return elementwise.Map(elementwise.Div, dtype.Float32, x, []elementwise.Input{elementwise.Of(x), elementwise.Of(op.Column(sum))})
}

func linearLossGrad(c *op.Call) (op.Run, error) {
	grad, input, weight, mask, target := c.Tensor("grad"), c.Tensor("input"), c.Tensor("weight"), c.Tensor("targetMask"), c.Tensor("maskedTarget")
	softmax, dInput, dWeight := c.Optional("softmaxOptional"), c.Tensor("inputGradOut"), c.Tensor("weightGradOut")
	unsmoothed(c)
	rows, words := linear(c, input, weight)
	perRow(c, rows, dtype.Float32, grad)
	c.DType(target, op.IndexTypes...)
	perRow(c, rows, target.DType, target)
	c.Plain(mask, dInput, dWeight)
	c.DType(mask, dtype.Uint8, dtype.Bool)
	c.Rank(mask, 1, 1)
	each := mask.DType == dtype.Bool // an element for each row and not a bit
	if each {
		c.Shape(mask, []int64{rows}, "one for each row")
	} else if mask.Len()*8 < rows {
		c.Invalid("%v has a bit for each of %d rows; there are %d", mask, mask.Len()*8, rows)
	}
	c.Same(input, dInput)
	c.Same(weight, dWeight)
	var most, sum *op.Tensor
	if softmax != nil {
		c.Plain(softmax)
		c.DType(softmax, dtype.Float32)
		c.Shape(softmax, []int64{rows, words}, "a probability for each row and word")
		if c.Tiled() && words < 128 {
			c.Invalid("%v has %d words; with softmaxOptional there must be 128 or more", weight, words)
		}
	} else {
		most, sum = c.Tensor("logitsMaxOptional"), c.Tensor("sumExpLogitsOptional")
		perRow(c, rows, dtype.Float32, most, sum)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if rows == 0 {
			return op.ZeroAll(dWeight)
		}
		at, err := elementwise.Indices(target.View())
		if err != nil {
			return err
		}
		bits, err := elementwise.Indices(mask.View())
		if err != nil {
			return err
		}
		p, release := kernel.Temporary(rows, words)
		defer release()
		if softmax != nil {
			err = elementwise.Copy(p, softmax.View())
		} else if err = logitsOf(p, input, weight); err == nil {
			err = softened(p, most.View(), sum.View())
		}
		if err != nil {
			return err
		}
		for i := range rows {
			if each && bits[i] != 0 || !each && bits[i/8]&(0x80>>(i%8)) != 0 {
				continue
			}
			if at[i] < 0 || at[i] >= words {
				return fmt.Errorf("target %d of row %d is out of range for %d words", at[i], i, words)
			}
			cell := p.Select(0, i).Narrow(0, at[i], 1)
			if err := elementwise.Map(elementwise.Add, dtype.Float32, cell, []elementwise.Input{elementwise.Of(cell), elementwise.Const(elementwise.Real(-1))}, elementwise.Real(1)); err != nil {
				return err
			}
		}
		if err := elementwise.Map(elementwise.Mul, dtype.Float32, p, []elementwise.Input{elementwise.Of(p), elementwise.Of(op.Column(grad.View()))}); err != nil {
			return err
		}
		if input.Shape[1] == 0 {
			return nil
		}
		if err := gemm.Gemm(gemm.Product{Out: dInput.View(), A: p, B: weight.View(), Alpha: 1}); err != nil {
			return err
		}
		return gemm.Gemm(gemm.Product{Out: dWeight.View(), A: op.Permuted(p, []int64{1, 0}), B: input.View(), Alpha: 1})
	}, nil
}
