package order

import (
	"fmt"
	"math"
	"slices"
)

// Histogram counts values in len(counts) bins of equal width between lo and hi, both inclusive. If lo
// equals hi, the range is that of the values. Values outside the range and NaN are not counted.
func Histogram(counts []int64, values []float64, lo, hi float64) error {
	if lo == hi && len(values) > 0 {
		lo, hi = slices.Min(values), slices.Max(values)
	}
	if math.IsInf(lo, 0) || math.IsInf(hi, 0) || math.IsNaN(lo) || math.IsNaN(hi) {
		return fmt.Errorf("the bounds %v and %v of the histogram are not finite", lo, hi)
	}
	if lo == hi {
		lo, hi = lo-1, hi+1
	}
	for _, v := range values {
		if v >= lo && v <= hi {
			counts[min(int((v-lo)/(hi-lo)*float64(len(counts))), len(counts)-1)]++
		}
	}
	return nil
}
