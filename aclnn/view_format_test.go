package aclnn_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/cshim"
)

// TestAs checks the descriptions that are possible, and that views which change the meaning of the
// dimensions lose them.
func TestAs(t *testing.T) {
	st := openStream(t)
	image, err := aclnn.New(st, aclnn.Float32, 2, 3, 4, 5)
	require.NoError(t, err)
	defer func() { require.NoError(t, image.Close()) }()
	row, volume := image.Reshape(2, 3, 20), image.Unsqueeze(2)
	for _, c := range []struct {
		t      *aclnn.Tensor
		format aclnn.Format
		ok     bool
	}{
		{image, aclnn.NCHW, true}, {image, aclnn.NHWC, true}, {image, aclnn.ND, true}, {image, aclnn.NCL, false}, {image, aclnn.NCDHW, true},
		{row, aclnn.NCL, true}, {row, aclnn.NCHW, true}, {row, aclnn.NCDHW, false}, {volume, aclnn.NCDHW, true}, {volume, aclnn.NDHWC, true},
		{volume, aclnn.NCHW, false}, {image, aclnn.FractalNZ, false}, {image, aclnn.FractalZ, false},
	} {
		v := c.t.As(c.format)
		if !c.ok {
			require.ErrorIs(t, v.Err(), acl.ErrInvalidArgument, "%v as %v", c.t, c.format)
			continue
		}
		require.NoError(t, v.Err())
		require.Equal(t, c.format, v.Format())
		require.Equal(t, c.t.Shape(), v.Shape())
		require.Equal(t, aclnn.ND, c.t.Format(), "the tensor itself stays as it is")
	}
	named := image.As(aclnn.NCHW)
	require.Equal(t, "float32[2,3,4,5]NCHW", named.String())
	for what, v := range map[string]*aclnn.Tensor{
		"reshape": named.Reshape(6, 20), "unflatten": named.Unflatten(0, 1, 2), "select": named.Select(0, 1), "unsqueeze": named.Unsqueeze(0),
		"permute": named.Permute(0, 2, 3, 1), "transpose": named.Transpose(1, 2), "expand": named.Expand(2, 2, 3, 4, 5),
	} {
		require.NoError(t, v.Err(), what)
		require.Equal(t, aclnn.ND, v.Format(), what)
	}
	require.Equal(t, aclnn.NCHW, named.Narrow(0, 0, 1).Format())
	matrix, err := aclnn.New(st, aclnn.Float16, 16, 16)
	require.NoError(t, err)
	defer func() { require.NoError(t, matrix.Close()) }()
	require.ErrorContains(t, matrix.AsNZ().As(aclnn.ND).Err(), "tiled")
	require.ErrorIs(t, (*aclnn.Tensor)(nil).As(aclnn.ND).Err(), acl.ErrInvalidArgument)
}

// avgPool calls aclnnAvgPool2d with tensors as they are described.
func avgPool(st *acl.Stream, self, out *aclnn.Tensor) error {
	c := aclnn.NewCall(st, &aclnn.Operator{Symbol: "aclnnAvgPool2d", Params: "self kernelSize strides paddings ceilMode countIncludePad divisorOverride cubeMathType out"})
	c.Tensor(self)
	for _, list := range [][]int64{{2, 2}, {2, 2}, {0, 0}} {
		c.Ints(list)
	}
	c.Bool(false)
	c.Bool(true)
	c.Int64(0)
	c.Int64(0)
	c.Tensor(out)
	return c.Launch()
}

// TestFormatsByRank checks that CANN's operators on images refuse ND, and that the functions of this
// package describe ND tensors as they demand.
func TestFormatsByRank(t *testing.T) {
	st := openStream(t)
	values := make([]float32, 32)
	for i := range values {
		values[i] = float32(i)
	}
	x, err := aclnn.FromSlice(t.Context(), st, aclnn.Float32, values, 1, 2, 4, 4)
	require.NoError(t, err)
	defer func() { require.NoError(t, x.Close()) }()
	out, err := aclnn.New(st, aclnn.Float32, 1, 2, 2, 2)
	require.NoError(t, err)
	defer func() { require.NoError(t, out.Close()) }()
	pool := func(self, out *aclnn.Tensor) error {
		return aclnn.AvgPool2d(st, aclnn.AvgPool2dParams{
			Self: self, KernelSize: []int64{2, 2}, Strides: []int64{2, 2}, Paddings: []int64{0, 0}, CountIncludePad: true, Out: out,
		})
	}
	want := []float32{2.5, 4.5, 10.5, 12.5, 18.5, 20.5, 26.5, 28.5}
	check := func(err error) {
		t.Helper()
		require.NoError(t, err)
		got := make([]float32, 8)
		require.NoError(t, aclnn.CopyFromDevice(t.Context(), st, got, out))
		require.Equal(t, want, got)
		require.NoError(t, aclnn.InplaceZero(st, aclnn.InplaceZeroParams{Self: out}))
	}
	check(pool(x, out))
	check(pool(x.Squeeze(0), out.Squeeze(0)))
	check(pool(x.As(aclnn.NCHW), out))
	check(avgPool(st, x.As(aclnn.NCHW), out.As(aclnn.NCHW)))
	check(avgPool(st, x.Squeeze(0).As(aclnn.NCL), out.Squeeze(0).As(aclnn.NCL)))

	for what, err := range map[string]error{
		"ND":             avgPool(st, x, out),
		"ND and NCHW":    avgPool(st, x.As(aclnn.NCHW), out),
		"NCHW, rank 3":   avgPool(st, x.Squeeze(0).As(aclnn.NCHW), out.Squeeze(0).As(aclnn.NCHW)),
		"channels last":  pool(x.As(aclnn.NHWC), out.As(aclnn.NHWC)),
		"another format": pool(x.As(aclnn.NCDHW), out),
	} {
		var e *acl.Error
		require.ErrorAs(t, err, &e, what)
		require.Equal(t, acl.Code(161002), e.Code, what)
	}
	if cshim.Emulated {
		require.ErrorContains(t, avgPool(st, x, out), "format that is not supported; with 4 dimensions use one of [NCHW]")
	}
	nearest := func(self, out *aclnn.Tensor) error {
		return aclnn.UpsampleNearest2d(st, aclnn.UpsampleNearest2dParams{Self: self, OutputSize: []int64{4, 4}, Out: out})
	}
	back := x.As(aclnn.NCHW)
	require.NoError(t, nearest(out, back))
	require.NoError(t, nearest(out.As(aclnn.NCHW), x))
	require.Error(t, nearest(out.As(aclnn.NHWC), back))
}
