package optest

// Walk calls f with every index of shape in row-major order.
func Walk(shape []int64, f func(at []int64)) {
	at := make([]int64, len(shape))
	for range Elements(shape) {
		f(at)
		for i := len(at) - 1; i >= 0; i-- {
			at[i]++
			if at[i] < shape[i] {
				break
			}
			at[i] = 0
		}
	}
}

// Offset returns the row-major position of the index at, or -1 if it lies outside the shape.
func Offset(shape, at []int64) int64 {
	n := int64(0)
	for i, k := range at {
		if k < 0 || k >= shape[i] {
			return -1
		}
		n = n*shape[i] + k
	}
	return n
}
