package nn

// The list and array objects of aclnn. A tensor list owns its members: destroying it
// destroys them.
type (
	tensorList struct{ members []uint64 }
	scalarList struct {
		members []uint64
		values  []*Scalar
	}
	intArray   struct{ values []int64 }
	floatArray struct{ values []float32 }
	boolArray  struct{ values []bool }
)
