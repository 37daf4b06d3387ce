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
	if !scale.Contiguous() {
		c.Invalid("%v must be contiguous", scale)
	}
	return func(*op.Exec) error {
		ends, err := op.RowEnds(groups, x.Dim(0))
		if err != nil {
			return err
		}
		in, err := minifloat.Read(x.View())
		if err != nil {
			return err
		}
		rows, n := x.Dim(0), x.Dim(1)
		out, scales := make([]float64, len(in)), scale.View()
		err = op.EachGroup(ends, func(g int, first, count int64) error {
			for b := range (count + 63) / 64 {
				from := first + b*64
				pair := scales.Select(0, first/64+int64(g)+b)
				if err := mxPair(s, pair, out, in, n, from, min(from+64, first+count)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		written := ends[len(ends)-1]
		return minifloat.Write(y.View().Narrow(0, 0, min(written, rows)), out[:written*n], round)
	}, c.Err()
}

// mxPair quantises the rows from first to end, at most two blocks, of a matrix with n columns. The
// scales are [n, 2].
func mxPair(s minifloat.Scaling, scales kernel.View, out, in []float64, n, first, end int64) error {
	found := make([]float64, 2*n)
	for half := range int64(2) {
		lo, hi := first+half*minifloat.BlockSize, min(first+(half+1)*minifloat.BlockSize, end)
		for j := range n {
			var block []float64
			for i := lo; i < hi; i++ {
				block = append(block, in[i*n+j])
			}
			if len(block) == 0 {
				continue // the scale of a missing block is the least one
			}
			var factor float64
			found[2*j+half], factor = s.Block(block)
			for i := lo; i < hi; i++ {
				out[i*n+j] = float64(float32(in[i*n+j]) * float32(factor))
			}
		}
	}
	return minifloat.Write(scales, found, minifloat.Even)
}

// mxScaling reads how blocks are scaled and rounded to the type of y.
func mxScaling(c *op.Call, y *op.Tensor) (minifloat.Scaling, minifloat.Rounding) {
	most := 0.0
	if c.Has("dstTypeMax") {
		most = c.Float("dstTypeMax")
	}
	s, round, err := minifloat.NewScaling(y.DType, c.IntOr("scaleAlg", 0), most, c.Text("roundMode"))
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
