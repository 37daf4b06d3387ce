package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// uniques find the distinct elements, or parts along a dimension. The outputs have room for
// as many as the input has; their views are narrowed to those found. They are sorted even
// where the caller does not ask for it.
var uniques = table{"Unique": unique, "Unique2": unique, "UniqueDim": unique, "UniqueConsecutive": unique}

// noDimension is the dim of aclnnUniqueConsecutive that stands for the flattened tensor.
const noDimension = 1000

func unique(c *Call) (Run, error) {
	self, value := c.Tensor("self"), c.Tensor("valueOut")
	flat := !c.Has("dim") || c.op.name == "UniqueConsecutive" && c.Int("dim") == noDimension
	axis := 0
	if !flat {
		axis = c.Axis(self, c.Int("dim"))
	}
	c.movable(self, value)
	c.SameDType(self, value)
	if !kernel.Computes(self.DType) {
		c.Invalid("%v has a dtype that is not supported", self)
	}
	wanted := func(name, flag string) *Tensor {
		if !c.Has(name) || flag != "" && c.Has(flag) && !c.Bool(flag) {
			return nil
		}
		t := c.Tensor(name)
		c.plain(t)
		c.DType(t, dtype.Int64)
		return t
	}
	inverse := wanted("inverseOut", "returnInverse")
	counts := wanted("countsOut", "returnCounts")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		g, err := groupsOf(self, axis, flat, c.op.name == "UniqueConsecutive")
		if err != nil {
			return err
		}
		shape := []int64{int64(len(g.First))}
		groups := shape
		parts := []int64{int64(len(g.Group))}
		if flat {
			parts = self.Shape
		} else {
			shape = slices.Clone(self.vectorShape())
			shape[axis] = groups[0]
		}
		if err := value.settle(shape); err != nil {
			return err
		}
		for _, o := range []struct {
			t      *Tensor
			shape  []int64
			values []int64
		}{{inverse, parts, g.Group}, {counts, groups, g.Members}} {
			if o.t == nil {
				continue
			}
			if err := o.t.settle(o.shape); err != nil {
				return err
			}
			if err := kernel.SetInts(o.t.View(), o.values); err != nil {
				return err
			}
		}
		switch {
		case value.Len() == 0:
			return nil
		case flat:
			return kernel.PickFlat(value.View(), self.View(), g.First)
		}
		return kernel.Pick(value.View(), self.lined(), axis, g.First)
	}, nil
}

// groupsOf finds the groups of the parts of self, or of the elements of all of it; runs
// compares neighbours only.
func groupsOf(self *Tensor, axis int, flat, runs bool) (kernel.Groups, error) {
	switch {
	case self.vectorShape()[axis] == 0 || flat && self.Len() == 0:
		return kernel.Groups{}, nil
	case flat:
		return kernel.UniqueFlat(self.View(), runs)
	}
	return kernel.Unique(self.lined(), axis, runs)
}
