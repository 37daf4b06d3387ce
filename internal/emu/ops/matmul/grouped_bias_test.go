package matmul

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestGroupedBiasGrad(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			dy, out := optest.Filled(t, 1, d, l, []int64{5, 3}), optest.TensorIn(t, d, l, []int64{3, 3})
			a := optest.Args{"gradY": dy, "groupIdxOptional": optest.Tensor(t, dtype.Int32, []int64{3}, 2, 2, 5), "out": out}
			optest.Run(t, "GroupedBiasAddGrad", a)
			want := make([]float64, 9)
			for i, v := range optest.Values(dy) {
				want[[]int{0, 0, 2, 2, 2}[i/3]*3+i%3] += v
			}
			optest.CloseTo(t, fmt.Sprintf("%v %v", d, l), want, optest.Values(out), optest.ResultLimit(d))
			for kind, groups := range [][]float64{{2, 2, 5}, {2, 0, 3}} { // the ends of the groups, then their sizes
				second := optest.TensorIn(t, d, l, []int64{3, 3})
				optest.Run(t, "GroupedBiasAddGradV2", optest.Args{"gradY": dy, "groupIdxOptional": optest.Tensor(t, dtype.Int64, []int64{3}, groups...), "groupIdxType": kind, "out": second})
				require.Equal(t, optest.Values(out), optest.Values(second), "%v %v groupIdxType %d", d, l, kind)
			}
			optest.Refused(t, op.InvalidParam, "GroupedBiasAddGradV2", a.With(optest.Args{"groupIdxType": 2}), "groupIdxType 2")
			require.ErrorContains(t, optest.Execute(t, "GroupedBiasAddGradV2", a.With(optest.Args{"groupIdxType": 1})), "not exceed 5")
			require.ErrorContains(t, optest.Execute(t, "GroupedBiasAddGrad", a.With(optest.Args{"groupIdxOptional": optest.Tensor(t, dtype.Int32, []int64{3}, 1, 2, 4)})), "row 4 of 5")
			cube, sums := optest.Filled(t, 2, d, l, []int64{3, 4, 2}), optest.TensorIn(t, d, l, []int64{3, 2})
			optest.Run(t, "GroupedBiasAddGrad", optest.Args{"gradY": cube, "out": sums})
			want = make([]float64, 6)
			for i, v := range optest.Values(cube) {
				want[i/8*2+i%2] += v
			}
			optest.CloseTo(t, fmt.Sprintf("%v %v", d, l), want, optest.Values(sums), optest.ResultLimit(d))
			optest.Refused(t, op.InvalidParam, "GroupedBiasAddGrad", optest.Args{"gradY": dy, "out": out}, "dimensions")
		}
	}
}
