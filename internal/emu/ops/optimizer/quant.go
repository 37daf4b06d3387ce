package optimizer

import (
	"math"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// codeLength is the number of values that a byte can represent.
const codeLength = 256

// code converts moments to bytes and back. A byte selects a value of an ascending list, which is
// scaled by the largest magnitude of the block.
type code struct {
	values  []float64
	blocks  []float64 // largest magnitude of each block
	block   int       // elements per block
	indices []int64
}

// newCode reads a code. Valid inside Run only.
func newCode(values, largest, indices *op.Tensor, block int64) (code, error) {
	v, err := elementwise.Doubles(values.View())
	if err != nil {
		return code{}, err
	}
	b, err := elementwise.Doubles(largest.View())
	if err != nil {
		return code{}, err
	}
	at, err := elementwise.Indices(indices.View())
	return code{values: v, blocks: b, block: int(block), indices: at}, err
}

// moments returns the values of the bytes.
func (c code) moments() []float64 {
	m := make([]float64, len(c.indices))
	for i, k := range c.indices {
		m[i] = c.values[k] * c.blocks[i/c.block]
	}
	return m
}

// encode replaces the bytes and the largest magnitudes with the code of new moments.
func (c code) encode(m []float64) {
	clear(c.blocks)
	for i, x := range m {
		c.blocks[i/c.block] = max(c.blocks[i/c.block], math.Abs(x))
	}
	for i, x := range m {
		if largest := c.blocks[i/c.block]; largest > 0 {
			x /= largest
		}
		c.indices[i] = c.nearest(x)
	}
}

// nearest finds the nearest value of the list by bisection. On a tie it takes the lower value.
func (c code) nearest(x float64) int64 {
	lo, hi := 0, len(c.values)-1
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; x > c.values[mid] {
			lo = mid
		} else {
			hi = mid
		}
	}
	if math.Abs(x-c.values[lo]) <= math.Abs(x-c.values[hi]) {
		return int64(lo)
	}
	return int64(hi)
}

// adamWQuant is AdamW with one-byte moments, which are scaled per block of elements in row-major
// order.
func adamWQuant(c *op.Call) (op.Run, error) {
	w, grad, step, block := c.Tensor("varRef"), c.Tensor("grad"), c.Tensor("step"), c.Int("blockSize")
	m, mValues, mLargest := c.Tensor("mRef"), c.Tensor("qmapM"), c.Tensor("absmaxMRef")
	v, vValues, vLargest := c.Tensor("vRef"), c.Tensor("qmapV"), c.Tensor("absmaxVRef")
	o := rowwise.AdamW{
		LR: c.Float("lr"), Beta1: c.Float("beta1"), Beta2: c.Float("beta2"), WeightDecay: c.Float("weightDecay"), Eps: c.Float("eps"), Scale: c.Float("gnormScale"),
	}
	if block != codeLength {
		c.Invalid("blockSize is %d; only %d is supported", block, codeLength)
	}
	checkState(c, w, grad)
	c.Plain(m, v, mValues, vValues, mLargest, vLargest, step)
	c.SameShape(w, m, v)
	c.DType(m, dtype.Uint8)
	c.DType(v, dtype.Uint8)
	for _, t := range []*op.Tensor{mValues, vValues, mLargest, vLargest} {
		c.DType(t, dtype.Float32)
	}
	c.Shape(mValues, []int64{codeLength}, "a value for each byte")
	c.Shape(vValues, []int64{codeLength}, "a value for each byte")
	blocks := []int64{(w.Len() + codeLength - 1) / codeLength}
	c.Shape(mLargest, blocks, "one for each block of varRef")
	c.Shape(vLargest, blocks, "one for each block of varRef")
	c.DType(step, dtype.Int64)
	c.Single(step)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if w.Len() == 0 {
			return nil
		}
		made, err := numbersOf([]*op.Tensor{step})
		if err != nil {
			return err
		}
		first, releaseFirst := kernel.Temporary(w.Shape...)
		defer releaseFirst()
		second, releaseSecond := kernel.Temporary(w.Shape...)
		defer releaseSecond()
		moments := []struct {
			numbers                  kernel.View
			bytes, values, magnitude *op.Tensor
		}{{first, m, mValues, mLargest}, {second, v, vValues, vLargest}}
		codes := make([]code, len(moments))
		for i, s := range moments {
			if codes[i], err = newCode(s.values, s.magnitude, s.bytes, block); err != nil {
				return err
			}
			if err := elementwise.SetFloats(s.numbers, codes[i].moments()); err != nil {
				return err
			}
		}
		if err := o.Updates(made[0]).Update(w.View(), first, second, kernel.View{}, grad.View()); err != nil {
			return err
		}
		for i, s := range moments {
			after, err := elementwise.Doubles(s.numbers)
			if err != nil {
				return err
			}
			codes[i].encode(after)
			if err := indexing.SetInts(s.bytes.View(), codes[i].indices); err != nil {
				return err
			}
			if err := elementwise.SetFloats(s.magnitude.View(), codes[i].blocks); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
