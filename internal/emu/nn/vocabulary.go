package nn

import (
	"fmt"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// vocabularyLosses are the cross entropy of a linear layer whose rows, the vocabulary, are
// divided among ranks. Between the three operators the ranks reduce the numbers of each row:
// the maximum, then the sum and the predicted logit.
var vocabularyLosses = table{
	"FusedLinearOnlineMaxSum": onlineMaxSum, "FusedCrossEntropyLossWithMaxSum": maxSumLoss, "FusedLinearCrossEntropyLossGrad": linearLossGrad,
}

// linear checks a layer: input [rows, width], weight [words, width].
func (c *Call) linear(input, weight *Tensor) (rows, words int64) {
	c.plain(input, weight)
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

// perRow checks vectors of one number for each row.
func (c *Call) perRow(rows int64, d dtype.Type, vectors ...*Tensor) {
	for _, t := range vectors {
		c.plain(t)
		c.DType(t, d)
		c.Shape(t, []int64{rows}, "one for each row")
	}
}

// standing is a vector as a matrix of one column.
func standing(v kernel.View) kernel.View {
	v.Shape, v.Strides = []int64{v.Shape[0], 1}, []int64{v.Strides[0], 0}
	return v
}

// logitsOf sets logits [rows, words] to input · weightᵀ.
func logitsOf(logits kernel.View, input, weight *Tensor) error {
	return kernel.Gemm(kernel.Product{Out: logits, A: input.View(), B: permuted(weight.View(), []int64{1, 0}), Alpha: 1})
}

// exponentials sets x to exp(x - most), row by row.
func exponentials(x, most kernel.View) error {
	in := []kernel.Input{kernel.Of(x), kernel.Of(standing(most))}
	if err := kernel.Map(kernel.Add, dtype.Float32, x, in, kernel.Real(-1)); err != nil {
		return err
	}
	return kernel.Map(kernel.Exp, dtype.Float32, x, in[:1])
}

func onlineMaxSum(c *Call) (Run, error) {
	input, weight, target := c.Tensor("input"), c.Tensor("weight"), c.Tensor("target")
	first, last := c.Int("vocabStartIndex"), c.Int("vocabEndIndex")
	most, sum, predicted := c.Tensor("logitsMaxLocalOut"), c.Tensor("sumExpLogitsLocalOut"), c.Tensor("predictedLogitsLocalOut")
	mask, masked, logits := c.Tensor("targetMaskOut"), c.Tensor("maskedTargetOut"), c.Optional("vocabParallelLogitsOutOptional")
	rows, words := c.linear(input, weight)
	if first < 0 || last < first {
		c.Invalid("vocabStartIndex is %d and vocabEndIndex %d; they must be ascending and not negative", first, last)
	}
	c.DType(target, indexTypes...)
	c.perRow(rows, target.DType, target, masked)
	c.perRow(rows, dtype.Float32, most, sum, predicted)
	c.plain(mask)
	c.DType(mask, dtype.Uint8)
	c.Shape(mask, []int64{(rows + 7) / 8}, "a bit for each row")
	if logits != nil {
		c.plain(logits)
		c.SameDType(input, logits)
		c.Shape(logits, []int64{rows, words}, "a logit for each row and word")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if rows == 0 {
			return nil
		}
		at, err := kernel.Indices(target.View())
		if err != nil {
			return err
		}
		bits := make([]int64, mask.Len())
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
					return fmt.Errorf("target %d of row %d is beyond the %d words from %d on", at[i]+first, i, words, first)
				}
			}
		}
		if err := kernel.SetInts(mask.View(), bits); err != nil {
			return err
		}
		if err := kernel.SetInts(masked.View(), at); err != nil {
			return err
		}
		x, release := kernel.Temporary(rows, words)
		defer release()
		if err := logitsOf(x, input, weight); err != nil {
			return err
		}
		if logits != nil {
			if err := kernel.Copy(logits.View(), x); err != nil {
				return err
			}
		}
		if err := kernel.Reduce(kernel.ReduceMax, most.View(), x, []int{1}, 0); err != nil {
			return err
		}
		for i := range rows {
			cell := predicted.View().Narrow(0, i, 1)
			if bits[i/8]&(0x80>>(i%8)) != 0 {
				err = kernel.Zero(cell)
			} else {
				in := []kernel.Input{kernel.Of(x.Select(0, i).Narrow(0, at[i], 1)), kernel.Of(most.View().Narrow(0, i, 1))}
				err = kernel.Map(kernel.Add, dtype.Float32, cell, in, kernel.Real(-1))
			}
			if err != nil {
				return err
			}
		}
		if err := exponentials(x, most.View()); err != nil {
			return err
		}
		return kernel.Reduce(kernel.ReduceSum, sum.View(), x, []int{1}, 0)
	}, nil
}

// unsmoothed refuses what the family has a name for and the device does not support.
func (c *Call) unsmoothed() {
	if s := c.Float("labelSmoothing"); s != 0 {
		c.Invalid("labelSmoothing is %g; only 0 is supported", s)
	}
}

// onlyNull refuses tensors that the family has names for and the device does not support.
func (c *Call) onlyNull(names ...string) {
	for _, name := range names {
		if t := c.Optional(name); t != nil {
			c.Invalid("%v is given; only null is supported", t)
		}
	}
}

func maxSumLoss(c *Call) (Run, error) {
	most, sum, predicted, loss := c.Tensor("logitsMax"), c.Tensor("sumExpLogits"), c.Tensor("predictedLogits"), c.Tensor("lossOut")
	logits, softmax := c.Optional("vocabParallelLogitsOptional"), c.Optional("softMaxOutOptional")
	// The factors of the product are there to make the logits anew: whoever has the logits
	// may pass them and they are not read.
	if c.unsmoothed(); logits == nil {
		c.onlyNull("inputOptional", "weightOptional")
	}
	c.Rank(most, 1, 1)
	c.perRow(most.Len(), dtype.Float32, most, sum, predicted, loss)
	if (logits == nil) != (softmax == nil) {
		c.Invalid("one of vocabParallelLogitsOptional and softMaxOutOptional is null; give both or none")
	}
	if logits != nil && c.Err() == nil {
		c.plain(logits, softmax)
		c.DType(logits, transformerTypes...)
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
	return func(*Exec) error {
		if most.Len() == 0 {
			return nil
		}
		if err := kernel.Map(kernel.Log, dtype.Float32, loss.View(), []kernel.Input{kernel.Of(sum.View())}); err != nil {
			return err
		}
		in := []kernel.Input{kernel.Of(loss.View()), kernel.Of(predicted.View())}
		if err := kernel.Map(kernel.Add, dtype.Float32, loss.View(), in, kernel.Real(-1)); err != nil || softmax == nil || softmax.Len() == 0 {
			return err
		}
		if err := kernel.Copy(softmax.View(), logits.View()); err != nil {
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
	return kernel.Map(kernel.Div, dtype.Float32, x, []kernel.Input{kernel.Of(x), kernel.Of(standing(sum))})
}

func linearLossGrad(c *Call) (Run, error) {
	grad, input, weight, mask, target := c.Tensor("grad"), c.Tensor("input"), c.Tensor("weight"), c.Tensor("targetMask"), c.Tensor("maskedTarget")
	softmax, dInput, dWeight := c.Optional("softmaxOptional"), c.Tensor("inputGradOut"), c.Tensor("weightGradOut")
	c.unsmoothed()
	rows, words := c.linear(input, weight)
	c.perRow(rows, dtype.Float32, grad)
	c.DType(target, indexTypes...)
	c.perRow(rows, target.DType, target)
	c.plain(mask, dInput, dWeight)
	c.DType(mask, dtype.Uint8)
	c.Rank(mask, 1, 1)
	if mask.Len()*8 < rows {
		c.Invalid("%v has a bit for each of %d rows; there are %d", mask, mask.Len()*8, rows)
	}
	c.Same(input, dInput)
	c.Same(weight, dWeight)
	var most, sum *Tensor
	if softmax != nil {
		c.plain(softmax)
		c.DType(softmax, dtype.Float32)
		c.Shape(softmax, []int64{rows, words}, "a probability for each row and word")
	} else {
		most, sum = c.Tensor("logitsMaxOptional"), c.Tensor("sumExpLogitsOptional")
		c.perRow(rows, dtype.Float32, most, sum)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if rows == 0 {
			return zeroAll(dWeight)
		}
		at, err := kernel.Indices(target.View())
		if err != nil {
			return err
		}
		bits, err := kernel.Indices(mask.View())
		if err != nil {
			return err
		}
		p, release := kernel.Temporary(rows, words)
		defer release()
		if softmax != nil {
			err = kernel.Copy(p, softmax.View())
		} else if err = logitsOf(p, input, weight); err == nil {
			err = softened(p, most.View(), sum.View())
		}
		if err != nil {
			return err
		}
		for i := range rows {
			if bits[i/8]&(0x80>>(i%8)) != 0 {
				continue
			}
			if at[i] < 0 || at[i] >= words {
				return fmt.Errorf("target %d of row %d is out of range for %d words", at[i], i, words)
			}
			cell := p.Select(0, i).Narrow(0, at[i], 1)
			if err := kernel.Map(kernel.Add, dtype.Float32, cell, []kernel.Input{kernel.Of(cell), kernel.Const(kernel.Real(-1))}, kernel.Real(1)); err != nil {
				return err
			}
		}
		if err := kernel.Map(kernel.Mul, dtype.Float32, p, []kernel.Input{kernel.Of(p), kernel.Of(standing(grad.View()))}); err != nil {
			return err
		}
		if input.Shape[1] == 0 {
			return nil
		}
		if err := kernel.Gemm(kernel.Product{Out: dInput.View(), A: p, B: weight.View(), Alpha: 1}); err != nil {
			return err
		}
		return kernel.Gemm(kernel.Product{Out: dWeight.View(), A: permuted(p, []int64{1, 0}), B: input.View(), Alpha: 1})
	}, nil
}
