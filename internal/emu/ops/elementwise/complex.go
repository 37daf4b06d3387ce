package elementwise

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// complexes are the operators that combine real numbers to complex ones or split complex ones.
var complexes = op.Table{"Complex": complexOfParts, "Polar": polar, "Real": realPart, "AngleV2": angle}

// joinedParts checks two real tensors that broadcast to the shape of a complex one.
func joinedParts(c *op.Call, a, b, out *op.Tensor) {
	c.Plain(a, b, out)
	c.SameDType(a, b)
	if part, ok := op.PartTypes[out.DType]; !ok || part != a.DType {
		c.Invalid("%v cannot hold parts like %v; use the complex type of that precision", out, a)
	}
	shape, ok := op.BroadcastShape(a.Shape, b.Shape)
	if !ok {
		c.NoCommonShape("shapes do not broadcast: %v and %v", a, b)
	}
	c.Shape(out, shape, "the broadcast shape of the inputs")
}

func complexOfParts(c *op.Call) (op.Run, error) {
	a, b, out := c.Tensor("real"), c.Tensor("imag"), c.Tensor("out")
	joinedParts(c, a, b, out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		re, im := out.Parts()
		if re.Len() == 0 {
			return nil
		}
		if err := elementwise.Map(elementwise.Identity, re.DType, re, []elementwise.Input{elementwise.Of(a.View())}); err != nil {
			return err
		}
		return elementwise.Map(elementwise.Identity, im.DType, im, []elementwise.Input{elementwise.Of(b.View())})
	}, nil
}

// polar computes complex numbers from absolute values and angles.
func polar(c *op.Call) (op.Run, error) {
	length, angle, out := c.Tensor("input"), c.Tensor("angle"), c.Tensor("out")
	c.DType(length, dtype.Float32)
	joinedParts(c, length, angle, out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		re, im := out.Parts()
		if re.Len() == 0 {
			return nil
		}
		for op, to := range map[elementwise.Op]kernel.View{elementwise.Cos: re, elementwise.Sin: im} {
			if err := elementwise.Map(op, to.DType, to, []elementwise.Input{elementwise.Of(angle.View())}); err != nil {
				return err
			}
			if err := elementwise.Map(elementwise.Mul, to.DType, to, []elementwise.Input{elementwise.Of(to), elementwise.Of(length.View())}); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// realPart copies the real part. A real tensor is copied unchanged.
func realPart(c *op.Call) (op.Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	c.Plain(self, out)
	c.SameShape(self, out)
	part, complexSelf := op.PartTypes[self.DType]
	if !complexSelf {
		part = self.DType
		c.DType(self, op.RealTypes...)
	}
	c.DType(out, part)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if self.Len() == 0 {
			return nil
		}
		from := self.View()
		if complexSelf {
			from, _ = self.Parts()
		}
		return elementwise.Copy(out.View(), from)
	}, nil
}

// angle computes the argument of complex numbers, which is 0 or π for real ones.
func angle(c *op.Call) (op.Run, error) {
	x, out := c.Tensor("x"), c.Tensor("out")
	c.Plain(x, out)
	part, isComplex := op.PartTypes[x.DType]
	if !isComplex {
		c.DType(x, append([]dtype.Type{dtype.Bool, dtype.Uint8, dtype.Int8, dtype.Int16, dtype.Int32, dtype.Int64}, op.FloatTypes...)...)
		c.DType(out, op.FloatTypes...)
	} else if x.DType != dtype.Complex64 || out.DType != part {
		c.Invalid("%v and %v: of complex numbers only complex64 are supported, with float32 angles", x, out)
	}
	c.SameShape(x, out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		if isComplex {
			re, im := x.Parts()
			return elementwise.Map(elementwise.Atan2, part, out.View(), []elementwise.Input{elementwise.Of(im), elementwise.Of(re)})
		}
		t, release := kernel.Temporary(x.Shape...)
		defer release()
		// Adding 0 removes the sign of a negative zero, so that its angle is 0.
		if err := elementwise.Map(elementwise.Add, dtype.Float32, t, []elementwise.Input{elementwise.Of(x.View()), elementwise.Const(elementwise.Real(0))}, elementwise.Real(1)); err != nil {
			return err
		}
		return elementwise.Map(elementwise.Atan2, dtype.Float32, out.View(), []elementwise.Input{elementwise.Const(elementwise.Real(0)), elementwise.Of(t)})
	}, nil
}
