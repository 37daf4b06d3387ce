package nn

import (
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// distances are p-norms of the differences of points, and what limits norms.
var distances = table{
	"ChamferDistanceBackward": chamferGrad,
	"Cdist":                   cdist, "CdistBackward": cdistGrad, "Pdist": pdist, "PdistForward": pdist,
	"Renorm": renorm, "InplaceRenorm": renorm, "EmbeddingRenorm": embeddingRenorm,
}

// normOf refuses the order of a norm that is negative or not a number.
func (c *Call) normOf(p float64) float64 {
	if p < 0 || math.IsNaN(p) {
		c.Invalid("p is %g; a norm has an order from 0 to infinity", p)
	}
	return p
}

// pointSets checks two sets of points, and the shape of their distances.
func (c *Call) pointSets(x1, x2 *Tensor) (shape []int64) {
	c.plain(x1, x2)
	c.DType(x1, softmaxTypes...)
	c.SameDType(x1, x2)
	c.Rank(x1, 2, kernel.MaxRank)
	c.Rank(x2, 2, kernel.MaxRank)
	if c.Err() != nil {
		return nil
	}
	lead, ok := broadcastShape(x1.Shape[:x1.Rank()-2], x2.Shape[:x2.Rank()-2])
	if !ok || x1.Dim(-1) != x2.Dim(-1) {
		c.Invalid("%v and %v are no points of one space with leading dimensions that broadcast", x1, x2)
	}
	return slices.Concat(lead, []int64{x1.Dim(-2), x2.Dim(-2)})
}

func cdist(c *Call) (Run, error) {
	x1, x2, out := c.Tensor("x1"), c.Tensor("x2"), c.Tensor("out")
	p := c.normOf(c.Float("p"))
	shape := c.pointSets(x1, x2)
	c.SameDType(x1, out)
	c.Shape(out, shape, "a distance for each pair")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return kernel.Distances(out.View(), x1.View(), x2.View(), p)
	}, nil
}

func cdistGrad(c *Call) (Run, error) {
	dy, x1, x2, distance, dx := c.Tensor("grad"), c.Tensor("x1"), c.Tensor("x2"), c.Tensor("cdist"), c.Tensor("out")
	p := c.normOf(c.Float("p"))
	shape := c.pointSets(x1, x2)
	c.SameDType(x1, dy, distance, dx)
	c.Shape(dy, shape, "a gradient for each pair")
	c.Shape(distance, shape, "a distance for each pair")
	if c.Err() == nil {
		c.Shape(dx, slices.Concat(shape[:len(shape)-2], x1.Shape[x1.Rank()-2:]), "x1, with the leading dimensions of both")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if dy.Len() == 0 || dx.Len() == 0 {
			return zero(dx)
		}
		return kernel.DistancesGrad(dx.View(), dy.View(), x1.View(), x2.View(), distance.View(), p)
	}, nil
}

// pdist has the distances of N points to those after them, N·(N−1)/2 in all.
func pdist(c *Call) (Run, error) {
	x, out := c.Tensor("self"), c.Tensor("out")
	p := 0.0
	if c.Has("pScalar") {
		p = c.normOf(c.Scalar("pScalar").Float64())
	} else {
		p = c.normOf(c.Float("p"))
	}
	c.plain(x, out)
	c.DType(x, softmaxTypes...)
	c.SameDType(x, out)
	c.Rank(x, 2, 2)
	if c.Err() == nil {
		n := x.Shape[0]
		c.Shape(out, []int64{n * (n - 1) / 2}, "a distance for each pair of rows")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return kernel.PairDistances(out.View(), x.View(), p)
	}, nil
}

func renorm(c *Call) (Run, error) {
	x := c.Tensor(c.either("self", "selfRef"))
	out := x
	if c.Has("out") {
		out = c.Tensor("out")
	}
	p, most := c.Scalar("p").Float64(), c.Scalar("maxNorm").Float64()
	c.plain(x, out)
	c.DType(x, transformerTypes...)
	c.Same(x, out)
	c.Rank(x, 2, kernel.MaxRank)
	axis := c.Axis(x, c.Int("dim"))
	if p <= 0 || most < 0 {
		c.Invalid("p is %g and maxNorm %g; p must be above 0, and maxNorm not below", p, most)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return nil
		}
		return kernel.Renorm(out.View(), x.View(), axis, p, most)
	}, nil
}

// embeddingRenorm limits the norms of the rows that indices name, each once.
func embeddingRenorm(c *Call) (Run, error) {
	x, indices := c.Tensor("selfRef"), c.Tensor("indices")
	most, p := c.Float("maxNorm"), c.Float("normType")
	c.plain(x, indices)
	c.DType(x, transformerTypes...)
	c.DType(indices, indexTypes...)
	c.Rank(x, 2, 2)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		rows, err := kernel.Indices(indices.View())
		if err != nil {
			return err
		}
		slices.Sort(rows)
		for _, r := range slices.Compact(rows) {
			if r < 0 || r >= x.Shape[0] {
				return fmt.Errorf("index %d is out of range for %v", r, x)
			}
			if row := x.View().Narrow(0, r, 1); x.Shape[1] > 0 {
				if err := kernel.Renorm(row, row, 0, p, most); err != nil {
					return err
				}
			}
		}
		return nil
	}, nil
}

// chamferGrad is the gradient of the squared distances of the points of two sets from the
// nearest of the other.
func chamferGrad(c *Call) (Run, error) {
	a, b, ab, ba := c.Tensor("xyz1"), c.Tensor("xyz2"), c.Tensor("idx1"), c.Tensor("idx2")
	dab, dba, da, db := c.Tensor("gradDist1"), c.Tensor("gradDist2"), c.Tensor("gradXyz1"), c.Tensor("gradXyz2")
	c.plain(a, b, ab, ba, dab, dba, da, db)
	c.DType(a, dtype.Float32, dtype.Float16)
	c.SameDType(a, b, dab, dba)
	for _, set := range []struct{ points, nearest, slopes, grads *Tensor }{{a, ab, dab, da}, {b, ba, dba, db}} {
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
	return func(*Exec) error {
		if a.Len() == 0 || b.Len() == 0 {
			return zeroAll(da, db)
		}
		return kernel.ChamferGrad(da.View(), db.View(), a.View(), b.View(), ab.View(), ba.View(), dab.View(), dba.View())
	}, nil
}
