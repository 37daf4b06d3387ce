package minifloat

import (
	"math"
	"slices"
	"sort"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/element"
)

// Rounding chooses among the two numbers of a type between which a value lies. Values beyond the
// largest number become that number.
type Rounding int

// Roundings: to the nearest number, of two equally near ones to that with an even code (Even) or
// away from zero (Away); to the lower number (Down).
const (
	Even Rounding = iota
	Away
	Down
)

// format is a type by its codes.
type format struct {
	values   []float64 // of all codes
	positive []float64 // the finite numbers from zero on, ascending
	codes    []int     // of positive
	sign     int       // the bit of the sign, or 0
	nan      int       // the code that a NaN becomes
}

var formats = map[dtype.Type]*format{
	dtype.HiFloat8:   newFormat(8, hiFloat8),
	dtype.Float8E5M2: newFormat(8, float8(dtype.Float8E5M2)),
	dtype.Float8E4M3: newFormat(8, float8(dtype.Float8E4M3)),
	dtype.Float8E8M0: newFormat(8, float8(dtype.Float8E8M0)),
	dtype.Float6E3M2: newFormat(6, func(code int) float64 { return minifloat(code, 3, 2) }),
	dtype.Float6E2M3: newFormat(6, func(code int) float64 { return minifloat(code, 2, 3) }),
	dtype.Float4E2M1: newFormat(4, func(code int) float64 { return minifloat(code, 2, 1) }),
	dtype.Float4E1M2: newFormat(4, func(code int) float64 { return minifloat(code, 1, 2) }),
}

// Values returns the numbers of a type by their codes, or nil for a type that the package leaves to
// package kernel.
func Values(d dtype.Type) []float64 {
	if f := formats[d]; f != nil {
		return f.values
	}
	return nil
}

func newFormat(bits int, value func(code int) float64) *format {
	f := &format{sign: 1 << (bits - 1)}
	for code := range 1 << bits {
		v := value(code)
		f.values = append(f.values, v)
		if v >= 0 && !math.Signbit(v) && !math.IsInf(v, 0) {
			f.codes = append(f.codes, code)
		}
	}
	slices.SortFunc(f.codes, func(a, b int) int {
		if f.values[a] < f.values[b] {
			return -1
		}
		return 1
	})
	for _, code := range f.codes {
		f.positive = append(f.positive, f.values[code])
	}
	if f.positive[0] > 0 { // E8M0 has no sign and no zero
		f.sign, f.nan = 0, 255
	}
	return f
}

// code returns the code of a value. NaN becomes zero, as on the device, where the type has a zero.
func (f *format) code(x float64, r Rounding) int {
	if math.IsNaN(x) {
		return f.nan
	}
	negative, size := math.Signbit(x), math.Abs(x)
	i := min(sort.SearchFloat64s(f.positive, size), len(f.positive)-1)
	if i > 0 && size < f.positive[i] {
		middle := (f.positive[i-1] + f.positive[i]) / 2
		up := size > middle || size == middle && f.codes[i-1]&1 == 1
		switch r {
		case Away:
			up = size >= middle
		case Down:
			up = negative
		}
		if !up {
			i--
		}
	}
	if negative && (f.positive[i] > 0 || f.values[f.sign] == 0) { // HiFloat8 has no negative zero
		return f.codes[i] | f.sign
	}
	return f.codes[i]
}

func float8(d dtype.Type) func(code int) float64 {
	return func(code int) float64 {
		var v [1]float64
		element.Floats(v[:], []byte{byte(code)}, d)
		return v[0]
	}
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

// hiFloat8 decodes the tapered format: the bits below the sign give how many bits the exponent has,
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
