package aclnn

import (
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn/half"
	"github.com/goascend/cann/internal/dtype"
)

// Scalar is a value with a dtype (aclScalar). The zero value is absent: a null pointer to C.
type Scalar struct {
	value   [2]uint64
	dtype   DType
	present bool
}

// Float is a float32 scalar; CANN computes most scalar arguments in float32.
func Float(v float64) Scalar { return scalar(dtype.Float32, uint64(math.Float32bits(float32(v)))) }

// Double is a float64 scalar.
func Double(v float64) Scalar { return scalar(dtype.Float64, math.Float64bits(v)) }

// Int is an int64 scalar.
func Int(v int64) Scalar { return scalar(dtype.Int64, uint64(v)) }

// Truth is a bool scalar.
func Truth(v bool) Scalar {
	if v {
		return scalar(dtype.Bool, 1)
	}
	return scalar(dtype.Bool, 0)
}

// Of is a scalar of any real dtype. v is rounded to nearest even for floating-point types and
// towards zero for integers. A dtype that scalars cannot have matches acl.ErrInvalidArgument.
func Of(dt DType, v float64) (Scalar, error) {
	switch dt {
	case dtype.Float32:
		return Float(v), nil
	case dtype.Float64:
		return Double(v), nil
	case dtype.Float16:
		return scalar(dt, uint64(half.Float16FromFloat64(v))), nil
	case dtype.BFloat16:
		return scalar(dt, uint64(half.BFloat16FromFloat64(v))), nil
	case dtype.Bool:
		return Truth(v != 0), nil
	case dtype.Int8, dtype.Int16, dtype.Int32, dtype.Int64:
		return scalar(dt, uint64(int64(v))), nil
	case dtype.Uint8, dtype.Uint16, dtype.Uint32, dtype.Uint64:
		return scalar(dt, uint64(v)), nil
	}
	return Scalar{}, refuse(acl.ErrInvalidArgument, "a scalar cannot have dtype %v", dt)
}

// ComplexScalar is a complex64 scalar.
func ComplexScalar(v complex64) Scalar {
	return scalar(dtype.Complex64, uint64(math.Float32bits(real(v)))|uint64(math.Float32bits(imag(v)))<<32)
}

func scalar(dt DType, bits uint64) Scalar {
	return Scalar{value: [2]uint64{bits}, dtype: dt, present: true}
}

// DType is the scalar's dtype; an absent scalar has Undefined.
func (s Scalar) DType() DType {
	if !s.present {
		return dtype.Undefined
	}
	return s.dtype
}
