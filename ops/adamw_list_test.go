package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
)

// TestAdamWList checks that a list gives what its updates give one by one, over more weights than one
// launch takes.
func TestAdamWList(t *testing.T) {
	acltest.Need(t)
	for _, kernel := range []string{"FusedAdamw", "separate"} {
		for _, dt := range opstest.FloatTypes {
			t.Run(kernel+" "+dt.String(), func(t *testing.T) {
				b := opstest.New(t)
				require.NoError(t, b.AdamWList().Pin(kernel))
				var lists [2]ops.AdamWListArgs
				for i := range 50 {
					n := int64(i*7%11) + 1
					if i == 3 {
						n = 0
					}
					for l := range lists {
						param, _ := b.Input(dt, uint64(i), n)
						zero := func() *aclnn.Tensor { return b.Floats(dt, make([]float32, n), n) }
						lists[l].Updates = append(lists[l].Updates, ops.AdamWArgs{
							Param: param, ExpAvg: zero(), ExpAvgSq: zero(), Copy: b.Empty(aclnn.BFloat16, n),
							LR: .01, Beta1: .9, Beta2: .98, Epsilon: 1e-6, WeightDecay: .1, Maximize: true,
						})
					}
				}
				for step := 1; step <= 2; step++ {
					for l := range lists {
						for i := range lists[l].Updates {
							u := &lists[l].Updates[i]
							u.Step = step
							u.Grad, _ = b.Input(dt, uint64(100*step+i), u.Param.Dim(0))
						}
					}
					opstest.Run(b, b.AdamWList(), &lists[0])
					for i := range lists[1].Updates {
						opstest.Run(b, b.AdamW(), &lists[1].Updates[i])
					}
				}
				for i, got := range lists[0].Updates {
					want := lists[1].Updates[i]
					for _, p := range [][2]*aclnn.Tensor{{got.Param, want.Param}, {got.ExpAvg, want.ExpAvg}, {got.ExpAvgSq, want.ExpAvgSq}, {got.Copy, want.Copy}} {
						b.Near("update", p[0], b.Read(p[1]), opstest.Tolerance(p[0].DType()))
					}
				}
			})
		}
	}
	b := opstest.New(t)
	state := func(dt aclnn.DType) *aclnn.Tensor { return b.Floats(dt, make([]float32, 4), 4) }
	update := func(dt, grad aclnn.DType) ops.AdamWArgs {
		return ops.AdamWArgs{Param: state(dt), Grad: state(grad), ExpAvg: state(dt), ExpAvgSq: state(dt), Step: 1, Beta2: .999, Epsilon: 1e-8}
	}
	f, h := aclnn.Float32, aclnn.BFloat16
	for reason, a := range map[string]*ops.AdamWListArgs{
		"adamw_list: FusedAdamw; separate comes after it":           {Updates: []ops.AdamWArgs{update(f, f)}},
		"not FusedAdamw: it takes weights and gradients of one dty": {Updates: []ops.AdamWArgs{update(f, h)}},
		"FusedAdamw: it takes weights and gradients of one dtype":   {Updates: []ops.AdamWArgs{update(f, f), update(h, h)}},
	} {
		require.Contains(t, b.AdamWList().Explain(a).String(), reason)
		opstest.Run(b, b.AdamWList(), a)
	}
	opstest.Run(b, b.AdamWList(), &ops.AdamWListArgs{})
	peaks, scheduled := update(f, f), update(f, f)
	peaks.MaxExpAvgSq, scheduled.Schedule = state(f), b.Floats(f, []float32{1, 1, 1}, 3)
	require.Contains(t, b.AdamWList().Explain(&ops.AdamWListArgs{Updates: []ops.AdamWArgs{peaks}}).String(), "the maximum of the corrected moments")
	require.Contains(t, b.AdamWList().Explain(&ops.AdamWListArgs{Updates: []ops.AdamWArgs{scheduled}}).String(), "here the device has it")
	other := update(f, f)
	other.LR = 1
	require.ErrorContains(t, b.AdamWList().Run(t.Context(), b.Stream, &ops.AdamWListArgs{Updates: []ops.AdamWArgs{update(f, f), other}}), "differs from the first")
	other.Grad = nil
	require.ErrorIs(t, b.AdamWList().Run(t.Context(), b.Stream, &ops.AdamWListArgs{Updates: []ops.AdamWArgs{other}}), ops.ErrInvalid)
}
