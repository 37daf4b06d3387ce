package golden

import (
	"fmt"
	"math"
)

// Float is the element type of results that can be compared.
type Float interface{ ~float32 | ~float64 }

// Difference sums up how far a result is from the reference, over the finite elements.
type Difference struct {
	// RMSRatio is rms(got-want) / rms(want): 0 when both are zero, +Inf when only want is.
	RMSRatio float64
	// MaxAbs is the largest |got-want|, found at index AbsAt.
	MaxAbs float64
	AbsAt  int
	// MaxRel is the largest |got-want|/|want|, found at index RelAt; +Inf where want alone is 0.
	MaxRel float64
	RelAt  int
}

// String is the figures in one line.
func (d Difference) String() string {
	return fmt.Sprintf("rms ratio %.3g, max abs %.3g at %d, max rel %.3g at %d", d.RMSRatio, d.MaxAbs, d.AbsAt, d.MaxRel, d.RelAt)
}

// Compare measures how far got is from want. Different lengths are an error, and so is a NaN or
// an infinity that only one side has at an index: no average can express it.
func Compare[T, U Float](got []T, want []U) (Difference, error) {
	var d Difference
	if len(got) != len(want) {
		return d, fmt.Errorf("got %d elements, want %d", len(got), len(want))
	}
	var squaredDiff, squaredWant float64
	for i := range want {
		g, w := float64(got[i]), float64(want[i])
		if !finite(g) || !finite(w) {
			if g != w && !(math.IsNaN(g) && math.IsNaN(w)) {
				return d, fmt.Errorf("element %d of %d: got %v, want %v", i, len(want), g, w)
			}
			continue
		}
		abs := math.Abs(g - w)
		squaredDiff += abs * abs
		squaredWant += w * w
		if abs > d.MaxAbs {
			d.MaxAbs, d.AbsAt = abs, i
		}
		if rel := ratio(abs, math.Abs(w)); rel > d.MaxRel {
			d.MaxRel, d.RelAt = rel, i
		}
	}
	d.RMSRatio = math.Sqrt(ratio(squaredDiff, squaredWant))
	return d, nil
}

// CheckRMS returns nil if RMSRatio is at most limit, else an error with the figures and the
// worst element. It suits tensors whose elements have one scale, such as gradients.
func CheckRMS[T, U Float](got []T, want []U, limit float64) error {
	d, err := Compare(got, want)
	if err != nil {
		return err
	}
	if !(limit >= 0) {
		return fmt.Errorf("the limit %v is not a ratio", limit)
	}
	if d.RMSRatio > limit {
		return fmt.Errorf("rms ratio %.3g exceeds %.3g; worst is element %d of %d: got %v, want %v (%v)",
			d.RMSRatio, limit, d.AbsAt, len(want), got[d.AbsAt], want[d.AbsAt], d)
	}
	return nil
}

// CheckClose returns nil if |got-want| <= abs + rel*|want| holds for every element, else an
// error that counts the violations and shows the first and the worst.
func CheckClose[T, U Float](got []T, want []U, abs, rel float64) error {
	d, err := Compare(got, want)
	if err != nil {
		return err
	}
	count, first, worst, worstExcess := 0, 0, 0, 0.0
	for i := range want {
		g, w := float64(got[i]), float64(want[i])
		if !finite(w) {
			continue
		}
		if excess := math.Abs(g-w) - (abs + rel*math.Abs(w)); !(excess <= 0) {
			if count == 0 {
				first = i
			}
			if count++; excess > worstExcess {
				worst, worstExcess = i, excess
			}
		}
	}
	if count > 0 {
		return fmt.Errorf("%d of %d elements differ by more than %g + %g·|want|; first is element %d: got %v, want %v; worst is element %d: got %v, want %v (%v)",
			count, len(want), abs, rel, first, got[first], want[first], worst, got[worst], want[worst], d)
	}
	return nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// ratio is a/b with 0/0 = 0.
func ratio(a, b float64) float64 {
	if a == 0 {
		return 0
	}
	return a / b
}
