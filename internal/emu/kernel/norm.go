package kernel

/*
#cgo noescape norm_rows
#cgo nocallback norm_rows
#include "rows_op.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
)

// RMSNorm normalises over the trailing dimensions that gamma has: rstd = 1/√(mean(x²) + eps),
// y = x · rstd · gamma. rstd has x's leading dimensions and may have no data. y may be x.
func RMSNorm(y, rstd, x, gamma View, eps float64) error {
	o, rows, err := newNorm(rowNorm{out: y, rstd: rstd, x: x, gamma: gamma}, len(x.Shape)-len(gamma.Shape))
	if err != nil || rows == 0 {
		return err
	}
	o.eps = C.double(eps)
	runNorm(&o, rows)
	return nil
}

func runNorm(o *C.struct_norm, rows int64) {
	each := max(pieceLen/int64(o.width), 1)
	if rows < 2*each {
		C.norm_rows(o, 0, C.int64_t(rows))
		return
	}
	shared := *o // by threads, in memory that outlives this function
	Parallel(rows, each, func(lo, hi int64) { C.norm_rows(&shared, C.int64_t(lo), C.int64_t(hi)) })
}

// RMSNormGrad is the gradient of RMSNorm: with g = dy·gamma, dx = rstd·(g − x·rstd²·mean(g·x)),
// and dgamma = Σ dy·x·rstd over the leading dimensions.
func RMSNormGrad(dx, dgamma, dy, x, rstd, gamma View) error {
	n := rowNorm{out: dx, rstd: rstd, dy: dy, x: x, gamma: gamma}
	sums, release, err := n.grad(len(x.Shape)-len(gamma.Shape), 1, func(o *C.struct_norm, lo, hi C.int64_t, sums *C.double) { C.rms_norm_grad_rows(o, lo, hi, sums) })
	defer release()
	if err != nil {
		return err
	}
	return Reduce(ReduceSum, dgamma, sums.Select(1, 0), []int{0}, 0)
}

// rowNorm has the operands of a norm, or of its gradient, of which out is dx. Those that it lacks have no data.
type rowNorm struct{ out, mean, rstd, dy, x, gamma, beta View }

// grad calls f for parts of the rows, and returns their sums: the given number of rows of sums, or none, for each part.
func (n rowNorm) grad(outer int, each int64, f func(o *C.struct_norm, lo, hi C.int64_t, sums *C.double)) (sums View, release func(), err error) {
	o, rows, err := newNorm(n, outer)
	if err != nil {
		return View{}, func() {}, err
	}
	// The rows of a part depend on the shape only, and so does the order of additions.
	const parts = 64
	shape := n.x.Shape[outer:]
	width := View{Shape: shape}.Len()
	some := max(pieceLen/max(width, 1), (rows+parts-1)/parts, 1)
	count := (rows + some - 1) / some
	sums, release = temporary(dtype.Float64, slices.Concat([]int64{count, each}, shape))
	clear(sums.doubles())
	Parallel(count, 1, func(lo, hi int64) {
		for k := lo; k < hi; k++ {
			var to *C.double
			if each > 0 {
				to = (*C.double)(unsafe.Add(sums.Data, 8*k*each*width))
			}
			f(&o, C.int64_t(k*some), C.int64_t(min((k+1)*some, rows)), to)
		}
	})
	return sums, release, nil
}

// newNorm describes a norm over the dimensions of x but for the outer ones, and counts the rows.
func newNorm(n rowNorm, outer int) (o C.struct_norm, rows int64, err error) {
	x, rank := n.x, len(n.x.Shape)
	if outer < 0 || rank > MaxRank {
		return o, 0, fmt.Errorf("kernel: %v is not normalised over %v; at most %d dimensions are supported", x.Shape, n.gamma.Shape, MaxRank)
	}
	if x.Len() == 0 {
		return o, 0, nil
	}
	for _, v := range []*View{&n.mean, &n.rstd} {
		if v.Data != nil {
			*v = kept(v.Leading(outer), rank, axesFrom(outer, rank))
		}
	}
	o.space, o.width = cSpace(x.Shape), C.int64_t(View{Shape: x.Shape[outer:]}.Len())
	for i, to := range [...]*C.struct_operand{&o.out, &o.mean, &o.rstd, &o.dy, &o.x, &o.gamma, &o.beta} {
		if *to, err = over([...]View{n.out, n.mean, n.rstd, n.dy, x, n.gamma, n.beta}[i], x.Shape); err != nil {
			return o, 0, err
		}
	}
	return o, x.Len() / int64(o.width), nil
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
	c.set(out, SubMul, nil, Of(x), Of(kept(mean, len(x.Shape), axes)), Of(kept(rstd, len(x.Shape), axes)))
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

// affine is out = z · weight + bias; either may have no data.
func (c *chain) affine(out, z, weight, bias View) {
	one := []Number{Real(1)}
	switch {
	case weight.Data != nil && bias.Data != nil:
		c.set(out, Addcmul, one, Of(bias), Of(z), Of(weight))
	case weight.Data != nil:
		c.mul(out, z, weight)
	case bias.Data != nil:
		c.set(out, Add, one, Of(z), Of(bias))
	case out.Data != z.Data:
		c.set(out, Identity, nil, Of(z))
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
	if x.Len() > 0 && x.DType != dtype.Float64 && len(x.Shape) <= MaxRank {
		o, rows, err := newNorm(rowNorm{out: y, mean: mean, rstd: rstd, x: x, gamma: weight, beta: bias}, axis)
		if err != nil {
			return err
		}
		o.eps, o.centred = C.double(eps), 1
		runNorm(&o, rows)
		return nil
	}
	c := newChain(x)
	axes := axesFrom(axis, len(x.Shape))
	m, s := c.moments(x, axes, eps)
	normed := c.temp(x.Shape)
	c.normalize(normed, x, m, s, axes)
	c.affine(y, normed, weight, bias)
	c.give(mean, m)
	c.give(rstd, s)
	return c.end()
}

// LayerNormGrad is the gradient of LayerNorm. Outputs without data are left out.
func LayerNormGrad(dx, dweight, dbias, dy, x View, axis int, mean, rstd, weight View) error {
	if x.DType != dtype.Float64 && len(x.Shape) <= MaxRank {
		n := rowNorm{out: dx, mean: mean, rstd: rstd, dy: dy, x: x, gamma: weight}
		each := int64(2)
		if dweight.Data == nil && dbias.Data == nil {
			each = 0
		}
		sums, release, err := n.grad(axis, each, func(o *C.struct_norm, lo, hi C.int64_t, sums *C.double) { C.layer_norm_grad_rows(o, lo, hi, sums) })
		defer release()
		for i, d := range []View{dweight, dbias} {
			if err == nil && d.Data != nil {
				err = Reduce(ReduceSum, d, sums.Select(1, int64(i)), []int{0}, 0)
			}
		}
		return err
	}
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
		c.affine(g, g, weight, View{})
		c.normalizeGrad(dx, g, normed, rstd, axes)
	}
	return c.end()
}
