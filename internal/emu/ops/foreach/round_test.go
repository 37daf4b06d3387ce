package foreach

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestForeachRoundOffNumber(t *testing.T) {
	x := []float64{0, 0.5, -0.5, 1.5, 2.5, -1.25, -2.75, 3}
	for mode, want := range [][]float64{
		{0, 0, 0, 2, 2, -1, -3, 3}, {0, 0, 0, 2, 2, -1, -3, 3}, {0, 0, -1, 1, 2, -2, -3, 3}, {0, 1, 0, 2, 3, -1, -2, 3},
		{0, 1, -1, 2, 3, -1, -3, 3}, {0, 0, 0, 1, 2, -1, -2, 3}, {0, 1, -1, 1, 3, -1, -3, 3}, {0, 0.5, -0.5, 0.5, 0.5, -0.25, -0.75, 0},
	} {
		for _, d := range op.FloatTypes {
			for _, l := range kerneltest.Layouts {
				in := []*op.Tensor{optest.TensorIn(t, d, l, []int64{2, 4}, x...), optest.Tensor(t, d, []int64{0}), optest.TensorIn(t, d, l, []int64{}, 2.5)}
				for _, name := range []string{"ForeachRoundOffNumber", "ForeachRoundOffNumberV2"} {
					out := []*op.Tensor{optest.TensorIn(t, d, l, []int64{2, 4}), optest.Tensor(t, d, []int64{0}), optest.TensorIn(t, d, l, []int64{})}
					set := optest.Args{"x": in, "out": out, "roundMode": optest.Tensor(t, dtype.Int8, []int64{1}, float64(mode))}
					if name == "ForeachRoundOffNumberV2" {
						set["roundMode"] = optest.Scalar(mode)
					}
					optest.Run(t, name, set)
					optest.CloseTo(t, fmt.Sprintf("%s %v %v mode %d", name, d, l, mode), want, optest.Values(out[0]), 0)
					assert.Equal(t, want[4], optest.Values(out[2])[0])
				}
			}
		}
	}
	f := dtype.Float32
	one, two := []*op.Tensor{optest.Tensor(t, f, []int64{2}, 1)}, []*op.Tensor{optest.Tensor(t, f, []int64{2}, 1), optest.Tensor(t, f, []int64{2}, 1)}
	optest.Refused(t, op.InvalidParam, "ForeachRoundOffNumberV2", optest.Args{"x": two, "roundMode": optest.Scalar(1), "out": one}, "1 tensors")
	optest.Refused(t, op.NullPointer, "ForeachRoundOffNumberV2", optest.Args{"x": one, "out": one}, "roundMode is null")
	assert.ErrorContains(t, optest.Execute(t, "ForeachRoundOffNumberV2", optest.Args{"x": one, "roundMode": optest.Scalar(8), "out": one}), "rounding 8")
}
