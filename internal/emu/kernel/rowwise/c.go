package rowwise

/*
#cgo CFLAGS: -std=gnu11 -O3 -g1 -Wall -Wextra -I${SRCDIR}/..
#cgo LDFLAGS: -lm
#include "table.h"
#include "space.h"
*/
import "C"

import (
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

func init() {
	kernel.OnSelect(func(variant int, _ bool) { C.rowwise_use(C.int(variant)) })
}

// cSpace returns the C form of a planned shape.
func cSpace(shape []int64) C.struct_space {
	s := kernel.NewCSpace(shape)
	return *(*C.struct_space)(unsafe.Pointer(&s))
}

// over is [kernel.Over].
func over(v kernel.View, shape []int64) (C.struct_operand, error) {
	o, err := kernel.Over(v, shape)
	return *(*C.struct_operand)(unsafe.Pointer(&o)), err
}

// elementwiseSpace is [kernel.Elementwise].
func elementwiseSpace(views []kernel.View, operands ...*C.struct_operand) (C.struct_space, error) {
	s, err := kernel.Elementwise(views, unsafe.Slice((**kernel.COperand)(unsafe.Pointer(unsafe.SliceData(operands))), len(operands))...)
	return *(*C.struct_space)(unsafe.Pointer(&s)), err
}

// operand returns the C form of memory with strides over a planned space.
func operand(data unsafe.Pointer, d dtype.Type, strides []int64) C.struct_operand {
	o := kernel.NewCOperand(data, d, strides)
	return *(*C.struct_operand)(unsafe.Pointer(&o))
}

// The forms of Go and of C have the same size.
var (
	_ [unsafe.Sizeof(kernel.CSpace{}) - unsafe.Sizeof(C.struct_space{})]byte
	_ [unsafe.Sizeof(C.struct_space{}) - unsafe.Sizeof(kernel.CSpace{})]byte
	_ [unsafe.Sizeof(kernel.COperand{}) - unsafe.Sizeof(C.struct_operand{})]byte
	_ [unsafe.Sizeof(C.struct_operand{}) - unsafe.Sizeof(kernel.COperand{})]byte
)
