package normalization

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

var batchShapes = [][]int64{{5, 3}, {2, 1, 7}, {2, 3, 4, 5}, {1, 4, 3}, {2, 2, 2, 3, 2}}

// channelOf calls f with the position and the channel of every element.
func channelOf(shape []int64, f func(i int, channel int64)) {
	i := 0
	optest.Walk(shape, func(at []int64) { f(i, at[1]); i++ })
}

// channelMoments returns the mean and the variance of each channel.
func channelMoments(shape []int64, x []float64) (mean, variance []float64) {
	n := float64(optest.Elements(shape) / shape[1])
	mean, variance = make([]float64, shape[1]), make([]float64, shape[1])
	channelOf(shape, func(i int, k int64) { mean[k] += x[i] / n })
	channelOf(shape, func(i int, k int64) { variance[k] += (x[i] - mean[k]) * (x[i] - mean[k]) / n })
	return mean, variance
}

// inverseDeviations returns 1/√(variance + epsilon).
func inverseDeviations(variance []float64) []float64 {
	r := make([]float64, len(variance))
	for k, v := range variance {
		r[k] = 1 / math.Sqrt(v+epsilon)
	}
	return r
}

// batchNormDefinition normalises with the given statistics, or with those of x if mean is nil.
func batchNormDefinition(shape []int64, x, mean, variance, weight, bias []float64) []float64 {
	if mean == nil {
		mean, variance = channelMoments(shape, x)
	}
	y, r := make([]float64, len(x)), inverseDeviations(variance)
	channelOf(shape, func(i int, k int64) { y[i] = (x[i]-mean[k])*r[k]*weight[k] + bias[k] })
	return y
}

func TestBatchNorm(t *testing.T) {
	const momentum = 0.3
	for _, d := range op.FloatTypes {
		for _, shape := range batchShapes {
			channels := shape[1:2]
			for _, l := range kerneltest.Layouts {
				for _, training := range []bool{true, false} {
					what := fmt.Sprintf("%v %v %v training %v", d, l, shape, training)
					f := dtype.Float32
					x, y, w, b := optest.Filled(t, 1, d, l, shape), optest.TensorIn(t, d, l, shape), optest.Filled(t, 2, d, kerneltest.Contiguous, channels), optest.Filled(t, 3, d, kerneltest.Contiguous, channels)
					rm, rv := optest.Filled(t, 4, f, kerneltest.Contiguous, channels), optest.Tensor(t, f, channels, 0.5, 2, 1)
					sm, sr := optest.Tensor(t, f, channels), optest.Tensor(t, f, channels)
					if len(shape) == 5 {
						x.Format, y.Format = dtype.NCDHW, dtype.NCDHW
					}
					oldMean, oldVar := optest.Values(rm), optest.Values(rv)
					mean, variance := channelMoments(shape, optest.Values(x))
					optest.Run(t, "BatchNorm", optest.Args{
						"input": x, "weight": w, "bias": b, "runningMean": rm, "runningVar": rv, "training": training, "momentum": momentum, "eps": epsilon,
						"output": y, "saveMean": sm, "saveInvstd": sr,
					})
					fixedMean, fixedVar := oldMean, oldVar
					if training {
						fixedMean, fixedVar = nil, nil
						optest.CloseTo(t, "mean of "+what, mean, optest.Values(sm), 2e-6)
						optest.CloseTo(t, "deviation of "+what, inverseDeviations(variance), optest.Values(sr), 1e-5)
						n := float64(x.Len() / channels[0])
						for k := range oldMean {
							oldMean[k] += momentum * (mean[k] - oldMean[k])
							oldVar[k] += momentum * (variance[k]*n/(n-1) - oldVar[k])
						}
						optest.CloseTo(t, "running mean of "+what, oldMean, optest.Values(rm), 2e-6)
						optest.CloseTo(t, "running variance of "+what, oldVar, optest.Values(rv), 5e-6)
					}
					optest.CloseTo(t, "y of "+what, batchNormDefinition(shape, optest.Values(x), fixedMean, fixedVar, optest.Values(w), optest.Values(b)), optest.Values(y), 8*optest.ResultLimit(d))

					dy, dx, dw, db := optest.Filled(t, 5, d, l, shape), optest.TensorIn(t, d, l, shape), optest.Tensor(t, f, channels), optest.Tensor(t, f, channels)
					dy.Format, dx.Format = x.Format, x.Format
					backward := optest.Args{
						"gradOut": dy, "input": x, "weight": w, "runningMean": rm, "runningVar": rv, "saveMean": sm, "saveInvstd": sr, "training": training,
						"eps": epsilon, "outputMask": []bool{true, true, true}, "gradInput": dx, "gradWeight": dw, "gradBias": db,
					}
					optest.Run(t, "BatchNormBackward", backward)
					fast := optest.TensorIn(t, d, l, shape)
					fast.Format = x.Format
					optest.Run(t, "FastBatchNormBackward", backward.With(optest.Args{"gradInput": fast}))
					assert.Equal(t, optest.Values(dx), optest.Values(fast), what)
					define := func(x, w, b []float64) []float64 { return batchNormDefinition(shape, x, fixedMean, fixedVar, w, b) }
					optest.CloseTo(t, "dx of "+what, optest.Gradient(func(v []float64) []float64 { return define(v, optest.Values(w), optest.Values(b)) }, optest.Values(dy), optest.Values(x)), optest.Values(dx), 16*optest.ResultLimit(d))
					optest.CloseTo(t, "dweight of "+what, optest.Gradient(func(v []float64) []float64 { return define(optest.Values(x), v, optest.Values(b)) }, optest.Values(dy), optest.Values(w)), optest.Values(dw), 2e-5)
					optest.CloseTo(t, "dbias of "+what, optest.Gradient(func(v []float64) []float64 { return define(optest.Values(x), optest.Values(w), v) }, optest.Values(dy), optest.Values(b)), optest.Values(db), 2e-5)
				}
			}
		}
	}
}

// A batch normalised in two parts has the statistics and the gradient of the whole batch.
func TestBatchNormInParts(t *testing.T) {
	f, shape := dtype.Float32, []int64{6, 3, 5}
	part := [][]int64{{2, 3, 5}, {4, 3, 5}}
	x, dy := optest.Normal(1, f, 90), optest.Normal(2, f, 90)
	w := optest.Filled(t, 3, f, kerneltest.Contiguous, []int64{3})
	b := optest.Filled(t, 4, f, kerneltest.Contiguous, []int64{3})
	var means, rstds []float64
	var xs, dys []*op.Tensor
	at := int64(0)
	for _, s := range part {
		n := optest.Elements(s)
		xs, dys = append(xs, optest.Tensor(t, f, s, x[at:at+n]...)), append(dys, optest.Tensor(t, f, s, dy[at:at+n]...))
		at += n
		m, r := optest.Tensor(t, f, []int64{3}), optest.Tensor(t, f, []int64{3})
		optest.Run(t, "BatchNormStats", optest.Args{"input": xs[len(xs)-1], "eps": epsilon, "mean": m, "invstd": r})
		means, rstds = append(means, optest.Values(m)...), append(rstds, optest.Values(r)...)
	}
	mean, rstd, rm, rv := optest.Tensor(t, f, []int64{3}), optest.Tensor(t, f, []int64{3}), optest.Tensor(t, f, []int64{3}, 1), optest.Tensor(t, f, []int64{3}, 2)
	optest.Run(t, "BatchNormGatherStatsWithCounts", optest.Args{
		"input": xs[0], "mean": optest.Tensor(t, f, []int64{2, 3}, means...), "invstd": optest.Tensor(t, f, []int64{2, 3}, rstds...), "runningMean": rm, "runningVar": rv,
		"momentum": 0.5, "eps": epsilon, "counts": optest.Tensor(t, f, []int64{2}, 10, 20), "meanAll": mean, "invstdAll": rstd,
	})
	wantMean, wantVar := channelMoments(shape, x)
	optest.CloseTo(t, "mean", wantMean, optest.Values(mean), 1e-6)
	optest.CloseTo(t, "deviation", inverseDeviations(wantVar), optest.Values(rstd), 1e-5)
	running := func(old float64, new []float64, scale float64) (v []float64) {
		for _, n := range new {
			v = append(v, (old+n*scale)/2)
		}
		return v
	}
	optest.CloseTo(t, "running mean", running(1, wantMean, 1), optest.Values(rm), 1e-6)
	optest.CloseTo(t, "running variance", running(2, wantVar, 30./29), optest.Values(rv), 1e-5)

	y, sums, products, dw, db := []float64{}, make([]float64, 3), make([]float64, 3), make([]float64, 3), make([]float64, 3)
	for i, s := range part {
		out, sum, product := optest.Tensor(t, f, s), optest.Tensor(t, f, []int64{3}), optest.Tensor(t, f, []int64{3})
		dweight, dbias := optest.Tensor(t, f, []int64{3}), optest.Tensor(t, f, []int64{3})
		optest.Run(t, "BatchNormElemt", optest.Args{"input": xs[i], "weight": w, "bias": b, "mean": mean, "invstd": rstd, "eps": epsilon, "output": out})
		y = append(y, optest.Values(out)...)
		optest.Run(t, "BatchNormReduceBackward", optest.Args{
			"gradOut": dys[i], "input": xs[i], "mean": mean, "invstd": rstd, "weight": w, "inputG": true, "weightG": true, "biasG": true,
			"sumDy": sum, "sumDyXmu": product, "gradWeight": dweight, "gradBias": dbias,
		})
		for k := range 3 {
			sums[k] += optest.Values(sum)[k]
			products[k] += optest.Values(product)[k]
			dw[k] += optest.Values(dweight)[k]
			db[k] += optest.Values(dbias)[k]
		}
	}
	define := func(x, w, b []float64) []float64 { return batchNormDefinition(shape, x, nil, nil, w, b) }
	optest.CloseTo(t, "y", define(x, optest.Values(w), optest.Values(b)), y, 1e-5)
	optest.CloseTo(t, "dweight", optest.Gradient(func(v []float64) []float64 { return define(x, v, optest.Values(b)) }, dy, optest.Values(w)), dw, 1e-5)
	optest.CloseTo(t, "dbias", optest.Gradient(func(v []float64) []float64 { return define(x, optest.Values(w), v) }, dy, optest.Values(b)), db, 1e-5)
	var dx []float64
	for i, s := range part {
		out := optest.Tensor(t, f, s)
		optest.Run(t, "BatchNormElemtBackward", optest.Args{
			"gradOut": dys[i], "input": xs[i], "mean": mean, "invstd": rstd, "weight": w, "sumDy": optest.Tensor(t, f, []int64{3}, sums...),
			"sumDyXmu": optest.Tensor(t, f, []int64{3}, products...), "counter": optest.Tensor(t, dtype.Int32, []int64{2}, 10, 20), "gradInput": out,
		})
		dx = append(dx, optest.Values(out)...)
	}
	optest.CloseTo(t, "dx", optest.Gradient(func(v []float64) []float64 { return define(v, optest.Values(w), optest.Values(b)) }, dy, x), dx, 1e-5)
}

func TestBatchNormRefuses(t *testing.T) {
	f := dtype.Float32
	for _, c := range []struct {
		set  optest.Args
		code int32
		text string
	}{
		{optest.Args{"input": nil}, op.NullPointer, "input is null"},
		{optest.Args{"saveMean": nil}, op.NullPointer, "saveMean is null"},
		{optest.Args{"training": false, "runningVar": nil}, op.NullPointer, "runningVar is null"},
		{optest.Args{"weight": optest.Tensor(t, f, []int64{2}, 1)}, op.InvalidParam, "one number for each channel"},
		{optest.Args{"output": optest.Tensor(t, f, []int64{2, 3, 5})}, op.InvalidParam, "shapes differ"},
		{optest.Args{"input": optest.Tensor(t, f, []int64{4}, 1)}, op.InvalidParam, "1 dimensions"},
		{optest.Args{"bias": optest.Tensor(t, dtype.Int32, []int64{3}, 1)}, op.InvalidParam, "bias int32"},
	} {
		channel := []int64{3}
		a := optest.Args{
			"input": optest.Tensor(t, f, []int64{2, 3, 4}, 1), "output": optest.Tensor(t, f, []int64{2, 3, 4}), "training": true, "eps": epsilon,
			"saveMean": optest.Tensor(t, f, channel), "saveInvstd": optest.Tensor(t, f, channel), "runningMean": optest.Tensor(t, f, channel, 0), "runningVar": optest.Tensor(t, f, channel, 1),
		}
		for k, v := range c.set {
			a[k] = v
		}
		optest.Refused(t, c.code, "BatchNorm", a, c.text)
	}
	empty := optest.Tensor(t, f, []int64{0, 3})
	dw, db := optest.Tensor(t, f, []int64{3}), optest.Tensor(t, f, []int64{3})
	one := optest.Tensor(t, f, []int64{3}, 1)
	optest.Run(t, "BatchNormBackward", optest.Args{
		"gradOut": empty, "input": empty, "saveMean": one, "saveInvstd": one, "training": true, "eps": epsilon,
		"outputMask": []bool{false, true, true}, "gradWeight": dw, "gradBias": db,
	})
	assert.Equal(t, slices.Repeat([]float64{0}, 6), append(optest.Values(dw), optest.Values(db)...))
}

func TestBatchNormReduce(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			x := optest.Filled(t, 1, d, l, []int64{2, 3, 2, 5})
			x.Format = dtype.NCHW
			sum, squares := optest.Tensor(t, dtype.Float32, []int64{3}), optest.Tensor(t, dtype.Float32, []int64{3})
			optest.Run(t, "BatchNormReduce", optest.Args{"x": x, "sum": sum, "squareSum": squares})
			want, wantSquares := make([]float64, 3), make([]float64, 3)
			for i, v := range optest.Values(x) {
				want[i/10%3] += v
				wantSquares[i/10%3] += v * v
			}
			optest.CloseTo(t, "sums", want, optest.Values(sum), 1e-5)
			optest.CloseTo(t, "squares", wantSquares, optest.Values(squares), 1e-5)
			optest.Refused(t, op.InvalidParam, "BatchNormReduce", optest.Args{"x": x, "sum": x, "squareSum": squares}, "sum")
			optest.Refused(t, op.NullPointer, "BatchNormReduce", optest.Args{"x": x, "sum": sum}, "squareSum is null")
		}
	}
	none, sum := optest.Tensor(t, dtype.Float32, []int64{0, 2, 1, 1}), optest.Tensor(t, dtype.Float32, []int64{2}, 9)
	optest.Run(t, "BatchNormReduce", optest.Args{"x": none, "sum": sum, "squareSum": optest.Tensor(t, dtype.Float32, []int64{2}, 9)})
	assert.Equal(t, []float64{0, 0}, optest.Values(sum))
}
