package layout

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// The number of parts is compared with that of the outputs before the parts are listed: 2^40 of them
// would not fit into memory.
func TestSplitCountsBeforeItLists(t *testing.T) {
	x := optest.Tensor(t, dtype.Float32, []int64{1}, 3)
	x.Shape, x.Strides = []int64{1 << 40}, []int64{0}
	out := []*op.Tensor{optest.Tensor(t, dtype.Float32, []int64{1}), optest.Tensor(t, dtype.Float32, []int64{1})}
	optest.Refused(t, op.InvalidParam, "SplitTensor", optest.Args{"self": x, "splitSections": 1, "dim": 0, "out": out}, "2 tensors for 1099511627776 parts")
	one := optest.Tensor(t, dtype.Float32, []int64{3}, 1, 2, 3)
	whole := optest.Tensor(t, dtype.Float32, []int64{3})
	optest.Run(t, "SplitTensor", optest.Args{"self": one, "splitSections": int64(math.MaxInt64), "dim": 0, "out": []*op.Tensor{whole}})
	assert.Equal(t, []float64{1, 2, 3}, optest.Values(whole))
}

// A step may be so large that adding it to a length overflows.
func TestSliceWithTheLargestStep(t *testing.T) {
	x, out := optest.Tensor(t, dtype.Float32, []int64{3}, 1, 2, 3), optest.Tensor(t, dtype.Float32, []int64{1})
	optest.Run(t, "Slice", optest.Args{"self": x, "dim": 0, "start": 1, "end": 3, "step": int64(math.MaxInt64), "out": out})
	assert.Equal(t, []float64{2}, optest.Values(out))
}
