package minifloat

import (
	"fmt"
	"math"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/half"
)

// BlockSize is the number of elements with a common scale in the MX formats.
const BlockSize = 32

// Scaling computes the scales of blocks whose elements become numbers of a type of eight or four bits.
type Scaling struct {
	Type      dtype.Type
	Algorithm int64   // 0: from the exponent of the largest element; 1: from its quotient by Most; 2: from the exponent after rounding
	Most      float64 // the number to which the largest element may be mapped; 0 is the largest of Type
	Least     float64 // a block with smaller elements has the scale of this number
	Zeros     bool    // a block of zeros has the least scale, whatever Least is
}

// NewScaling checks how blocks become numbers of a type and how these are rounded: by "rint", and for types of
// four bits also by "round" or "floor". Algorithm 1 is for types of eight bits; 2 and most are for types of four.
func NewScaling(d dtype.Type, algorithm int64, most float64, rounding string) (Scaling, Rounding, error) {
	s := Scaling{Type: d, Algorithm: algorithm, Most: most}
	round, known := map[string]Rounding{"rint": Even, "round": Away, "floor": Down}[rounding]
	four := d.Bits() == 4
	lowest, highest := 6.0, 12.0
	if d == dtype.Float4E1M2 {
		lowest, highest = 1.75, 3.5
	}
	switch {
	case !known || !four && round != Even:
		return s, round, fmt.Errorf("roundMode %q is not supported for %v; use rint, or round or floor for types of four bits", rounding, d)
	case algorithm < 0 || algorithm > 2 || algorithm == 1 && four || algorithm == 2 && !four:
		return s, round, fmt.Errorf("scaleAlg is %d; use 0, 1 for types of eight bits or 2 for types of four", algorithm)
	case most != 0 && (!four || !(most >= lowest && most <= highest)):
		return s, round, fmt.Errorf("dstTypeMax is %g; use 0, or for types of four bits %g to %g", most, lowest, highest)
	}
	return s, round, nil
}

// Rows quantises rows of numbers, each as long as the last dimension of y, in blocks, and overwrites them. A row has
// an even number of scales; a missing block has the least one.
func (s Scaling) Rows(y, scales kernel.View, x []float64, r Rounding) error {
	return s.Along(y, scales, x, len(y.Shape)-1, BlockSize, r)
}

// Pairs returns how often n elements have two blocks of size elements, of which the last one may be missing.
func Pairs(n, size int64) int64 { return (n + 2*size - 1) / (2 * size) }

// Along quantises numbers in blocks of size elements of an axis, and overwrites them. y has their shape. In scales
// the axis has pairs of blocks, and a last dimension has the two scales of each; a missing block has the least scale.
func (s Scaling) Along(y, scales kernel.View, x []float64, axis int, size int64, r Rounding) error {
	if err := s.Scale(scales, x, y.Shape, axis, size); err != nil {
		return err
	}
	return Write(y, x, r)
}

// Scale is Along without the last step: it multiplies the numbers, which have a shape, by the factors of their blocks.
func (s Scaling) Scale(scales kernel.View, x []float64, shape []int64, axis int, size int64) error {
	n, inner := shape[axis], int64(1)
	for _, d := range shape[axis+1:] {
		inner *= d
	}
	pairs, found := Pairs(n, size), make([]float64, scales.Len())
	block := make([]float64, 0, size)
	for row := int64(0); row*n*inner < int64(len(x)); row++ {
		for b := int64(0); b*size < n; b++ {
			end := min((b+1)*size, n)
			for j := range inner {
				block = block[:0]
				for k := b * size; k < end; k++ {
					block = append(block, x[(row*n+k)*inner+j])
				}
				var factor float64
				found[((row*pairs+b/2)*inner+j)*2+b%2], factor = s.Block(block)
				for k := b * size; k < end; k++ {
					at := (row*n+k)*inner + j
					x[at] = float64(float32(x[at]) * float32(factor))
				}
			}
		}
	}
	return Write(scales, found, Even)
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
	most, zeros := s.Least, s.Zeros
	for _, v := range x {
		zeros = zeros && v == 0
		if v = math.Abs(v); v > most || math.IsNaN(v) {
			most = v
		}
		if math.IsNaN(most) || math.IsInf(most, 0) {
			return math.NaN(), math.NaN()
		}
	}
	if zeros {
		return 0, 0
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
		if math.IsInf(most, 0) {
			return math.NaN(), math.NaN()
		}
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
