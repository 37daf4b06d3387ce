package linalg

import (
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// distances lists the p-norms of the differences of points.
var distances = op.Table{
	"ChamferDistanceBackward": chamferGrad,
	"Cdist":                   cdist, "CdistBackward": cdistGrad, "Pdist": pdist, "PdistForward": pdist,
}

// normOf refuses a norm order that is negative or NaN.
func normOf(c *op.Call, p float64) float64 {
	if p < 0 || math.IsNaN(p) {
		c.Invalid("p is %g; a norm has an order from 0 to infinity", p)
	}
	return p
}

// pointSets checks two sets of points, and the shape of their distances.
func pointSets(c *op.Call, x1, x2 *op.Tensor) (shape []int64) {
	c.Plain(x1, x2)
	c.DType(x1, op.RealTypes...)
	c.SameDType(x1, x2)
	c.Rank(x1, 2, kernel.MaxRank)
	c.Rank(x2, 2, kernel.MaxRank)
	if c.Err() != nil {
		return nil
	}
	lead, ok := op.BroadcastShape(x1.Shape[:x1.Rank()-2], x2.Shape[:x2.Rank()-2])
	if !ok || x1.Dim(-1) != x2.Dim(-1) {
		c.Invalid("%v and %v are no points of one space with leading dimensions that broadcast", x1, x2)
	}
	return slices.Concat(lead, []int64{x1.Dim(-2), x2.Dim(-2)})
}

func cdist(c *op.Call) (op.Run, error) {
	x1, x2, out := c.Tensor("x1"), c.Tensor("x2"), c.Tensor("out")
	p := normOf(c, c.Float("p"))
	shape := pointSets(c, x1, x2)
	c.SameDType(x1, out)
	if !slices.Equal(out.Shape, shape) { // CANN does not check it, but cannot copy the result to out
		c.Fail(op.NoStep, "%v must have shape %s (a distance for each pair)", out, op.Dims(shape))
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return rowwise.Distances(out.View(), x1.View(), x2.View(), p)
	}, nil
}

func cdistGrad(c *op.Call) (op.Run, error) {
	dy, x1, x2, distance, dx := c.Tensor("grad"), c.Tensor("x1"), c.Tensor("x2"), c.Tensor("cdist"), c.Tensor("out")
	p := normOf(c, c.Float("p"))
	shape := pointSets(c, x1, x2)
	c.SameDType(x1, dy, distance, dx)
	c.Shape(dy, shape, "a gradient for each pair")
	c.Shape(distance, shape, "a distance for each pair")
	if c.Err() == nil {
		c.Shape(dx, slices.Concat(shape[:len(shape)-2], x1.Shape[x1.Rank()-2:]), "x1, with the leading dimensions of both")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if dy.Len() == 0 || dx.Len() == 0 {
			return op.Zero(dx)
		}
		return rowwise.DistancesGrad(dx.View(), dy.View(), x1.View(), x2.View(), distance.View(), p)
	}, nil
}

// pdist computes the distances between all pairs of N points, N·(N−1)/2 in all. Each point is
// compared with those after it.
func pdist(c *op.Call) (op.Run, error) {
	x, out := c.Tensor("self"), c.Tensor("out")
	p := 0.0
	if c.Has("pScalar") {
		p = normOf(c, c.Scalar("pScalar").Float64())
	} else {
		p = normOf(c, c.Float("p"))
	}
	c.Plain(x, out)
	c.DType(x, op.RealTypes...)
	c.SameDType(x, out)
	c.Rank(x, 2, 2)
	if c.Err() == nil {
		n := x.Shape[0]
		c.Shape(out, []int64{n * (n - 1) / 2}, "a distance for each pair of rows")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return rowwise.PairDistances(out.View(), x.View(), p)
	}, nil
}

// chamferGrad is the gradient of the squared distances from each point of two sets to the
// nearest point of the other set.
func chamferGrad(c *op.Call) (op.Run, error) {
	a, b, ab, ba := c.Tensor("xyz1"), c.Tensor("xyz2"), c.Tensor("idx1"), c.Tensor("idx2")
	dab, dba, da, db := c.Tensor("gradDist1"), c.Tensor("gradDist2"), c.Tensor("gradXyz1"), c.Tensor("gradXyz2")
	c.Plain(a, b, ab, ba, dab, dba, da, db)
	c.DType(a, dtype.Float32, dtype.Float16)
	c.SameDType(a, b, dab, dba)
	for _, set := range []struct{ points, nearest, slopes, grads *op.Tensor }{{a, ab, dab, da}, {b, ba, dba, db}} {
		c.Rank(set.points, 3, 3)
		c.DType(set.nearest, dtype.Int32)
		if c.Err() != nil {
			return nil, c.Err()
		}
		batch, n := set.points.Shape[0], set.points.Shape[1]
		c.Shape(set.points, []int64{a.Shape[0], n, 2}, "two coordinates of each point, in as many sets")
		c.Shape(set.nearest, []int64{batch, n}, "a point of the other set for each")
		c.Shape(set.slopes, []int64{batch, n}, "a gradient for each point")
		c.Same(set.points, set.grads)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if a.Len() == 0 || b.Len() == 0 {
			return op.ZeroAll(da, db)
		}
		return rowwise.ChamferGrad(da.View(), db.View(), a.View(), b.View(), ab.View(), ba.View(), dab.View(), dba.View())
	}, nil
}
