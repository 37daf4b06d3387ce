package normalization

import (
	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestSyncBatchNormGatherStats(t *testing.T) {
	const eps, momentum = 0.01, 0.25
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16} {
		for _, l := range kerneltest.Layouts {
			for _, s := range []struct{ parts, channels int64 }{{1, 1}, {3, 5}, {2, 17}} {
				what := fmt.Sprintf("%v %v %+v", d, l, s)
				sums := optest.Filled(t, 1, d, l, []int64{s.parts, s.channels})
				squares := optest.TensorIn(t, d, l, sums.Shape, 9, 11, 8.5)
				var counts []float64
				total := 0.0
				for i := range s.parts {
					counts = append(counts, float64(2*i+3))
					total += counts[i]
				}
				mean, variance := optest.Filled(t, 2, d, l, []int64{s.channels}), optest.TensorIn(t, d, l, []int64{s.channels}, 1, 2)
				m, rstd := optest.TensorIn(t, d, l, mean.Shape), optest.TensorIn(t, d, l, mean.Shape)
				var want [4][]float64
				for k := range s.channels {
					sum, square := 0.0, 0.0
					for i := range s.parts {
						sum += optest.Values(sums)[i*s.channels+k]
						square += optest.Values(squares)[i*s.channels+k]
					}
					average := sum / total
					v := square/total - average*average
					for i, x := range []float64{
						average, 1 / math.Sqrt(v+eps), (1-momentum)*optest.Values(mean)[k] + momentum*average, (1-momentum)*optest.Values(variance)[k] + momentum*v*total/(total-1),
					} {
						want[i] = append(want[i], x)
					}
				}
				optest.Run(t, "SyncBatchNormGatherStats", optest.Args{
					"totalSum": sums, "totalSquareSum": squares, "sampleCount": optest.TensorIn(t, dtype.Int32, l, []int64{s.parts}, counts...), "mean": mean, "variance": variance,
					"momentum": momentum, "eps": eps, "batchMean": m, "batchInvstd": rstd,
				})
				for i, x := range []*op.Tensor{m, rstd, mean, variance} {
					optest.CloseTo(t, what, want[i], optest.Values(x), 4*optest.ResultLimit(d))
				}
			}
		}
	}
	f := dtype.Float32
	v := optest.Tensor(t, f, []int64{2}, 1)
	a := optest.Args{"totalSum": optest.Tensor(t, f, []int64{0, 2}), "totalSquareSum": optest.Tensor(t, f, []int64{0, 2}), "sampleCount": optest.Tensor(t, f, []int64{0}), "mean": v, "variance": v, "batchMean": v, "batchInvstd": v}
	optest.Refused(t, op.InvalidParam, "SyncBatchNormGatherStats", a, "has no rows")
	a["totalSum"], a["totalSquareSum"] = optest.Tensor(t, f, []int64{1, 2}, 1), optest.Tensor(t, f, []int64{1, 2}, 1)
	optest.Refused(t, op.InvalidParam, "SyncBatchNormGatherStats", a, "sampleCount")
	a["sampleCount"] = nil
	optest.Refused(t, op.NullPointer, "SyncBatchNormGatherStats", a, "sampleCount is null")
}
