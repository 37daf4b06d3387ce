package ops_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
)

// TestMoEPartial: every kernel keeps the first rows alone, takes places behind the rows for zeros, and writes nothing for them.
func TestMoEPartial(t *testing.T) {
	const tokens, k, n, width = 9, 2, 5, 16
	var ids []int32
	for i := range tokens {
		ids = append(ids, int32(i%n), int32((i*i+1)%n))
	}
	order := make([]int, len(ids)) // by expert
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(ids[a] - ids[b]) })
	for name, pin := range map[string]func(r *ops.Registry) error{
		"first":  func(*ops.Registry) error { return nil },
		"second": func(r *ops.Registry) error { return r.MoEPermute().Pin("MoeTokenPermute") },
		"composite": func(r *ops.Registry) error {
			return errors.Join(r.MoEPermute().Pin("composite"), r.MoEPermuteGrad().Pin("composite"), r.MoEUnpermute().Pin("composite"), r.MoEUnpermuteGrad().Pin("composite"))
		},
	} {
		for _, rows := range []int{1, 7, tokens * k} {
			t.Run(name, func(t *testing.T) {
				b := opstest.New(t)
				require.NoError(t, pin(b.Registry))
				x, xs := b.Input(aclnn.Float32, 1, tokens, width)
				permute := &ops.MoEPermuteArgs{
					X: x, Experts: opstest.Data(b, aclnn.Int32, ids, tokens, k), Rows: b.Empty(aclnn.Float32, int64(rows), width), Places: b.Empty(aclnn.Int32, tokens*k),
					Sums: b.Empty(aclnn.Int32, n), Partial: true,
				}
				opstest.Run(b, b.MoEPermute(), permute)
				var want []float32
				for _, o := range order[:rows] {
					want = append(want, xs[o/k*width:][:width]...)
				}
				b.Near("rows", permute.Rows, want, 0)
				place := make([]int32, tokens*k)
				for row, o := range order {
					place[o] = int32(row)
				}
				// The last row is taken from its token, which a program marks with any number behind the rows.
				place[order[rows-1]] = tokens * k
				places := opstest.Data(b, aclnn.Int32, place, tokens*k)

				weights, ws := b.Input(aclnn.Float32, 2, tokens, k)
				dOut, ds := b.Input(aclnn.Float32, 3, tokens, width)
				out, dx := make([]float32, tokens*width), make([]float32, tokens*width)
				dWeights, dRows := make([]float32, tokens*k), make([]float32, rows*width)
				_, results := b.Input(aclnn.Float32, 4, int64(rows), width)
				for o, row := range place {
					if int(row) >= rows {
						continue
					}
					for c := range width {
						r, at := int(row)*width+c, o/k*width+c
						out[at] += ws[o] * results[r]
						dx[at] += results[r]
						dWeights[o] += ds[at] * results[r]
						dRows[r] = ws[o] * ds[at]
					}
				}
				values := b.Floats(aclnn.Float32, results, int64(rows), width)
				unpermute := &ops.MoEUnpermuteArgs{Rows: values, Places: places, Weights: weights, Out: b.Empty(aclnn.Float32, tokens, width), Partial: true}
				require.NotEqual(t, "MoeFinalizeRoutingV2", b.MoEUnpermute().Explain(unpermute).Kernel)
				opstest.Run(b, b.MoEUnpermute(), unpermute)
				b.Near("out", unpermute.Out, out, 1e-6)
				grad := &ops.MoEUnpermuteGradArgs{
					DOut: dOut, Rows: values, Places: places, Weights: weights, DRows: b.Empty(aclnn.Float32, int64(rows), width), DWeights: b.Empty(aclnn.Float32, tokens, k), Partial: true,
				}
				opstest.Run(b, b.MoEUnpermuteGrad(), grad)
				b.Near("dweights", grad.DWeights, dWeights, 1e-5)
				if rows > 1 { // the last row has no place
					b.Near("drows", grad.DRows.Narrow(0, 0, int64(rows-1)), dRows[:(rows-1)*width], 1e-6)
				}
				back := &ops.MoEPermuteGradArgs{DRows: values, Places: places, DX: b.Empty(aclnn.Float32, tokens, width), Partial: true}
				opstest.Run(b, b.MoEPermuteGrad(), back)
				b.Near("dx", back.DX, dx, 1e-6)

				unpermute.Partial, back.Partial = false, false
				if rows < tokens*k {
					require.ErrorIs(t, b.MoEUnpermute().Check(unpermute), ops.ErrInvalid)
					require.ErrorIs(t, b.MoEPermuteGrad().Check(back), ops.ErrInvalid)
				}
			})
		}
	}
}
