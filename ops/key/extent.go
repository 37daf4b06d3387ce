package key

import (
	"fmt"
	"math/bits"
	"strconv"
)

// Extent is the class of a size that changes from call to call, such as a number of tokens. Keys
// contain classes instead of such sizes to limit the number of choices: sizes up to a million have
// 39 classes. Sizes that a model fixes, such as widths and heads, are in keys as they are.
//
// All sizes of a class round up to the same power of two, Most, and either all of them are
// multiples of 16 or none is. 0 and 1 are classes of their own.
type Extent uint8

// ExtentOf returns the class of a size, which must not be negative.
func ExtentOf(n int64) Extent {
	if n == 0 {
		return 0
	}
	e := Extent(2 + 2*bits.Len64(uint64(n-1)))
	if n%16 == 0 {
		e++
	}
	return e
}

// Most returns the largest size of the class, a power of two or 0; all sizes are above half of it.
func (e Extent) Most() int64 {
	if e < 2 {
		return 0
	}
	return 1 << (e/2 - 1)
}

// By16 reports whether all sizes of the class are multiples of 16, and not 0.
func (e Extent) By16() bool { return e%2 == 1 }

// String returns the bounds, such as "33..64" or "48..64 by 16".
func (e Extent) String() string {
	most := e.Most()
	least := most/2 + 1
	switch {
	case most < 2:
		return strconv.FormatInt(most, 10)
	case e.By16():
		return fmt.Sprintf("%d..%d by 16", (least+15)/16*16, most)
	}
	return fmt.Sprintf("%d..%d", least, most)
}
