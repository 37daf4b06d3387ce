package nn

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// complexes join real numbers to complex ones and take them apart.
var complexes = table{"Complex": complexOfParts, "Polar": polar, "Real": realPart, "AngleV2": angle}

// partTypes are the element types of the parts of complex ones.
var partTypes = map[dtype.Type]dtype.Type{dtype.Complex32: dtype.Float16, dtype.Complex64: dtype.Float32, dtype.Complex128: dtype.Float64}

// parts are the real and the imaginary numbers of a complex tensor: for Run.
func (t *Tensor) parts() (re, im kernel.View) {
	strides := slices.Clone(t.Strides)
	for i := range strides {
		strides[i] *= 2
	}
	re = kernel.View{Data: t.host, DType: partTypes[t.DType], Shape: t.Shape, Strides: strides}
	im = re
	if t.host != nil {
		im.Data = unsafe.Add(t.host, re.DType.Size())
	}
	return re, im
}

// joinedParts checks two real tensors that broadcast to a complex one.
func (c *Call) joinedParts(a, b, out *Tensor) {
	c.plain(a, b, out)
	c.SameDType(a, b)
	if part, ok := partTypes[out.DType]; !ok || part != a.DType {
		c.Invalid("%v cannot hold parts like %v; use the complex type of that precision", out, a)
	}
	shape, ok := broadcastShape(a.Shape, b.Shape)
	if !ok {
		c.Invalid("shapes do not broadcast: %v and %v", a, b)
	}
	c.Shape(out, shape, "the broadcast shape of the inputs")
}

func complexOfParts(c *Call) (Run, error) {
	a, b, out := c.Tensor("real"), c.Tensor("imag"), c.Tensor("out")
	c.joinedParts(a, b, out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		re, im := out.parts()
		if re.Len() == 0 {
			return nil
		}
		if err := kernel.Map(kernel.Identity, re.DType, re, []kernel.Input{kernel.Of(a.View())}); err != nil {
			return err
		}
		return kernel.Map(kernel.Identity, im.DType, im, []kernel.Input{kernel.Of(b.View())})
	}, nil
}

// polar has lengths and angles.
func polar(c *Call) (Run, error) {
	length, angle, out := c.Tensor("input"), c.Tensor("angle"), c.Tensor("out")
	c.DType(length, dtype.Float32)
	c.joinedParts(length, angle, out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		re, im := out.parts()
		if re.Len() == 0 {
			return nil
		}
		for op, to := range map[kernel.Op]kernel.View{kernel.Cos: re, kernel.Sin: im} {
			if err := kernel.Map(op, to.DType, to, []kernel.Input{kernel.Of(angle.View())}); err != nil {
				return err
			}
			if err := kernel.Map(kernel.Mul, to.DType, to, []kernel.Input{kernel.Of(to), kernel.Of(length.View())}); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// realPart copies a tensor that has no imaginary part as it is.
func realPart(c *Call) (Run, error) {
	self, out := c.Tensor("self"), c.Tensor("out")
	c.plain(self, out)
	c.SameShape(self, out)
	part, complexSelf := partTypes[self.DType]
	if !complexSelf {
		part = self.DType
		c.DType(self, softmaxTypes...)
	}
	c.DType(out, part)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if self.Len() == 0 {
			return nil
		}
		from := self.View()
		if complexSelf {
			from, _ = self.parts()
		}
		return kernel.Copy(out.View(), from)
	}, nil
}

// angle is that of a number in the complex plane: 0 or π for real ones.
func angle(c *Call) (Run, error) {
	x, out := c.Tensor("x"), c.Tensor("out")
	c.plain(x, out)
	part, isComplex := partTypes[x.DType]
	if !isComplex {
		c.DType(x, append([]dtype.Type{dtype.Bool, dtype.Uint8, dtype.Int8, dtype.Int16, dtype.Int32, dtype.Int64}, transformerTypes...)...)
		c.DType(out, transformerTypes...)
	} else if x.DType != dtype.Complex64 || out.DType != part {
		c.Invalid("%v and %v: of complex numbers only complex64 are supported, with float32 angles", x, out)
	}
	c.SameShape(x, out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		if isComplex {
			re, im := x.parts()
			return kernel.Map(kernel.Atan2, part, out.View(), []kernel.Input{kernel.Of(im), kernel.Of(re)})
		}
		t, release := kernel.Temporary(x.Shape...)
		defer release()
		// The sum takes the sign off a zero, whose angle is 0.
		if err := kernel.Map(kernel.Add, dtype.Float32, t, []kernel.Input{kernel.Of(x.View()), kernel.Const(kernel.Real(0))}, kernel.Real(1)); err != nil {
			return err
		}
		return kernel.Map(kernel.Atan2, dtype.Float32, out.View(), []kernel.Input{kernel.Const(kernel.Real(0)), kernel.Of(t)})
	}, nil
}
