package kernel

import (
	"fmt"

	"github.com/goascend/cann/internal/dtype"
)

// Taps is a sparse linear map along one dimension: every element of the result is a weighted sum
// of a few elements of the input. It describes averaging, interpolation and padding.
type Taps struct {
	Index  [][]int64   // for each index of the result, the indices of the input
	Weight [][]float64 // weights of the same lengths; nil means one tap of weight 1 per result
}

// layer returns the n-th tap of every result, as views that broadcast against tensors of the
// given rank along axis. Results with fewer taps have weight 0; dense is false if there are any.
func (t Taps) layer(n, axis, rank int, d dtype.Type) (index, weight View, dense bool, release func()) {
	count := int64(len(t.Index))
	shape := make([]int64, rank)
	for i := range shape {
		shape[i] = 1
	}
	shape[axis] = count
	index, releaseIndex := temporary(dtype.Int64, shape)
	weight, releaseWeight := temporary(d, shape)
	dense = true
	for i, places := range t.Index {
		k, w := places[0], 0.0
		if n < len(places) {
			k, w = places[n], 1
			if t.Weight != nil {
				w = t.Weight[i][n]
			}
		}
		index.ints()[i] = k
		setFloat(weight, int64(i), w)
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

// moved reports whether every element of the result is a copy of one element of the input.
func (t Taps) moved() bool { return t.Weight == nil && t.depth() == 1 }

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
func Resample(out, in View, axis int, taps ...Taps) error {
	if out.Len() == 0 {
		return nil
	}
	c := newChain(in, out)
	for i, t := range taps {
		at := axis + i
		shape := append([]int64(nil), in.Shape...)
		shape[at] = out.Shape[at]
		if c.err == nil {
			c.err = t.check(shape[at], in.Shape[at])
		}
		if c.err != nil {
			break
		}
		in = c.resampled(shape, in, at, t)
	}
	if c.err == nil {
		c.err = Copy(out, in)
	}
	return c.end()
}

// resampled returns in mapped along one dimension.
func (c *chain) resampled(shape []int64, in View, axis int, t Taps) View {
	d := c.compute
	if t.moved() {
		d = in.DType
	}
	result := c.tempOf(d, shape)
	if t.moved() {
		index, _, _, release := t.layer(0, axis, len(shape), c.compute)
		defer release()
		c.err = Gather(result, in, axis, index)
		return result
	}
	wide := in
	if in.DType != d {
		wide = c.temp(in.Shape)
		c.set(wide, Identity, nil, Of(in))
	}
	part := c.temp(shape)
	c.set(result, Identity, nil, Const(Real(0)))
	for n := range t.depth() {
		index, weight, dense, release := t.layer(n, axis, len(shape), d)
		if c.err == nil {
			c.err = Gather(part, wide, axis, index)
		}
		if !dense { // 0 times infinity must not become NaN
			c.set(part, Where, nil, Of(weight), Of(part), Const(Real(0)))
		}
		c.addTimes(result, result, 1, part, weight)
		release()
	}
	return result
}

// ResampleGrad computes the gradient of Resample's input from that of its output, by the
// transposed map. It supports floating-point types only.
func ResampleGrad(din, dout View, axis int, taps ...Taps) error {
	if din.Len() == 0 {
		return nil
	}
	c := newChain(din, dout)
	grad := dout
	for i := len(taps) - 1; i >= 0; i-- {
		t, at := taps[i], axis+i
		shape := append([]int64(nil), grad.Shape...)
		shape[at] = din.Shape[at]
		if c.err == nil {
			c.err = t.check(grad.Shape[at], shape[at])
		}
		if c.err != nil {
			break
		}
		sum, part := c.temp(shape), grad
		c.set(sum, Identity, nil, Const(Real(0)))
		weighted := !t.moved() || grad.DType != sum.DType
		if weighted {
			part = c.temp(grad.Shape)
		}
		for n := range t.depth() {
			index, weight, dense, release := t.layer(n, at, len(shape), c.compute)
			if weighted {
				c.mul(part, grad, weight)
			}
			if !dense {
				c.set(part, Where, nil, Of(weight), Of(part), Const(Real(0)))
			}
			if c.err == nil {
				c.err = Scatter(ScatterAdd, sum, part, at, index)
			}
			release()
		}
		grad = sum
	}
	c.set(din, Identity, nil, Of(grad))
	return c.end()
}
