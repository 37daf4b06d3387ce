package kerneltest

// #include <stdlib.h>
import "C"

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// Layout is the arrangement of a view's elements in memory.
type Layout int

// Layouts. Broadcast has stride 0 in the first dimension and is for inputs only.
const (
	Contiguous Layout = iota
	Transposed        // the last two dimensions swapped in memory
	Gapped            // every second element of the last dimension, with gaps between rows
	Reversed          // negative stride in the last dimension
	Broadcast         // the first dimension repeats its first row
)

// Layouts lists the layouts in which every element has its own memory.
var Layouts = []Layout{Contiguous, Transposed, Gapped, Reversed}

func (l Layout) String() string {
	return [...]string{"contiguous", "transposed", "gapped", "reversed", "broadcast"}[l]
}

// guard is the value of the bytes that do not belong to an element.
const guard = 0xA5

// New makes a view of the given shape and layout. values are in row-major order and repeat as
// needed; nil fills every element with the guard pattern. The view is in C memory, which is
// checked and freed when the test ends.
func New(t testing.TB, d dtype.Type, l Layout, shape []int64, values []float64) kernel.View {
	t.Helper()
	strides, first, span := arrange(l, shape)
	size := int64(d.Size())
	if size == 0 {
		t.Fatalf("kerneltest: %v has no element size", d)
	}

	n := span*size + 2*margin
	base := C.malloc(C.size_t(n))
	all := unsafe.Slice((*byte)(base), n)
	for i := range all {
		all[i] = guard
	}
	v := kernel.View{
		Data: unsafe.Add(base, margin+first*size), DType: d,
		Shape: slices.Clone(shape), Strides: strides,
	}
	t.Cleanup(func() {
		check(t, all, v)
		C.free(base)
	})
	if len(values) > 0 {
		i := 0
		Each(v, func(p unsafe.Pointer) {
			Set(d, p, values[i%len(values)])
			i++
		})
	}
	return v
}

// check fails the test if bytes outside the elements of v were overwritten.
func check(t testing.TB, all []byte, v kernel.View) {
	base := uintptr(unsafe.Pointer(unsafe.SliceData(all)))
	size := v.DType.Size()
	Each(v, func(p unsafe.Pointer) {
		at := uintptr(p) - base
		for i := range size {
			all[int(at)+i] = guard
		}
	})
	for i, b := range all {
		if b != guard {
			t.Errorf("kerneltest: byte %d was written outside of view %v %v strides %v", i, v.DType, v.Shape, v.Strides)
			return
		}
	}
}

// arrange returns the strides, the offset of the first element and the number of elements that
// the layout spans.
func arrange(l Layout, shape []int64) (strides []int64, first, span int64) {
	n := len(shape)
	strides = make([]int64, n)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	if l == Transposed && n > 1 {
		order[n-1], order[n-2] = order[n-2], order[n-1]
	}
	step := int64(1)
	for k := n - 1; k >= 0; k-- {
		i := order[k]
		if l == Gapped && k == n-1 {
			step = 2
		}
		strides[i] = step
		step *= max(shape[i], 1)
		if l == Gapped && k == n-1 {
			step += 3
		}
	}
	span = step
	switch {
	case l == Reversed && n > 0 && shape[n-1] > 0:
		strides[n-1] = -1
		first = shape[n-1] - 1
	case l == Broadcast && n > 0:
		strides[0] = 0
	}
	return strides, first, span
}

// Each calls f with the address of every element, in row-major order.
func Each(v kernel.View, f func(p unsafe.Pointer)) {
	size := int64(v.DType.Size())
	at := make([]int64, len(v.Shape))
	for range v.Len() {
		offset := int64(0)
		for i, x := range at {
			offset += x * v.Strides[i]
		}
		f(unsafe.Add(v.Data, offset*size))
		for i := len(at) - 1; i >= 0; i-- {
			at[i]++
			if at[i] < v.Shape[i] {
				break
			}
			at[i] = 0
		}
	}
}

// Values reads the elements in row-major order.
func Values(v kernel.View) []float64 {
	out := make([]float64, 0, v.Len())
	Each(v, func(p unsafe.Pointer) { out = append(out, Get(v.DType, p)) })
	return out
}
