package element

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/goascend/cann/internal/dtype"
)

// Printable reports whether Texts supports a dtype.
func Printable(dt dtype.Type) bool { return classOf(dt) != none }

// Texts formats elements for people, all with the same width and in one format. Floating-point
// numbers have four decimals, no decimals when all are whole, and an exponent when the largest is a
// thousand times the smallest or either is far from one.
func Texts(src []byte, dt dtype.Type) []string {
	n := len(src) / dt.Size()
	texts := make([]string, n)
	switch classOf(dt) {
	case boolean:
		for i, b := range src {
			texts[i] = strconv.FormatBool(b != 0)
		}
	case integer:
		values := make([]int64, n)
		decodeIntegers(values, src, dt)
		for i, v := range values {
			if texts[i] = strconv.FormatInt(v, 10); dt == dtype.Uint64 {
				texts[i] = strconv.FormatUint(uint64(v), 10)
			}
		}
	case float:
		values := make([]float64, n)
		decodeFloats(values, src, dt)
		spell := speller(values)
		for i, v := range values {
			texts[i] = spell(v)
		}
	case complexes:
		part := dtype.Float32
		if dt == dtype.Complex128 {
			part = dtype.Float64
		}
		values := make([]float64, 2*n)
		decodeFloats(values, src, part)
		spell := speller(values)
		for i := range texts {
			imaginary := spell(values[2*i+1])
			if !strings.HasPrefix(imaginary, "-") {
				imaginary = "+" + imaginary
			}
			texts[i] = spell(values[2*i]) + imaginary + "i"
		}
	}
	width := 0
	for _, s := range texts {
		width = max(width, len(s))
	}
	for i, s := range texts {
		texts[i] = fmt.Sprintf("%*s", width, s)
	}
	return texts
}

// speller returns the format function for some values.
func speller(values []float64) func(float64) string {
	least, most, whole := math.Inf(1), 0.0, true
	for _, v := range values {
		if a := math.Abs(v); a > 0 && !math.IsInf(a, 0) && !math.IsNaN(a) {
			least, most, whole = min(least, a), max(most, a), whole && a == math.Trunc(a)
		}
	}
	verb, decimals := byte('f'), 4
	switch {
	case most > 1e8 || !whole && (most/least > 1000 || least < 1e-4):
		verb = 'e'
	case whole:
		decimals = 0
	}
	return func(v float64) string {
		switch {
		case math.IsNaN(v):
			return "nan"
		case math.IsInf(v, 0):
			return strings.TrimPrefix(strings.ToLower(fmt.Sprint(v)), "+")
		}
		text := strconv.FormatFloat(v, verb, decimals, 64)
		if decimals == 0 {
			text += "." // marks a whole number as floating-point
		}
		return text
	}
}
