package nn

import (
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
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

// CANN makes scalars of these types only; of others it returns null (opbase's aclScalar).
func TestScalarTypes(t *testing.T) {
	l := New(rt.New())
	null := []dtype.Type{-1, 5, 13, 14, 15, 18, 19, 20, 21, 22, 23, 24, 25, 26, 28, 29, 30, 31, 32, 33, 42, 43, 44}
	value := uintptr(rttest.Address(new([16]byte)))
	for d := dtype.Type(-1); d < 50; d++ {
		want := d <= 41 && !slices.Contains(null, d)
		h := l.aclCreateScalar(value, d)
		assert.Equal(t, want, h != 0, "%d: %v", d, d)
		require.NoError(t, l.aclDestroyScalar(h))
	}
	assert.Zero(t, l.aclCreateScalar(0, dtype.Float32))
}

// What CANN keeps of a description: 25 dimensions, and types and formats that it knows.
func TestDescribedTensor(t *testing.T) {
	l := New(rt.New())
	sizes := make([]int64, 30)
	for i := range sizes {
		sizes[i] = int64(i + 1)
	}
	h := l.aclCreateTensor(&sizes[0], 30, 99, nil, 0, 77, &sizes[0], 30, 0)
	x, ok := rt.Lookup[*op.Tensor](&l.rt.Handles, h)
	require.True(t, ok)
	assert.Equal(t, sizes[:25], x.Shape)
	assert.Len(t, x.Strides, 25)
	assert.Equal(t, sizes[:25], x.Storage)
	assert.Equal(t, dtype.Undefined, x.DType)
	assert.Equal(t, dtype.FormatUndefined, x.Format)
	assert.Zero(t, l.aclCreateTensor(nil, 1, 0, nil, 0, 2, &sizes[0], 1, 0))
	assert.Zero(t, l.aclCreateTensor(&sizes[0], 1, 0, nil, 0, 2, nil, 1, 0))

	require.NoError(t, l.aclInitTensor(h, nil, 2, dtype.Int8, nil, 3, dtype.ND, nil, 2, 64))
	assert.Equal(t, sizes[:25], x.Shape)
	assert.Equal(t, op.ContiguousStrides(sizes[:25]), x.Strides)
	assert.Equal(t, sizes[:25], x.Storage)
	assert.Equal(t, dtype.Int8, x.DType)
	require.NoError(t, l.aclInitTensor(h, &sizes[1], 2, dtype.Int8, nil, 3, dtype.ND, &sizes[2], 1, 0))
	assert.Equal(t, []int64{2, 3}, x.Shape)
	assert.Equal(t, []int64{3, 1}, x.Strides)
	assert.Equal(t, []int64{3}, x.Storage)
	assert.EqualValues(t, 64, x.Addr, "a null address keeps the old one")
}

// A list may have null members; the operator that gets it refuses them.
func TestScalarListOfNulls(t *testing.T) {
	l := New(rt.New())
	var size uint64
	h := l.aclCreateScalarList(&[]rt.Handle{0, 0}[0], 2)
	require.NotZero(t, h)
	require.NoError(t, l.aclGetScalarListSize(h, rt.Out[uint64](rttest.Address(&size))))
	assert.EqualValues(t, 2, size)
	_, err := l.argument(op.ScalarListClass, h)
	assert.ErrorContains(t, err, "member 0 is null")
}
