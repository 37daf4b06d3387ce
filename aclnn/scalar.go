package aclnn

import (
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/half"
)

// Scalar is a value with a dtype (aclScalar). The zero value is absent: a null pointer to C. A
// scalar that is impossible carries its error, which Err and every launch with it return.
type Scalar struct {
	value [2]uint64
	dtype DType
	state scalarState
}

// scalarState is whether a scalar can be given to C.
type scalarState uint8

const (
	absent scalarState = iota
	present
	unscalable // no scalar has the dtype
	misfitting // the dtype does not hold the value
)

// Number is a Go type of which ScalarOf makes scalars.
type Number interface {
	bool | int | int8 | int16 | int32 | int64 | uint | uint8 | uint16 | uint32 | uint64 | float32 | float64 | complex64 | complex128
}

// ScalarOf is v as a scalar of a dtype. Floating-point and complex dtypes round it to nearest even;
// integers and Bool must hold it exactly, true counting as 1. A scalar with a dtype that scalars cannot
// have, or that does not hold v, is impossible and matches acl.ErrInvalidArgument.
func ScalarOf[T Number](dt DType, v T) Scalar {
	switch v := any(v).(type) {
	case bool:
		if v {
			return whole(dt, 1, false)
		}
		return whole(dt, 0, false)
	case int:
		return whole(dt, uint64(v), v < 0)
	case int8:
		return whole(dt, uint64(v), v < 0)
	case int16:
		return whole(dt, uint64(v), v < 0)
	case int32:
		return whole(dt, uint64(v), v < 0)
	case int64:
		return whole(dt, uint64(v), v < 0)
	case uint:
		return whole(dt, uint64(v), false)
	case uint8:
		return whole(dt, uint64(v), false)
	case uint16:
		return whole(dt, uint64(v), false)
	case uint32:
		return whole(dt, uint64(v), false)
	case uint64:
		return whole(dt, v, false)
	case float32:
		return broken(dt, complex(float64(v), 0))
	case float64:
		return broken(dt, complex(v, 0))
	case complex64:
		return broken(dt, complex128(v))
	case complex128:
		return broken(dt, v)
	}
	return Scalar{dtype: dt, state: unscalable} // Number has no other types
}

// Float is ScalarOf(Float32, v), in which CANN computes most scalar arguments.
func Float(v float64) Scalar { return scalar(dtype.Float32, uint64(math.Float32bits(float32(v)))) }

// Int is ScalarOf(Int64, v).
func Int(v int64) Scalar { return scalar(dtype.Int64, uint64(v)) }

// whole is a scalar of an integer, whose bits are those of an int64 if it is negative.
func whole(dt DType, bits uint64, negative bool) Scalar {
	value := float64(bits)
	if negative {
		value = float64(int64(bits))
	}
	switch {
	case dt == dtype.Bool:
		if bits > 1 {
			return misfit(dt, value)
		}
		return scalar(dt, bits)
	case !dt.IsInteger():
		return broken(dt, complex(value, 0))
	case dt.Size() == 0:
		return Scalar{dtype: dt, state: unscalable}
	}
	width := dt.Bits()
	switch dt {
	case dtype.Uint8, dtype.Uint16, dtype.Uint32, dtype.Uint64:
		if negative || width < 64 && bits>>width != 0 {
			return misfit(dt, value)
		}
	default:
		if high := int64(bits) >> (width - 1); negative != (int64(bits) < 0) || high != 0 && high != -1 {
			return misfit(dt, value)
		}
	}
	return scalar(dt, bits)
}

// broken is a scalar of a number that may have a fraction and an imaginary part.
func broken(dt DType, v complex128) Scalar {
	re, im := real(v), imag(v)
	switch dt {
	case dtype.Complex64:
		return scalar(dt, uint64(math.Float32bits(float32(re)))|uint64(math.Float32bits(float32(im)))<<32)
	case dtype.Complex128:
		return Scalar{value: [2]uint64{math.Float64bits(re), math.Float64bits(im)}, dtype: dt, state: present}
	}
	if im != 0 {
		return misfit(dt, re)
	}
	switch {
	case dt == dtype.Float32:
		return Float(re)
	case dt == dtype.Float64:
		return scalar(dt, math.Float64bits(re))
	case dt == dtype.Float16:
		return scalar(dt, uint64(half.Float16FromFloat64(re)))
	case dt == dtype.BFloat16:
		return scalar(dt, uint64(half.BFloat16FromFloat64(re)))
	case dt != dtype.Bool && !(dt.IsInteger() && dt.Size() > 0):
		return Scalar{dtype: dt, state: unscalable}
	case re != math.Trunc(re) || re < math.MinInt64 || re >= 1<<64:
		return misfit(dt, re)
	case re < 0:
		return whole(dt, uint64(int64(re)), true)
	}
	return whole(dt, uint64(re), false)
}

func scalar(dt DType, bits uint64) Scalar {
	return Scalar{value: [2]uint64{bits}, dtype: dt, state: present}
}

func misfit(dt DType, v float64) Scalar {
	return Scalar{value: [2]uint64{math.Float64bits(v)}, dtype: dt, state: misfitting}
}

// DType is the scalar's dtype; an absent scalar has Undefined.
func (s Scalar) DType() DType {
	if s.state == absent {
		return dtype.Undefined
	}
	return s.dtype
}

// Err is why the scalar is impossible.
func (s Scalar) Err() error {
	switch s.state {
	case unscalable:
		return refuse(acl.ErrInvalidArgument, "a scalar cannot have dtype %v", s.dtype)
	case misfitting:
		return refuse(acl.ErrInvalidArgument, "a scalar of dtype %v does not hold %v", s.dtype, math.Float64frombits(s.value[0]))
	}
	return nil
}
