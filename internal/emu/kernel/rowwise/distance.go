package rowwise

import (
	"cmp"
	"fmt"
	"math"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// Distances are the p-norms of the differences of points: out [..., P, R] of a [..., P, M]
// and b [..., R, M], whose leading dimensions broadcast to those of out.
func Distances(out, a, b kernel.View, p float64) error {
	n := len(out.Shape)
	wide, err := spreadPoints(out, a, b)
	if err != nil || out.Len() == 0 {
		return err
	}
	rows := out.Shape[n-2]
	errs := make([]error, rows)
	transposed := func(v kernel.View) kernel.View { return v.Permuted(append(kernel.AxesFrom(0, n-2), n-1, n-2)) } // reductions of columns are faster
	thread.Parallel(rows, 1+thread.Grain/(1+wide.b.Len()), func(lo, hi int64) {
		c := NewChain(a)
		from := c.Temp(transposed(wide.b).Shape)
		row := c.Temp(from.Shape)
		c.Set(from, elementwise.Identity, nil, elementwise.Of(transposed(wide.b)))
		for i := lo; i < hi; i++ {
			c.Sub(row, from, transposed(wide.a.Part(n-2, i, 1, 1)))
			c.Reduce(ReduceNorm, out.Select(n-2, i), row, []int{n - 2}, p)
		}
		errs[lo] = c.End()
	})
	return cmp.Or(errs...)
}

// points holds two sets of points with their leading dimensions broadcast.
type points struct{ a, b kernel.View }

func spreadPoints(out, a, b kernel.View) (w points, err error) {
	n := len(out.Shape)
	shape := func(v kernel.View) []int64 {
		return append(append([]int64{}, out.Shape[:n-2]...), v.Shape[len(v.Shape)-2:]...)
	}
	if w.a, err = a.Broadcast(shape(a)); err != nil {
		return w, err
	}
	w.b, err = b.Broadcast(shape(b))
	return w, err
}

// DistancesGrad computes the gradient of a from dy, the gradient of the result of Distances.
func DistancesGrad(da, dy, a, b, distances kernel.View, p float64) error {
	c := NewChain(a)
	n := len(dy.Shape)
	wide, err := spreadPoints(dy, a, b)
	if err != nil {
		return err
	}
	slope, sign := c.Temp(wide.b.Shape), c.Temp(wide.b.Shape)
	weight := c.Temp(dy.Select(n-2, 0).Shape)
	sum := c.Temp(da.Select(n-2, 0).Shape)
	for i := range dy.Shape[n-2] {
		distance := distances.Select(n-2, i)
		c.Sub(slope, wide.a.Part(n-2, i, 1, 1), wide.b)
		c.Set(sign, elementwise.Sign, nil, elementwise.Of(slope))
		c.Set(slope, elementwise.Abs, nil, elementwise.Of(slope))
		far := kernel.Kept(distance, n, []int{n - 1})
		switch {
		case p == 0:
			c.Set(slope, elementwise.Mul, nil, elementwise.Of(slope), elementwise.Const(elementwise.Real(0)))
		case p == 1:
			c.Set(slope, elementwise.Greater, nil, elementwise.Of(slope), elementwise.Const(elementwise.Real(0)))
		case math.IsInf(p, 1):
			c.Set(slope, elementwise.Equal, nil, elementwise.Of(slope), elementwise.Of(far))
		default:
			c.Set(slope, elementwise.Div, nil, elementwise.Of(slope), elementwise.Of(far))
			c.Set(slope, elementwise.Pow, nil, elementwise.Of(slope), elementwise.Const(elementwise.Real(p-1)))
		}
		c.Mul(slope, slope, sign)
		c.Mul(slope, slope, kernel.Kept(dy.Select(n-2, i), n, []int{n - 1}))
		// The gradient of points that coincide is 0.
		c.Set(weight, elementwise.Greater, nil, elementwise.Of(distance), elementwise.Const(elementwise.Real(0)))
		c.Set(slope, elementwise.Where, nil, elementwise.Of(kernel.Kept(weight, n, []int{n - 1})), elementwise.Of(slope), elementwise.Const(elementwise.Real(0)))
		c.Set(slope, elementwise.Where, nil, elementwise.Of(sign), elementwise.Of(slope), elementwise.Const(elementwise.Real(0)))
		c.Reduce(ReduceSum, sum, slope, []int{n - 2}, 0)
		c.Set(da.Select(n-2, i), elementwise.Identity, nil, elementwise.Of(sum))
	}
	return c.End()
}

// PairDistances writes the distance of each row of x [N, M] to every later row. out has
// N·(N−1)/2 elements.
func PairDistances(out, x kernel.View, p float64) error {
	n := x.Shape[0]
	errs := make([]error, n)
	thread.Parallel(n-1, 1+thread.Grain/(1+x.Len()), func(lo, hi int64) {
		c := NewChain(x)
		columns := c.Temp([]int64{x.Shape[1], n}) // reductions of columns are faster
		row := c.Temp(columns.Shape)
		c.Set(columns, elementwise.Identity, nil, elementwise.Of(x.Permuted([]int{1, 0})))
		for i := lo; i < hi; i++ {
			later := n - 1 - i
			differences := row.Narrow(1, 0, later)
			c.Sub(differences, columns.Narrow(1, i+1, later), columns.Narrow(1, i, 1))
			c.Reduce(ReduceNorm, out.Narrow(0, i*(2*n-i-1)/2, later), differences, []int{0}, p)
		}
		errs[lo] = c.End()
	})
	return cmp.Or(errs...)
}

// Renorm scales every slice of x along axis whose p-norm exceeds most so that its norm is most.
func Renorm(out, x kernel.View, axis int, p, most float64) error {
	c := NewChain(x)
	var axes []int
	for i := range x.Shape {
		if i != axis {
			axes = append(axes, i)
		}
	}
	norm, factor := c.Temp([]int64{x.Shape[axis]}), c.Temp([]int64{x.Shape[axis]})
	c.Reduce(ReduceNorm, norm, x, axes, p)
	c.Set(factor, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(norm), elementwise.Const(elementwise.Real(1e-7)))
	c.Set(factor, elementwise.Div, nil, elementwise.Const(elementwise.Real(most)), elementwise.Of(factor))
	c.Set(norm, elementwise.Greater, nil, elementwise.Of(norm), elementwise.Const(elementwise.Real(most)))
	c.Set(factor, elementwise.Where, nil, elementwise.Of(norm), elementwise.Of(factor), elementwise.Const(elementwise.Real(1)))
	c.Mul(out, x, kernel.Kept(factor, len(x.Shape), axes))
	return c.End()
}

// ChamferGrad computes the gradients da [batch, n, 2] and db [batch, m, 2] of two sets of points
// from dab and dba, the gradients of the squared distance of every point to the nearest point of
// the other set. ab and ba are the indices of the nearest points.
func ChamferGrad(da, db, a, b, ab, ba, dab, dba kernel.View) error {
	points, grads := [2][]float64{}, [2][]float64{}
	nearest, slopes := [2][]int64{}, [2][]float64{}
	var err error
	for i, v := range [2]kernel.View{a, b} {
		if points[i], err = elementwise.Doubles(v); err != nil {
			return err
		}
		grads[i] = make([]float64, len(points[i]))
		if nearest[i], err = elementwise.Indices([2]kernel.View{ab, ba}[i]); err != nil {
			return err
		}
		if slopes[i], err = elementwise.Doubles([2]kernel.View{dab, dba}[i]); err != nil {
			return err
		}
	}
	for i := range points {
		n, m := int64(len(points[i]))/2/a.Shape[0], int64(len(points[1-i]))/2/a.Shape[0]
		for p, to := range nearest[i] {
			if to < 0 || to >= m {
				return fmt.Errorf("index %d at position %d is out of range for %d points", to, p, m)
			}
			q := int64(p)/n*m + to
			for k := range int64(2) {
				d := 2 * slopes[i][p] * (points[i][int64(2*p)+k] - points[1-i][2*q+k])
				grads[i][int64(2*p)+k] += d
				grads[1-i][2*q+k] -= d
			}
		}
	}
	if err := elementwise.SetFloats(da, grads[0]); err != nil {
		return err
	}
	return elementwise.SetFloats(db, grads[1])
}
