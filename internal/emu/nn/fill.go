package nn

import (
	"math"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// filling are the operators that write values not read from a tensor of data.
var filling = table{
	"InplaceZero": inplaceZero, "InplaceOne": inplaceOne, "InplaceFillScalar": inplaceFill, "InplaceFillTensor": inplaceFill,
	"Arange": arange, "Range": arange, "Linspace": linspace, "LogSpace": logSpace, "Eye": eye, "InplaceFillDiagonal": fillDiagonal,
}

func inplaceZero(c *Call) (Run, error) {
	self := c.Tensor("selfRef")
	if self.DType.Size() == 0 {
		c.Invalid("%v has a dtype that shares bytes, which is not supported", self)
	}
	return func(*Exec) error { return kernel.Zero(self.stored()) }, c.Err()
}

// fillRun sets every element, padding of private formats included, to n.
func (c *Call) fillRun(t *Tensor, n kernel.Number) (Run, error) {
	if !kernel.Computes(t.DType) {
		c.Invalid("%v has a dtype that is not supported", t)
	}
	return func(*Exec) error { return kernel.Fill(t.stored(), n) }, c.Err()
}

func inplaceOne(c *Call) (Run, error) { return c.fillRun(c.Tensor("selfRef"), kernel.Whole(1)) }

func inplaceFill(c *Call) (Run, error) {
	self := c.Tensor("selfRef")
	v := c.operand("value")
	if v.scalar != nil {
		if !castable(v.scalar.DType, self.DType) {
			c.Invalid("value has dtype %v, which cannot be stored in %v", v.scalar.DType, self)
		}
		return c.fillRun(self, v.scalar.number())
	}
	if v.tensor.Len() != 1 {
		c.Invalid("%v must have one element", v.tensor)
	}
	c.plain(self, v.tensor)
	c.copies(self, v.tensor)
	return c.copyRun(self.View, func() kernel.View { return v.tensor.As([]int64{}, []int64{}) })
}

// arange writes start, start + step, … up to end; Range includes end.
func arange(c *Call) (Run, error) {
	start, end, step, out := c.Scalar("start"), c.Scalar("end"), c.Scalar("step"), c.Tensor("out")
	delta := step.Float64()
	if c.Err() == nil && (delta == 0 || (end.Float64()-start.Float64())/delta < 0) {
		c.Invalid("step %v does not lead from start %v to end %v", delta, start.Float64(), end.Float64())
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	n := int64(math.Ceil((end.Float64() - start.Float64()) / delta))
	if strings.HasPrefix(c.op.name, "Range") {
		n = int64(math.Floor((end.Float64()-start.Float64())/delta)) + 1
	}
	return c.progression(out, n, start.number(), step.number())
}

// linspace writes steps values from start to end, both included.
func linspace(c *Call) (Run, error) {
	start, end, n, out := c.Scalar("start"), c.Scalar("end"), c.Int("steps"), c.Tensor("out")
	if n < 0 {
		c.Invalid("steps is %d; it must not be negative", n)
	}
	step := (end.Float64() - start.Float64()) / float64(max(n-1, 1))
	return c.progression(out, n, kernel.Real(start.Float64()), kernel.Real(step))
}

// logSpace raises base to evenly spaced exponents.
func logSpace(c *Call) (Run, error) {
	start, end, n, base, out := c.Scalar("start").Float64(), c.Scalar("end").Float64(), c.Int("steps"), c.Float("base"), c.Tensor("result")
	if n < 0 {
		c.Invalid("steps is %d; it must not be negative", n)
	}
	c.DType(out, transformerTypes...)
	c.plain(out)
	c.Shape(out, []int64{n}, "one element per step")
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if n == 0 {
			return nil
		}
		exponents, release := kernel.Temporary(n)
		defer release()
		if err := kernel.Sequence(exponents, kernel.Real(start), kernel.Real((end-start)/float64(max(n-1, 1)))); err != nil {
			return err
		}
		return kernel.Map(kernel.Pow, dtype.Float32, out.View(), []kernel.Input{kernel.Const(kernel.Real(base)), kernel.Of(exponents)})
	}, nil
}

// progression writes start + i step for n elements.
func (c *Call) progression(out *Tensor, n int64, start, step kernel.Number) (Run, error) {
	c.plain(out)
	c.Shape(out, []int64{n}, "one element per step")
	if !kernel.Computes(out.DType) {
		c.Invalid("%v has a dtype that is not supported", out)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error { return kernel.Sequence(out.View(), start, step) }, nil
}

func eye(c *Call) (Run, error) {
	n, m, out := c.Int("n"), c.Int("m"), c.Tensor("out")
	c.plain(out)
	c.Shape(out, []int64{n, m}, "n rows and m columns")
	if !kernel.Computes(out.DType) {
		c.Invalid("%v has a dtype that is not supported", out)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if err := kernel.Zero(out.View()); err != nil {
			return err
		}
		return kernel.Fill(out.View().Diagonal(), kernel.Whole(1))
	}, nil
}

// fillDiagonal fills the main diagonal; with wrap it starts again below a tall matrix.
func fillDiagonal(c *Call) (Run, error) {
	self, value := c.Tensor("selfRef"), c.Scalar("fillValue")
	c.plain(self)
	c.Rank(self, 2, kernel.MaxRank)
	if self.Rank() > 2 && slices.Min(self.Shape) != slices.Max(self.Shape) {
		c.Invalid("%v must have equal dimensions when it has more than two", self)
	}
	if !kernel.Computes(self.DType) {
		c.Invalid("%v has a dtype that is not supported", self)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	wrap := c.Bool("wrap") && self.Rank() == 2
	return func(*Exec) error {
		v := self.View()
		for row := int64(0); ; row += v.Shape[1] + 1 {
			part := v
			if wrap {
				part = v.Narrow(0, min(row, v.Shape[0]), max(v.Shape[0]-row, 0))
			}
			if err := kernel.Fill(part.Diagonal(), value.number()); err != nil {
				return err
			}
			if !wrap || row >= v.Shape[0] {
				return nil
			}
		}
	}, nil
}

// triangular keeps the elements on and below (Tril) or above (Triu) a diagonal of every matrix.
func triangular(c *Call) (Run, error) {
	lower := strings.Contains(c.op.name, "Tril")
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
	c.plain(self, out)
	c.Rank(self, 2, kernel.MaxRank)
	c.SameShape(self, out)
	c.copies(out, self)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if err := kernel.Copy(out.View(), self.View()); err != nil {
			return err
		}
		v := out.View()
		rows, columns := v.Shape[out.Rank()-2], v.Shape[out.Rank()-1]
		for i := range rows {
			edge := min(max(i+diagonal, 0), columns)
			cleared := v.Select(out.Rank()-2, i).Narrow(out.Rank()-2, 0, edge)
			if lower {
				edge = min(max(i+diagonal+1, 0), columns)
				cleared = v.Select(out.Rank()-2, i).Narrow(out.Rank()-2, edge, columns-edge)
			}
			if err := kernel.Zero(cleared); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// constantPad puts self into a frame of value; a negative width cuts instead. pad gives the
// widths before and after, last dimension first.
func constantPad(c *Call) (Run, error) {
	self, pad, value, out := c.Tensor("self"), c.Ints("pad"), c.Scalar("value"), c.Tensor("out")
	c.plain(self, out)
	c.SameDType(self, out)
	if len(pad)%2 != 0 || len(pad) > 2*self.Rank() {
		c.Invalid("pad %v must hold two widths for each of up to %d dimensions", pad, self.Rank())
		return nil, c.Err()
	}
	if !kernel.Computes(out.DType) {
		c.Invalid("%v has a dtype that is not supported", out)
	}
	src, dst := sectionOf(self), sectionOf(self)
	dst.strides = slices.Clone(out.Strides)
	want := slices.Clone(self.Shape)
	for i := range len(pad) / 2 {
		axis := self.Rank() - 1 - i
		before, after := pad[2*i], pad[2*i+1]
		want[axis] += before + after
		if want[axis] < 0 {
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
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if err := kernel.Fill(out.View(), value.number()); err != nil {
			return err
		}
		return kernel.Copy(dst.view(out), src.view(self))
	}, nil
}
