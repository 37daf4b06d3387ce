package layout

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/op"
)

// signBits lists the operators that store the sign of each element in one bit.
var signBits = op.Table{"SignBitsPack": packSigns, "SignBitsUnpack": unpackSigns}

// packSigns writes one bit per element, lowest bit of a byte first. The bit is set unless the
// element is negative; padding to whole rows of bytes counts as -1.
func packSigns(c *op.Call) (op.Run, error) {
	self, out, rows := c.Tensor("self"), c.Tensor("out"), c.Int("size")
	c.Plain(self, out)
	c.DType(self, dtype.Float32, dtype.Float16)
	c.DType(out, dtype.Uint8)
	c.Rank(self, 1, 1)
	bytes := (self.Len() + 7) / 8
	if rows <= 0 || bytes%max(rows, 1) != 0 {
		c.Invalid("size is %d; it must divide the %d bytes that %v fills", rows, bytes, self)
	}
	if c.Err() == nil {
		c.Shape(out, []int64{rows, bytes / rows}, "a byte for eight elements, in size rows")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		values, err := elementwise.Floats(self.View())
		if err != nil {
			return err
		}
		packed := make([]int64, bytes)
		for i, v := range values {
			if !(v < 0) {
				packed[i/8] |= 1 << (i % 8)
			}
		}
		return indexing.SetInts(out.View(), packed)
	}, nil
}

// unpackSigns writes 1 for each set bit and -1 for each clear bit.
func unpackSigns(c *op.Call) (op.Run, error) {
	self, out, rows := c.Tensor("self"), c.Tensor("out"), c.Int("size")
	c.Plain(self, out)
	c.DType(self, dtype.Uint8)
	c.DType(out, dtype.Float32, dtype.Float16)
	if d := dtype.Type(c.Int("dtype")); d != out.DType {
		c.Invalid("dtype is %v, but %v", d, out)
	}
	c.Rank(self, 1, 1)
	bits := self.Len() * 8
	if rows <= 0 || bits%max(rows, 1) != 0 {
		c.Invalid("size is %d; it must divide the %d bits of %v", rows, bits, self)
	}
	if c.Err() == nil {
		c.Shape(out, []int64{rows, bits / rows}, "an element for each bit, in size rows")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		bytes, err := elementwise.Indices(self.View())
		if err != nil {
			return err
		}
		signs := make([]float64, bits)
		for i := range signs {
			signs[i] = float64(bytes[i/8]>>(i%8)&1)*2 - 1
		}
		return elementwise.SetFloats(out.View(), signs)
	}, nil
}
