package tiny

import (
	"math"

	"github.com/goascend/cann/aclnn/half"
	"github.com/goascend/cann/internal/dtype"
)

// BlockSize is the number of elements with a common scale in the MX formats.
const BlockSize = 32

// Scaling computes the scales of blocks whose elements become numbers of a type of eight or four bits.
type Scaling struct {
	Type      dtype.Type
	Algorithm int64   // 0: from the exponent of the largest element; 1: from its quotient by Most; 2: from the exponent after rounding
	Most      float64 // the number to which the largest element may be mapped; 0 is the largest of Type
}

// largest has the exponent of the largest number of a type, and that number.
var largest = map[dtype.Type]struct {
	exponent int
	value    float64
}{
	dtype.Float8E4M3: {8, 448}, dtype.Float8E5M2: {15, 57344}, dtype.Float4E2M1: {2, 6}, dtype.Float4E1M2: {0, 1.75},
}

// nextExponent has the least fractions, in 128ths, with which algorithm 2 takes the next exponent, by
// Most. Other values of Most are for the quotient.
var nextExponent = map[float64]int{6: 128 - 0x3f, 7: 128 - 0x1f, 1.875: 128 - 0x0f}

// Block returns the scale of a block, a power of two, and the factor by which its elements are
// multiplied. A block with infinities or NaN has the scale NaN. If the scale would be below the
// least one, the elements become zero.
func (s Scaling) Block(x []float64) (scale, factor float64) {
	most := 0.0
	for _, v := range x {
		if v = math.Abs(v); v > most || math.IsNaN(v) {
			most = v
		}
		if math.IsNaN(most) || math.IsInf(most, 0) {
			return math.NaN(), math.NaN()
		}
	}
	largest, limit := largest[s.Type], s.Most
	if limit == 0 && s.Type != dtype.Float4E1M2 {
		limit = largest.value
	}
	var code int
	switch next, dynamic := nextExponent[limit]; {
	case s.Algorithm == 0:
		if code = exponent(most) - largest.exponent; code <= 0 {
			return 0, 0
		}
	case s.Algorithm == 2 && dynamic:
		most = float64(half.BFloat16FromFloat64(most).Float32())
		e := exponent(most)
		if e == 0 {
			return 0, 0
		}
		if int(math.Ldexp(most, 127+7-e))-128 >= next {
			e++
		}
		code = max(e-largest.exponent, 0)
	default:
		if limit == 0 {
			limit = largest.value
		}
		q := float64(float32(most) * float32(1/limit))
		code = exponent(q)
		switch fraction := math.Ldexp(q, 127-code); {
		case code > 0 && code < 254 && fraction > 1, code == 0 && s.Algorithm == 1 && math.Ldexp(q, 126) > 0.5:
			code++
		}
	}
	if code == 255 {
		return math.NaN(), math.NaN()
	}
	return math.Ldexp(1, code-127), math.Ldexp(1, 127-code)
}

// exponent returns the exponent of a float32 with its bias, which is 0 for subnormal numbers.
func exponent(x float64) int {
	if x < 0x1p-126 {
		return 0
	}
	_, e := math.Frexp(x)
	return e - 1 + 127
}
