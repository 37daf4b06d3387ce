package comparison

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/pointwise"
)

// comparisons compare two operands, or test one, element by element.
var comparisons = op.Merge(
	pointwise.Form{Op: elementwise.IsFinite, Types: pointwise.Truth}.Table("IsFinite"),
	pointwise.Form{Op: elementwise.IsInf, Types: pointwise.Truth}.Table("IsInf"),
	pointwise.Form{Op: elementwise.IsPosInf, Types: pointwise.Truth}.Table("IsPosInf"),
	pointwise.Form{Op: elementwise.IsNegInf, Types: pointwise.Truth}.Table("IsNegInf"),
	pointwise.Form{Op: elementwise.Signbit, Types: pointwise.Comparing}.Table("Signbit"),
	pointwise.Form{Op: elementwise.Heaviside}.Table("Heaviside"),
	pointwise.Form{Op: elementwise.Equal, Types: pointwise.Comparing}.Table("EqTensor", "EqScalar", "InplaceEqTensor", "InplaceEqScalar"),
	pointwise.Form{Op: elementwise.NotEqual, Types: pointwise.Comparing}.Table("NeTensor", "NeScalar", "InplaceNeTensor", "InplaceNeScalar"),
	pointwise.Form{Op: elementwise.Less, Types: pointwise.Comparing}.Table("LtTensor", "LtScalar", "InplaceLtTensor", "InplaceLtScalar"),
	pointwise.Form{Op: elementwise.LessEqual, Types: pointwise.Comparing}.Table("LeTensor", "LeScalar", "InplaceLeTensor", "InplaceLeScalar"),
	pointwise.Form{Op: elementwise.Greater, Types: pointwise.Comparing, Complex: true}.Table("GtTensor", "GtScalar", "InplaceGtTensor", "InplaceGtScalar"),
	pointwise.Form{Op: elementwise.GreaterEqual, Types: pointwise.Comparing, Complex: true}.Table("GeTensor", "GeScalar", "InplaceGeTensor", "InplaceGeScalar"),
	pointwise.Form{Op: elementwise.LogicalNot, Types: pointwise.Comparing}.Table("LogicalNot", "InplaceLogicalNot"),
	pointwise.Form{Op: elementwise.LogicalAnd, Types: pointwise.Comparing}.Table("LogicalAnd", "InplaceLogicalAnd"),
	pointwise.Form{Op: elementwise.LogicalOr, Types: pointwise.Comparing}.Table("LogicalOr", "InplaceLogicalOr"),
	pointwise.Form{Op: elementwise.LogicalXor, Types: pointwise.Comparing}.Table("LogicalXor"),
	pointwise.Form{Op: elementwise.IsClose, Types: pointwise.Truth, Params: []string{"rtol", "atol", "equal_nan"}}.Table("IsClose"),
)

// equal returns a single bool: whether both tensors have the same shape and elements.
func equal(c *op.Call) (op.Run, error) {
	self, other, out := c.Tensor("self"), c.Tensor("other"), c.Tensor("out")
	c.Plain(self, other, out)
	c.DType(out, dtype.Bool)
	c.SameDType(self, other)
	if out.Len() != 1 {
		c.Invalid("%v must have one element", out)
	}
	if !kernel.Computes(self.DType) {
		c.Invalid("%v has a dtype that is not supported", self)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		answer := out.As([]int64{}, []int64{})
		if !slices.Equal(self.Shape, other.Shape) {
			return elementwise.Fill(answer, elementwise.Whole(0))
		}
		return rowwise.Equals(answer, self.View(), other.View())
	}, nil
}

// compareExactly returns a single number: 0 if two tensors agree in every element, otherwise 1.
func compareExactly(c *op.Call) (op.Run, error) {
	want, got, out := c.Tensor("golden"), c.Tensor("realdata"), c.Tensor("out")
	c.Plain(want, got, out)
	c.DType(want, op.FloatTypes...)
	c.Same(want, got)
	c.DType(out, dtype.Uint32)
	c.Shape(out, []int64{}, "a number without dimensions")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if err := rowwise.Equals(out.View(), want.View(), got.View()); err != nil {
			return err
		}
		return elementwise.Map(elementwise.LogicalNot, dtype.Uint32, out.View(), []elementwise.Input{elementwise.Of(out.View())})
	}, nil
}

// wholeComparisons compare tensors as a whole.
var wholeComparisons = op.Table{"Equal": equal, "PrecisionCompare": compareExactly}
