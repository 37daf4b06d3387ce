package quantization

import (
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/minifloat"
	"github.com/goascend/cann/internal/emu/op"
)

// scalings lists the quantisations by given scales that also return the largest magnitudes, from which
// a program computes its next scales.
var scalings = op.Table{"QuantMax": quantMax, "GroupedQuantMax": quantMax}

// quantMax sets y to x·scale, rounded to a type of eight bits, and amax to the largest magnitude of x.
// Each group of rows has its own scale and magnitude. In mode "hybrid" the device rounds some numbers
// at random; here all are rounded as in mode "round".
func quantMax(c *op.Call) (op.Run, error) {
	x, scale, y, amax := c.Tensor("x"), c.Tensor("scale"), c.Tensor("y"), c.Tensor("amax")
	var groups *op.Tensor
	count := int64(1)
	if c.Has("groupList") {
		groups = c.Tensor("groupList")
		count = groups.Len()
		c.Plain(groups)
		c.Rank(groups, 1, 1)
		if count > 384 {
			c.Unfit("%v has %d groups; at most 384 are supported", groups, count)
		}
	}
	c.Plain(x, scale, y, amax)
	for _, t := range []*op.Tensor{scale, amax} {
		c.Shape(t, []int64{count}, "one for each group")
	}
	round := minifloat.Even
	if y.DType == dtype.HiFloat8 {
		round = minifloat.Away
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		in, err := minifloat.Read(x.View())
		if err != nil {
			return err
		}
		factors, err := elementwise.Floats(scale.View())
		if err != nil {
			return err
		}
		ends, err := op.GroupEnds(groups, x.Dim(0), false)
		if err != nil {
			return err
		}
		row, most := op.Count(x.Shape[1:]), make([]float64, count)
		err = op.EachGroup(ends, func(g int, first, n int64) error {
			part := in[first*row : (first+n)*row]
			most[g] = math.Abs(slices.MaxFunc(part, byMagnitude))
			for i, v := range part {
				part[i] = float64(float32(v) * factors[g])
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := elementwise.SetFloats(amax.View(), most); err != nil {
			return err
		}
		return minifloat.Write(y.View(), in, round)
	}, c.Err()
}

// byMagnitude compares magnitudes. NaN is less than all numbers, as the device's maximum ignores it.
func byMagnitude(a, b float64) int {
	switch a, b = math.Abs(a), math.Abs(b); {
	case a < b || math.IsNaN(a):
		return -1
	case a > b || math.IsNaN(b):
		return 1
	}
	return 0
}
