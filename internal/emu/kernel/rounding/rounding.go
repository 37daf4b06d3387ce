package rounding

import (
	"fmt"
	"math"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
)

// roundings holds the rounding functions by the device's mode number. The last one returns the
// fraction.
var roundings = []func(float64) float64{
	math.RoundToEven, // without a mode the vector unit rounds as in mode 1
	math.RoundToEven,
	math.Floor,
	math.Ceil,
	math.Round,
	math.Trunc,
	func(x float64) float64 { // to the odd neighbour
		if t := math.Floor(x); t == x || math.Mod(t, 2) != 0 {
			return t
		}
		return math.Ceil(x)
	},
	func(x float64) float64 { return x - math.Trunc(x) },
}

// Off rounds the elements of x to integers. Modes 0 and 1 round to nearest with ties to
// even, 2 down, 3 up, 4 to nearest with ties away from zero, 5 towards zero, and 6 to the odd
// neighbour. Mode 7 returns the fraction.
func Off(out, x kernel.View, mode int64) error {
	if mode < 0 || mode >= int64(len(roundings)) {
		return fmt.Errorf("kernel: rounding %d is unknown; use 0 to %d", mode, len(roundings)-1)
	}
	values, err := elementwise.Doubles(x)
	if err != nil {
		return err
	}
	for i, v := range values {
		values[i] = roundings[mode](v)
	}
	return elementwise.SetFloats(out, values)
}
