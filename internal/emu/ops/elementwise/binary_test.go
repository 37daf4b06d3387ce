package elementwise

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// Arguments choose the rounding of divisions and of Round.
func TestRoundedDivision(t *testing.T) {
	x, y := optest.Tensor(t, dtype.Float32, []int64{3}, -7, 7, 5), optest.Tensor(t, dtype.Float32, []int64{3}, 2, -2, 2)
	out := optest.Tensor(t, dtype.Float32, []int64{3})
	for mode, want := range [][]float64{{-3.5, -3.5, 2.5}, {-3, -3, 2}, {-4, -4, 2}} {
		optest.Run(t, "DivMod", optest.Args{"self": x, "other": y, "mode": mode, "out": out})
		assert.Equal(t, want, optest.Values(out))
	}
	optest.Run(t, "RoundDecimals", optest.Args{"self": optest.Tensor(t, dtype.Float32, []int64{3}, 1.26, -2.14, 15), "decimals": 1, "out": out})
	assert.InDeltaSlice(t, []float64{1.3, -2.1, 15}, optest.Values(out), 1e-6)
	optest.Run(t, "RoundDecimals", optest.Args{"self": optest.Tensor(t, dtype.Float32, []int64{3}, 126, -214, 15), "decimals": -1, "out": out})
	assert.InDeltaSlice(t, []float64{130, -210, 20}, optest.Values(out), 1e-6)
}
