package convolution

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

const transWeight = "TransConvolutionWeight"

// Only the Ascend310P supports the operator. Other chips refuse it with the first reason that
// applies.
func TestTransConvolutionWeightRefuses(t *testing.T) {
	a := optest.Args{"weightIn": image(t, dtype.Float16, []int64{2, 4, 3, 3}, 1), "weightOut": image(t, dtype.Float16, []int64{2, 4, 3, 3}), "groups": 1}
	optest.Refused(t, op.NullPointer, transWeight, a.With(optest.Args{"weightIn": nil}), "weightIn is null")
	optest.Refused(t, op.NullPointer, transWeight, a.With(optest.Args{"weightOut": nil}), "weightOut is null")
	_, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend910B}, transWeight, a)
	require.ErrorContains(t, err, "Ascend310P")
	env := op.Env{Chip: acceptance.Ascend310P}
	for name, set := range map[string]optest.Args{
		"rank":       {"weightIn": image(t, dtype.Float16, []int64{2, 4, 9}, 1)},
		"transposed": {"transposed": true},
		"groups":     {"groups": 0},
		"divisor":    {"groups": 3},
		"dtype":      {"weightIn": image(t, dtype.Int8, []int64{2, 4, 3, 3}, 1)},
		"out":        {"weightOut": image(t, dtype.Float32, []int64{2, 4, 3, 3})},
		"format":     {"weightIn": optest.Tensor(t, dtype.Float16, []int64{2, 4, 3, 3}, 1)},
		"shape":      {"weightOut": image(t, dtype.Float16, []int64{2, 4, 3, 4})},
		"empty":      {"weightIn": image(t, dtype.Float16, []int64{0, 4, 3, 3})},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := optest.PrepareIn(t, env, transWeight, a.With(set))
			var refusal *op.Error
			require.ErrorAs(t, err, &refusal)
			assert.Equal(t, op.InvalidParam, refusal.Code, refusal.Text)
		})
	}
}

// image returns a tensor in format NCHW.
func image(t *testing.T, d dtype.Type, shape []int64, values ...float64) *op.Tensor {
	x := optest.Tensor(t, d, shape, values...)
	x.Format = dtype.NCHW
	return x
}

// A weight in FRACTAL_Z, padded, and with several groups in a tile, convolves as the weight itself does.
func TestConvolutionWithTransformedWeight(t *testing.T) {
	for _, c := range []struct {
		weight, storage []int64
		groups          int64
		at              map[int]int // elements of the storage and of the weight
	}{
		{[]int64{3, 5, 2, 2}, []int64{4, 1, 16, 16}, 1, map[int]int{0: 0, 4: 16, 16: 20, 256: 1, 5: -1}},
		{[]int64{18, 17, 1, 1}, []int64{2, 2, 16, 16}, 1, map[int]int{15: 15, 16: 17, 512: 16, 256: 16 * 17}},
		{[]int64{6, 3, 1, 2}, []int64{2, 1, 16, 16}, 3, map[int]int{0: 0, 256: 1, 35: 12, 71: 26, 3: -1}},
		{[]int64{40, 1, 1, 1}, []int64{3, 1, 16, 16}, 40, map[int]int{0: 0, 17: 1, 256: 16, 255: 15, 1: -1}},
	} {
		n := int(op.Count(c.weight))
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(i%37 + 1)
		}
		room := optest.Tensor(t, dtype.Float16, []int64{op.Count(c.storage)}, 9)
		transformed := *room
		transformed.Shape, transformed.Strides, transformed.Format = c.weight, op.ContiguousStrides(c.weight), dtype.NCHW
		plain := image(t, dtype.Float32, c.weight, values...)
		optest.RunOn(t, acceptance.Ascend310P, transWeight, optest.Args{"weightIn": plain, "weightOut": &transformed, "groups": c.groups})
		assert.Equal(t, dtype.FractalZ, transformed.Format)
		require.Equal(t, c.storage, transformed.Storage)
		stored := optest.Values(room)
		for to, from := range c.at {
			want := 0.0
			if from >= 0 {
				want = values[from]
			}
			assert.Equal(t, want, stored[to], "element %d of %v", to, c.weight)
		}

		x := image(t, dtype.Float16, []int64{1, c.weight[1] * c.groups, 3, 4}, numbers(int(c.weight[1]*c.groups)*12)...)
		shape := []int64{1, c.weight[0], 4 - c.weight[2], 5 - c.weight[3]}
		a := optest.Args{"input": x, "stride": []int64{1, 1}, "padding": []int64{0, 0}, "dilation": []int64{1, 1}, "outputPadding": []int64{0, 0}, "groups": c.groups}
		want, got := image(t, dtype.Float16, shape), image(t, dtype.Float16, shape)
		optest.RunOn(t, acceptance.Ascend310P, "Convolution", a.With(optest.Args{"weight": image(t, dtype.Float16, c.weight, values...), "output": want}))
		optest.RunOn(t, acceptance.Ascend310P, "Convolution", a.With(optest.Args{"weight": &transformed, "output": got}))
		assert.Equal(t, optest.Values(want), optest.Values(got))
		assert.NotZero(t, kerneltest.Values(got.View())[0])

		transformed.Storage = slices.Insert(slices.Clone(c.storage), 0, 1)
		_, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend310P}, "Convolution", a.With(optest.Args{"weight": &transformed, "output": got}))
		require.ErrorContains(t, err, "storage shape")
	}
}

func numbers(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(i%5 + 1)
	}
	return out
}
