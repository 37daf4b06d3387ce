package matmul

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	gemmkernel "github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// groupMatmul is a product of quantised matrices whose scales differ between groups of K.
type groupMatmul struct {
	left, right                               quantOperand
	m, k, n, size                             int64 // size is that of a group along K
	rows, columns, offset, yOffset, bias, out *op.Tensor
	square                                    bool // x1: scales per row and group; x2: per square
}

// groupQuantMatmul is QuantMatmulV5 with a group size, which packs the sizes along M, N and K.
// They are 1, 128 and 128 with scales for the groups of each row of x1 and for square blocks of
// x2, or 256 along K, for which those along M and N are 0 or 1, with per-group column scales and
// per-row scales.
func groupQuantMatmul(c *op.Call) (op.Run, error) {
	packed := c.Int("groupSize")
	sizes := [3]int64{packed >> 32, packed >> 16 & 0xffff, packed & 0xffff}
	square := sizes == [3]int64{1, 128, 128}
	if !square && (sizes[0] > 1 || sizes[1] > 1 || sizes[2] != 256) {
		c.Invalid("groupSize is %d, for groups of %v along M, N and K; use 0, [1,128,128] or [0,0,256]", packed, sizes)
		return nil, c.Err()
	}
	x1, x2 := c.Tensor("x1"), c.Tensor("x2")
	if x1.DType == dtype.Int8 && x2.DType != dtype.Int8 && c.Optional("x1Scale") == nil {
		c.Invalid("x1Scale is null; a product of int8 and int4 needs it")
	}
	g := &groupMatmul{
		size: sizes[2], square: square, rows: c.Tensor("x1Scale"), columns: c.Tensor("x2Scale"), offset: c.Optional("x2Offset"), yOffset: c.Optional("yOffset"), bias: c.Optional("bias"), out: c.Tensor("out"),
	}
	c.NoneOf("yScale", "x1Offset")
	c.Plain(x1, x2, g.rows, g.columns, g.out)
	c.Rank(x1, 2, 2)
	c.Rank(x2, 2, 2)
	if c.Bool("transposeX1") {
		c.Invalid("transposeX1 is true; with groups only false is supported")
	}
	c.DType(g.rows, dtype.Float32)
	g.types(c, x1, x2)
	if c.Err() != nil {
		return nil, c.Err()
	}
	g.left, g.right = newQuantOperand(c, x1, false), newQuantOperand(c, x2, c.Bool("transposeX2"))
	if c.Err() != nil {
		return nil, c.Err()
	}
	g.m, g.k, g.n = g.left.shape()[0], g.left.shape()[1], g.right.shape()[1]
	if g.right.shape()[0] != g.k {
		c.Invalid("%v and %v cannot be multiplied", x1, x2)
	}
	c.Shape(g.out, []int64{g.m, g.n}, "the product of x1 and x2")
	checkRows(c, x1, x2, g.k)
	groups := (g.k + g.size - 1) / g.size
	if g.square {
		c.Shape(g.rows, []int64{g.m, groups}, "one for each row and group of K")
		squares := []int64{groups, (g.n + g.size - 1) / g.size}
		if c.Bool("transposeX2") {
			slices.Reverse(squares)
		}
		c.Shape(g.columns, squares, "one for each square of x2")
	} else {
		c.Shape(g.rows, []int64{g.m, 1}, "one for each row")
		c.Shape(g.columns, []int64{groups, g.n}, "one for each group of K and column")
	}
	if g.offset != nil {
		c.Plain(g.offset)
		c.SameShape(g.columns, g.offset)
	}
	for _, t := range []*op.Tensor{g.yOffset, g.bias} {
		if t != nil {
			c.Plain(t)
			c.Shape(t, []int64{g.n}, "one for each column")
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return g.run, nil
}

// types refuses element types that no mode supports, and tensors that belong to another mode.
func (g *groupMatmul) types(c *op.Call, x1, x2 *op.Tensor) {
	var absent []*op.Tensor
	switch {
	case g.square:
		c.DType(x1, dtype.Int8)
		c.DType(x2, dtype.Int8)
		c.DType(g.columns, dtype.Float32)
		c.DType(g.out, dtype.Float16, dtype.BFloat16)
		absent = []*op.Tensor{g.offset, g.yOffset}
		if g.bias != nil {
			c.DType(g.bias, dtype.Float32)
		}
	case x1.DType == dtype.Int8:
		c.DType(x2, dtype.Int32)
		c.DType(g.columns, dtype.Uint64, dtype.Int64)
		c.DType(g.out, dtype.Float16, dtype.BFloat16)
		absent = []*op.Tensor{g.offset, g.bias}
		if g.yOffset == nil {
			c.Invalid("yOffset is null; int8 with int4 in groups needs it")
		} else {
			c.DType(g.yOffset, dtype.Float32)
		}
	default:
		c.DType(x1, dtype.Int4)
		c.DType(x2, dtype.Int4)
		c.DType(g.columns, dtype.Float32)
		c.DType(g.out, dtype.Float16, dtype.BFloat16)
		absent = []*op.Tensor{g.yOffset, g.bias}
		if g.offset == nil {
			c.Fail(op.NullPointer, "x2Offset is null; int4 in groups needs it")
		} else {
			c.DType(g.offset, dtype.Float16)
		}
	}
	for _, t := range absent {
		if t != nil && t.Len() > 0 {
			c.Invalid("%v does not belong to groups of %v and %v; pass null", t, x1.DType, x2.DType)
		}
	}
}

func (g *groupMatmul) run(*op.Exec) error {
	if g.out.Len() == 0 {
		return nil
	}
	a, release, err := g.left.view()
	defer release()
	if err != nil {
		return err
	}
	b, release, err := g.right.view()
	defer release()
	if err != nil {
		return err
	}
	sum, releaseSum := kernel.Temporary(g.m, g.n)
	defer releaseSum()
	part, releasePart := kernel.Temporary(g.m, g.n)
	defer releasePart()
	if err := elementwise.Zero(sum); err != nil {
		return err
	}
	for i, first := int64(0), int64(0); first < g.k; i, first = i+1, first+g.size {
		n := min(g.size, g.k-first)
		if err := g.group(part, a.Narrow(1, first, n), b.Narrow(0, first, n), i); err != nil {
			return err
		}
		if err := elementwise.Map(elementwise.Add, dtype.Float32, sum, []elementwise.Input{elementwise.Of(sum), elementwise.Of(part)}, elementwise.Real(1)); err != nil {
			return err
		}
	}
	for _, t := range []*op.Tensor{g.bias, g.yOffset} { // at most one is given
		if t == nil {
			continue
		}
		if err := elementwise.Map(elementwise.Add, dtype.Float32, sum, []elementwise.Input{elementwise.Of(sum), elementwise.Of(t.View())}, elementwise.Real(1)); err != nil {
			return err
		}
	}
	if g.square {
		return elementwise.Copy(g.out.View(), sum)
	}
	return elementwise.Map(elementwise.Mul, dtype.Float32, g.out.View(), []elementwise.Input{elementwise.Of(sum), elementwise.Of(g.rows.View())})
}

// group sets part to the scaled product of the i-th group of columns of x1 and rows of x2.
func (g *groupMatmul) group(part, a, b kernel.View, i int64) error {
	p := gemmkernel.QuantProduct{Out: part, A: a, B: b, Most: g.left.most() * g.right.most()}
	if g.square {
		p.Rows = g.rows.View().Narrow(1, i, 1)
		scales := g.columns.View()
		if g.right.transposed {
			scales = op.Permuted(scales, []int64{1, 0})
		}
		wide, release := kernel.Temporary(g.n)
		defer release()
		for j := range scales.Shape[1] {
			first := j * g.size
			one, err := scales.Select(0, i).Narrow(0, j, 1).Broadcast([]int64{min(g.size, g.n-first)})
			if err == nil {
				err = elementwise.Copy(wide.Narrow(0, first, one.Shape[0]), one)
			}
			if err != nil {
				return err
			}
		}
		p.Scale = wide
		return p.Run()
	}
	p.Scale = scaleView(g.columns.View()).Select(0, i)
	if err := p.Run(); err != nil || g.offset == nil {
		return err
	}
	// The elements of x2 have offsets. Their contribution is the row sums of x1 times the scaled
	// offsets, and it is subtracted here.
	sums, release := kernel.Temporary(g.m)
	defer release()
	if err := rowwise.Reduce(rowwise.ReduceSum, sums, a, []int{1}, 0); err != nil {
		return err
	}
	scaled, releaseScaled := kernel.Temporary(g.n)
	defer releaseScaled()
	if err := elementwise.Map(elementwise.Mul, dtype.Float32, scaled, []elementwise.Input{elementwise.Of(p.Scale), elementwise.Of(g.offset.View().Select(0, i))}); err != nil {
		return err
	}
	sums.Shape, sums.Strides = []int64{g.m, 1}, []int64{1, 0}
	return elementwise.Map(elementwise.Addcmul, dtype.Float32, part, []elementwise.Input{elementwise.Of(part), elementwise.Of(sums), elementwise.Of(scaled)}, elementwise.Real(-1))
}
