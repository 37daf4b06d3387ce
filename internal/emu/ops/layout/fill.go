package layout

import (
	"math"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/pointwise"
)

// filling lists the operators that write values without reading a data tensor.
var filling = op.Table{
	"InplaceZero": inplaceZero, "InplaceOne": inplaceOne, "InplaceFillScalar": inplaceFill, "InplaceFillTensor": inplaceFill,
	"Arange": arange, "Range": arange, "Linspace": linspace, "LogSpace": logSpace, "Eye": eye, "InplaceFillDiagonal": fillDiagonal,
}.Overwrites("InplaceZero", "InplaceOne", "InplaceFillScalar", "InplaceFillTensor", "InplaceFillDiagonal")

func inplaceZero(c *op.Call) (op.Run, error) {
	self := c.Tensor("selfRef")
	if self.DType.Size() == 0 {
		c.Invalid("%v has a dtype that shares bytes, which is not supported", self)
	}
	return func(*op.Exec) error { return elementwise.Zero(self.Stored()) }, c.Err()
}

// fillRun sets every element of t to n, including the padding of private storage formats.
func fillRun(c *op.Call, t *op.Tensor, n elementwise.Number) (op.Run, error) {
	if !kernel.Computes(t.DType) {
		c.Invalid("%v has a dtype that is not supported", t)
	}
	return func(*op.Exec) error { return elementwise.Fill(t.Stored(), n) }, c.Err()
}

// fillComplex sets every element of a complex tensor.
func fillComplex(c *op.Call, t *op.Tensor, v complex128) (op.Run, error) {
	c.Plain(t)
	return func(*op.Exec) error {
		re, im := t.Parts()
		if err := elementwise.Fill(re, elementwise.Real(real(v))); err != nil {
			return err
		}
		return elementwise.Fill(im, elementwise.Real(imag(v)))
	}, c.Err()
}

// filled returns a scalar as elements of type d hold it: integers without the fraction, and bool as
// whether it is not zero.
func filled(d dtype.Type, v *op.Scalar) elementwise.Number {
	n := v.Number()
	switch {
	case d == dtype.Bool && n.F != 0:
		n = elementwise.Whole(1)
	case !d.IsFloat() && v.DType.IsFloat():
		n = elementwise.Whole(n.I)
	}
	return n
}

func inplaceOne(c *op.Call) (op.Run, error) {
	return fillRun(c, c.Tensor("selfRef"), elementwise.Whole(1))
}

func inplaceFill(c *op.Call) (op.Run, error) {
	self := c.Tensor("selfRef")
	v := pointwise.Argument(c, "value")
	if v.Scalar != nil {
		if v.Scalar.DType.IsComplex() && !self.DType.IsComplex() {
			c.Invalid("value has dtype %v, which cannot be stored in %v", v.Scalar.DType, self)
		}
		if self.DType == dtype.Complex64 || self.DType == dtype.Complex128 {
			return fillComplex(c, self, v.Scalar.Complex())
		}
		return fillRun(c, self, filled(self.DType, v.Scalar))
	}
	if v.Tensor.Len() != 1 {
		c.Invalid("%v must have one element", v.Tensor)
	}
	c.Plain(self, v.Tensor)
	c.Copies(self, v.Tensor)
	return c.CopyRun(self.View, func() kernel.View { return v.Tensor.As([]int64{}, []int64{}) })
}

// arange writes start, start + step, … up to end; Range includes end.
func arange(c *op.Call) (op.Run, error) {
	start, end, step, out := c.Scalar("start"), c.Scalar("end"), c.Scalar("step"), c.Tensor("out")
	if err := c.Err(); err != nil {
		return nil, err
	}
	closed := c.Op.Name == "Range"
	if closed {
		c.Rank(out, 1, kernel.MaxRank)
	}
	from, to, delta := start.Number(), end.Number(), step.Number()
	leads := delta.F != 0 && (to.F-from.F)/delta.F >= 0
	if !out.DType.IsFloat() { // integer outputs are checked without the fractions
		leads = delta.I > 0 && from.I <= to.I || delta.I < 0 && from.I >= to.I
	}
	if !leads {
		c.Invalid("step %v does not lead from start %v to end %v in %v", delta.F, from.F, to.F, out.DType)
		return nil, c.Err()
	}
	// Range leaves out the values for which there is no room.
	if n := steps(from, to, delta, closed, out.DType); out.Len() > n || out.Len() < n && !closed {
		c.Invalid("%v must have %d elements, one per step", out, n)
	}
	return progression(c, out, from, delta)
}

// steps returns the number of values from start to end. int64 values are counted in integers, since
// float64 cannot hold those above 2^53.
func steps(start, end, step elementwise.Number, closed bool, d dtype.Type) int64 {
	if d == dtype.Int64 {
		way, stride := uint64(end.I)-uint64(start.I), uint64(step.I)
		if step.I < 0 {
			way, stride = -way, -stride
		}
		n := way / stride
		if closed || way%stride != 0 {
			n++
		}
		return int64(n)
	}
	n := (end.F - start.F) / step.F
	if closed {
		return int64(math.Floor(n)) + 1
	}
	return int64(math.Ceil(n))
}

// linspace writes steps values from start to end, both included.
func linspace(c *op.Call) (op.Run, error) {
	start, end, n, out := c.Scalar("start"), c.Scalar("end"), c.Int("steps"), c.Tensor("out")
	if n < 0 {
		c.Invalid("steps is %d; it must not be negative", n)
	}
	step := (end.Float64() - start.Float64()) / float64(max(n-1, 1))
	c.Shape(out, []int64{n}, "one element per step")
	run, err := progression(c, out, elementwise.Real(start.Float64()), elementwise.Real(step))
	if err != nil || out.DType.IsFloat() {
		return run, err
	}
	// A step of an integer result is rarely whole, so it is rounded at the end only.
	return func(*op.Exec) error {
		t, release := kernel.Temporary(n)
		defer release()
		if err := elementwise.Sequence(t, elementwise.Real(start.Float64()), elementwise.Real(step)); err != nil {
			return err
		}
		return elementwise.Copy(out.View(), t)
	}, nil
}

// logSpace raises base to evenly spaced exponents.
func logSpace(c *op.Call) (op.Run, error) {
	start, end, n, base, out := c.Scalar("start").Float64(), c.Scalar("end").Float64(), c.Int("steps"), c.Float("base"), c.Tensor("result")
	if n < 0 {
		c.Invalid("steps is %d; it must not be negative", n)
	}
	c.DType(out, op.FloatTypes...)
	c.Plain(out)
	c.Shape(out, []int64{n}, "one element per step")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if n == 0 {
			return nil
		}
		exponents, release := kernel.Temporary(n)
		defer release()
		if err := elementwise.Sequence(exponents, elementwise.Real(start), elementwise.Real((end-start)/float64(max(n-1, 1)))); err != nil {
			return err
		}
		return elementwise.Map(elementwise.Pow, dtype.Float32, out.View(), []elementwise.Input{elementwise.Const(elementwise.Real(base)), elementwise.Of(exponents)})
	}, nil
}

// progression writes start + i·step to element i of out, counted in row-major order.
func progression(c *op.Call, out *op.Tensor, start, step elementwise.Number) (op.Run, error) {
	c.Plain(out)
	if !kernel.Computes(out.DType) {
		c.Invalid("%v has a dtype that is not supported", out)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error { return elementwise.Sequence(out.View(), start, step) }, nil
}

func eye(c *op.Call) (op.Run, error) {
	n, m, out := c.Int("n"), c.Int("m"), c.Tensor("out")
	c.Plain(out)
	c.Shape(out, []int64{n, m}, "n rows and m columns")
	if !kernel.Computes(out.DType) {
		c.Invalid("%v has a dtype that is not supported", out)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if err := elementwise.Zero(out.View()); err != nil {
			return err
		}
		return elementwise.Fill(out.View().Diagonal(), elementwise.Whole(1))
	}, nil
}

// fillDiagonal fills the main diagonal. With wrap, a new diagonal starts below the first one in
// a tall matrix.
func fillDiagonal(c *op.Call) (op.Run, error) {
	self, value := c.Tensor("selfRef"), c.Scalar("fillValue")
	c.Plain(self)
	c.Rank(self, 2, kernel.MaxRank)
	if self.Rank() > 2 && slices.Min(self.Shape) != slices.Max(self.Shape) {
		c.Invalid("%v must have equal dimensions when it has more than two", self)
	}
	if !kernel.Computes(self.DType) {
		c.Invalid("%v has a dtype that is not supported", self)
	}
	if self.DType != dtype.BFloat16 && self.DType != dtype.Bool { // CANN does not look at these
		least, most := self.DType.Range()
		if v := value.Number().F; !math.IsInf(v, 0) && (v < least || v > most) {
			c.Invalid("fillValue is %g; %v holds %g to %g", v, self, least, most)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	wrap := c.Bool("wrap") && self.Rank() == 2
	return func(*op.Exec) error {
		v := self.View()
		for row := int64(0); ; row += v.Shape[1] + 1 {
			part := v
			if wrap {
				part = v.Narrow(0, min(row, v.Shape[0]), max(v.Shape[0]-row, 0))
			}
			if err := elementwise.Fill(part.Diagonal(), value.Number()); err != nil {
				return err
			}
			if !wrap || row >= v.Shape[0] {
				return nil
			}
		}
	}, nil
}

// triangular keeps the elements on and below (Tril) or above (Triu) a diagonal of every matrix.
func triangular(c *op.Call) (op.Run, error) {
	lower := strings.Contains(c.Op.Name, "Tril")
	diagonal := c.Int("diagonal")
	name := "self"
	if c.Has("selfRef") {
		name = "selfRef"
	}
	self := c.Tensor(name)
	out := self
	if c.Has("out") {
		out = c.Tensor("out")
	}
	c.Plain(self, out)
	c.SameShape(self, out)
	c.Copies(out, self)
	if self.Len() == 0 && c.Err() == nil { // possibly without two dimensions
		return func(*op.Exec) error { return nil }, nil
	}
	c.Rank(self, 2, kernel.MaxRank)
	if err := c.Err(); err != nil {
		return nil, err
	}
	rows, columns := out.Dim(-2), out.Dim(-1)
	diagonal = min(max(diagonal, -rows), columns) // beyond it all or nothing is kept
	return func(*op.Exec) error {
		if err := elementwise.Copy(out.View(), self.View()); err != nil {
			return err
		}
		v := out.View()
		for i := range rows {
			edge := min(max(i+diagonal, 0), columns)
			cleared := v.Select(out.Rank()-2, i).Narrow(out.Rank()-2, 0, edge)
			if lower {
				edge = min(max(i+diagonal+1, 0), columns)
				cleared = v.Select(out.Rank()-2, i).Narrow(out.Rank()-2, edge, columns-edge)
			}
			if err := elementwise.Zero(cleared); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// constantPad surrounds self with a border of a constant value; a negative width crops instead.
// pad lists the widths before and after each dimension, starting with the last dimension.
func constantPad(c *op.Call) (op.Run, error) {
	self, pad, value, out := c.Tensor("self"), c.Ints("pad"), c.Scalar("value"), c.Tensor("out")
	c.Plain(self, out)
	c.SameDType(self, out)
	if len(pad)%2 != 0 || len(pad) > 2*self.Rank() {
		c.Invalid("pad %v must hold two widths for each of up to %d dimensions", pad, self.Rank())
		return nil, c.Err()
	}
	parts := out.DType == dtype.Complex64 || out.DType == dtype.Complex128
	if !kernel.Computes(out.DType) && !parts {
		c.Invalid("%v has a dtype that is not supported", out)
	}
	src, dst := sectionOf(self), sectionOf(self)
	dst.strides = slices.Clone(out.Strides)
	want := slices.Clone(self.Shape)
	nothing := false
	for i := range len(pad) / 2 {
		axis := self.Rank() - 1 - i
		before, after := pad[2*i], pad[2*i+1]
		want[axis] += before + after
		nothing = nothing || want[axis] == 0
		if self.Shape[axis]+min(before, after, before+after) < 0 {
			c.Invalid("pad %v cuts more than dimension %d of %v holds", pad, axis, self)
			return nil, c.Err()
		}
		kept := max(self.Shape[axis]+min(before, 0)+min(after, 0), 0)
		src.cut(axis, max(-before, 0), kept, 1)
		if len(dst.strides) == self.Rank() {
			dst.cut(axis, max(before, 0), kept, 1)
		}
	}
	c.Shape(out, want, "the padded shape of self")
	if nothing && slices.Max(pad) > 0 {
		c.Invalid("pad %v adds elements, but leaves none in a dimension of %v that it names", pad, self)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if parts {
			re, im := out.Parts()
			if err := elementwise.Fill(re, elementwise.Real(real(value.Complex()))); err != nil {
				return err
			}
			if err := elementwise.Fill(im, elementwise.Real(imag(value.Complex()))); err != nil {
				return err
			}
		} else if err := elementwise.Fill(out.View(), value.Number()); err != nil {
			return err
		}
		return elementwise.Copy(dst.view(out), src.view(self))
	}, nil
}
