package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestSyncBatchNormGatherStats(t *testing.T) {
	const eps, momentum = 0.01, 0.25
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, s := range []struct{ parts, channels int64 }{{1, 1}, {3, 5}, {2, 17}} {
				what := fmt.Sprintf("%v %v %+v", d, l, s)
				sums := filled(t, 1, d, l, []int64{s.parts, s.channels})
				squares := tensorIn(t, d, l, sums.Shape, 9, 11, 8.5)
				var counts []float64
				total := 0.0
				for i := range s.parts {
					counts = append(counts, float64(2*i+3))
					total += counts[i]
				}
				mean, variance := filled(t, 2, d, l, []int64{s.channels}), tensorIn(t, d, l, []int64{s.channels}, 1, 2)
				m, rstd := tensorIn(t, d, l, mean.Shape), tensorIn(t, d, l, mean.Shape)
				var want [4][]float64
				for k := range s.channels {
					sum, square := 0.0, 0.0
					for i := range s.parts {
						sum += values(sums)[i*s.channels+k]
						square += values(squares)[i*s.channels+k]
					}
					average := sum / total
					v := square/total - average*average
					for i, x := range []float64{
						average, 1 / math.Sqrt(v+eps), (1-momentum)*values(mean)[k] + momentum*average, (1-momentum)*values(variance)[k] + momentum*v*total/(total-1),
					} {
						want[i] = append(want[i], x)
					}
				}
				run(t, "SyncBatchNormGatherStats", args{
					"totalSum": sums, "totalSquareSum": squares, "sampleCount": tensorIn(t, dtype.Int32, l, []int64{s.parts}, counts...), "mean": mean, "variance": variance,
					"momentum": momentum, "eps": eps, "batchMean": m, "batchInvstd": rstd,
				})
				for i, x := range []*Tensor{m, rstd, mean, variance} {
					closeTo(t, what, want[i], values(x), 4*resultLimit(d))
				}
			}
		}
	}
	f := dtype.Float32
	v := tensor(t, f, []int64{2}, 1)
	a := args{"totalSum": tensor(t, f, []int64{0, 2}), "totalSquareSum": tensor(t, f, []int64{0, 2}), "sampleCount": tensor(t, f, []int64{0}), "mean": v, "variance": v, "batchMean": v, "batchInvstd": v}
	refused(t, invalidParam, "SyncBatchNormGatherStats", a, "has no rows")
	a["totalSum"], a["totalSquareSum"] = tensor(t, f, []int64{1, 2}, 1), tensor(t, f, []int64{1, 2}, 1)
	refused(t, invalidParam, "SyncBatchNormGatherStats", a, "sampleCount")
	a["sampleCount"] = nil
	refused(t, nullPointer, "SyncBatchNormGatherStats", a, "sampleCount is null")
}
