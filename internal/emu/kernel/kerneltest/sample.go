package kerneltest

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
)

// Element types and shapes that tests try.
var (
	Floats   = []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64}
	Integers = []dtype.Type{
		dtype.Int8, dtype.Int16, dtype.Int32, dtype.Int64, dtype.Uint8, dtype.Uint16, dtype.Uint32, dtype.Uint64,
	}
	// Shapes cover empty, scalar, one, odd, sizes around the chunk of 1024 and many dimensions.
	Shapes = [][]int64{{0}, {3, 0, 2}, {}, {1}, {7}, {1023}, {3, 1025}, {5, 1, 3, 2, 1, 2, 1, 2}}
)

// ulp returns the distance between neighbouring values of type d at x.
func ulp(d dtype.Type, x float64) float64 {
	bits, least := 52, -1074
	switch d {
	case dtype.Float32:
		bits, least = 23, -149
	case dtype.Float16:
		bits, least = 10, -24
	case dtype.BFloat16:
		bits, least = 7, -133
	}
	_, e := math.Frexp(x)
	return math.Ldexp(1, max(e-1-bits, least))
}

// Within asserts that got is Within n ulp of want in type d. NaN equals NaN.
func Within(t testing.TB, d dtype.Type, n float64, want, got []float64, text string) {
	t.Helper()
	require.Equal(t, len(want), len(got), text)
	for i := range want {
		w := want[i]
		if d.IsFloat() {
			w = Round(d, w)
		}
		if w == got[i] || math.IsNaN(w) && math.IsNaN(got[i]) {
			continue
		}
		if !(math.Abs(got[i]-want[i]) <= n*ulp(d, want[i])) {
			t.Fatalf("%s: element %d is %v, want %v (%v, %.2f ulp)", text, i, got[i], want[i], d, math.Abs(got[i]-want[i])/ulp(d, want[i]))
		}
	}
}

// Sample returns n values of type d from a fixed sequence that includes the special values.
func Sample(d dtype.Type, seed, n int, lo, hi float64) []float64 {
	out := make([]float64, n)
	x := uint64(seed)*0x9E3779B97F4A7C15 + 1
	for i := range out {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		v := lo + (hi-lo)*float64(x>>11)/(1<<53)
		if !d.IsFloat() {
			v = math.Trunc(v)
			if v < 0 && slices.Contains([]dtype.Type{dtype.Uint8, dtype.Uint16, dtype.Uint32, dtype.Uint64, dtype.Bool}, d) {
				v = -v
			}
		}
		out[i] = Round(d, v)
	}
	return out
}

// Count returns the number of elements of a shape.
func Count(shape []int64) int {
	n := 1
	for _, d := range shape {
		n *= int(d)
	}
	return n
}

// Truth returns 1 or 0.
func Truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Iota returns the numbers from 0 to n-1.
func Iota(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(i)
	}
	return x
}
