package nn

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// gradient is that of Σ dy · f(x) with respect to x, by differences of a definition that is
// evaluated in double precision.
func gradient(f func(x []float64) []float64, dy, x []float64) []float64 {
	x = slices.Clone(x)
	dx := make([]float64, len(x))
	for i, at := range x {
		const step = 1e-5
		x[i] = at + step
		above := f(x)
		x[i] = at - step
		below := f(x)
		x[i] = at
		for j, g := range dy {
			dx[i] += g * (above[j] - below[j]) / (2 * step)
		}
	}
	return dx
}

// linearMap is a definition that is linear in its argument, by what becomes of each element.
type linearMap [][]float64

// linearised evaluates f once for each of its n arguments.
func linearised(f func(x []float64) []float64, n int64) linearMap {
	columns, x := make(linearMap, n), make([]float64, n)
	for i := range x {
		x[i] = 1
		columns[i] = f(x)
		x[i] = 0
	}
	return columns
}

func (l linearMap) of(x []float64) []float64 {
	y := make([]float64, len(l[0]))
	for i, column := range l {
		for j, v := range column {
			y[j] += v * x[i]
		}
	}
	return y
}

// gradient is that of Σ dy · f(x).
func (l linearMap) gradient(dy []float64) []float64 {
	dx := make([]float64, len(l))
	for i, column := range l {
		for j, v := range column {
			dx[i] += v * dy[j]
		}
	}
	return dx
}

// normal gives n values of a normal distribution as type d holds them.
func normal(seed uint64, d dtype.Type, n int64) []float64 {
	r := rand.New(rand.NewPCG(seed, 1))
	v := make([]float64, n)
	for i := range v {
		v[i] = kerneltest.Round(d, r.NormFloat64())
	}
	return v
}

// filled is a tensor of normal values.
func filled(t testing.TB, seed uint64, d dtype.Type, l kerneltest.Layout, shape []int64) *Tensor {
	v := normal(seed, d, elements(shape))
	if len(v) == 0 {
		v = []float64{0}
	}
	return tensorIn(t, d, l, shape, v...)
}

func elements(shape []int64) int64 { return kernel.View{Shape: shape}.Len() }
