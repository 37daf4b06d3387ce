package matmul

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

// cubeMathType rounds float32 factors as aclnnMatmul's document says, chip by chip.
func TestCubeMathType(t *testing.T) {
	const fine = 1 + 1.0/(1<<11) + 1.0/(1<<13) // HF32 makes 1 + 2^-11 of it, float16 1 + 2^-10
	const hf32, half = 1 + 1.0/(1<<11), 1 + 1.0/(1<<10)
	for _, c := range []struct {
		chip acceptance.Chip
		mode int
		want float64 // of fine
		huge float64 // of 1e5
	}{
		{acceptance.Ascend910B, 0, fine, 1e5}, {acceptance.Ascend910B, 1, hf32, 1e5}, {acceptance.Ascend910B, 2, half, math.Inf(1)}, {acceptance.Ascend910B, 3, hf32, 1e5}, {acceptance.Ascend910B, 4, fine, 1e5},
		{acceptance.Ascend950, 1, hf32, 1e5}, {acceptance.Ascend310P, 1, half, math.Inf(1)}, {acceptance.Ascend310P, 2, half, math.Inf(1)}, {acceptance.Ascend910, 1, half, math.Inf(1)},
	} {
		for _, plain := range []bool{false, true} {
			for value, want := range map[float64]float64{fine: c.want, 1e5: c.huge} {
				if plain {
					want = float64(float32(value))
				}
				out := optest.Tensor(t, dtype.Float32, []int64{1, 1})
				e, err := optest.PrepareIn(t, op.Env{Chip: c.chip, PlainCube: plain}, "Mm", optest.Args{
					"self": optest.Tensor(t, dtype.Float32, []int64{1, 1}, value), "mat2": optest.Tensor(t, dtype.Float32, []int64{1, 1}, 1), "out": out, "cubeMathType": c.mode,
				})
				require.NoError(t, err)
				require.NoError(t, optest.Together([]*op.Executor{e}, []uint64{optest.WorkspaceOf(t, e)}))
				assert.Equal(t, []float64{want}, optest.Values(out), "%v mode %d plain %v of %v", c.chip, c.mode, plain, value)
			}
		}
	}
	// Results of USE_FP16 are float16; two bfloat16 factors have no effect on the mode.
	out := optest.Tensor(t, dtype.Float32, []int64{1, 1})
	optest.Run(t, "Mm", optest.Args{"self": optest.Tensor(t, dtype.Float32, []int64{1, 1}, 2049), "mat2": optest.Tensor(t, dtype.Float32, []int64{1, 1}, 3), "out": out, "cubeMathType": 2})
	assert.Equal(t, []float64{6144}, optest.Values(out), "2048 times 3")
	optest.Run(t, "Mm", optest.Args{"self": optest.Tensor(t, dtype.BFloat16, []int64{1, 1}, 1e5), "mat2": optest.Tensor(t, dtype.BFloat16, []int64{1, 1}, 1), "out": out, "cubeMathType": 2})
	assert.Equal(t, []float64{99840}, optest.Values(out))
	// The cubes of the 910 and the 310P do not multiply float32.
	for _, chip := range []acceptance.Chip{acceptance.Ascend910, acceptance.Ascend310P} {
		for _, mode := range []int{0, 3} {
			_, err := optest.PrepareIn(t, op.Env{Chip: chip}, "Mm", optest.Args{
				"self": optest.Tensor(t, dtype.Float32, []int64{1, 1}, 1), "mat2": optest.Tensor(t, dtype.Float32, []int64{1, 1}, 1), "out": out, "cubeMathType": mode,
			})
			assert.ErrorContains(t, err, "this chip multiplies float16", "%v %d", chip, mode)
		}
	}
}
