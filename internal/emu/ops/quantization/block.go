package quantization

import (
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// blockQuantisations lists the quantisations with one scale per block of rows and columns.
var blockQuantisations = op.Table{"DynamicBlockQuant": dynamicBlockQuant, "DynamicBlockQuantV2": dynamicBlockQuant}

// dynamicBlockQuant scales each block of the matrices x [M, N] or [B, M, N] by its largest
// magnitude.
func dynamicBlockQuant(c *op.Call) (op.Run, error) {
	x, y, scale := c.Tensor("x"), c.Tensor("yOut"), c.Tensor("scaleOut")
	eightBits(c, x, y)
	c.Plain(scale)
	c.DType(scale, dtype.Float32)
	c.Rank(x, 2, 3)
	rows, columns, least := c.Int("rowBlockSize"), c.Int("colBlockSize"), c.Float("minScale")
	single := c.Has("dstTypeMax") // if so a block may be one column wide
	switch {
	case !slices.Contains([]int64{1, 64, 128, 256, 512}, rows):
		c.Invalid("rowBlockSize is %d; use 1, 64, 128, 256 or 512", rows)
	case !slices.Contains([]int64{64, 128, 192, 256}, columns) && (!single || columns != 1):
		c.Invalid("colBlockSize is %d; use 64, 128, 192 or 256", columns)
	case least < 0 || math.IsNaN(least):
		c.Invalid("minScale is %g; it must not be negative", least)
	case single && c.Float("dstTypeMax") != 0:
		c.Invalid("dstTypeMax is %g; int8 has its own, pass 0", c.Float("dstTypeMax"))
	}
	if mode := c.Text("roundModeOptional"); mode != "" && mode != "rint" {
		c.Invalid("roundModeOptional %q is not supported; int8 is rounded by rint", mode)
	}
	if c.Err() == nil && x.Len() == 0 {
		c.Invalid("%v is empty", x)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	m, n := x.Dim(-2), x.Dim(-1)
	c.Shape(scale, append(slices.Clone(x.Shape[:x.Rank()-2]), (m+rows-1)/rows, (n+columns-1)/columns), "one for each block")
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		return eachBlock(m, rows, func(row, first, count, height int64) error {
			return eachBlock(n, columns, func(column, left, across, width int64) error {
				// Quantise all blocks of one size at once:
				// [batch…, blocks, rows, blocks, columns].
				part := func(t *op.Tensor) kernel.View {
					v, r := t.View(), t.Rank()
					v = v.Narrow(r-2, first, count*height).Narrow(r-1, left, across*width)
					return op.Divided(op.Divided(v, r-1, across), r-2, count)
				}
				r := scale.Rank()
				return quantiseBlocks(part(y), scale.View().Narrow(r-2, row, count).Narrow(r-1, column, across), part(x), least)
			})
		})
	}, nil
}

// eachBlock calls f for the whole blocks of a dimension and then for the remainder. at is the
// index of the first of n blocks, first is the element where they begin, and size is their size.
func eachBlock(length, size int64, f func(at, first, n, size int64) error) error {
	whole := length / size
	if whole > 0 {
		if err := f(0, 0, whole, size); err != nil {
			return err
		}
	}
	if rest := length % size; rest > 0 {
		return f(whole, whole*size, 1, rest)
	}
	return nil
}

// quantiseBlocks quantises blocks [batch…, a, rows, b, columns] with scales [batch…, a, b].
func quantiseBlocks(y, scale, x kernel.View, least float64) error {
	r := len(x.Shape)
	most, release := kernel.Temporary(scale.Shape...)
	defer release()
	if err := rowwise.Reduce(rowwise.ReduceNorm, most, x, []int{r - 3, r - 1}, math.Inf(1)); err != nil {
		return err
	}
	set := func(op elementwise.Op, out, in kernel.View, with elementwise.Input) error {
		return elementwise.Map(op, dtype.Float32, out, []elementwise.Input{elementwise.Of(in), with})
	}
	if err := set(elementwise.Div, most, most, elementwise.Const(elementwise.Real(127))); err != nil {
		return err
	}
	if least > 0 {
		if err := set(elementwise.Min, most, most, elementwise.Const(elementwise.Real(1/least))); err != nil {
			return err
		}
	}
	if err := elementwise.Copy(scale, most); err != nil {
		return err
	}
	// A block of zeros has scale 0 and quantises to zeros.
	if err := set(elementwise.Max, most, most, elementwise.Const(elementwise.Real(math.SmallestNonzeroFloat32))); err != nil {
		return err
	}
	t, releaseT := kernel.Temporary(x.Shape...)
	defer releaseT()
	most.Shape, most.Strides = widened(most.Shape, r-3, 1), widened(most.Strides, r-3, 0)
	most.Shape, most.Strides = append(most.Shape, 1), append(most.Strides, 0)
	if err := set(elementwise.Div, t, x, elementwise.Of(most)); err != nil {
		return err
	}
	return elementwise.Map(elementwise.Round, dtype.Float32, y, []elementwise.Input{elementwise.Of(t)})
}

// widened inserts a value before index at.
func widened(v []int64, at int, x int64) []int64 { return slices.Insert(slices.Clone(v), at, x) }
