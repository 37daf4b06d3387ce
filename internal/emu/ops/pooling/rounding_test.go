package pooling

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// cubeMathType makes a pooling of float32 one of float16 where CANN computes it with the cube unit, or over the whole image.
// On a 910B all others stay float32. Its source refuses ALLOW_FP32_DOWN_PRECISION and USE_HF32 where it looks at the mode.
func TestCubeMathType(t *testing.T) {
	const fine = 1 + 1.0/(1<<11) + 1.0/(1<<13)
	halved := 1 + 1.0/(1<<10)
	image := func(value float64, h, w int64) *op.Tensor {
		x := optest.Tensor(t, dtype.Float32, []int64{1, 1, h, w}, value)
		x.Format = dtype.NCHW
		return x
	}
	window := func(size, pad int64, mode int, include bool) optest.Args {
		return optest.Args{"kernelSize": []int64{size, size}, "strides": []int64{1, 1}, "paddings": []int64{pad, pad}, "countIncludePad": include, "cubeMathType": mode}
	}
	of := func(chip acceptance.Chip, h, w int64, value float64, a optest.Args) float64 {
		t.Helper()
		k := a["kernelSize"].([]int64)[0]
		p := a["paddings"].([]int64)[0]
		out := image(0, h+2*p-k+1, w+2*p-k+1)
		optest.RunOn(t, chip, "AvgPool2d", a.With(optest.Args{"self": image(value, h, w), "out": out}))
		v := optest.Values(out)
		return v[len(v)/2]
	}
	b, p := acceptance.Ascend910B, acceptance.Ascend310P
	assert.Equal(t, fine, of(b, 4, 4, fine, window(2, 0, 0, true)), "KEEP_DTYPE")
	assert.Equal(t, halved, of(b, 4, 4, fine, window(2, 0, 2, true)), "the cube unit")
	assert.True(t, math.IsInf(of(b, 4, 4, 1e5, window(2, 0, 2, true)), 1))
	assert.Equal(t, halved, of(b, 2, 2, fine, window(2, 0, 2, true)), "one window")
	assert.Equal(t, fine, of(b, 2, 9, fine, window(2, 0, 2, true)), "a long image")
	assert.InDelta(t, fine, of(b, 30, 30, fine, window(21, 0, 2, true)), 1e-6, "a large window")
	for _, mode := range []int{1, 3} {
		_, err := optest.Prepare(t, "AvgPool2d", window(2, 0, mode, true).With(optest.Args{"self": image(fine, 4, 4), "out": image(0, 3, 3)}))
		require.ErrorContains(t, err, "cubeMathType", "mode %d", mode)
		assert.Equal(t, fine, of(b, 2, 9, fine, window(2, 0, mode, true)), "mode %d of a long image", mode)
	}
	for _, mode := range []int{1, 2} {
		assert.Equal(t, halved, of(p, 2, 9, fine, window(2, 0, mode, true)), "the 310P multiplies float16")
	}

	grad := func(chip acceptance.Chip, h, w int64, size int64, value float64, mode int, include bool) float64 {
		t.Helper()
		g, dx := image(value, h-size+1, w-size+1), image(0, h, w)
		optest.RunOn(t, chip, "AvgPool2dBackward", optest.Args{
			"gradOutput": g, "self": image(1, h, w), "kernelSize": []int64{size, size}, "stride": []int64{1, 1}, "padding": []int64{0, 0}, "countIncludePad": include,
			"cubeMathType": mode, "gradInput": dx,
		})
		return optest.Values(dx)[0]
	}
	for mode, want := range map[int]float64{0: fine, 1: halved, 2: halved, 3: fine} {
		assert.Equal(t, want/4, grad(b, 4, 4, 2, fine, mode, true), "mode %d", mode)
		assert.Equal(t, want/4, grad(b, 2, 2, 2, fine, mode, false), "mode %d of one window", mode)
		assert.Equal(t, fine/4, grad(b, 4, 4, 2, fine, mode, false), "mode %d without the padding", mode)
		assert.Equal(t, fine/4, grad(b, 2, 9, 2, fine, mode, true), "mode %d of a long image", mode)
	}
	assert.Equal(t, halved/4, grad(p, 2, 9, 2, fine, 1, false), "the 310P")
}
