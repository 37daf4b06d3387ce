//go:build emu

package ops_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/golden"
	"github.com/goascend/cann/ops"
)

// sizesOf are the sizes of a case's groups.
func sizesOf(c *golden.Case) []int64 {
	sums := c.Int64("group_list")
	sizes := make([]int64, len(sums))
	last := int64(0)
	for i, s := range sums {
		sizes[i], last = s-last, s
	}
	return sizes
}

// groupLists are the forms in which a list of sizes can be given.
func groupLists(b *bench, sizes []int64) map[string]ops.Groups {
	sums := make([]int64, len(sizes))
	total := int64(0)
	for i, n := range sizes {
		total += n
		sums[i] = total
	}
	n := int64(len(sizes))
	return map[string]ops.Groups{
		"sizes on the host":   {Host: sizes},
		"sums on the host":    {Host: sums, Cumulative: true},
		"sizes on the device": {Device: data(b, aclnn.Int64, sizes, n)},
		"sums on the device":  {Device: data(b, aclnn.Int64, sums, n), Cumulative: true},
	}
}

// nz is a copy of a tensor in FRACTAL_NZ, of the same logical shape.
func (b *bench) nz(t *aclnn.Tensor) *aclnn.Tensor {
	b.t.Helper()
	shape := t.Shape()
	storage := b.empty(t.DType(), int64(aclnn.NZBytes(t.DType(), shape...)/t.DType().Size()))
	out := storage.Narrow(0, 0, t.Len()).Reshape(shape...).AsNZ()
	require.NoError(b.t, aclnn.NpuFormatCast(b.st, aclnn.NpuFormatCastParams{SrcTensor: t, DstTensor: out}))
	return out
}

// layouts are the forms in which a weight [groups, in, out] can be given.
func layouts(b *bench, w *aclnn.Tensor) map[string]*aclnn.Tensor {
	shape := w.Shape()
	swapped := b.empty(w.DType(), shape[0], shape[2], shape[1])
	require.NoError(b.t, aclnn.InplaceCopy(b.st, aclnn.InplaceCopyParams{SelfRef: swapped, Src: w.Transpose(1, 2)}))
	all := map[string]*aclnn.Tensor{"ND": w, "ND transposed": swapped.Transpose(1, 2)}
	if w.DType() != aclnn.Float32 && shape[1]%16 == 0 && shape[2]%16 == 0 {
		all["NZ"], all["NZ transposed"] = b.nz(w), b.nz(swapped).Transpose(1, 2)
	}
	return all
}

func TestGoldenGroupedMatmul(t *testing.T) {
	nz := 0
	for _, c := range golden.Cases(t, "grouped_matmul") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			everyKernel(t, func(r *ops.Registry) *ops.Op[ops.GroupedMatmulArgs] { return r.GroupedMatmul },
				func(r *ops.Registry) *ops.Op[ops.GroupedMatmulGradArgs] { return r.GroupedMatmulGrad },
				func(b *bench) bool {
					ran := false
					x, dy := b.golden(c, "x"), b.golden(c, "dy")
					for layout, w := range layouts(b, b.golden(c, "w")) {
						for form, groups := range groupLists(b, sizesOf(c)) {
							label := fmt.Sprint(layout, ", ", form)
							y, dx := b.empty(c.DType, dy.Shape()...), b.empty(c.DType, x.Shape()...)
							forward := &ops.GroupedMatmulArgs{X: x, Weight: w, Groups: groups, Out: y}
							backward := &ops.GroupedMatmulGradArgs{DOut: dy, X: x, Weight: w, Groups: groups, DX: dx}
							if !takes(b.GroupedMatmul, forward) || !takes(b.GroupedMatmulGrad, backward) {
								continue
							}
							ran = true
							if w.Format() == aclnn.FractalNZ {
								nz++
							}
							run(b, b.GroupedMatmul, forward)
							b.near(label+": y", y, c.Float32("y"), tolerance(c.DType))
							for _, wide := range []aclnn.DType{c.DType, aclnn.Float32} {
								dw := b.empty(wide, shapeOf(c, "dw")...)
								backward.DWeight, backward.Accumulate = dw, false
								run(b, b.GroupedMatmulGrad, backward)
								b.near(label+": dx", dx, c.Float32("dx"), tolerance(c.DType))
								b.near(label+": dw", dw, c.Float32("dw"), tolerance(wide))
								backward.Accumulate = true
								run(b, b.GroupedMatmulGrad, backward)
								b.near(label+": twice dw", dw, convert(c.Float32("dw"), func(v float32) float32 { return 2 * v }), tolerance(wide))
							}
						}
					}
					return ran
				})
		})
	}
	require.NotZero(t, nz, "no case ran with a FRACTAL_NZ weight")
}
