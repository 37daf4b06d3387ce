package order

import "math"

const sign = 1 << 63

// KeysOfFloats replaces the bits of float64 numbers by integers that compare as the numbers do, or
// the other way round with descending. All NaN are equal and the largest, and the two zeros are equal.
func KeysOfFloats(bits []uint64, descending bool) {
	flip := flipped(descending)
	for i, b := range bits {
		switch m := b &^ sign; {
		case m == 0:
			b = 0
		case m > 0x7ff<<52:
			b = math.MaxInt64
		}
		bits[i] = b ^ (uint64(int64(b)>>63) | sign) ^ flip
	}
}

// KeysOfInts is KeysOfFloats for the bits of int64 numbers.
func KeysOfInts(bits []uint64, descending bool) {
	flip := flipped(descending)
	for i, b := range bits {
		bits[i] = b ^ sign ^ flip
	}
}

// KeysOfUints is KeysOfFloats for uint64 numbers.
func KeysOfUints(numbers []uint64, descending bool) {
	if descending {
		for i, x := range numbers {
			numbers[i] = ^x
		}
	}
}

// flipped returns the bits to invert for an order.
func flipped(descending bool) uint64 {
	if descending {
		return math.MaxUint64
	}
	return 0
}
