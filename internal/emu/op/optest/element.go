package optest

import (
	"math"
	"unsafe"

	"github.com/goascend/cann/aclnn/half"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/element"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// codes holds the values of the types of at most eight bits that package kerneltest does not know,
// by code.
var codes = map[dtype.Type][]float64{
	dtype.Int4:       values(4, func(code int) float64 { return float64(int8(code<<4) >> 4) }),
	dtype.Uint1:      {0, 1},
	dtype.HiFloat8:   values(8, hiFloat8),
	dtype.Float8E5M2: float8(dtype.Float8E5M2),
	dtype.Float8E4M3: float8(dtype.Float8E4M3),
	dtype.Float8E8M0: float8(dtype.Float8E8M0),
	dtype.Float6E3M2: values(6, func(code int) float64 { return minifloat(code, 3, 2) }),
	dtype.Float6E2M3: values(6, func(code int) float64 { return minifloat(code, 2, 3) }),
	dtype.Float4E2M1: values(4, func(code int) float64 { return minifloat(code, 2, 1) }),
	dtype.Float4E1M2: values(4, func(code int) float64 { return minifloat(code, 1, 2) }),
}

// values returns the values of all codes of a number of bits.
func values(bits int, of func(code int) float64) []float64 {
	all := make([]float64, 1<<bits)
	for code := range all {
		all[code] = of(code)
	}
	return all
}

func float8(d dtype.Type) []float64 {
	return values(8, func(code int) float64 {
		v := make([]float64, 1)
		element.Floats(v, []byte{byte(code)}, d)
		return v[0]
	})
}

// minifloat decodes a sign, an exponent and a fraction of a type without infinities and NaN.
func minifloat(code, exponent, fraction int) float64 {
	e, f := code>>fraction&(1<<exponent-1), float64(code&(1<<fraction-1))
	bias := max(1<<(exponent-1)-1, 1)
	v := math.Ldexp(f, 1-bias-fraction)
	if e > 0 {
		v = math.Ldexp(f+float64(int(1)<<fraction), e-bias-fraction)
	}
	if code>>(exponent+fraction) == 1 {
		v = -v
	}
	return v
}

// hiFloat8 decodes the tapered format: the bits below the sign say how many bits the exponent has,
// and the fraction takes the rest.
func hiFloat8(code int) float64 {
	sign := 1.0
	if code&0x80 != 0 {
		sign = -1
	}
	low := code & 0x7f
	switch {
	case code == 0x80:
		return math.NaN()
	case low == 0x6f:
		return math.Inf(int(sign))
	case low < 8 && low > 0: // denormal: powers of two
		return sign * math.Ldexp(1, low-23)
	case low == 0:
		return 0
	}
	var dot, width, rest int // bits of the exponent, bits of the fraction, both fields
	switch {
	case low>>5 == 3:
		dot, width, rest = 4, 1, low&0x1f
	case low>>5 == 2:
		dot, width, rest = 3, 2, low&0x1f
	case low>>5 == 1:
		dot, width, rest = 2, 3, low&0x1f
	case low>>4 == 1:
		dot, width, rest = 1, 3, low&0xf
	default:
		return sign * (1 + float64(low&7)/8)
	}
	field, f := rest>>width, float64(rest&(1<<width-1))/float64(int(1)<<width)
	e := 1<<(dot-1) | field&(1<<(dot-1)-1)
	if field>>(dot-1) == 1 {
		e = -e
	}
	return sign * math.Ldexp(1+f, e)
}

// put stores v as element i of type d. A type without imaginary parts drops that of v.
func put(d dtype.Type, base unsafe.Pointer, i int64, v complex128) {
	at := unsafe.Add(base, i*int64(d.Size()))
	switch {
	case d == dtype.Complex32:
		parts := (*[2]half.Float16)(at)
		parts[0], parts[1] = half.Float16FromFloat64(real(v)), half.Float16FromFloat64(imag(v))
	case d == dtype.Complex64:
		*(*complex64)(at) = complex64(v)
	case d == dtype.Complex128:
		*(*complex128)(at) = v
	case codes[d] == nil:
		kerneltest.Set(d, at, real(v))
	default:
		bits := d.Bits()
		code := nearest(codes[d], real(v))
		for k := range bits {
			bit := int(i)*bits + k
			p := (*byte)(unsafe.Add(base, bit/8))
			*p = *p&^(1<<(bit%8)) | byte(code>>k&1)<<(bit%8)
		}
	}
}

// get loads element i of type d.
func get(d dtype.Type, base unsafe.Pointer, i int64) complex128 {
	at := unsafe.Add(base, i*int64(d.Size()))
	switch {
	case d == dtype.Complex32:
		parts := (*[2]half.Float16)(at)
		return complex(float64(parts[0].Float32()), float64(parts[1].Float32()))
	case d == dtype.Complex64:
		return complex128(*(*complex64)(at))
	case d == dtype.Complex128:
		return *(*complex128)(at)
	case codes[d] == nil:
		return complex(kerneltest.Get(d, at), 0)
	}
	bits, code := d.Bits(), 0
	for k := range bits {
		bit := int(i)*bits + k
		code |= int(*(*byte)(unsafe.Add(base, bit/8))) >> (bit % 8) & 1 << k
	}
	return complex(codes[d][code], 0)
}

// nearest returns the code of the value that is nearest to v.
func nearest(values []float64, v float64) int {
	best, distance := 0, math.Inf(1)
	for code, x := range values {
		if d := math.Abs(x - v); d < distance {
			best, distance = code, d
		}
	}
	return best
}

// rounded returns v converted to type d and back.
func rounded(d dtype.Type, v float64) float64 {
	var b [2]complex128
	put(d, unsafe.Pointer(&b), 0, complex(v, 0))
	return real(get(d, unsafe.Pointer(&b), 0))
}

// limits returns the smallest and the largest value of an integer type or bool; ok is false for
// others.
func limits(d dtype.Type) (low, high float64, ok bool) {
	switch d {
	case dtype.Bool, dtype.Uint1:
		return 0, 1, true
	case dtype.Uint8, dtype.Uint16, dtype.Uint32, dtype.Uint64:
		return 0, math.Ldexp(1, d.Bits()) - 1, true
	case dtype.Int4, dtype.Int8, dtype.Int16, dtype.Int32, dtype.Int64:
		return -math.Ldexp(1, d.Bits()-1), math.Ldexp(1, d.Bits()-1) - 1, true
	}
	return 0, 0, false
}

// precision returns the distance of a floating-point type's numbers near one, or 0 for other types.
func precision(d dtype.Type) float64 {
	switch d {
	case dtype.Float64, dtype.Complex128:
		return 0x1p-52
	case dtype.Float32, dtype.Complex64:
		return 0x1p-23
	case dtype.Float16, dtype.Complex32:
		return 0x1p-10
	case dtype.BFloat16:
		return 0x1p-7
	case dtype.Float8E4M3, dtype.HiFloat8, dtype.Float6E2M3:
		return 0x1p-3
	case dtype.Float8E5M2, dtype.Float6E3M2, dtype.Float4E1M2:
		return 0x1p-2
	case dtype.Float4E2M1:
		return 0x1p-1
	case dtype.Float8E8M0:
		return 1
	}
	return 0
}
