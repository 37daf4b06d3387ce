package blas

import (
	"fmt"
	"math"
	"strings"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/aclnn/half"
)

// one checks that a vector holds a single number of a type, for a result.
func one(op string, operands []operand, v Vector, dt aclnn.DType) error {
	if v.N != 1 || v.DType != dt {
		return refuse(op, operands, "the result is %v[%d]; the function writes %v[1]", v.DType, v.N, dt)
	}
	return nil
}

// alike checks that two vectors have one length and type.
func alike(op string, operands []operand, x, y Vector) error {
	if x.N != y.N || x.DType != y.DType {
		return refuse(op, operands, "the vectors differ in length or type")
	}
	return nil
}

func isReal(dt aclnn.DType) bool {
	return dt == aclnn.Float32 || dt == aclnn.Float16 || dt == aclnn.BFloat16
}

// Asum writes the sum of |x[i]| of a float32 vector to a float32 result (aclblasSasum). It is 0 for an Inc below 1.
func (h *Handle) Asum(x, result Vector) error {
	const op = "Handle.Asum"
	operands := []operand{x.operand("x"), result.operand("result")}
	if err := one(op, operands, result, aclnn.Float32); err != nil {
		return err
	}
	if x.DType != aclnn.Float32 {
		return typed(op, operands, "float32")
	}
	return h.call(op, operands, func() error {
		return aclblasSasum(h.context, h.handle, int32(x.N), x.address(), int32(x.inc()), result.address())
	})
}

// Nrm2 writes the Euclidean norm of x to a float32 result: of float32 (aclblasSnrm2), float16 (aclblasSnrm2Ex) or complex64, the
// last with an Inc of 1 (aclblasScnrm2).
func (h *Handle) Nrm2(x, result Vector) error {
	const op = "Handle.Nrm2"
	operands := []operand{x.operand("x"), result.operand("result")}
	if err := one(op, operands, result, aclnn.Float32); err != nil {
		return err
	}
	return h.call(op, operands, func() error {
		switch x.DType {
		case aclnn.Float32:
			return aclblasSnrm2(h.context, h.handle, int32(x.N), x.address(), int32(x.inc()), result.address())
		case aclnn.Float16:
			return aclblasSnrm2Ex(h.context, h.handle, aclDataType(x.DType), x.address(), int64(x.N), int64(x.inc()), result.address())
		case aclnn.Complex64:
			return aclblasScnrm2(h.context, h.handle, int64(x.N), x.address(), int64(x.inc()), result.address())
		}
		return fmt.Errorf("%w: the library has the function for float32, float16 and complex64", acl.ErrNotSupported)
	})
}

// Dot writes the sum of x[i] y[i] to a result of the vectors' type: float32 (aclblasSdot; on an Atlas A2 or A3 with an Inc of 1),
// float16 and bfloat16 (aclblasDotEx, which adds up in float32), or complex64 with an Inc of 1 (aclblasCdotu).
func (h *Handle) Dot(x, y, result Vector) error { return h.dot("Handle.Dot", x, y, result, false) }

// Dotc is Dot with the conjugates of x, of complex64 (aclblasCdotc).
func (h *Handle) Dotc(x, y, result Vector) error { return h.dot("Handle.Dotc", x, y, result, true) }

func (h *Handle) dot(op string, x, y, result Vector, conjugate bool) error {
	operands := []operand{x.operand("x"), y.operand("y"), result.operand("result")}
	if err := alike(op, operands, x, y); err != nil {
		return err
	}
	if err := one(op, operands, result, x.DType); err != nil {
		return err
	}
	if conjugate && x.DType != aclnn.Complex64 || !conjugate && !isReal(x.DType) && x.DType != aclnn.Complex64 {
		return typed(op, operands, "float32, float16, bfloat16 and complex64, conjugated for complex64 only")
	}
	return h.call(op, operands, func() error {
		switch {
		case conjugate:
			return aclblasCdotc(h.context, h.handle, int64(x.N), x.address(), int64(x.inc()), y.address(), int64(y.inc()), result.address())
		case x.DType == aclnn.Complex64:
			return aclblasCdotu(h.context, h.handle, int64(x.N), x.address(), int64(x.inc()), y.address(), int64(y.inc()), result.address())
		case x.DType == aclnn.Float32:
			return aclblasSdot(h.context, h.handle, int64(x.N), x.address(), int64(x.inc()), y.address(), int64(y.inc()), result.address())
		}
		dt := aclDataType(x.DType)
		return aclblasDotEx(h.context, h.handle, int32(x.N), x.address(), dt, int32(x.inc()), y.address(), dt, int32(y.inc()), result.address(), dt, aclDataType(aclnn.Float32))
	})
}

// Iamax writes the place, counted from 1, of the first element of a float32 vector with the largest absolute value to an int32
// result (aclblasIsamax, on an Atlas A2 or A3 aclblasIamax); 0 without elements, or with an Inc below 1.
func (h *Handle) Iamax(x, result Vector) error { return h.index("Handle.Iamax", x, result, true) }

// Iamin is Iamax for the smallest absolute value (aclblasIsamin). It needs a 950.
func (h *Handle) Iamin(x, result Vector) error { return h.index("Handle.Iamin", x, result, false) }

func (h *Handle) index(op string, x, result Vector, largest bool) error {
	operands := []operand{x.operand("x"), result.operand("result")}
	if err := one(op, operands, result, aclnn.Int32); err != nil {
		return err
	}
	if x.DType != aclnn.Float32 {
		return typed(op, operands, "float32")
	}
	return h.call(op, operands, func() error {
		switch {
		case !largest:
			return aclblasIsamin(h.context, h.handle, int32(x.N), x.address(), int32(x.inc()), result.address())
		case h.is950():
			return aclblasIsamax(h.context, h.handle, int32(x.N), x.address(), int32(x.inc()), result.address())
		}
		return aclblasIamax(h.context, h.handle, int64(x.N), x.address(), int64(x.inc()), result.address())
	})
}

// Scal multiplies x by alpha: float32 (aclblasSscal), float16 and bfloat16 (aclblasScalex), or complex64 (aclblasCscal). An imaginary
// part of alpha is for complex64 only. On an Atlas A2 or A3 the library's function for float32 does not look at Inc, so that
// another one than 1 is refused.
func (h *Handle) Scal(alpha complex64, x Vector) error {
	const op = "Handle.Scal"
	operands := []operand{x.operand("x")}
	switch {
	case x.DType != aclnn.Complex64 && imag(alpha) != 0:
		return refuse(op, operands, "alpha is %v, and x is real", alpha)
	case x.DType != aclnn.Complex64 && !isReal(x.DType):
		return typed(op, operands, "float32, float16, bfloat16 and complex64")
	case x.DType == aclnn.Float32 && x.inc() != 1 && h != nil && h.st != nil && !h.is950():
		return failed(op, operands, fmt.Errorf("%w: the library of this chip scales contiguous vectors only, without a word", acl.ErrNotSupported))
	}
	return h.call(op, operands, func() error {
		real := real(alpha)
		switch x.DType {
		case aclnn.Complex64:
			return aclblasCscal(h.context, h.handle, int64(x.N), alpha, x.address(), int64(x.inc()))
		case aclnn.Float32:
			return aclblasSscal(h.context, h.handle, int32(x.N), &real, x.address(), int32(x.inc()))
		}
		return aclblasScalex(h.context, h.handle, int32(x.N), &real, aclDataType(aclnn.Float32), x.address(), aclDataType(x.DType), int32(x.inc()), aclDataType(aclnn.Float32))
	})
}

// Axpy adds alpha x to y: float32 (aclblasSaxpy), float16 and bfloat16 (aclblasAxpyEx) on a 950, complex64 on an Atlas A2 or A3
// (aclblasCaxpy).
func (h *Handle) Axpy(alpha complex64, x, y Vector) error {
	const op = "Handle.Axpy"
	operands := []operand{x.operand("x"), y.operand("y")}
	if err := alike(op, operands, x, y); err != nil {
		return err
	}
	switch {
	case x.DType != aclnn.Complex64 && imag(alpha) != 0:
		return refuse(op, operands, "alpha is %v, and the vectors are real", alpha)
	case x.DType != aclnn.Complex64 && !isReal(x.DType):
		return typed(op, operands, "float32, float16, bfloat16 and complex64")
	}
	return h.call(op, operands, func() error {
		real := real(alpha)
		switch x.DType {
		case aclnn.Complex64:
			return aclblasCaxpy(h.context, h.handle, int64(x.N), alpha, x.address(), int64(x.inc()), y.address(), int64(y.inc()))
		case aclnn.Float32:
			return aclblasSaxpy(h.context, h.handle, int32(x.N), &real, x.address(), int32(x.inc()), y.address(), int32(y.inc()))
		}
		return aclblasAxpyEx(h.context, h.handle, int32(x.N), &real, aclDataType(aclnn.Float32), x.address(), aclDataType(x.DType), int32(x.inc()), y.address(), aclDataType(y.DType), int32(y.inc()), aclDataType(aclnn.Float32))
	})
}

// Copy copies x to y: float32 (aclblasScopy, on an Atlas A2 or A3 aclblasScopy_legacy), or complex64 on an Atlas A2 or A3
// (aclblasCcopy).
func (h *Handle) Copy(x, y Vector) error {
	const op = "Handle.Copy"
	operands := []operand{x.operand("x"), y.operand("y")}
	if err := alike(op, operands, x, y); err != nil {
		return err
	}
	if x.DType != aclnn.Float32 && x.DType != aclnn.Complex64 {
		return typed(op, operands, "float32 and complex64")
	}
	return h.call(op, operands, func() error {
		switch {
		case x.DType == aclnn.Complex64:
			return aclblasCcopy(h.context, h.handle, x.address(), y.address(), int64(x.N), int64(x.inc()), int64(y.inc()))
		case h.is950():
			return aclblasScopy(h.context, h.handle, int32(x.N), x.address(), int32(x.inc()), y.address(), int32(y.inc()))
		}
		return aclblasScopyLegacy(h.context, h.handle, x.address(), y.address(), int64(x.N), int64(x.inc()), int64(y.inc()))
	})
}

// Swap exchanges x and y: float32 with an Inc of 1 (aclblasSswap), or complex64 on an Atlas A2 or A3 (aclblasCswap).
func (h *Handle) Swap(x, y Vector) error {
	const op = "Handle.Swap"
	operands := []operand{x.operand("x"), y.operand("y")}
	if err := alike(op, operands, x, y); err != nil {
		return err
	}
	if x.DType != aclnn.Float32 && x.DType != aclnn.Complex64 {
		return typed(op, operands, "float32 and complex64")
	}
	return h.call(op, operands, func() error {
		if x.DType == aclnn.Complex64 {
			return aclblasCswap(h.context, h.handle, int64(x.N), x.address(), int64(x.inc()), y.address(), int64(y.inc()))
		}
		return aclblasSswap(h.context, h.handle, int32(x.N), x.address(), int32(x.inc()), y.address(), int32(y.inc()))
	})
}

// Rot replaces each pair (x[i], y[i]) by (c x[i] + s y[i], c y[i] - s x[i]): float32 (aclblasSrot), float16 and bfloat16 (aclblasRotEx,
// which rounds c and s to them) on a 950, complex64 on an Atlas A2 or A3 (aclblasCsrot).
func (h *Handle) Rot(x, y Vector, c, s float32) error {
	const op = "Handle.Rot"
	operands := []operand{x.operand("x"), y.operand("y")}
	if err := alike(op, operands, x, y); err != nil {
		return err
	}
	if x.DType != aclnn.Complex64 && !isReal(x.DType) {
		return typed(op, operands, "float32, float16, bfloat16 and complex64")
	}
	return h.call(op, operands, func() error {
		if x.DType == aclnn.Complex64 {
			return aclblasCsrot(h.context, h.handle, int64(x.N), x.address(), int64(x.inc()), y.address(), int64(y.inc()), c, s)
		}
		cos, sin := bits(c, x.DType), bits(s, x.DType)
		if x.DType == aclnn.Float32 {
			return aclblasSrot(h.context, h.handle, int32(x.N), x.address(), int32(x.inc()), y.address(), int32(y.inc()), &cos, &sin)
		}
		dt := aclDataType(x.DType)
		return aclblasRotEx(h.context, h.handle, int32(x.N), x.address(), dt, int32(x.inc()), y.address(), dt, int32(y.inc()), &cos, &sin, dt, aclDataType(aclnn.Float32))
	})
}

// Rotm applies a modified rotation to float32 vectors (aclblasSrotm). param has a flag, and the elements h11, h21, h12 and h22
// that the flag does not imply, as in BLAS.
func (h *Handle) Rotm(x, y Vector, param [5]float32) error {
	const op = "Handle.Rotm"
	operands := []operand{x.operand("x"), y.operand("y")}
	if err := alike(op, operands, x, y); err != nil {
		return err
	}
	if x.DType != aclnn.Float32 {
		return typed(op, operands, "float32")
	}
	if f := param[0]; f != -2 && f != -1 && f != 0 && f != 1 {
		return refuse(op, operands, "the flag is %v; it is -2, -1, 0 or 1", f)
	}
	return h.call(op, operands, func() error {
		return aclblasSrotm(h.context, h.handle, int32(x.N), x.address(), int32(x.inc()), y.address(), int32(y.inc()), &param[0])
	})
}

// bits returns a number as the library reads it at an address.
func bits(x float32, dt aclnn.DType) uint32 {
	switch dt {
	case aclnn.Float16:
		return uint32(half.Float16FromFloat32(x))
	case aclnn.BFloat16:
		return uint32(half.BFloat16FromFloat32(x))
	}
	return math.Float32bits(x)
}

// is950 reports whether the library is the one of Ascend 950.
func (h *Handle) is950() bool { return strings.HasPrefix(h.st.Device().Runtime().SoC(), "Ascend950") }
