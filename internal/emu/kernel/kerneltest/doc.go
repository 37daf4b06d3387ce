// Package kerneltest makes views of host memory for tests of kernels and operators.
//
// Views hold values given as float64 in any element type and layout. The memory around and
// between their elements is filled with a pattern that is checked when the test ends, so a
// kernel that writes outside its view fails. The package does not generate test data and does
// not compare results.
//
//	x := kerneltest.New(t, dtype.BFloat16, kerneltest.Transposed, []int64{2, 3}, []float64{1, 2, 3, 4, 5, 6})
//	y := kerneltest.New(t, dtype.Float32, kerneltest.Contiguous, []int64{2, 3}, nil)
//	require.NoError(t, kernel.Copy(y, x))
//	require.Equal(t, kerneltest.Values(x), kerneltest.Values(y))
package kerneltest
