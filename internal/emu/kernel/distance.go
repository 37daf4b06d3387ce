package kernel

import (
	"cmp"
	"fmt"
	"math"
)

// Distances are the p-norms of the differences of points: out [..., P, R] of a [..., P, M]
// and b [..., R, M], whose leading dimensions broadcast to those of out.
func Distances(out, a, b View, p float64) error {
	n := len(out.Shape)
	wide, err := spreadPoints(out, a, b)
	if err != nil || out.Len() == 0 {
		return err
	}
	rows := out.Shape[n-2]
	errs := make([]error, rows)
	turned := func(v View) View { return v.permuted(append(axesFrom(0, n-2), n-1, n-2)) } // reductions of columns are faster
	Parallel(rows, 1+grain/(1+wide.b.Len()), func(lo, hi int64) {
		c := newChain(a)
		from := c.temp(turned(wide.b).Shape)
		row := c.temp(from.Shape)
		c.set(from, Identity, nil, Of(turned(wide.b)))
		for i := lo; i < hi; i++ {
			c.sub(row, from, turned(wide.a.Part(n-2, i, 1, 1)))
			c.reduce(ReduceNorm, out.Select(n-2, i), row, []int{n - 2}, p)
		}
		errs[lo] = c.end()
	})
	return cmp.Or(errs...)
}

// points holds two sets of points with their leading dimensions broadcast.
type points struct{ a, b View }

func spreadPoints(out, a, b View) (w points, err error) {
	n := len(out.Shape)
	shape := func(v View) []int64 {
		return append(append([]int64{}, out.Shape[:n-2]...), v.Shape[len(v.Shape)-2:]...)
	}
	if w.a, err = a.Broadcast(shape(a)); err != nil {
		return w, err
	}
	w.b, err = b.Broadcast(shape(b))
	return w, err
}

// DistancesGrad computes the gradient of a from dy, the gradient of the result of Distances.
func DistancesGrad(da, dy, a, b, distances View, p float64) error {
	c := newChain(a)
	n := len(dy.Shape)
	wide, err := spreadPoints(dy, a, b)
	if err != nil {
		return err
	}
	slope, sign := c.temp(wide.b.Shape), c.temp(wide.b.Shape)
	weight := c.temp(dy.Select(n-2, 0).Shape)
	sum := c.temp(da.Select(n-2, 0).Shape)
	for i := range dy.Shape[n-2] {
		distance := distances.Select(n-2, i)
		c.sub(slope, wide.a.Part(n-2, i, 1, 1), wide.b)
		c.set(sign, Sign, nil, Of(slope))
		c.set(slope, Abs, nil, Of(slope))
		far := kept(distance, n, []int{n - 1})
		switch {
		case p == 0:
			c.set(slope, Mul, nil, Of(slope), Const(Real(0)))
		case p == 1:
			c.set(slope, Greater, nil, Of(slope), Const(Real(0)))
		case math.IsInf(p, 1):
			c.set(slope, Equal, nil, Of(slope), Of(far))
		default:
			c.set(slope, Div, nil, Of(slope), Of(far))
			c.set(slope, Pow, nil, Of(slope), Const(Real(p-1)))
		}
		c.mul(slope, slope, sign)
		c.mul(slope, slope, kept(dy.Select(n-2, i), n, []int{n - 1}))
		// The gradient of points that coincide is 0.
		c.set(weight, Greater, nil, Of(distance), Const(Real(0)))
		c.set(slope, Where, nil, Of(kept(weight, n, []int{n - 1})), Of(slope), Const(Real(0)))
		c.set(slope, Where, nil, Of(sign), Of(slope), Const(Real(0)))
		c.reduce(ReduceSum, sum, slope, []int{n - 2}, 0)
		c.set(da.Select(n-2, i), Identity, nil, Of(sum))
	}
	return c.end()
}

// PairDistances writes the distance of each row of x [N, M] to every later row. out has
// N·(N−1)/2 elements.
func PairDistances(out, x View, p float64) error {
	n := x.Shape[0]
	errs := make([]error, n)
	Parallel(n-1, 1+grain/(1+x.Len()), func(lo, hi int64) {
		c := newChain(x)
		columns := c.temp([]int64{x.Shape[1], n}) // reductions of columns are faster
		row := c.temp(columns.Shape)
		c.set(columns, Identity, nil, Of(x.permuted([]int{1, 0})))
		for i := lo; i < hi; i++ {
			later := n - 1 - i
			differences := row.Narrow(1, 0, later)
			c.sub(differences, columns.Narrow(1, i+1, later), columns.Narrow(1, i, 1))
			c.reduce(ReduceNorm, out.Narrow(0, i*(2*n-i-1)/2, later), differences, []int{0}, p)
		}
		errs[lo] = c.end()
	})
	return cmp.Or(errs...)
}

// Renorm scales every slice of x along axis whose p-norm exceeds most so that its norm is most.
func Renorm(out, x View, axis int, p, most float64) error {
	c := newChain(x)
	var axes []int
	for i := range x.Shape {
		if i != axis {
			axes = append(axes, i)
		}
	}
	norm, factor := c.temp([]int64{x.Shape[axis]}), c.temp([]int64{x.Shape[axis]})
	c.reduce(ReduceNorm, norm, x, axes, p)
	c.set(factor, Add, []Number{Real(1)}, Of(norm), Const(Real(1e-7)))
	c.set(factor, Div, nil, Const(Real(most)), Of(factor))
	c.set(norm, Greater, nil, Of(norm), Const(Real(most)))
	c.set(factor, Where, nil, Of(norm), Of(factor), Const(Real(1)))
	c.mul(out, x, kept(factor, len(x.Shape), axes))
	return c.end()
}

// ChamferGrad computes the gradients da [batch, n, 2] and db [batch, m, 2] of two sets of points
// from dab and dba, the gradients of the squared distance of every point to the nearest point of
// the other set. ab and ba are the indices of the nearest points.
func ChamferGrad(da, db, a, b, ab, ba, dab, dba View) error {
	points, grads := [2][]float64{}, [2][]float64{}
	nearest, slopes := [2][]int64{}, [2][]float64{}
	var err error
	for i, v := range [2]View{a, b} {
		if points[i], err = Doubles(v); err != nil {
			return err
		}
		grads[i] = make([]float64, len(points[i]))
		if nearest[i], err = Indices([2]View{ab, ba}[i]); err != nil {
			return err
		}
		if slopes[i], err = Doubles([2]View{dab, dba}[i]); err != nil {
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
	if err := SetFloats(da, grads[0]); err != nil {
		return err
	}
	return SetFloats(db, grads[1])
}
