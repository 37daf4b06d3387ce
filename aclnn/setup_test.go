package aclnn_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(acltest.Suite{M: m}) }

func openStream(t testing.TB) *acl.Stream {
	t.Helper()
	return acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0))
}

// made checks the error of a function that makes a tensor, and closes the tensor with the test.
func made(t testing.TB) func(x *aclnn.Tensor, err error) *aclnn.Tensor {
	return func(x *aclnn.Tensor, err error) *aclnn.Tensor {
		t.Helper()
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, x.Close()) })
		return x
	}
}

// layout is a way to look at the memory of a tensor [4, 3, 6].
type layout struct {
	name string
	view func(x *aclnn.Tensor) *aclnn.Tensor
}

var layouts = []layout{
	{"whole", func(x *aclnn.Tensor) *aclnn.Tensor { return x }},
	{"reshaped", func(x *aclnn.Tensor) *aclnn.Tensor { return x.Reshape(8, 9) }},
	{"transposed", func(x *aclnn.Tensor) *aclnn.Tensor { return x.Transpose(0, 2) }},
	{"permuted", func(x *aclnn.Tensor) *aclnn.Tensor { return x.Permute(1, 2, 0) }},
	{"sliced", func(x *aclnn.Tensor) *aclnn.Tensor { return x.Slice(2, 1, 6, 2) }},
	{"rows", func(x *aclnn.Tensor) *aclnn.Tensor { return x.Narrow(0, 1, 2) }},
	{"columns", func(x *aclnn.Tensor) *aclnn.Tensor { return x.Narrow(-1, 2, 3) }},
	{"selected", func(x *aclnn.Tensor) *aclnn.Tensor { return x.Select(1, 2) }},
	{"expanded", func(x *aclnn.Tensor) *aclnn.Tensor { return x.Select(0, 1).Unsqueeze(1).Expand(2, 3, 5, 6) }},
	{"one element", func(x *aclnn.Tensor) *aclnn.Tensor { return x.Narrow(0, 3, 1).Narrow(1, 1, 1).Narrow(2, 5, 1) }},
	{"scalar", func(x *aclnn.Tensor) *aclnn.Tensor { return x.Select(0, 3).Select(0, 1).Select(0, 5) }},
	{"empty", func(x *aclnn.Tensor) *aclnn.Tensor { return x.Narrow(1, 3, 0) }},
}

// places are the indices, in the memory that a view of ND storage looks at, of its elements.
func places(x *aclnn.Tensor) []int64 {
	at := []int64{x.Offset()}
	shape, strides := x.Shape(), x.Strides()
	for i, d := range shape {
		var next []int64
		for _, p := range at {
			for k := range d {
				next = append(next, p+k*strides[i])
			}
		}
		at = next
	}
	return at
}
