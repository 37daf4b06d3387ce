package resampling

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// asNCHW marks a tensor as images.
func asNCHW(x *op.Tensor) *op.Tensor {
	x.Format = dtype.NCHW
	return x
}

// regionDefinition pools boxes [image, x1, y1, x2, y2] by definition: every element of the image counts with
// its distance to each sample, in each dimension.
func regionDefinition(image, out []int64, scale float64, ratio int, half, largest bool, boxes, x []float64) (y []float64) {
	share := func(at float64, k, n int64) float64 {
		if at < -1 || at > float64(n) {
			return 0
		}
		return optest.Hat(min(max(at, 0), float64(n-1)) - float64(k))
	}
	optest.Walk(out, func(at []int64) {
		box := boxes[5*at[0]:][:5]
		plane := (int64(box[0])*image[1] + at[1]) * image[2] * image[3]
		var first, length [2]float64
		var count [2]int
		for i := range 2 { // height and width
			lo, hi := box[2-i]*scale, box[4-i]*scale
			if half {
				lo, hi = lo-0.5, hi-0.5
			} else {
				hi = max(hi, lo+1)
			}
			first[i], length[i], count[i] = lo, (hi-lo)/float64(out[2+i]), ratio
			if ratio == 0 {
				count[i] = max(int(math.Ceil(length[i])), 1)
			}
		}
		sum, most := 0.0, math.Inf(-1)
		for i := range count[0] {
			for j := range count[1] {
				v := 0.0
				for h := range image[2] {
					for w := range image[3] {
						v += x[plane+h*image[3]+w] * share(first[0]+(float64(at[2])+(float64(i)+0.5)/float64(count[0]))*length[0], h, image[2]) *
							share(first[1]+(float64(at[3])+(float64(j)+0.5)/float64(count[1]))*length[1], w, image[3])
					}
				}
				sum, most = sum+v, max(most, v)
			}
		}
		if !largest {
			most = sum / float64(count[0]*count[1])
		}
		y = append(y, most)
	})
	return y
}

func TestRoiAlign(t *testing.T) {
	boxes := []float64{1, 0.5, 0, 3.25, 4, 0, 1, 2, 1.5, 2.25, 1, -3, -2, 7, 6, 0, 0, 0, 0, 0}
	for _, s := range []struct{ image, out []int64 }{{[]int64{2, 2, 5, 4}, []int64{4, 2, 2, 3}}, {[]int64{2, 1, 1, 1}, []int64{4, 1, 1, 2}}, {[]int64{2, 3, 2, 7}, []int64{4, 3, 3, 1}}} {
		for _, ratio := range []int{0, 1, 2} {
			for _, scale := range []float64{1, 0.5} {
				for _, d := range []dtype.Type{dtype.Float32, dtype.Float16} {
					for _, l := range kerneltest.Layouts {
						what := fmt.Sprintf("%v ratio %d scale %g %v %v", s, ratio, scale, d, l)
						x, y := asNCHW(optest.Filled(t, 1, d, l, s.image)), asNCHW(optest.TensorIn(t, d, l, s.out))
						for _, aligned := range []bool{false, true} {
							a := optest.Args{"self": x, "boxes": optest.TensorIn(t, d, l, []int64{4, 5}, boxes...), "pooledHeight": s.out[2], "pooledWidth": s.out[3], "spatialScale": scale, "samplingRatio": ratio, "aligned": aligned, "out": y}
							optest.Run(t, "RoiAlignV2", a)
							optest.CloseTo(t, what, regionDefinition(s.image, s.out, scale, ratio, aligned, false, boxes, optest.Values(x)), optest.Values(y), optest.ResultLimit(d))
							if d == dtype.Float32 && l == kerneltest.Contiguous {
								roiGradient(t, what, s.image, a, boxes, y)
							}
						}
						var plain, images []float64
						for i := 0; i < len(boxes); i += 5 {
							plain, images = append(plain, boxes[i+1:i+5]...), append(images, boxes[i])
						}
						for _, mode := range []string{"avg", "max"} {
							optest.Run(t, "RoiAlign", optest.Args{"self": x, "rois": optest.TensorIn(t, d, l, []int64{4, 4}, plain...), "batchIndices": optest.Tensor(t, dtype.Int32, []int64{4}, images...), "mode": mode, "outputHeight": s.out[2], "outputWidth": s.out[3], "samplingRatio": ratio, "spatialScale": scale, "out": y})
							optest.CloseTo(t, what+mode, regionDefinition(s.image, s.out, scale, ratio, false, mode == "max", boxes, optest.Values(x)), optest.Values(y), optest.ResultLimit(d))
						}
					}
				}
			}
		}
	}
}

// roiGradient checks that the gradient of an image times the image is that of the results times the
// results, as the average is linear, for random results.
func roiGradient(t *testing.T, what string, image []int64, a optest.Args, boxes []float64, y *op.Tensor) {
	dy, dx := asNCHW(optest.Filled(t, 3, dtype.Float32, kerneltest.Contiguous, y.Shape)), asNCHW(optest.Tensor(t, dtype.Float32, image))
	optest.Run(t, "RoiAlignV2Backward", optest.Args{"gradOutput": dy, "boxes": optest.Tensor(t, dtype.Float32, []int64{4, 5}, boxes...), "inputShape": image, "pooledHeight": a["pooledHeight"], "pooledWidth": a["pooledWidth"], "spatialScale": a["spatialScale"], "samplingRatio": a["samplingRatio"], "aligned": a["aligned"], "gradInput": dx})
	want := make([]float64, optest.Elements(image))
	for i := range want {
		unit := make([]float64, len(want))
		unit[i] = 1
		for k, v := range regionDefinition(image, y.Shape, a["spatialScale"].(float64), a["samplingRatio"].(int), a["aligned"].(bool), false, boxes, unit) {
			want[i] += v * optest.Values(dy)[k]
		}
	}
	optest.CloseTo(t, "gradient of "+what, want, optest.Values(dx), 1e-5)
}

// The values of the published examples.
func TestRoiAlignExamples(t *testing.T) {
	var x []float64
	for i := range 36 {
		x = append(x, float64(i+1))
	}
	image, out := asNCHW(optest.Tensor(t, dtype.Float32, []int64{1, 1, 6, 6}, x...)), asNCHW(optest.Tensor(t, dtype.Float32, []int64{1, 1, 3, 3}))
	box := optest.Tensor(t, dtype.Float32, []int64{1, 5}, 0, -2, -2, 22, 22)
	a := optest.Args{"self": image, "boxes": box, "pooledHeight": 3, "pooledWidth": 3, "spatialScale": 0.25, "samplingRatio": 2, "out": out}
	optest.Run(t, "RoiAlignV2", a)
	require.Equal(t, []float64{4.5, 6.5, 8.5, 16.5, 18.5, 20.5, 28.5, 30.5, 32.5}, optest.Values(out))
	grad := optest.Args{"gradOutput": out, "boxes": box, "inputShape": []int64{1, 1, 6, 6}, "pooledHeight": 3, "pooledWidth": 3, "spatialScale": 0.25, "samplingRatio": 2, "gradInput": asNCHW(optest.Tensor(t, dtype.Float32, []int64{1, 1, 6, 6}))}
	optest.Run(t, "RoiAlignV2Backward", grad)
	require.Equal(t, []float64{1.125, 1.125, 1.625, 1.625, 2.125, 2.125}, optest.Values(grad["gradInput"].(*op.Tensor))[:6])

	optest.Refused(t, op.InvalidParam, "RoiAlignV2", a.With(optest.Args{"samplingRatio": -1}))
	optest.Refused(t, op.InvalidParam, "RoiAlignV2", a.With(optest.Args{"spatialScale": 0.0}), "spatialScale is 0")
	optest.Refused(t, op.InvalidParam, "RoiAlignV2", a.With(optest.Args{"pooledWidth": 2}))
	optest.Refused(t, op.InvalidParam, "RoiAlignV2", a.With(optest.Args{"boxes": optest.Tensor(t, dtype.Float16, []int64{1, 5}, 0)}), "dtypes differ")
	optest.Refused(t, op.NullPointer, "RoiAlignV2", a.With(optest.Args{"boxes": nil}), "boxes is null")
	optest.Refused(t, op.NullPointer, "RoiAlignV2Backward", grad.With(optest.Args{"inputShape": nil}), "inputShape is null")
	require.ErrorContains(t, optest.Execute(t, "RoiAlignV2", a.With(optest.Args{"boxes": optest.Tensor(t, dtype.Float32, []int64{1, 5}, 1, 0, 0, 2, 2)})), "in image 1 of 1")
}
