package parallel_test

import (
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// groupedCase is a grouped product with its results by definition.
type groupedCase struct {
	dt               aclnn.DType
	sizes            []int64
	k, n             int
	x, w, dy         []float32
	y, dx, dw, dBias []float32
}

func newGroupedCase(dt aclnn.DType, k, n int, sizes ...int64) *groupedCase {
	c := &groupedCase{dt: dt, sizes: sizes, k: k, n: n}
	m := 0
	for _, s := range sizes {
		m += int(s)
	}
	c.x, c.w, c.dy = random(dt, 1, int64(m*k)), random(dt, 2, int64(len(sizes)*k*n)), random(dt, 3, int64(m*n))
	first := 0
	for g, s := range sizes {
		m := int(s)
		x, w, dy := c.x[first*k:], c.w[g*k*n:], c.dy[first*n:]
		c.y = append(c.y, product(m, k, n, func(i, l int) float32 { return x[i*k+l] }, func(l, j int) float32 { return w[l*n+j] })...)
		c.dx = append(c.dx, product(m, n, k, func(i, l int) float32 { return dy[i*n+l] }, func(l, j int) float32 { return w[j*n+l] })...)
		c.dw = append(c.dw, product(k, m, n, func(i, l int) float32 { return x[l*k+i] }, func(l, j int) float32 { return dy[l*n+j] })...)
		c.dBias = append(c.dBias, product(1, m, n, func(int, int) float32 { return 1 }, func(l, j int) float32 { return dy[l*n+j] })...)
		first += m
	}
	return c
}

func (c *groupedCase) groups() int64 { return int64(len(c.sizes)) }
func (c *groupedCase) rows() int64   { return int64(len(c.x) / c.k) }

// check runs product and gradients with one form of weight and list; false when a pinned
// kernel does not take them.
func (c *groupedCase) check(b *bench, form func(b *bench, w *aclnn.Tensor) *aclnn.Tensor, groups ops.Groups) bool {
	m, k, n := c.rows(), int64(c.k), int64(c.n)
	x, dy := b.floats(c.dt, c.x, m, k), b.floats(c.dt, c.dy, m, n)
	w := form(b, b.floats(c.dt, c.w, c.groups(), k, n))
	y, dx := b.empty(c.dt, m, n), b.empty(c.dt, m, k)
	forward := &ops.GroupedMatmulArgs{X: x, Weight: w, Groups: groups, Out: y}
	backward := &ops.GroupedMatmulGradArgs{
		DOut: dy, X: x, Weight: w, Groups: groups, DX: dx, DWeight: b.empty(c.dt, c.groups(), k, n), DBias: b.empty(c.dt, c.groups(), n),
	}
	if !takes(b.GroupedMatmul, forward) || !takes(b.GroupedMatmulGrad, backward) {
		return false
	}
	run(b, b.GroupedMatmul, forward)
	b.near("y", y, c.y, tolerance(c.dt))
	run(b, b.GroupedMatmulGrad, backward)
	b.near("dx", dx, c.dx, tolerance(c.dt))
	b.near("dw", backward.DWeight, c.dw, tolerance(c.dt))
	b.near("dbias", backward.DBias, c.dBias, 4*tolerance(c.dt))

	// Main gradients in float32, the second time added; and the weight in the other order.
	backward.DX, backward.DWeight, backward.DBias = nil, b.empty(aclnn.Float32, c.groups(), n, k).Transpose(1, 2), b.empty(aclnn.Float32, c.groups(), n)
	run(b, b.GroupedMatmulGrad, backward)
	b.near("main dw", backward.DWeight, c.dw, 1e-5)
	b.near("main dbias", backward.DBias, c.dBias, 1e-5)
	twice := func(v []float32) []float32 { return convert(v, func(x float32) float32 { return 2 * x }) }
	backward.Accumulate = true
	run(b, b.GroupedMatmulGrad, backward)
	b.near("twice dw", backward.DWeight, twice(c.dw), 1e-5)
	b.near("twice dbias", backward.DBias, twice(c.dBias), 1e-5)
	backward.DWeight = b.floats(c.dt, c.dw, c.groups(), k, n)
	run(b, b.GroupedMatmulGrad, backward)
	b.near("twice dw", backward.DWeight, twice(c.dw), 2*tolerance(c.dt))
	return true
}

// product is a·b for row-major [m,k] and [k,n], plus add.
func product(m, k, n int, a func(i, l int) float32, b func(l, j int) float32) []float32 {
	out := make([]float32, m*n)
	for i := range m {
		for j := range n {
			sum := 0.0
			for l := range k {
				sum += float64(a(i, l)) * float64(b(l, j))
			}
			out[i*n+j] = float32(sum)
		}
	}
	return out
}

// copied is a contiguous copy.
func (b *bench) copied(t *aclnn.Tensor) *aclnn.Tensor {
	b.t.Helper()
	c := b.empty(t.DType(), t.Shape()...)
	require.NoError(b.t, aclnn.InplaceCopy(b.st, aclnn.InplaceCopyParams{SelfRef: c, Src: t}))
	return c
}

// takes reports whether an operator has a kernel for the arguments.
func takes[A any, K comparable](o *ops.Op[A, K], a *A) bool { return o.Explain(a).Kernel != "" }
