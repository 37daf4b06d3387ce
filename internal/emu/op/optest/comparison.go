package optest

import (
	"fmt"
	"math"
	"math/cmplx"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
)

// tolerance is how many distances of the coarsest type's numbers two results may differ. Operators
// round their intermediate results too.
const tolerance = 24

// coarsest returns the precision of the least precise floating-point tensor of a call.
func coarsest(call recorded) (p float64) {
	for i := range call.op.Params {
		for _, d := range typesOf(call.tensors(i)) {
			p = max(p, precision(d))
		}
	}
	return p
}

// comparison compares one output of a variation with that of the reference.
type comparison struct {
	to        dtype.Type // of the variation
	got, want dtype.Type // of the output
	limit     float64    // relative to the larger of the value and the root mean square
}

func (c comparison) check(got, want []complex128) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d elements, not %d", len(got), len(want))
	}
	squares, finite := 0.0, 0
	for _, w := range want {
		if a := cmplx.Abs(w); !math.IsNaN(a) && !math.IsInf(a, 0) {
			squares += a * a
			finite++
		}
	}
	unit := math.Sqrt(squares / float64(max(finite, 1)))
	for i, w := range want {
		if g := got[i]; !c.near(g, w, unit) {
			return fmt.Errorf("element %d is %v, want %v", i, number(g), number(w))
		}
	}
	return nil
}

// near compares one element. It does not compare values that an integer type cannot represent: an
// integer has no NaN, and one without a sign wraps below zero.
func (c comparison) near(got, want complex128, unit float64) bool {
	g, w := real(got), real(want)
	low, high, whole := limits(c.got)
	least, _, integers := limits(c.to)
	switch {
	case integers && (math.IsNaN(w) || math.IsInf(w, 0) || least == 0 && w < 0):
		return true
	case whole && high == 1:
		return (g != 0) == (want != 0) && (g == 0 || g == 1)
	case whole && !(w >= low && w <= high) || c.saturated(w):
		return true
	case whole:
		slack := c.limit * max(unit, math.Abs(w))
		if c.got.Bits() <= 8 || c.want != c.got && precision(c.want) > 0 {
			slack++
		} else if precision(c.want) == 0 {
			slack = 0 // an index, or the arithmetic of integers
		}
		return math.Abs(g-w) <= slack
	case math.IsNaN(w) || math.IsInf(w, 0):
		return c.got.IsComplex() || math.IsNaN(w) == math.IsNaN(g) && (math.IsNaN(w) || w == g || math.IsInf(rounded(c.got, w), 0))
	case math.IsInf(rounded(c.got, w), 0):
		return true
	}
	return cmplx.Abs(got-complex(rounded(c.got, w), imag(want))) <= c.limit*max(unit, math.Abs(w))+smallest(c.got)
}

// saturated reports whether a value of the reference may stand for one beyond the range of its type.
func (c comparison) saturated(w float64) bool {
	low, high, whole := limits(c.want)
	return whole && high > 1 && c.want != c.got && (w == low || w == high)
}

// smallest returns the distance of the smallest numbers of a type.
func smallest(d dtype.Type) float64 {
	switch d {
	case dtype.Float16, dtype.Complex32:
		return 0x1p-20
	case dtype.Float32, dtype.BFloat16, dtype.Float64, dtype.Complex64, dtype.Complex128:
		return 1e-30
	}
	return precision(d)
}

// number omits an imaginary part of zero.
func number(v complex128) any {
	if imag(v) == 0 {
		return real(v)
	}
	return v
}

// same compares two values; NaN is the same as NaN.
func same(a, b complex128) bool { return a == b || cmplx.IsNaN(a) && cmplx.IsNaN(b) }

// agree reports whether two outputs are the same.
func agree(a, b [][]complex128) bool {
	for k := range a {
		if len(a[k]) != len(b[k]) {
			return false
		}
		for i := range a[k] {
			if !same(a[k][i], b[k][i]) {
				return false
			}
		}
	}
	return true
}

// anyAgrees reports whether two outputs have an element in common.
func anyAgrees(a, b [][]complex128) bool {
	for k := range a {
		for i := range min(len(a[k]), len(b[k])) {
			if same(a[k][i], b[k][i]) {
				return true
			}
		}
	}
	return false
}

// stored returns the values with which tensors start.
func stored(tensors []*descriptor) (all [][]complex128) {
	for _, d := range tensors {
		var v []complex128
		for k := range d.places(d.extent()) {
			x := 0.0
			if len(d.Values) > 0 {
				x = d.Values[k%len(d.Values)]
			}
			var b [2]complex128
			put(d.DType, unsafe.Pointer(&b), 0, complex(x, 0))
			v = append(v, get(d.DType, unsafe.Pointer(&b), 0))
		}
		all = append(all, v)
	}
	return all
}
