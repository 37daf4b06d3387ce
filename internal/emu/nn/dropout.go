package nn

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// dropouts set elements to 0 at random. The mask has a bit for each element in row-major
// order, least significant first, 1 keeps, in bytes padded to a multiple of 128 bits.
var dropouts = table{
	"Dropout": dropout, "DropoutV3": dropout,
	"DropoutGenMask": dropoutMask, "DropoutGenMaskV2": dropoutMask, "DropoutGenMaskV2Tensor": dropoutMask,
	"DropoutDoMask": dropoutApply, "DropoutBackward": dropoutApply, "DropoutV3Grad": dropoutApply,
}

// keepBits checks a mask for n elements; padded asks for the device's padding too.
func (c *Call) keepBits(t *Tensor, n int64, padded bool) {
	c.DType(t, dtype.Uint8)
	if !t.Contiguous() {
		c.Invalid("%v must be contiguous: it holds bits", t)
	}
	need := (n + 7) / 8
	if padded {
		need = (n + 127) / 128 * 16
	}
	if c.Err() == nil && t.Len() < need {
		c.Invalid("%v must have at least %d bytes, a bit for each of %d elements", t, need, n)
	}
}

func (c *Call) maskedTypes(x, out *Tensor) {
	c.plain(x, out)
	c.DType(x, transformerTypes...)
	c.Same(x, out)
}

// keepScale is what kept elements are multiplied by when p is the chance to be dropped.
func keepScale(p float64) float64 {
	if p == 1 {
		return 0
	}
	return 1 / (1 - p)
}

// dropout makes a mask and applies it; outside of training it keeps everything.
func dropout(c *Call) (Run, error) {
	x, out, mask := c.Tensor("input"), c.Tensor("out"), c.Tensor("maskOut")
	p := c.probability("p")
	c.maskedTypes(x, out)
	c.keepBits(mask, x.Len(), true)
	if c.Has("optionalNoiseShape") && c.Optional("optionalNoiseShape") != nil {
		c.Invalid("optionalNoiseShape is reserved; pass null")
	}
	if c.Has("train") && !c.Bool("train") {
		p = 0
	}
	generator := c.generator()
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return nil
		}
		g, err := generator()
		if err != nil {
			return err
		}
		g.KeepBits(mask.View(), x.Len(), p)
		return kernel.Dropout(out.View(), x.View(), mask.View(), keepScale(p))
	}, nil
}

// dropoutMask makes a mask for a shape.
func dropoutMask(c *Call) (Run, error) {
	shape, p, out := c.Ints("shape"), c.probability("prob"), c.Tensor("out")
	n := kernel.View{Shape: shape}.Len()
	c.keepBits(out, n, true)
	return c.drawn(out, func(g kernel.Philox) error {
		g.KeepBits(out.View(), n, p)
		return nil
	})
}

// dropoutApply multiplies by a mask and a scale, or by what the chance to be dropped makes of
// it. The gradient is the same function.
func dropoutApply(c *Call) (Run, error) {
	names := map[string][2]string{"DropoutDoMask": {"self", "out"}, "DropoutBackward": {"gradOutput", "out"}, "DropoutV3Grad": {"gradY", "gradX"}}[c.op.name]
	x, out, mask := c.Tensor(names[0]), c.Tensor(names[1]), c.Tensor("mask")
	c.maskedTypes(x, out)
	c.keepBits(mask, x.Len(), false)
	scale := 0.0
	if c.Has("prob") {
		scale = keepScale(c.probability("prob"))
	} else {
		scale = c.Float("scale")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return nil
		}
		return kernel.Dropout(out.View(), x.View(), mask.View(), scale)
	}, nil
}
