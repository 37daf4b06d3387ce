package random

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/random"
	"github.com/goascend/cann/internal/emu/op"
)

// dropouts lists the operators that set elements to 0 at random. The mask has one bit per
// element in row-major order, least significant bit first. A set bit keeps the element. The
// bytes are padded to a multiple of 128 bits.
var dropouts = op.Table{
	"Dropout": dropout, "DropoutV3": dropout,
	"DropoutGenMask": dropoutMask, "DropoutGenMaskV2": dropoutMask, "DropoutGenMaskV2Tensor": dropoutMask,
	"DropoutDoMask": dropoutApply, "DropoutBackward": dropoutApply, "DropoutV3Grad": dropoutApply,
}

// keepBits checks a mask for n elements; padded requires the device's padding too.
func keepBits(c *op.Call, t *op.Tensor, n int64, padded bool) {
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

func maskedTypes(c *op.Call, x, out *op.Tensor) {
	c.Plain(x, out)
	c.DType(x, op.FloatTypes...)
	c.Same(x, out)
}

// keepScale returns the factor of the kept elements when p is the probability of dropping.
func keepScale(p float64) float64 {
	if p == 1 {
		return 0
	}
	return 1 / (1 - p)
}

// dropout creates a mask and applies it. Outside of training it keeps every element.
func dropout(c *op.Call) (op.Run, error) {
	x, out, mask := c.Tensor("input"), c.Tensor("out"), c.Tensor("maskOut")
	p := probability(c, "p")
	maskedTypes(c, x, out)
	keepBits(c, mask, x.Len(), true)
	if c.Has("optionalNoiseShape") && c.Optional("optionalNoiseShape") != nil {
		c.Invalid("optionalNoiseShape is reserved; pass null")
	}
	if c.Has("train") && !c.Bool("train") {
		p = 0
	}
	generator := c.Generator()
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		g, err := generator()
		if err != nil {
			return err
		}
		g.KeepBits(mask.View(), x.Len(), p)
		return random.Dropout(out.View(), x.View(), mask.View(), keepScale(p))
	}, nil
}

// dropoutMask creates a mask for a shape.
func dropoutMask(c *op.Call) (op.Run, error) {
	shape, p, out := c.Ints("shape"), probability(c, "prob"), c.Tensor("out")
	n := kernel.View{Shape: shape}.Len()
	keepBits(c, out, n, true)
	return drawn(c, out, func(g random.Philox) error {
		g.KeepBits(out.View(), n, p)
		return nil
	})
}

// dropoutApply multiplies by a mask and by a scale, which is given or follows from the drop
// probability. The gradient uses the same function.
func dropoutApply(c *op.Call) (op.Run, error) {
	names := map[string][2]string{"DropoutDoMask": {"self", "out"}, "DropoutBackward": {"gradOutput", "out"}, "DropoutV3Grad": {"gradY", "gradX"}}[c.Op.Name]
	x, out, mask := c.Tensor(names[0]), c.Tensor(names[1]), c.Tensor("mask")
	maskedTypes(c, x, out)
	keepBits(c, mask, x.Len(), false)
	scale := 0.0
	if c.Has("prob") {
		scale = keepScale(probability(c, "prob"))
	} else {
		scale = c.Float("scale")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		return random.Dropout(out.View(), x.View(), mask.View(), scale)
	}, nil
}
