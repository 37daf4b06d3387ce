package optest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/testing/golden"
)

// GoldenLimit returns the relative RMS error that a result of the dtype may have. It allows for
// rounding probabilities and outputs to that type.
func GoldenLimit(d dtype.Type) float64 {
	return map[dtype.Type]float64{dtype.Float32: 2e-6, dtype.Float16: 1e-3, dtype.BFloat16: 8e-3}[d]
}

// GoldenTensor returns a tensor with the data of a golden case.
func GoldenTensor(t *testing.T, c *golden.Case, d dtype.Type, name string) *op.Tensor {
	data, shape := c.Float32(name), c.Shape(name)
	v, dims := make([]float64, len(data)), make([]int64, len(shape))
	for i, x := range data {
		v[i] = float64(x)
	}
	for i, n := range shape {
		dims[i] = int64(n)
	}
	return Tensor(t, d, dims, v...)
}

// RequireRMS asserts that a tensor equals the data of a golden case up to limit times its root mean
// square.
func RequireRMS(t *testing.T, c *golden.Case, name string, got *op.Tensor, limit float64) {
	t.Helper()
	require.NoError(t, golden.CheckRMS(Values(got), c.Float32(name), limit), name)
}
