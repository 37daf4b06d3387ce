package quantization

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/minifloat"
	"github.com/goascend/cann/internal/emu/op"
)

// blockScalings lists the quantisations with a power of two for each block of 32
// elements (MX). Groups with gaps between them leave scales that are not written.
var blockScalings = op.Table{
	"GroupedDynamicMxQuant": groupedMxQuant, "GroupedDynamicMxQuantV2": groupedMxQuant, "AntiMxQuant": antiMxQuant,
}.Omits("GroupedDynamicMxQuant", "GroupedDynamicMxQuantV2")

// pairedTypes are the types of which two elements share a byte.
var pairedTypes = []dtype.Type{dtype.Float4E2M1, dtype.Float4E1M2}

// groupedMxQuant quantises blocks of the rows of x [M, N]. groupIndex holds the ends of groups of rows;
// each group begins a block and a new pair of scales.
func groupedMxQuant(c *op.Call) (op.Run, error) {
	x, groups, y, scale := c.Tensor("x"), c.Tensor("groupIndex"), c.Tensor("y"), c.Tensor("mxscale")
	c.Plain(x, groups, y, scale)
	if c.Err() != nil || x.Len() == 0 {
		return func(*op.Exec) error { return nil }, c.Err()
	}
	s, round := mxScaling(c, y)
	c.Dense(scale)
	return func(*op.Exec) error {
		ends, err := op.RowEnds(groups, x.Dim(0))
		if err != nil {
			return err
		}
		in, err := minifloat.Read(x.View())
		if err != nil {
			return err
		}
		return mxGroups(s, y.View(), scale.View(), in, ends, false, round)
	}, c.Err()
}

// mxGroups quantises blocks of the rows of in [M, N], and overwrites it. Each group of rows begins a block and a new
// pair of scales; gaps says whether the scales between groups become zeros. Rows after the last group are not written.
func mxGroups(s minifloat.Scaling, y, scales kernel.View, in []float64, ends []int64, gaps bool, r minifloat.Rounding) error {
	n, written := y.Shape[1], ends[len(ends)-1]
	err := op.EachGroup(ends, func(g int, first, count int64) error {
		at, pairs := first/64+int64(g), minifloat.Pairs(count, minifloat.BlockSize)
		if next := (first+count)/64 + int64(g) + 1; gaps && at+pairs < next {
			between := scales.Narrow(0, at+pairs, next-at-pairs)
			if err := minifloat.Write(between, make([]float64, between.Len()), minifloat.Even); err != nil {
				return err
			}
		}
		return s.Scale(scales.Narrow(0, at, pairs), in[first*n:(first+count)*n], []int64{count, n}, 0, minifloat.BlockSize)
	})
	if err != nil {
		return err
	}
	return minifloat.Write(y.Narrow(0, 0, written), in[:written*n], r)
}

// mxScaling reads how blocks are scaled and rounded to the type of y.
func mxScaling(c *op.Call, y *op.Tensor) (minifloat.Scaling, minifloat.Rounding) {
	most, rounding := 0.0, c.Text(c.Either("roundModeOptional", "roundMode"))
	if c.Has("dstTypeMax") {
		most = c.Float("dstTypeMax")
	}
	if rounding == "" && c.Has("roundModeOptional") {
		rounding = "rint"
	}
	s, round, err := minifloat.NewScaling(y.DType, c.IntOr("scaleAlg", 0), most, rounding)
	switch four := slices.Contains(pairedTypes, y.DType); {
	case err != nil:
		c.Unfit("%v", err)
	case four && !y.Contiguous():
		c.Invalid("%v must be contiguous, since two elements share a byte", y)
	case four && y.Len() > 0 && y.Dim(-1)%2 != 0:
		c.Unfit("the last dimension of %v must be even, since two elements share a byte", y)
	}
	return s, round
}

// antiMxQuant multiplies each block of 32 elements along an axis by its scale.
func antiMxQuant(c *op.Call) (op.Run, error) {
	x, scale, y := c.Tensor("x"), c.Tensor("mxscale"), c.Tensor("y")
	c.Plain(x, scale, y)
	axis := c.Axis(x, c.Int("axis"))
	c.SameShape(x, y)
	if c.Err() != nil {
		return nil, c.Err()
	}
	n := x.Shape[axis]
	want := append(slices.Clone(x.Shape), 2)
	want[axis] = (n + 63) / 64
	c.Shape(scale, want, "pairs of scales for blocks of 32")
	if slices.Contains(pairedTypes, x.DType) && (x.Len() > 0 && x.Dim(-1)%2 != 0 || !x.Contiguous() || !y.Contiguous()) {
		c.Invalid("%v and %v must be contiguous and have an even last dimension, since two elements share a byte", x, y)
	}
	return func(*op.Exec) error {
		values, err := minifloat.Read(x.View())
		if err != nil || len(values) == 0 {
			return err
		}
		scales, err := minifloat.Read(scale.View())
		if err != nil {
			return err
		}
		inner := op.Count(x.Shape[axis+1:])
		for i := range values {
			row, j := int64(i)/inner, int64(i)%inner
			k := row % n
			pair := ((row/n*want[axis]+k/64)*inner + j) * 2
			values[i] = float64(float32(values[i]) * float32(scales[pair+k/minifloat.BlockSize%2]))
		}
		return minifloat.Write(y.View(), values, minifloat.Even)
	}, c.Err()
}
