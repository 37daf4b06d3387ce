package convolution

import (
	"fmt"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
)

// Taps is a sparse linear map along one dimension: every element of the result is a weighted sum
// of a few elements of the input. It describes averaging, interpolation and padding.
type Taps struct {
	Index  [][]int64   // for each index of the result, the indices of the input
	Weight [][]float64 // weights of the same lengths; nil means one tap of weight 1 per result
}

// layer returns the n-th tap of every result, as views that broadcast against tensors of the
// given rank along axis. Results with fewer taps have weight 0; dense is false if there are any.
func (t Taps) layer(n, axis, rank int, d dtype.Type) (index, weight kernel.View, dense bool, release func()) {
	count := int64(len(t.Index))
	shape := make([]int64, rank)
	for i := range shape {
		shape[i] = 1
	}
	shape[axis] = count
	index, releaseIndex := kernel.TemporaryOf(dtype.Int64, shape...)
	weight, releaseWeight := kernel.TemporaryOf(d, shape...)
	dense = true
	for i, places := range t.Index {
		k, w := places[0], 0.0
		if n < len(places) {
			k, w = places[n], 1
			if t.Weight != nil {
				w = t.Weight[i][n]
			}
		}
		index.Ints()[i] = k
		rowwise.SetFloat(weight, int64(i), w)
		dense = dense && w != 0
	}
	return index, weight, dense, func() { releaseIndex(); releaseWeight() }
}

// depth returns the largest number of taps of a result.
func (t Taps) depth() int {
	n := 0
	for _, places := range t.Index {
		n = max(n, len(places))
	}
	return n
}

// isCopy reports whether every element of the result is a copy of one element of the input.
func (t Taps) isCopy() bool { return t.Weight == nil && t.depth() == 1 }

// check fails unless the taps map a dimension of size n to one of size m.
func (t Taps) check(m, n int64) error {
	if int64(len(t.Index)) != m {
		return fmt.Errorf("kernel: taps for %d places, not %d", len(t.Index), m)
	}
	for _, places := range t.Index {
		for _, k := range places {
			if k < 0 || k >= n || len(places) == 0 {
				return fmt.Errorf("kernel: tap at %d of %d places", k, n)
			}
		}
	}
	return nil
}

// Resample maps the dimensions of in from axis on to those of out, with one Taps per dimension.
// Maps that only move elements accept every element type; others compute in float32 or float64
// and round once.
func Resample(out, in kernel.View, axis int, taps ...Taps) error {
	if out.Len() == 0 {
		return nil
	}
	c := rowwise.NewChain(in, out)
	for i, t := range taps {
		at := axis + i
		shape := append([]int64(nil), in.Shape...)
		shape[at] = out.Shape[at]
		if c.Err == nil {
			c.Err = t.check(shape[at], in.Shape[at])
		}
		if c.Err != nil {
			break
		}
		in = resampled(c, shape, in, at, t)
	}
	if c.Err == nil {
		c.Err = elementwise.Copy(out, in)
	}
	return c.End()
}

// resampled returns in mapped along one dimension.
func resampled(c *rowwise.Chain, shape []int64, in kernel.View, axis int, t Taps) kernel.View {
	d := c.Compute
	if t.isCopy() {
		d = in.DType
	}
	result := c.TempOf(d, shape)
	if t.isCopy() {
		index, _, _, release := t.layer(0, axis, len(shape), c.Compute)
		defer release()
		c.Err = indexing.Gather(result, in, axis, index)
		return result
	}
	wide := in
	if in.DType != d {
		wide = c.Temp(in.Shape)
		c.Set(wide, elementwise.Identity, nil, elementwise.Of(in))
	}
	part := c.Temp(shape)
	c.Set(result, elementwise.Identity, nil, elementwise.Const(elementwise.Real(0)))
	for n := range t.depth() {
		index, weight, dense, release := t.layer(n, axis, len(shape), d)
		if c.Err == nil {
			c.Err = indexing.Gather(part, wide, axis, index)
		}
		if !dense { // 0 times infinity must not become NaN
			c.Set(part, elementwise.Where, nil, elementwise.Of(weight), elementwise.Of(part), elementwise.Const(elementwise.Real(0)))
		}
		c.AddTimes(result, result, 1, part, weight)
		release()
	}
	return result
}

// ResampleGrad computes the gradient of Resample's input from that of its output, by the
// transposed map. It supports floating-point types only.
func ResampleGrad(din, dout kernel.View, axis int, taps ...Taps) error {
	if din.Len() == 0 {
		return nil
	}
	c := rowwise.NewChain(din, dout)
	grad := dout
	for i := len(taps) - 1; i >= 0; i-- {
		t, at := taps[i], axis+i
		shape := append([]int64(nil), grad.Shape...)
		shape[at] = din.Shape[at]
		if c.Err == nil {
			c.Err = t.check(grad.Shape[at], shape[at])
		}
		if c.Err != nil {
			break
		}
		sum, part := c.Temp(shape), grad
		c.Set(sum, elementwise.Identity, nil, elementwise.Const(elementwise.Real(0)))
		weighted := !t.isCopy() || grad.DType != sum.DType
		if weighted {
			part = c.Temp(grad.Shape)
		}
		for n := range t.depth() {
			index, weight, dense, release := t.layer(n, at, len(shape), c.Compute)
			if weighted {
				c.Mul(part, grad, weight)
			}
			if !dense {
				c.Set(part, elementwise.Where, nil, elementwise.Of(weight), elementwise.Of(part), elementwise.Const(elementwise.Real(0)))
			}
			if c.Err == nil {
				c.Err = indexing.Scatter(indexing.ScatterAdd, sum, part, at, index)
			}
			release()
		}
		grad = sum
	}
	c.Set(din, elementwise.Identity, nil, elementwise.Of(grad))
	return c.End()
}
