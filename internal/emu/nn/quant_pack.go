package nn

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// quantPacks write elements of few bits close together.
var quantPacks = table{
	"ConvertWeightToINT4Pack": packInt4, "SignBitsPack": packSigns, "SignBitsUnpack": unpackSigns,
}

// packInt4 writes weights of -8 to 7, each in an int32, as int4, the first of a byte in its
// low half; eight of them count as one int32 if the output says so.
func packInt4(c *Call) (Run, error) {
	weight, out := c.Tensor("weight"), c.Tensor("weightInt4Pack")
	c.plain(weight)
	c.DType(weight, dtype.Int32)
	c.DType(out, dtype.Int4, dtype.Int32)
	c.Rank(weight, 2, 3)
	if c.Err() != nil {
		return nil, c.Err()
	}
	per := int64(2)
	want := slices.Clone(weight.Shape)
	if out.DType == dtype.Int32 {
		per = 8
		want[len(want)-1] /= per
	}
	if n := weight.Dim(-1); n%per != 0 || weight.Len() == 0 {
		c.Invalid("%v: the last dimension must be a multiple of %d, and none be empty", weight, per)
	}
	c.Shape(out, want, "weight, in elements of the output")
	if !out.Contiguous() {
		c.Invalid("%v must be contiguous", out)
	}
	nz := isNz(out.Format)
	if nz {
		c.checkNz(out)
	} else {
		c.plain(out)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	c0 := out.nzColumns() // in elements of out
	if out.DType == dtype.Int32 {
		c0 *= per
	}
	return func(*Exec) error {
		values, err := kernel.Indices(weight.View())
		if err != nil {
			return err
		}
		packed, release := kernel.TemporaryInt8(weight.Len() / 2)
		defer release()
		bytes := unsafe.Slice((*byte)(packed.Data), len(values)/2)
		copyInt4(bytes, values)
		if nz {
			v := kernel.View{Data: packed.Data, DType: dtype.Int4, Shape: weight.Shape, Strides: ContiguousStrides(weight.Shape)}
			return kernel.ToNZ(out.host, c0, v)
		}
		copy(unsafe.Slice((*byte)(out.host), len(bytes)), bytes)
		return nil
	}, nil
}

// copyInt4 packs values of -8 to 7, the first of a byte in its low half.
func copyInt4(bytes []byte, values []int64) {
	for i := range bytes {
		bytes[i] = byte(values[2*i]&15 | values[2*i+1]&15<<4)
	}
}

// packSigns writes a bit for each element, set unless it is negative, first the lowest of a
// byte. What is missing to whole rows of bytes counts as -1.
func packSigns(c *Call) (Run, error) {
	self, out, rows := c.Tensor("self"), c.Tensor("out"), c.Int("size")
	c.plain(self, out)
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
	return func(*Exec) error {
		values, err := kernel.Floats(self.View())
		if err != nil {
			return err
		}
		packed := make([]int64, bytes)
		for i, v := range values {
			if !(v < 0) {
				packed[i/8] |= 1 << (i % 8)
			}
		}
		return kernel.SetInts(out.View(), packed)
	}, nil
}

// unpackSigns writes 1 or -1 for each bit.
func unpackSigns(c *Call) (Run, error) {
	self, out, rows := c.Tensor("self"), c.Tensor("out"), c.Int("size")
	c.plain(self, out)
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
	return func(*Exec) error {
		bytes, err := kernel.Indices(self.View())
		if err != nil {
			return err
		}
		signs := make([]float64, bits)
		for i := range signs {
			signs[i] = float64(bytes[i/8]>>(i%8)&1)*2 - 1
		}
		return kernel.SetFloats(out.View(), signs)
	}, nil
}
