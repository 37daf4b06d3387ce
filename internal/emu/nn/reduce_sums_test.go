package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestReduceLogSum(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			x := tensorIn(t, d, l, []int64{2, 3, 2}, 1, 2, .5, 4, 3, .25)
			xs := values(x)
			for _, c := range []struct {
				axes  []int64
				keep  bool
				shape []int64
				place func(i int) int
			}{
				{[]int64{1}, false, []int64{2, 2}, func(i int) int { return i/6*2 + i%2 }},
				{[]int64{-1, 0}, true, []int64{1, 3, 1}, func(i int) int { return i / 2 % 3 }},
				{nil, false, []int64{}, func(int) int { return 0 }},
			} {
				out, want := tensorIn(t, d, l, c.shape), make([]float64, elements(c.shape))
				for i, v := range xs {
					want[c.place(i)] += v
				}
				for i := range want {
					want[i] = math.Log(want[i])
				}
				run(t, "ReduceLogSum", args{"data": x, "axes": c.axes, "keepDims": c.keep, "reduce": out})
				closeTo(t, fmt.Sprintf("%v %v over %v", d, l, c.axes), want, values(out), 2*resultLimit(d))
			}
			same := tensorIn(t, d, l, x.Shape)
			run(t, "ReduceLogSum", args{"data": x, "noopWithEmptyAxes": true, "reduce": same})
			assert.Equal(t, xs, values(same))
		}
	}
	x, out := tensor(t, dtype.Float32, []int64{0, 2}), tensor(t, dtype.Float32, []int64{2})
	run(t, "ReduceLogSum", args{"data": x, "axes": []int64{0}, "reduce": out})
	assert.True(t, math.IsInf(values(out)[0], -1))
	refused(t, invalidParam, "ReduceLogSum", args{"data": x, "axes": []int64{0, -2}, "reduce": out}, "twice")
	refused(t, invalidParam, "ReduceLogSum", args{"data": x, "axes": []int64{2}, "reduce": out}, "out of range")
	refused(t, invalidParam, "ReduceLogSum", args{"data": x, "axes": []int64{1}, "reduce": out}, "reduce float32[2]")
}

func TestBatchNormReduce(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			x := filled(t, 1, d, l, []int64{2, 3, 2, 5})
			sum, squares := tensor(t, dtype.Float32, []int64{3}), tensor(t, dtype.Float32, []int64{3})
			run(t, "BatchNormReduce", args{"x": x, "sum": sum, "squareSum": squares})
			want, wantSquares := make([]float64, 3), make([]float64, 3)
			for i, v := range values(x) {
				want[i/10%3] += v
				wantSquares[i/10%3] += v * v
			}
			closeTo(t, "sums", want, values(sum), 1e-5)
			closeTo(t, "squares", wantSquares, values(squares), 1e-5)
			refused(t, invalidParam, "BatchNormReduce", args{"x": x, "sum": x, "squareSum": squares}, "sum")
			refused(t, nullPointer, "BatchNormReduce", args{"x": x, "sum": sum}, "squareSum is null")
		}
	}
	none, sum := tensor(t, dtype.Float32, []int64{0, 2, 1, 1}), tensor(t, dtype.Float32, []int64{2}, 9)
	run(t, "BatchNormReduce", args{"x": none, "sum": sum, "squareSum": tensor(t, dtype.Float32, []int64{2}, 9)})
	assert.Equal(t, []float64{0, 0}, values(sum))
}
