package half

// Half is either 16-bit type.
type Half interface{ Float16 | BFloat16 }

// Encode rounds src to dst, ties to even, and returns the number of elements converted: the
// shorter of the two lengths, as the built-in copy does.
func Encode[T Half](dst []T, src []float32) int {
	n := min(len(dst), len(src))
	// The switch stays outside the loop, so that each loop calls one known function.
	switch dst := any(dst).(type) {
	case []Float16:
		for i, f := range src[:n] {
			dst[i] = Float16FromFloat32(f)
		}
	case []BFloat16:
		for i, f := range src[:n] {
			dst[i] = BFloat16FromFloat32(f)
		}
	}
	return n
}

// Decode writes the exact values of src to dst and returns the number of elements converted:
// the shorter of the two lengths, as the built-in copy does.
func Decode[T Half](dst []float32, src []T) int {
	n := min(len(dst), len(src))
	switch src := any(src).(type) {
	case []Float16:
		for i, h := range src[:n] {
			dst[i] = h.Float32()
		}
	case []BFloat16:
		for i, h := range src[:n] {
			dst[i] = h.Float32()
		}
	}
	return n
}
