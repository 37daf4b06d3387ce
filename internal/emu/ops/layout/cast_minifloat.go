package layout

import (
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/minifloat"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/half"
)

// The element types of eight and of four bits that the 950 casts from and to float32, float16, bfloat16 and each other.
var (
	eightBits = []dtype.Type{dtype.HiFloat8, dtype.Float8E5M2, dtype.Float8E4M3}
	fourBits  = []dtype.Type{dtype.Float4E2M1, dtype.Float4E1M2}
)

// castsMinifloat reports whether the 950 has a kernel for a cast in which one type has eight or four bits.
func castsMinifloat(from, to dtype.Type) bool {
	for _, d := range [][2]dtype.Type{{from, to}, {to, from}} {
		few, other := d[0], d[1]
		plain := other == dtype.Float32 || other == dtype.Float16 || other == dtype.BFloat16
		if slices.Contains(eightBits, few) && (plain || slices.Contains(fourBits, other)) || slices.Contains(fourBits, few) && plain {
			return true
		}
	}
	return false
}

// castMinifloat rounds to the nearest number of the type: to even, and of HiFloat8 away from zero. Numbers pass through
// bfloat16 on the way to four bits, beyond whose largest one they become that one.
func castMinifloat(c *op.Call, out, self *op.Tensor) (op.Run, error) {
	c.Plain(out, self)
	for _, t := range []*op.Tensor{out, self} {
		if t.DType.Bits() == 4 && (!t.Contiguous() || t.Len()%2 != 0) {
			c.Invalid("%v must be contiguous with an even number of elements: two share a byte", t)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		v, err := minifloat.Read(self.View())
		if err != nil {
			return err
		}
		round := minifloat.Even
		if out.DType == dtype.HiFloat8 {
			round = minifloat.Away
		}
		switch {
		case slices.Contains(fourBits, out.DType):
			for i, x := range v {
				v[i] = float64(half.BFloat16FromFloat32(float32(x)).Float32())
			}
		case slices.Contains(eightBits, out.DType):
			for i, x := range v {
				if most := minifloat.Largest(out.DType); !(math.Abs(x) <= most) {
					return fmt.Errorf("%v holds %v at place %d, and the largest number of %v is %v: the emulator does not know what the device makes of it", self, x, i, out.DType, most)
				}
			}
		}
		return minifloat.Write(out.View(), v, round)
	}, nil
}
