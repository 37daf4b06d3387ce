package nn

import (
	"github.com/goascend/cann/internal/emu/op"
)

// These types are the list and array objects of aclnn. A tensor list owns its members: destroying
// the list destroys them.
type (
	tensorList struct{ members []uint64 }
	scalarList struct {
		members []uint64
		values  []*op.Scalar
	}
	intArray   struct{ values []int64 }
	floatArray struct{ values []float32 }
	boolArray  struct{ values []bool }
)
