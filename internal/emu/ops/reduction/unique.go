package reduction

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/kernel/order"
	"github.com/goascend/cann/internal/emu/op"
)

// uniques lists the operators that find the distinct elements, or the distinct slices along a
// dimension. Each output has room for as many elements as the input; its view is narrowed to the
// number found. The results are sorted even if the caller does not request it.
var uniques = op.Table{"Unique": unique, "Unique2": unique, "UniqueDim": unique, "UniqueConsecutive": unique}.Omits()

// noDimension is the dim of aclnnUniqueConsecutive that selects the flattened tensor.
const noDimension = 1000

func unique(c *op.Call) (op.Run, error) {
	self, value := c.Tensor("self"), c.Tensor("valueOut")
	flat := !c.Has("dim") || c.Op.Name == "UniqueConsecutive" && c.Int("dim") == noDimension
	axis := 0
	if !flat {
		axis = c.Axis(self, c.Int("dim"))
	}
	c.Movable(self, value)
	c.SameDType(self, value)
	runs := c.Op.Name == "UniqueConsecutive"
	if !self.DType.IsComplex() || self.DType == dtype.Complex32 || !runs { // complex numbers have no order, but may be equal
		c.Countable(self)
	}
	wanted := func(name, flag string) *op.Tensor {
		if !c.Has(name) || flag != "" && c.Has(flag) && !c.Bool(flag) {
			return nil
		}
		t := c.Tensor(name)
		c.Plain(t)
		c.DType(t, dtype.Int64)
		return t
	}
	inverse := wanted("inverseOut", "returnInverse")
	counts := wanted("countsOut", "returnCounts")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		g, err := groupsOf(self, axis, flat, runs)
		if err != nil {
			return err
		}
		shape := []int64{int64(len(g.First))}
		groups := shape
		parts := []int64{int64(len(g.Group))}
		if flat {
			parts = self.Shape
		} else {
			shape = slices.Clone(self.VectorShape())
			shape[axis] = groups[0]
		}
		if err := value.Settle(shape); err != nil {
			return err
		}
		for _, o := range []struct {
			t      *op.Tensor
			shape  []int64
			values []int64
		}{{inverse, parts, g.Group}, {counts, groups, g.Members}} {
			if o.t == nil {
				continue
			}
			if err := o.t.Settle(o.shape); err != nil {
				return err
			}
			if err := indexing.SetInts(o.t.View(), o.values); err != nil {
				return err
			}
		}
		switch {
		case value.Len() == 0:
			return nil
		case flat:
			return indexing.PickFlat(value.View(), self.View(), g.First)
		}
		return indexing.Pick(value.View(), self.AsVector(), axis, g.First)
	}, nil
}

// groupsOf groups equal slices of self, or equal elements of the flattened tensor. With runs
// only neighbours are compared.
func groupsOf(self *op.Tensor, axis int, flat, runs bool) (order.Groups, error) {
	switch {
	case self.VectorShape()[axis] == 0 || flat && self.Len() == 0:
		return order.Groups{}, nil
	case self.DType.IsComplex():
		return runsOfComplex(self, axis, flat)
	case flat:
		return indexing.UniqueFlat(self.View(), runs)
	}
	return indexing.Unique(self.AsVector(), axis, runs)
}

// runsOfComplex groups equal neighbours as slices of their real and imaginary parts.
func runsOfComplex(self *op.Tensor, axis int, flat bool) (order.Groups, error) {
	re, im := op.PartsOf(self.AsVector())
	both, release := kernel.TemporaryOf(re.DType, append(slices.Clone(re.Shape), 2)...)
	defer release()
	last := len(re.Shape)
	for i, part := range []kernel.View{re, im} {
		if err := elementwise.Copy(both.Select(last, int64(i)), part); err != nil {
			return order.Groups{}, err
		}
	}
	if flat {
		both.Shape, both.Strides, axis = []int64{re.Len(), 2}, []int64{2, 1}, 0
	}
	return indexing.Unique(both, axis, true)
}
