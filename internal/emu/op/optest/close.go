package optest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
)

// CloseTo asserts that each element of got differs from want by at most limit times the largest of
// the element, the root mean square of want, and 0.2. NaN fails.
func CloseTo(t testing.TB, what string, want, got []float64, limit float64) {
	t.Helper()
	require.Len(t, got, len(want), what)
	squares := 0.0
	for _, w := range want {
		squares += w * w
	}
	unit := max(math.Sqrt(squares/float64(max(len(want), 1))), 0.2)
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= limit*max(unit, math.Abs(want[i]))) {
			require.Failf(t, what, "element %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// ResultLimit returns the limit for a result that is rounded once to type d. For float64 it is the
// error of a difference quotient.
func ResultLimit(d dtype.Type) float64 {
	return map[dtype.Type]float64{dtype.Float32: 3e-6, dtype.Float16: 1.1e-3, dtype.BFloat16: 8e-3, dtype.Float64: 1e-8}[d]
}

// Extremes asserts that got · extent equals v · smooth row by row within half a quantization step,
// and that extent is the largest magnitude of the row over 127. smooth may be nil.
func Extremes(t *testing.T, what string, v, smooth, got, extent []float64) {
	t.Helper()
	ExtremesTo(t, what, math.MaxInt8, v, smooth, got, extent)
}

// ExtremesTo is like Extremes for another highest result than 127.
func ExtremesTo(t *testing.T, what string, highest float64, v, smooth, got, extent []float64) {
	t.Helper()
	width := len(v) / len(extent)
	for r, e := range extent {
		most := 0.0
		for j := range width {
			x := v[r*width+j]
			if smooth != nil {
				x *= smooth[j]
			}
			most = max(most, math.Abs(x))
			assert.InDelta(t, x, got[r*width+j]*e, 0.52*e, "%s: row %d", what, r)
		}
		assert.InEpsilon(t, most/highest, e, 1e-4, "%s: row %d", what, r)
	}
}
