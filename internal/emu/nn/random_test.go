package nn

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// momentsOf are the mean and the deviation.
func momentsOf(v []float64) (mean, std float64) {
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		std += (x - mean) * (x - mean) / float64(len(v))
	}
	return mean, math.Sqrt(std)
}

func TestDistributions(t *testing.T) {
	const n = 20001
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Float64} {
		for _, l := range kerneltest.Layouts {
			x := tensorIn(t, d, l, []int64{3, n / 3})
			run(t, "InplaceUniform", args{"selfRef": x, "from": -1.0, "to": 3.0, "seed": 7, "offset": 8})
			mean, std := momentsOf(values(x))
			require.InDelta(t, 1, mean, 0.04, "%v", d)
			require.InDelta(t, 4/math.Sqrt(12), std, 0.04, "%v", d)
			require.GreaterOrEqual(t, slices.Min(values(x)), -1.0)
			require.LessOrEqual(t, slices.Max(values(x)), 3.0)

			run(t, "InplaceNormal", args{"selfRef": x, "mean": 2.0, "std": 0.5, "seed": 3})
			mean, std = momentsOf(values(x))
			require.InDelta(t, 2, mean, 0.02, "%v", d)
			require.InDelta(t, 0.5, std, 0.02, "%v", d)

			run(t, "InplaceBernoulli", args{"selfRef": x, "prob": scalar(0.3), "seed": 1})
			mean, _ = momentsOf(values(x))
			require.InDelta(t, 0.3, mean, 0.02, "%v", d)
		}
	}
	for _, d := range []dtype.Type{dtype.Int8, dtype.Int32, dtype.Int64, dtype.Uint8, dtype.Float32} {
		x := tensor(t, d, []int64{1000})
		run(t, "InplaceRandom", args{"selfRef": x, "from": 2, "to": 5, "seed": 9})
		require.Equal(t, []float64{2, 3, 4}, slices.Compact(slices.Sorted(slices.Values(values(x)))), "%v", d)
		run(t, "InplaceRandomWithoutFromTo", args{"selfRef": x, "seed": 9})
		require.GreaterOrEqual(t, slices.Min(values(x)), 0.0, "%v", d)
		_, std := momentsOf(values(x))
		require.Greater(t, std, 30.0, "%v", d)
	}
}

// A seed and an offset fix every element, whatever the layout; another of either gives others.
func TestSeedsFixElements(t *testing.T) {
	draw := func(l kerneltest.Layout, seed, offset int) []float64 {
		x := tensorIn(t, dtype.Float32, l, []int64{5, 7})
		run(t, "InplaceNormal", args{"selfRef": x, "std": 1.0, "seed": seed, "offset": offset})
		return values(x)
	}
	first := draw(kerneltest.Contiguous, 1, 2)
	for _, l := range kerneltest.Layouts {
		require.Equal(t, first, draw(l, 1, 2))
	}
	require.NotEqual(t, first, draw(kerneltest.Contiguous, 2, 2))
	require.NotEqual(t, first, draw(kerneltest.Contiguous, 1, 3))
	x := tensor(t, dtype.Float32, []int64{5, 7})
	run(t, "InplaceNormalTensor", args{"selfRef": x, "std": 1.0, "seedTensor": tensor(t, dtype.Int64, []int64{1}, 1), "offsetTensor": tensor(t, dtype.Int64, []int64{1}, 0), "offset": 2})
	require.Equal(t, first, values(x))
	run(t, "NormalTensorFloat", args{"mean": tensor(t, dtype.Float32, []int64{1}, 0), "std": 1.0, "seed": 1, "offset": 2, "out": x})
	require.Equal(t, first, values(x))
	refused(t, invalidParam, "InplaceNormal", args{"selfRef": x, "std": -1.0}, "std")
	refused(t, invalidParam, "InplaceUniform", args{"selfRef": x, "from": 1.0}, "larger")
	refused(t, invalidParam, "InplaceRandom", args{"selfRef": x, "from": 1, "to": 1}, "smaller")
	refused(t, nullPointer, "InplaceNormalTensor", args{"selfRef": x}, "seedTensor")
}

func TestDraws(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Int64, dtype.Int32, dtype.Float32} {
		x := tensor(t, d, []int64{101})
		run(t, "Randperm", args{"n": 101, "seed": 4, "out": x})
		sorted := slices.Sorted(slices.Values(values(x)))
		require.NotEqual(t, sorted, values(x))
		for i, v := range sorted {
			require.Equal(t, float64(i), v)
		}
	}
	weights := tensor(t, dtype.Float32, []int64{2, 4}, 1, 0, 3, 0, 0, 1, 1, 2)
	out := tensor(t, dtype.Int64, []int64{2, 4000})
	run(t, "Multinomial", args{"self": weights, "numsamples": 4000, "replacement": true, "seed": 5, "out": out})
	var counts [2][4]float64
	for i, v := range values(out) {
		counts[i/4000][int(v)]++
	}
	for row, want := range [2][4]float64{{0.25, 0, 0.75, 0}, {0, 0.25, 0.25, 0.5}} {
		for k, share := range want {
			require.InDelta(t, share, counts[row][k]/4000, 0.03*math.Ceil(share))
		}
	}
	few := tensor(t, dtype.Int64, []int64{2, 2})
	run(t, "Multinomial", args{"self": weights, "numsamples": 2, "out": few})
	v := values(few)
	require.ElementsMatch(t, []float64{0, 2}, v[:2])
	require.NotEqual(t, v[2], v[3])
	require.ErrorContains(t, execute(t, "Multinomial", args{"self": weights, "numsamples": 3, "out": tensor(t, dtype.Int64, []int64{2, 3})}), "2 positive weights for 3 draws")
	refused(t, invalidParam, "Multinomial", args{"self": weights, "numsamples": 5, "out": out}, "numsamples is 5")

	chances := tensor(t, dtype.Float32, []int64{3}, 0, 1, 0)
	hits := tensor(t, dtype.Bool, []int64{3})
	run(t, "BernoulliTensor", args{"self": hits, "prob": chances, "out": hits})
	require.Equal(t, []float64{0, 1, 0}, values(hits))
	require.ErrorContains(t, execute(t, "BernoulliTensor", args{"self": hits, "prob": tensor(t, dtype.Float32, []int64{3}, 2), "out": hits}), "probability 2")
	refused(t, invalidParam, "Bernoulli", args{"self": hits, "prob": scalar(1.5), "out": hits}, "prob is 1.5")
}

func TestDropoutKeepsByTheBits(t *testing.T) {
	const n = 1003
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			x, out := tensorIn(t, d, l, []int64{17, 59}, 1, 2, 3), tensorIn(t, d, l, []int64{17, 59})
			mask := tensor(t, dtype.Uint8, []int64{128}, 0)
			run(t, "Dropout", args{"input": x, "p": 0.25, "train": true, "seed": 6, "out": out, "maskOut": mask})
			bits, in, kept := values(mask), values(x), 0.0
			want := make([]float64, n)
			for i := range want {
				if int(bits[i/8])>>(i%8)&1 == 1 {
					want[i] = kerneltest.Round(d, in[i]/0.75)
					kept++
				}
			}
			require.Equal(t, want, values(out), "%v %v", d, l)
			require.InDelta(t, 0.75, kept/n, 0.05)

			again := tensor(t, dtype.Uint8, []int64{128})
			run(t, "DropoutGenMaskV2", args{"shape": []int64{17, 59}, "prob": 0.25, "seed": 6, "probDataType": d, "out": again})
			require.Equal(t, bits, values(again), "the mask of the same seed")
			grad := tensorIn(t, d, l, []int64{17, 59})
			run(t, "DropoutBackward", args{"gradOutput": x, "mask": mask, "scale": 1 / 0.75, "out": grad})
			require.Equal(t, want, values(grad))
			run(t, "DropoutDoMask", args{"self": x, "mask": mask, "prob": 0.25, "out": grad})
			require.Equal(t, want, values(grad))
		}
	}
	x, out, mask := tensor(t, dtype.Float32, []int64{3}, 1, math.Inf(1), 3), tensor(t, dtype.Float32, []int64{3}), tensor(t, dtype.Uint8, []int64{16})
	run(t, "Dropout", args{"input": x, "p": 0.5, "out": out, "maskOut": mask})
	require.Equal(t, values(x), values(out), "nothing is dropped outside of training")
	run(t, "DropoutV3", args{"input": x, "p": 1.0, "out": out, "maskOut": mask})
	require.Equal(t, []float64{0, 0, 0}, values(out))
	refused(t, invalidParam, "Dropout", args{"input": x, "p": 1.5, "out": out, "maskOut": mask}, "p is 1.5")
	refused(t, invalidParam, "Dropout", args{"input": x, "out": out, "maskOut": tensor(t, dtype.Uint8, []int64{1}, 0)}, "16 bytes")
	refused(t, invalidParam, "DropoutDoMask", args{"self": x, "mask": x, "out": out}, "dtype")
}
