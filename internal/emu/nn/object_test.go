package nn

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

// A function that destroys objects of one type refuses handles of the other types, which stay valid. The
// objects of other libraries have resources that only their own functions release.
func TestDestroyOfAnotherType(t *testing.T) {
	l := New(rt.New())
	one := int64(1)
	destroys := map[string]func(rt.Handle) error{
		"aclTensor": l.aclDestroyTensor, "aclScalar": l.aclDestroyScalar, "aclIntArray": l.aclDestroyIntArray, "aclFloatArray": l.aclDestroyFloatArray,
		"aclBoolArray": l.aclDestroyBoolArray, "aclTensorList": l.aclDestroyTensorList, "aclScalarList": l.aclDestroyScalarList,
	}
	objects := map[string]rt.Handle{
		"aclTensor":     l.rt.Handles.New(rt.TensorKind, new(op.Tensor)),
		"aclScalar":     l.rt.Handles.New(rt.ScalarKind, &op.Scalar{DType: dtype.Int64}),
		"aclIntArray":   l.aclCreateIntArray(&one, 1),
		"aclFloatArray": l.aclCreateFloatArray(new(float32), 1),
		"aclBoolArray":  l.aclCreateBoolArray(new(byte), 1),
		"aclTensorList": l.aclCreateTensorList(nil, 0),
		"aclScalarList": l.aclCreateScalarList(nil, 0),
		"aclTensorDesc": l.rt.Handles.New(rt.TensorDescKind, new(runtime.Pinner)),
	}
	for kind, destroy := range destroys {
		require.NoError(t, destroy(0), kind)
		for other, h := range objects {
			if other == kind {
				continue
			}
			var refused *op.Error
			require.ErrorAs(t, destroy(h), &refused, "%s as %s", other, kind)
			assert.Equal(t, op.InvalidParam, refused.Code)
			assert.Contains(t, refused.Text, "live "+kind)
			require.NotNil(t, l.rt.Handles.Get(h), "%s as %s", other, kind)
		}
	}
	for kind, destroy := range destroys {
		require.NoError(t, destroy(objects[kind]), kind)
		require.Error(t, destroy(objects[kind]), "%s twice", kind)
	}

	member, scalar := l.rt.Handles.New(rt.TensorKind, new(op.Tensor)), objects["aclTensorDesc"]
	members := []rt.Handle{scalar, 0, member}
	require.Error(t, l.aclDestroyTensorList(l.aclCreateTensorList(&members[0], 3)), "a member is no tensor")
	assert.NotNil(t, l.rt.Handles.Get(scalar))
	assert.Nil(t, l.rt.Handles.Get(member), "the other members are destroyed")
}
