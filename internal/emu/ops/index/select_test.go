package index

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestSelections(t *testing.T) {
	optest.VerifyPointwise(t, selections)
	x, out := optest.Tensor(t, dtype.Float32, []int64{5}, -2, -1, 0, 1, math.NaN()), optest.Tensor(t, dtype.Float32, []int64{5})
	mask := optest.Tensor(t, dtype.Bool, []int64{5}, 1, 0, 0, 0, 1)
	optest.Run(t, "InplaceMaskedFillScalar", optest.Args{"selfRef": x, "mask": mask, "value": optest.Scalar(7)})
	assert.Equal(t, []float64{7, -1, 0, 1, 7}, optest.Values(x))
	optest.Run(t, "SWhere", optest.Args{"condition": mask, "self": x, "other": optest.Tensor(t, dtype.Float32, []int64{1}, 9), "out": out})
	assert.Equal(t, []float64{7, 9, 9, 9, 7}, optest.Values(out))
}

// MaskedSelect casts to the element type of the output.
func TestMaskedSelectCasts(t *testing.T) {
	self, mask := optest.Tensor(t, dtype.Float32, []int64{4}, 1.75, 2, -3.5, 4), optest.Tensor(t, dtype.Bool, []int64{4}, 1, 0, 1, 0)
	out := optest.Tensor(t, dtype.Int64, []int64{4})
	optest.Run(t, "MaskedSelect", optest.Args{"self": self, "mask": mask, "out": out})
	assert.Equal(t, []float64{1, -3}, optest.Values(out))
}
