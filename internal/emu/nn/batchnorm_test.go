package nn

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

var batchShapes = [][]int64{{5, 3}, {2, 1, 7}, {2, 3, 4, 5}, {1, 4, 3}, {2, 2, 2, 3, 2}}

// channelOf calls f with the place and the channel of every element.
func channelOf(shape []int64, f func(i int, channel int64)) {
	i := 0
	walk(shape, func(at []int64) { f(i, at[1]); i++ })
}

// channelMoments are the mean and the variance of each channel.
func channelMoments(shape []int64, x []float64) (mean, variance []float64) {
	n := float64(elements(shape) / shape[1])
	mean, variance = make([]float64, shape[1]), make([]float64, shape[1])
	channelOf(shape, func(i int, k int64) { mean[k] += x[i] / n })
	channelOf(shape, func(i int, k int64) { variance[k] += (x[i] - mean[k]) * (x[i] - mean[k]) / n })
	return mean, variance
}

// inverseDeviations are 1/√(variance + epsilon).
func inverseDeviations(variance []float64) []float64 {
	r := make([]float64, len(variance))
	for k, v := range variance {
		r[k] = 1 / math.Sqrt(v+epsilon)
	}
	return r
}

// batchNormDefinition normalises with given statistics, or those of x if mean is nil.
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
	for _, d := range transformerTypes {
		for _, shape := range batchShapes {
			channels := shape[1:2]
			for _, l := range kerneltest.Layouts {
				for _, training := range []bool{true, false} {
					what := fmt.Sprintf("%v %v %v training %v", d, l, shape, training)
					f := dtype.Float32
					x, y, w, b := filled(t, 1, d, l, shape), tensorIn(t, d, l, shape), filled(t, 2, d, kerneltest.Contiguous, channels), filled(t, 3, d, kerneltest.Contiguous, channels)
					rm, rv := filled(t, 4, f, kerneltest.Contiguous, channels), tensor(t, f, channels, 0.5, 2, 1)
					sm, sr := tensor(t, f, channels), tensor(t, f, channels)
					oldMean, oldVar := values(rm), values(rv)
					mean, variance := channelMoments(shape, values(x))
					run(t, "BatchNorm", args{
						"input": x, "weight": w, "bias": b, "runningMean": rm, "runningVar": rv, "training": training, "momentum": momentum, "eps": epsilon,
						"output": y, "saveMean": sm, "saveInvstd": sr,
					})
					fixedMean, fixedVar := oldMean, oldVar
					if training {
						fixedMean, fixedVar = nil, nil
						closeTo(t, "mean of "+what, mean, values(sm), 2e-6)
						closeTo(t, "deviation of "+what, inverseDeviations(variance), values(sr), 1e-5)
						n := float64(x.Len() / channels[0])
						for k := range oldMean {
							oldMean[k] += momentum * (mean[k] - oldMean[k])
							oldVar[k] += momentum * (variance[k]*n/(n-1) - oldVar[k])
						}
						closeTo(t, "running mean of "+what, oldMean, values(rm), 2e-6)
						closeTo(t, "running variance of "+what, oldVar, values(rv), 5e-6)
					}
					closeTo(t, "y of "+what, batchNormDefinition(shape, values(x), fixedMean, fixedVar, values(w), values(b)), values(y), 8*resultLimit(d))

					dy, dx, dw, db := filled(t, 5, d, l, shape), tensorIn(t, d, l, shape), tensor(t, f, channels), tensor(t, f, channels)
					run(t, "BatchNormBackward", args{
						"gradOut": dy, "input": x, "weight": w, "runningMean": rm, "runningVar": rv, "saveMean": sm, "saveInvstd": sr, "training": training,
						"eps": epsilon, "outputMask": []bool{true, true, true}, "gradInput": dx, "gradWeight": dw, "gradBias": db,
					})
					define := func(x, w, b []float64) []float64 { return batchNormDefinition(shape, x, fixedMean, fixedVar, w, b) }
					closeTo(t, "dx of "+what, gradient(func(v []float64) []float64 { return define(v, values(w), values(b)) }, values(dy), values(x)), values(dx), 16*resultLimit(d))
					closeTo(t, "dweight of "+what, gradient(func(v []float64) []float64 { return define(values(x), v, values(b)) }, values(dy), values(w)), values(dw), 2e-5)
					closeTo(t, "dbias of "+what, gradient(func(v []float64) []float64 { return define(values(x), values(w), v) }, values(dy), values(b)), values(db), 2e-5)
				}
			}
		}
	}
}

// A batch normalised in two parts has the statistics and the gradient of the whole.
func TestBatchNormInParts(t *testing.T) {
	f, shape := dtype.Float32, []int64{6, 3, 5}
	part := [][]int64{{2, 3, 5}, {4, 3, 5}}
	x, dy := normal(1, f, 90), normal(2, f, 90)
	w := filled(t, 3, f, kerneltest.Contiguous, []int64{3})
	b := filled(t, 4, f, kerneltest.Contiguous, []int64{3})
	var means, rstds []float64
	var xs, dys []*Tensor
	at := int64(0)
	for _, s := range part {
		n := elements(s)
		xs, dys = append(xs, tensor(t, f, s, x[at:at+n]...)), append(dys, tensor(t, f, s, dy[at:at+n]...))
		at += n
		m, r := tensor(t, f, []int64{3}), tensor(t, f, []int64{3})
		run(t, "BatchNormStats", args{"input": xs[len(xs)-1], "eps": epsilon, "mean": m, "invstd": r})
		means, rstds = append(means, values(m)...), append(rstds, values(r)...)
	}
	mean, rstd, rm, rv := tensor(t, f, []int64{3}), tensor(t, f, []int64{3}), tensor(t, f, []int64{3}, 1), tensor(t, f, []int64{3}, 2)
	run(t, "BatchNormGatherStatsWithCounts", args{
		"input": xs[0], "mean": tensor(t, f, []int64{2, 3}, means...), "invstd": tensor(t, f, []int64{2, 3}, rstds...), "runningMean": rm, "runningVar": rv,
		"momentum": 0.5, "eps": epsilon, "counts": tensor(t, f, []int64{2}, 10, 20), "meanAll": mean, "invstdAll": rstd,
	})
	wantMean, wantVar := channelMoments(shape, x)
	closeTo(t, "mean", wantMean, values(mean), 1e-6)
	closeTo(t, "deviation", inverseDeviations(wantVar), values(rstd), 1e-5)
	running := func(old float64, new []float64, scale float64) (v []float64) {
		for _, n := range new {
			v = append(v, (old+n*scale)/2)
		}
		return v
	}
	closeTo(t, "running mean", running(1, wantMean, 1), values(rm), 1e-6)
	closeTo(t, "running variance", running(2, wantVar, 30./29), values(rv), 1e-5)

	y, sums, products, dw, db := []float64{}, make([]float64, 3), make([]float64, 3), make([]float64, 3), make([]float64, 3)
	for i, s := range part {
		out, sum, product := tensor(t, f, s), tensor(t, f, []int64{3}), tensor(t, f, []int64{3})
		dweight, dbias := tensor(t, f, []int64{3}), tensor(t, f, []int64{3})
		run(t, "BatchNormElemt", args{"input": xs[i], "weight": w, "bias": b, "mean": mean, "invstd": rstd, "eps": epsilon, "output": out})
		y = append(y, values(out)...)
		run(t, "BatchNormReduceBackward", args{
			"gradOut": dys[i], "input": xs[i], "mean": mean, "invstd": rstd, "weight": w, "inputG": true, "weightG": true, "biasG": true,
			"sumDy": sum, "sumDyXmu": product, "gradWeight": dweight, "gradBias": dbias,
		})
		for k := range 3 {
			sums[k] += values(sum)[k]
			products[k] += values(product)[k]
			dw[k] += values(dweight)[k]
			db[k] += values(dbias)[k]
		}
	}
	define := func(x, w, b []float64) []float64 { return batchNormDefinition(shape, x, nil, nil, w, b) }
	closeTo(t, "y", define(x, values(w), values(b)), y, 1e-5)
	closeTo(t, "dweight", gradient(func(v []float64) []float64 { return define(x, v, values(b)) }, dy, values(w)), dw, 1e-5)
	closeTo(t, "dbias", gradient(func(v []float64) []float64 { return define(x, values(w), v) }, dy, values(b)), db, 1e-5)
	var dx []float64
	for i, s := range part {
		out := tensor(t, f, s)
		run(t, "BatchNormElemtBackward", args{
			"gradOut": dys[i], "input": xs[i], "mean": mean, "invstd": rstd, "weight": w, "sumDy": tensor(t, f, []int64{3}, sums...),
			"sumDyXmu": tensor(t, f, []int64{3}, products...), "counter": tensor(t, dtype.Int32, []int64{2}, 10, 20), "gradInput": out,
		})
		dx = append(dx, values(out)...)
	}
	closeTo(t, "dx", gradient(func(v []float64) []float64 { return define(v, values(w), values(b)) }, dy, x), dx, 1e-5)
}

func TestBatchNormRefuses(t *testing.T) {
	f := dtype.Float32
	for _, c := range []struct {
		set  args
		code int32
		text string
	}{
		{args{"input": nil}, nullPointer, "input is null"},
		{args{"saveMean": nil}, nullPointer, "saveMean is null"},
		{args{"training": false, "runningVar": nil}, nullPointer, "runningVar is null"},
		{args{"weight": tensor(t, f, []int64{2}, 1)}, invalidParam, "one number for each channel"},
		{args{"output": tensor(t, f, []int64{2, 3, 5})}, invalidParam, "shapes differ"},
		{args{"input": tensor(t, f, []int64{4}, 1)}, invalidParam, "1 dimensions"},
		{args{"bias": tensor(t, dtype.Int32, []int64{3}, 1)}, invalidParam, "bias int32"},
	} {
		channel := []int64{3}
		a := args{
			"input": tensor(t, f, []int64{2, 3, 4}, 1), "output": tensor(t, f, []int64{2, 3, 4}), "training": true, "eps": epsilon,
			"saveMean": tensor(t, f, channel), "saveInvstd": tensor(t, f, channel), "runningMean": tensor(t, f, channel, 0), "runningVar": tensor(t, f, channel, 1),
		}
		for k, v := range c.set {
			a[k] = v
		}
		refused(t, c.code, "BatchNorm", a, c.text)
	}
	empty := tensor(t, f, []int64{0, 3})
	dw, db := tensor(t, f, []int64{3}), tensor(t, f, []int64{3})
	one := tensor(t, f, []int64{3}, 1)
	run(t, "BatchNormBackward", args{
		"gradOut": empty, "input": empty, "saveMean": one, "saveInvstd": one, "training": true, "eps": epsilon,
		"outputMask": []bool{false, true, true}, "gradWeight": dw, "gradBias": db,
	})
	assert.Equal(t, slices.Repeat([]float64{0}, 6), append(values(dw), values(db)...))
}
