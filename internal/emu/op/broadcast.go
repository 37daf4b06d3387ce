package op

import "slices"

// BroadcastShape returns the shape that a and b broadcast to, or false if they do not broadcast.
func BroadcastShape(a, b []int64) ([]int64, bool) {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := slices.Clone(a)
	lead := len(a) - len(b)
	for i, d := range b {
		switch {
		case out[lead+i] == d || d == 1:
		case out[lead+i] == 1:
			out[lead+i] = d
		default:
			return nil, false
		}
	}
	return out, true
}
