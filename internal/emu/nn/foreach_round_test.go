package nn

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestForeachRoundOffNumber(t *testing.T) {
	x := []float64{0, 0.5, -0.5, 1.5, 2.5, -1.25, -2.75, 3}
	for mode, want := range [][]float64{
		{0, 0, 0, 2, 2, -1, -3, 3}, {0, 0, 0, 2, 2, -1, -3, 3}, {0, 0, -1, 1, 2, -2, -3, 3}, {0, 1, 0, 2, 3, -1, -2, 3},
		{0, 1, -1, 2, 3, -1, -3, 3}, {0, 0, 0, 1, 2, -1, -2, 3}, {0, 1, -1, 1, 3, -1, -3, 3}, {0, 0.5, -0.5, 0.5, 0.5, -0.25, -0.75, 0},
	} {
		for _, d := range transformerTypes {
			for _, l := range kerneltest.Layouts {
				in := []*Tensor{tensorIn(t, d, l, []int64{2, 4}, x...), tensor(t, d, []int64{0}), tensorIn(t, d, l, []int64{}, 2.5)}
				for _, name := range []string{"ForeachRoundOffNumber", "ForeachRoundOffNumberV2"} {
					out := []*Tensor{tensorIn(t, d, l, []int64{2, 4}), tensor(t, d, []int64{0}), tensorIn(t, d, l, []int64{})}
					set := args{"x": in, "out": out, "roundMode": tensor(t, dtype.Int8, []int64{1}, float64(mode))}
					if name == "ForeachRoundOffNumberV2" {
						set["roundMode"] = scalar(mode)
					}
					run(t, name, set)
					closeTo(t, fmt.Sprintf("%s %v %v mode %d", name, d, l, mode), want, values(out[0]), 0)
					assert.Equal(t, want[4], values(out[2])[0])
				}
			}
		}
	}
	f := dtype.Float32
	one, two := []*Tensor{tensor(t, f, []int64{2}, 1)}, []*Tensor{tensor(t, f, []int64{2}, 1), tensor(t, f, []int64{2}, 1)}
	refused(t, invalidParam, "ForeachRoundOffNumberV2", args{"x": two, "roundMode": scalar(1), "out": one}, "1 tensors")
	refused(t, nullPointer, "ForeachRoundOffNumberV2", args{"x": one, "out": one}, "roundMode is null")
	assert.ErrorContains(t, execute(t, "ForeachRoundOffNumberV2", args{"x": one, "roundMode": scalar(8), "out": one}), "rounding 8")
}
