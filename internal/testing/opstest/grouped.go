package opstest

import (
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// GroupedCase is a grouped product with its results by definition.
type GroupedCase struct {
	DType            aclnn.DType
	Sizes            []int64
	K, N             int
	X, W, DY         []float32
	Y, DX, DW, DBias []float32
}

// NewGroupedCase makes random factors for groups of these sizes, and their results.
func NewGroupedCase(dt aclnn.DType, k, n int, sizes ...int64) *GroupedCase {
	c := &GroupedCase{DType: dt, Sizes: sizes, K: k, N: n}
	m := 0
	for _, s := range sizes {
		m += int(s)
	}
	c.X, c.W, c.DY = Random(dt, 1, int64(m*k)), Random(dt, 2, int64(len(sizes)*k*n)), Random(dt, 3, int64(m*n))
	first := 0
	for g, s := range sizes {
		m := int(s)
		x, w, dy := c.X[first*k:], c.W[g*k*n:], c.DY[first*n:]
		c.Y = append(c.Y, Product(m, k, n, func(i, l int) float32 { return x[i*k+l] }, func(l, j int) float32 { return w[l*n+j] })...)
		c.DX = append(c.DX, Product(m, n, k, func(i, l int) float32 { return dy[i*n+l] }, func(l, j int) float32 { return w[j*n+l] })...)
		c.DW = append(c.DW, Product(k, m, n, func(i, l int) float32 { return x[l*k+i] }, func(l, j int) float32 { return dy[l*n+j] })...)
		c.DBias = append(c.DBias, Product(1, m, n, func(int, int) float32 { return 1 }, func(l, j int) float32 { return dy[l*n+j] })...)
		first += m
	}
	return c
}

// Groups returns the number of groups.
func (c *GroupedCase) Groups() int64 { return int64(len(c.Sizes)) }

// Rows returns the rows of all groups.
func (c *GroupedCase) Rows() int64 { return int64(len(c.X) / c.K) }

// Check runs product and gradients with one form of weight and list. It returns false if a pinned
// kernel does not support them.
func (c *GroupedCase) Check(b *Bench, form func(b *Bench, w *aclnn.Tensor) *aclnn.Tensor, groups ops.Groups) bool {
	m, k, n := c.Rows(), int64(c.K), int64(c.N)
	x, dy := b.Floats(c.DType, c.X, m, k), b.Floats(c.DType, c.DY, m, n)
	w := form(b, b.Floats(c.DType, c.W, c.Groups(), k, n))
	y, dx := b.Empty(c.DType, m, n), b.Empty(c.DType, m, k)
	forward := &ops.GroupedMatmulArgs{X: x, Weight: w, Groups: groups, Out: y}
	backward := &ops.GroupedMatmulGradArgs{
		DOut: dy, X: x, Weight: w, Groups: groups, DX: dx, DWeight: b.Empty(c.DType, c.Groups(), k, n), DBias: b.Empty(c.DType, c.Groups(), n),
	}
	if !Takes(b.GroupedMatmul(), forward) || !Takes(b.GroupedMatmulGrad(), backward) {
		return false
	}
	Run(b, b.GroupedMatmul(), forward)
	b.Near("y", y, c.Y, Tolerance(c.DType))
	Run(b, b.GroupedMatmulGrad(), backward)
	b.Near("dx", dx, c.DX, Tolerance(c.DType))
	b.Near("dw", backward.DWeight, c.DW, Tolerance(c.DType))
	b.Near("dbias", backward.DBias, c.DBias, 4*Tolerance(c.DType))

	// Main gradients in float32, accumulated in the second run; and the weight in the other order.
	backward.DX, backward.DWeight, backward.DBias = nil, b.Empty(aclnn.Float32, c.Groups(), n, k).Transpose(1, 2), b.Empty(aclnn.Float32, c.Groups(), n)
	Run(b, b.GroupedMatmulGrad(), backward)
	b.Near("main dw", backward.DWeight, c.DW, 1e-5)
	b.Near("main dbias", backward.DBias, c.DBias, 1e-5)
	twice := func(v []float32) []float32 { return Convert(v, func(x float32) float32 { return 2 * x }) }
	backward.Accumulate = true
	Run(b, b.GroupedMatmulGrad(), backward)
	b.Near("twice dw", backward.DWeight, twice(c.DW), 1e-5)
	b.Near("twice dbias", backward.DBias, twice(c.DBias), 1e-5)
	backward.DWeight = b.Floats(c.DType, c.DW, c.Groups(), k, n)
	Run(b, b.GroupedMatmulGrad(), backward)
	b.Near("twice dw", backward.DWeight, twice(c.DW), 2*Tolerance(c.DType))
	return true
}

// Product returns a·b for row-major [m,k] and [k,n], in float64.
func Product(m, k, n int, a func(i, l int) float32, b func(l, j int) float32) []float32 {
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
