package index

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// MaskedSelect casts to the element type of the output.
func TestMaskedSelectCasts(t *testing.T) {
	self, mask := optest.Tensor(t, dtype.Float32, []int64{4}, 1.75, 2, -3.5, 4), optest.Tensor(t, dtype.Bool, []int64{4}, 1, 0, 1, 0)
	out := optest.Tensor(t, dtype.Int64, []int64{4})
	optest.Run(t, "MaskedSelect", optest.Args{"self": self, "mask": mask, "out": out})
	assert.Equal(t, []float64{1, -3}, optest.Values(out))
}
