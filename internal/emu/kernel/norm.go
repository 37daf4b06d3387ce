package kernel

/*
#cgo noescape rms_norm_rows
#cgo nocallback rms_norm_rows
#include "rows_op.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
)

// RMSNorm normalises over the trailing dimensions that gamma has: rstd = 1/√(mean(x²) + eps),
// y = x · rstd · gamma. rstd has x's leading dimensions and may have no data. y may be x.
func RMSNorm(y, rstd, x, gamma View, eps float64) error {
	o, rows, err := newNorm(y, rstd, x, x, gamma)
	if err != nil || rows == 0 {
		return err
	}
	o.eps = C.double(eps)
	if each := max(pieceLen/gamma.Len(), 1); rows < 2*each {
		C.rms_norm_rows(&o, 0, C.int64_t(rows))
	} else {
		shared := o // by threads, in memory that outlives this function
		Parallel(rows, each, func(lo, hi int64) { C.rms_norm_rows(&shared, C.int64_t(lo), C.int64_t(hi)) })
	}
	return nil
}

// RMSNormGrad is the gradient of RMSNorm: with g = dy·gamma, dx = rstd·(g − x·rstd²·mean(g·x)),
// and dgamma = Σ dy·x·rstd over the leading dimensions.
func RMSNormGrad(dx, dgamma, dy, x, rstd, gamma View) error {
	o, rows, err := newNorm(dx, rstd, dy, x, gamma)
	if err != nil {
		return err
	}
	// The rows of a part depend on the shape only, and so does the order of additions.
	const parts = 64
	width := gamma.Len()
	each := max(pieceLen/max(width, 1), (rows+parts-1)/parts, 1)
	n := (rows + each - 1) / each
	sums, release := temporary(dtype.Float64, append([]int64{n}, gamma.Shape...))
	defer release()
	clear(sums.doubles())
	Parallel(n, 1, func(lo, hi int64) {
		for k := lo; k < hi; k++ {
			C.rms_norm_grad_rows(&o, C.int64_t(k*each), C.int64_t(min((k+1)*each, rows)), (*C.double)(unsafe.Add(sums.Data, 8*k*width)))
		}
	})
	return Reduce(ReduceSum, dgamma, sums, []int{0}, 0)
}

// newNorm describes RMSNorm, or its gradient dy with the result out, and counts the rows.
func newNorm(out, rstd, dy, x, gamma View) (o C.struct_norm, rows int64, err error) {
	rank, outer := len(x.Shape), len(x.Shape)-len(gamma.Shape)
	if outer < 0 || rank > MaxRank {
		return o, 0, fmt.Errorf("kernel: %v is not normalised over %v; at most %d dimensions are supported", x.Shape, gamma.Shape, MaxRank)
	}
	if x.Len() == 0 {
		return o, 0, nil
	}
	if rstd.Data != nil {
		rstd = kept(rstd.Leading(outer), rank, axesFrom(outer, rank))
	}
	o.space, o.width = cSpace(x.Shape), C.int64_t(gamma.Len())
	for i, to := range [...]*C.struct_operand{&o.out, &o.rstd, &o.dy, &o.x, &o.gamma} {
		if *to, err = over([...]View{out, rstd, dy, x, gamma}[i], x.Shape); err != nil {
			return o, 0, err
		}
	}
	return o, x.Len() / gamma.Len(), nil
}

// moments returns the mean of x over axes and 1/√(variance + eps), without the dimensions axes.
func (c *chain) moments(x View, axes []int, eps float64) (mean, rstd View) {
	mean, rstd = c.temp(others(x.Shape, axes)), c.temp(others(x.Shape, axes))
	c.reduce(ReduceMean, mean, x, axes, 0)
	c.reduce(ReduceVar, rstd, x, axes, 0)
	c.inverseDeviation(rstd, rstd, eps)
	return mean, rstd
}

// normalize is out = (x − mean) · rstd. mean and rstd lack the dimensions axes.
func (c *chain) normalize(out, x, mean, rstd View, axes []int) {
	c.sub(out, x, kept(mean, len(x.Shape), axes))
	c.mul(out, out, kept(rstd, len(x.Shape), axes))
}

// normalizeGrad is dx = rstd·(g − mean(g) − normed·mean(g·normed)), the means being over
// axes. It changes g.
func (c *chain) normalizeGrad(dx, g, normed, rstd View, axes []int) {
	rank := len(g.Shape)
	product := c.temp(g.Shape)
	m, s := c.temp(others(g.Shape, axes)), c.temp(others(g.Shape, axes))
	c.mul(product, g, normed)
	c.reduce(ReduceMean, m, g, axes, 0)
	c.reduce(ReduceMean, s, product, axes, 0)
	c.sub(g, g, kept(m, rank, axes))
	c.addTimes(g, g, -1, normed, kept(s, rank, axes))
	c.mul(dx, g, kept(rstd, rank, axes))
}

// affine is z = z · weight + bias; either may have no data.
func (c *chain) affine(z, weight, bias View) {
	if weight.Data != nil {
		c.mul(z, z, weight)
	}
	if bias.Data != nil {
		c.set(z, Add, []Number{Real(1)}, Of(z), Of(bias))
	}
}

// give copies value to out if out has data.
func (c *chain) give(out, value View) {
	if out.Data != nil {
		c.set(out, Identity, nil, Of(value))
	}
}

// LayerNorm normalises over the trailing dimensions from axis on: y = (x − mean) · rstd ·
// weight + bias, rstd = 1/√(var + eps). mean and rstd have x's leading dimensions. weight, bias,
// mean and rstd may have no data.
func LayerNorm(y, mean, rstd, x View, axis int, weight, bias View, eps float64) error {
	c := newChain(x)
	axes := axesFrom(axis, len(x.Shape))
	m, s := c.moments(x, axes, eps)
	normed := c.temp(x.Shape)
	c.normalize(normed, x, m, s, axes)
	c.affine(normed, weight, bias)
	c.set(y, Identity, nil, Of(normed))
	c.give(mean, m)
	c.give(rstd, s)
	return c.end()
}

// LayerNormGrad is the gradient of LayerNorm. Outputs without data are left out.
func LayerNormGrad(dx, dweight, dbias, dy, x View, axis int, mean, rstd, weight View) error {
	c := newChain(x)
	axes, leading := axesFrom(axis, len(x.Shape)), axesFrom(0, axis)
	normed, g := c.temp(x.Shape), c.temp(x.Shape)
	c.normalize(normed, x, mean, rstd, axes)
	if dweight.Data != nil {
		sum := c.temp(x.Shape[axis:])
		c.mul(g, dy, normed)
		c.reduce(ReduceSum, sum, g, leading, 0)
		c.set(dweight, Identity, nil, Of(sum))
	}
	if dbias.Data != nil {
		sum := c.temp(x.Shape[axis:])
		c.reduce(ReduceSum, sum, dy, leading, 0)
		c.set(dbias, Identity, nil, Of(sum))
	}
	if dx.Data != nil {
		c.set(g, Identity, nil, Of(dy))
		c.affine(g, weight, View{})
		c.normalizeGrad(dx, g, normed, rstd, axes)
	}
	return c.end()
}
