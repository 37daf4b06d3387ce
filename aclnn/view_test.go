package aclnn_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
)

// wrapping makes contiguous tensors on one buffer, large enough for all of them.
func wrapping(t *testing.T) func(dt aclnn.DType, shape ...int64) *aclnn.Tensor {
	buf, err := acltest.Device(t, acltest.Open(t), 0).Malloc(64 << 10)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, buf.Close()) })
	return func(dt aclnn.DType, shape ...int64) *aclnn.Tensor {
		x, err := aclnn.Wrap(buf, dt, shape...)
		require.NoError(t, err)
		return x
	}
}

func TestViews(t *testing.T) {
	x := wrapping(t)(aclnn.Float32, 2, 3, 4)
	for name, c := range map[string]struct {
		view           *aclnn.Tensor
		shape, strides []int64
		offset         int64
	}{
		"reshape":    {x.Reshape(6, -1), []int64{6, 4}, []int64{4, 1}, 0},
		"transpose":  {x.Transpose(0, -1), []int64{4, 3, 2}, []int64{1, 4, 12}, 0},
		"permute":    {x.Permute(2, 0, 1), []int64{4, 2, 3}, []int64{1, 12, 4}, 0},
		"slice":      {x.Slice(2, 1, -1, 1), []int64{2, 3, 2}, []int64{12, 4, 1}, 1},
		"step":       {x.Slice(2, 0, 4, 3), []int64{2, 3, 2}, []int64{12, 4, 3}, 0},
		"vast step":  {x.Slice(2, 1, 4, math.MaxInt64), []int64{2, 3, 1}, []int64{12, 4, 1}, 1},
		"narrow":     {x.Narrow(1, 1, 2), []int64{2, 2, 4}, []int64{12, 4, 1}, 4},
		"select":     {x.Select(0, 1), []int64{3, 4}, []int64{4, 1}, 12},
		"unsqueeze":  {x.Unsqueeze(1), []int64{2, 1, 3, 4}, []int64{12, 12, 4, 1}, 0},
		"squeeze":    {x.Unsqueeze(0).Squeeze(0), []int64{2, 3, 4}, []int64{12, 4, 1}, 0},
		"expand":     {x.Select(0, 0).Unsqueeze(0).Expand(5, 3, 4), []int64{5, 3, 4}, []int64{0, 4, 1}, 0},
		"unflatten":  {x.Narrow(1, 1, 2).Transpose(0, 2).Unflatten(-3, 2, 2), []int64{2, 2, 2, 2}, []int64{2, 1, 4, 12}, 4},
		"empty part": {x.Narrow(0, 2, 0), []int64{0, 3, 4}, []int64{12, 4, 1}, 24},
	} {
		require.NoError(t, c.view.Err(), name)
		require.Equal(t, c.shape, c.view.Shape(), name)
		require.Equal(t, c.strides, c.view.Strides(), name)
		require.Equal(t, c.offset, c.view.Offset(), name)
	}
	require.False(t, x.Transpose(0, 1).Contiguous())
	require.Equal(t, []int64{2, 3, 4}, x.Shape(), "a view leaves its tensor alone")
}

// TestImpossibleViews: the first reason stays with the chain, and nothing panics.
func TestImpossibleViews(t *testing.T) {
	wrap := wrapping(t)
	x, none := wrap(aclnn.Float32, 2, 3), wrap(aclnn.Float32, 0)
	var missing *aclnn.Tensor
	for name, v := range map[string]*aclnn.Tensor{
		"too many elements": x.Reshape(7), "two unknowns": x.Reshape(-1, -1), "of a transpose": x.Transpose(0, 1).Reshape(6),
		"no such axis": x.Transpose(0, 2), "axis twice": x.Permute(0, 0), "too few axes": x.Permute(0), "beyond": x.Narrow(0, 1, 2),
		"backwards": x.Slice(0, 1, 0, 1), "step 0": x.Slice(0, 0, 2, 0), "index": x.Select(1, 3), "not one": x.Squeeze(0),
		"not broadcast": x.Expand(4, 3), "fewer": x.Expand(3), "nz of a vector": wrap(aclnn.Float32, 4).AsNZ(),
		"other sizes": x.Unflatten(1, 2, 2), "negative sizes": x.Unflatten(1, -3, -1), "no sizes": x.Unflatten(1),
		"many axes": x.Unflatten(1, 3, 1, 1, 1, 1, 1, 1, 1), "no axis": x.Unflatten(2, 1),
		"overflow to the count": x.Reshape(1<<62+1, 6), "expand to -1": x.Expand(-1), "expand to less than none": x.Expand(-5, 4),
		"from far behind": x.Slice(0, math.MinInt64, 2, 1), "to far beyond": x.Narrow(0, math.MaxInt64, 5),
		"chained":          x.Transpose(0, 9).Reshape(6).Narrow(0, 0, 1),
		"overflow of none": none.Reshape(1<<32, 1<<32), "overflow, inferred": none.Reshape(1<<32, 1<<32, -1),
		"overflow in an axis": none.Unflatten(0, 1<<32, 1<<32), "vast": x.Select(0, 0).Select(0, 0).Expand(1<<40, 1<<40),
		"of nil": missing.Transpose(0, 1), "expanded nil": missing.Expand(1), "nil as ND": missing.AsND(), "nil as NZ": missing.AsNZ(),
		"nil reshaped": missing.Reshape(1), "nil cut": missing.Narrow(0, 0, 1), "nil unsqueezed": missing.Unsqueeze(0),
		"nil permuted": missing.Permute(), "nil squeezed": missing.Squeeze(0), "nil split": missing.Unflatten(0, 1),
	} {
		require.ErrorIs(t, v.Err(), acl.ErrInvalidArgument, name)
	}
	_, err := aclnn.Wrap(x.Buffer(), aclnn.Float32, -1)
	require.ErrorContains(t, err, "negative")
	_, err = aclnn.Wrap(x.Buffer(), aclnn.Undefined)
	require.ErrorContains(t, err, "dtype")
	_, err = aclnn.Wrap(x.Buffer(), aclnn.Int8, 64<<10+1)
	require.ErrorContains(t, err, "the buffer has 65536")
	_, err = aclnn.Wrap(x.Buffer(), aclnn.Int8, 1<<40, 1<<40)
	require.ErrorContains(t, err, "2^48")
	require.ErrorIs(t, err, acl.ErrInvalidArgument)
	_, err = aclnn.Wrap(nil, aclnn.Int8, 1)
	require.ErrorIs(t, err, acl.ErrInvalidArgument)
}

func TestNZ(t *testing.T) {
	wrap := wrapping(t)
	x := wrap(aclnn.Float16, 3, 20, 30).AsNZ()
	require.NoError(t, x.Err())
	require.Equal(t, []int64{3, 20, 30}, x.Shape())
	require.Equal(t, []int64{3, 2, 2, 16, 16}, x.StorageShape())
	require.Equal(t, aclnn.FractalNZ, x.Format())
	require.Equal(t, 3*2*2*16*16*2, aclnn.NZBytes(aclnn.Float16, 3, 20, 30))
	require.Equal(t, int64(32), aclnn.NZBlock(aclnn.Int8))
	require.Equal(t, "float16[3,20,30]FRACTAL_NZ", x.String())
	require.ErrorContains(t, wrap(aclnn.Int8, 1, 64<<10).AsNZ().Err(), "the buffer has 65536")
}

// TestViewsOfNZ: views that tiles can express move address and storage with them, others are
// refused.
func TestViewsOfNZ(t *testing.T) {
	x := wrapping(t)(aclnn.Float16, 3, 20, 30).AsNZ()
	const matrix = 2 * 2 * 16 * 16
	for name, c := range map[string]struct {
		view           *aclnn.Tensor
		shape, storage []int64
		address        uint64
	}{
		"transpose":   {x.Transpose(-1, 1), []int64{3, 30, 20}, []int64{3, 2, 2, 16, 16}, 0},
		"same axis":   {x.Transpose(0, 0), []int64{3, 20, 30}, []int64{3, 2, 2, 16, 16}, 0},
		"select":      {x.Select(0, 2), []int64{20, 30}, []int64{2, 2, 16, 16}, 2 * 2 * matrix},
		"narrow":      {x.Narrow(0, 1, 2), []int64{2, 20, 30}, []int64{2, 2, 2, 16, 16}, 2 * matrix},
		"of a swap":   {x.Transpose(1, 2).Select(0, 1), []int64{30, 20}, []int64{2, 2, 16, 16}, 2 * matrix},
		"unsqueeze":   {x.Unsqueeze(0), []int64{1, 3, 20, 30}, []int64{1, 3, 2, 2, 16, 16}, 0},
		"squeeze":     {x.Unsqueeze(1).Squeeze(1), []int64{3, 20, 30}, []int64{3, 2, 2, 16, 16}, 0},
		"behind ones": {x.Unsqueeze(0).Narrow(1, 2, 1), []int64{1, 1, 20, 30}, []int64{1, 1, 2, 2, 16, 16}, 2 * 2 * matrix},
	} {
		require.NoError(t, c.view.Err(), name)
		require.Equal(t, c.shape, c.view.Shape(), name)
		require.Equal(t, c.storage, c.view.StorageShape(), name)
		require.Equal(t, c.address, c.view.Address()-x.Address(), name)
	}
	nd := x.Select(0, 1).AsND()
	require.NoError(t, nd.Err())
	require.Equal(t, "float16[20,30]ND", nd.String())
	require.Equal(t, []int64{600}, nd.StorageShape())
	require.Equal(t, nd.String(), nd.AsND().String())
	for name, v := range map[string]*aclnn.Tensor{
		"AsND of a swap": x.Transpose(1, 2).AsND(),
		"reshape":        x.Reshape(60, 30), "batch": x.Transpose(0, 1), "permute": x.Permute(0, 2, 1), "rows": x.Narrow(1, 0, 16),
		"column": x.Select(2, 0), "step": x.Slice(0, 0, 3, 2), "row axis": x.Unsqueeze(2), "expand": x.Expand(2, 3, 20, 30),
		"a part of each": x.Unsqueeze(1).Narrow(1, 0, 0).Unsqueeze(0).Reshape(1), "inner batch": x.Unsqueeze(1).Slice(1, 0, 1, 1),
	} {
		require.Error(t, v.Err(), name)
	}
}
