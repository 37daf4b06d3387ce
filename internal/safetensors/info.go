package safetensors

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/goascend/cann/internal/dtype"
)

// Info describes one tensor.
type Info struct {
	Name  string
	DType dtype.Type
	Shape []int // empty for a scalar
}

// Len is the number of elements.
func (i Info) Len() int {
	n := 1
	for _, d := range i.Shape {
		n *= d
	}
	return n
}

// Size is the number of bytes the elements take.
func (i Info) Size() int64 { return int64(i.Len()) * int64(i.DType.Size()) }

// String is the form used in errors, such as bfloat16[4096,1024].
func (i Info) String() string {
	return i.DType.String() + strings.ReplaceAll(fmt.Sprint(i.Shape), " ", ",")
}

// check refuses what has no place in a file; after it Len and Size cannot overflow.
func (i Info) check() error {
	if !Has(i.DType) {
		return &Error{Tensor: i.Name, Err: ErrDType, Detail: i.DType.String()}
	}
	size := uint64(i.DType.Size())
	for _, d := range i.Shape {
		if d < 0 {
			return &Error{Tensor: i.Name, Err: ErrShape, Detail: fmt.Sprintf("%v has a negative dimension", i.Shape)}
		}
		var high uint64
		if high, size = bits.Mul64(size, uint64(d)); high != 0 || size > math.MaxInt64 {
			return &Error{Tensor: i.Name, Err: ErrShape, Detail: fmt.Sprintf("%v of %v takes more than 2^63 bytes", i.Shape, i.DType)}
		}
	}
	return nil
}
