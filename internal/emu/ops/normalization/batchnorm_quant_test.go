package normalization

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestQuantizedBatchNorm(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Int8, dtype.Uint8, dtype.Int32} {
		for _, l := range kerneltest.Layouts {
			for _, affine := range []bool{false, true} {
				shape, f := []int64{2, 3, 2, 2}, func(v ...float64) *op.Tensor { return optest.Tensor(t, dtype.Float32, []int64{3}, v...) }
				x, y := optest.Numbers(t, d, l, shape...), optest.TensorIn(t, d, l, shape)
				mean, variance, w, b := []float64{1, 0.5, -1}, []float64{1, 4, 0.25}, []float64{1, 1, 1}, []float64{0, 0, 0}
				a := optest.Args{
					"input": x, "mean": f(mean...), "var": f(variance...), "inputScale": optest.Scalar(float32(0.5)), "inputZeroPoint": optest.Scalar(int32(3)), "outputScale": optest.Scalar(float32(0.25)),
					"outputZeroPoint": optest.Scalar(int32(7)), "epsilon": 0.01, "output": y,
				}
				if affine {
					w, b = []float64{2, 0.5, -1}, []float64{1, 0, -2}
					a["weight"], a["bias"] = f(w...), f(b...)
				}
				optest.Run(t, "QuantizedBatchNorm", a)
				bounds := map[dtype.Type][2]float64{dtype.Int8: {-128, 127}, dtype.Uint8: {0, 255}, dtype.Int32: {math.MinInt32, math.MaxInt32}}[d]
				for i, v := range optest.Values(x) {
					k := i / 4 % 3
					n := ((v-3)*0.5-mean[k])/math.Sqrt(variance[k]+0.01)*w[k] + b[k]
					assert.InDelta(t, min(max(n/0.25+7, bounds[0]), bounds[1]), optest.Values(y)[i], 0.501, "%v %v %v", d, l, affine)
				}
				optest.Refused(t, op.InvalidParam, "QuantizedBatchNorm", a.With(optest.Args{"mean": optest.Tensor(t, dtype.Float32, []int64{2}, 1)}))
				optest.Refused(t, op.NullPointer, "QuantizedBatchNorm", a.With(optest.Args{"inputScale": nil}), "inputScale is null")
				if d == dtype.Int8 {
					optest.Refused(t, op.InvalidParam, "QuantizedBatchNorm", a.With(optest.Args{"outputZeroPoint": optest.Scalar(int32(200))}), "zero point is 200")
				}
			}
		}
	}
}
