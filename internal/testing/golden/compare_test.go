package golden

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var (
	nan = math.NaN()
	inf = math.Inf(1)
)

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want []float64
		diff      Difference
	}{
		{"empty", nil, nil, Difference{}},
		{"equal", []float64{1, -2}, []float64{1, -2}, Difference{}},
		{"both zero", []float64{0}, []float64{0}, Difference{}},
		{"want zero", []float64{0.5}, []float64{0}, Difference{RMSRatio: inf, MaxAbs: 0.5, MaxRel: inf}},
		{"worst differ", []float64{3, 14, 1}, []float64{3, 10, 0.5}, Difference{RMSRatio: math.Sqrt(16.25 / 109.25), MaxAbs: 4, AbsAt: 1, MaxRel: 1, RelAt: 2}},
		{"same non-finite", []float64{nan, inf, -inf, 3}, []float64{nan, inf, -inf, 4}, Difference{RMSRatio: 0.25, MaxAbs: 1, AbsAt: 3, MaxRel: 0.25, RelAt: 3}},
	} {
		d, err := Compare(c.got, c.want)
		require.NoError(t, err, c.name)
		assert.Equal(t, c.diff, d, c.name)
	}
}

func TestDisagreement(t *testing.T) {
	for _, c := range []struct {
		got, want []float64
		text      string
	}{
		{[]float64{1}, []float64{1, 2}, "got 1 elements, want 2"},
		{[]float64{1, nan}, []float64{1, 2}, "element 1 of 2: got NaN, want 2"},
		{[]float64{1, 2}, []float64{1, nan}, "element 1 of 2: got 2, want NaN"},
		{[]float64{inf}, []float64{-inf}, "got +Inf, want -Inf"},
		{[]float64{nan}, []float64{inf}, "got NaN, want +Inf"},
		{[]float64{inf}, []float64{1e300}, "got +Inf, want 1e+300"},
	} {
		_, err := Compare(c.got, c.want)
		require.ErrorContains(t, err, c.text)
		// No limit lets them pass.
		require.ErrorContains(t, CheckRMS(c.got, c.want, inf), c.text)
		require.ErrorContains(t, CheckClose(c.got, c.want, inf, inf), c.text)
	}
}

func TestCheckRMS(t *testing.T) {
	got, want := []float32{1, 2.5, 3}, []float64{1, 2, 3}
	ratio := math.Sqrt(0.25 / 14)
	require.NoError(t, CheckRMS(got, want, ratio))
	err := CheckRMS(got, want, ratio*0.999)
	require.ErrorContains(t, err, "rms ratio 0.134 exceeds 0.133; worst is element 1 of 3: got 2.5, want 2")
	require.Error(t, CheckRMS(got, want, nan), "a NaN limit must not pass")
	require.Error(t, CheckRMS([]float32{}, []float32{}, -1))
	require.NoError(t, CheckRMS([]float32{}, []float32{}, 0))
}

func TestCheckClose(t *testing.T) {
	got, want := []float32{1, 2.5, inf32(), 4, -7}, []float32{1, 2, inf32(), 6, -7}
	require.NoError(t, CheckClose(got, want, 2, 0))
	require.NoError(t, CheckClose(got, want, 0, 0.34))
	require.NoError(t, CheckClose(got, want, 1, 0.25))
	err := CheckClose(got, want, 0.25, 0)
	require.ErrorContains(t, err, "2 of 5 elements differ by more than 0.25 + 0·|want|")
	require.ErrorContains(t, err, "first is element 1: got 2.5, want 2; worst is element 3: got 4, want 6")
	require.Error(t, CheckClose(got, want, nan, 0), "a NaN limit must not pass")
	require.NoError(t, CheckClose(want, want, 0, 0))
}

func inf32() float32 { return float32(math.Inf(1)) }

// TestCheckCloseAgreesWithCompare: on any data, the limits Compare measures are the tightest
// that pass.
func TestCheckCloseAgreesWithCompare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "n")
		elements := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), n, n)
		got, want := elements.Draw(t, "got"), elements.Draw(t, "want")
		d, err := Compare(got, want)
		require.NoError(t, err)
		require.NoError(t, CheckClose(got, want, d.MaxAbs, 0))
		require.NoError(t, CheckRMS(got, want, d.RMSRatio))
		if d.MaxAbs > 0 {
			require.Error(t, CheckClose(got, want, math.Nextafter(d.MaxAbs, 0), 0))
		}
		if d.RMSRatio > 0 { // squares of tiny differences underflow
			require.Error(t, CheckRMS(got, want, math.Nextafter(d.RMSRatio, 0)))
		}
	})
}
