package service

import (
	"math"
	"testing"

	"github.com/goascend/cann/acl/acltest"
)

// A cosine of three periods has one amplitude, half its length.
func TestSpectrum(t *testing.T) {
	st := acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0))
	signal := make([]float32, 48)
	for i := range signal {
		signal[i] = float32(math.Cos(2 * math.Pi * 3 * float64(i) / 48))
	}
	amplitudes, norm, err := spectrum(t.Context(), st, signal)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range amplitudes {
		want := 0.0
		if i == 3 {
			want = 24
		}
		if math.Abs(float64(real(a))-want) > 1e-4 || math.Abs(float64(imag(a))) > 1e-4 {
			t.Errorf("amplitude %d is %v", i, a)
		}
	}
	if math.Abs(float64(norm)-24) > 1e-4 {
		t.Errorf("norm %v", norm)
	}
}
