package aclnn_test

import (
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

func TestSprint(t *testing.T) {
	ctx, st := t.Context(), openStream(t)
	count := func(shape ...int64) *aclnn.Tensor {
		n := int64(1)
		for _, d := range shape {
			n *= d
		}
		values := make([]int32, n)
		for i := range values {
			values[i] = int32(i)
		}
		return made(t)(aclnn.FromSlice(ctx, st, aclnn.Int32, values, shape...))
	}
	floats := func(dt aclnn.DType, values ...float64) *aclnn.Tensor {
		return made(t)(aclnn.FromSlice(ctx, st, dt, values, int64(len(values))))
	}
	inf, nan := math.Inf(1), math.NaN()
	nz, _ := inNZ(t, st, aclnn.Float16, 1, 2, 3)
	for name, c := range map[string]struct {
		x    *aclnn.Tensor
		want string
	}{
		"scalar":      {made(t)(aclnn.FromSlice(ctx, st, aclnn.Float32, []float32{2.5})), "float32[]ND\n2.5000"},
		"empty":       {count(2, 0), "int32[2,0]ND\n[]"},
		"vector":      {floats(aclnn.Float32, 1, -2.5, 30), "float32[3]ND\n[ 1.0000, -2.5000, 30.0000]"},
		"whole":       {floats(aclnn.BFloat16, 1, -2, 300), "bfloat16[3]ND\n[  1.,  -2., 300.]"},
		"small":       {floats(aclnn.Float64, 1e-5, 1), "float64[2]ND\n[1.0000e-05, 1.0000e+00]"},
		"large":       {floats(aclnn.Float32, 1e9, 1), "float32[2]ND\n[1.0000e+09, 1.0000e+00]"},
		"a wide span": {floats(aclnn.Float32, 2000.5, 1), "float32[2]ND\n[2.0005e+03, 1.0000e+00]"},
		"not finite":  {floats(aclnn.Float16, inf, -inf, nan, 1.5), "float16[4]ND\n[   inf,   -inf,    nan, 1.5000]"},
		"zeros":       {floats(aclnn.Float32, 0, 0), "float32[2]ND\n[0., 0.]"},
		"bool":        {made(t)(aclnn.FromSlice(ctx, st, aclnn.Bool, []bool{true, false}, 2)), "bool[2]ND\n[ true, false]"},
		"uint64":      {made(t)(aclnn.FromSlice(ctx, st, aclnn.Uint64, []uint64{math.MaxUint64, 1}, 2)), "uint64[2]ND\n[18446744073709551615,                    1]"},
		"complex":     {made(t)(aclnn.FromSlice(ctx, st, aclnn.Complex64, []complex64{1 + 2i, -1.5i}, 2)), "complex64[2]ND\n[1.0000+2.0000i, 0.0000-1.5000i]"},
		"matrix":      {count(2, 3), "int32[2,3]ND\n[[0, 1, 2],\n [3, 4, 5]]"},
		"transposed":  {count(2, 3).Transpose(0, 1), "int32[3,2]ND strides[1,3]\n[[0, 3],\n [1, 4],\n [2, 5]]"},
		"cube":        {count(2, 2, 2), "int32[2,2,2]ND\n[[[0, 1],\n  [2, 3]],\n\n [[4, 5],\n  [6, 7]]]"},
		"NZ":          {nz, "float16[1,2,3]FRACTAL_NZ\n[[[0., 1., 2.],\n  [3., 4., 5.]]]"},
		"long line": {count(30), "int32[30]ND\n" +
			"[ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19,\n" +
			" 20, 21, 22, 23, 24, 25, 26, 27, 28, 29]"},
		"many": {count(1001), "int32[1001]ND\n[   0,    1,    2, ...,  998,  999, 1000]"},
		"large matrix": {count(50, 30), "int32[50,30]ND\n" +
			"[[   0,    1,    2, ...,   27,   28,   29],\n [  30,   31,   32, ...,   57,   58,   59],\n [  60,   61,   62, ...,   87,   88,   89],\n" +
			" ...,\n [1410, 1411, 1412, ..., 1437, 1438, 1439],\n [1440, 1441, 1442, ..., 1467, 1468, 1469],\n [1470, 1471, 1472, ..., 1497, 1498, 1499]]"},
		"large, few columns": {count(600, 2).Transpose(0, 1), "int32[2,600]ND strides[1,2]\n" +
			"[[   0,    2,    4, ..., 1194, 1196, 1198],\n [   1,    3,    5, ..., 1195, 1197, 1199]]"},
		"large cube": {count(2, 300, 2), "int32[2,300,2]ND\n" +
			"[[[   0,    1],\n  [   2,    3],\n  [   4,    5],\n  ...,\n  [ 594,  595],\n  [ 596,  597],\n  [ 598,  599]],\n\n" +
			" [[ 600,  601],\n  [ 602,  603],\n  [ 604,  605],\n  ...,\n  [1194, 1195],\n  [1196, 1197],\n  [1198, 1199]]]"},
	} {
		t.Run(name, func(t *testing.T) {
			before := acl.Live()
			got, err := aclnn.Sprint(ctx, st, c.x)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			for line := range strings.Lines(got) {
				require.LessOrEqual(t, len(line), 81)
			}
			require.Equal(t, before, acl.Live())
		})
	}
}

// TestSprintLargeNZ: what is cut of FRACTAL_NZ storage is cut after a cast.
func TestSprintLargeNZ(t *testing.T) {
	st := openStream(t)
	if err := new(aclnn.NpuFormatCastParams).Operator().Available(); err != nil {
		t.Skip(err)
	}
	x, _ := inNZ(t, st, aclnn.Float16, 1, 40, 40)
	before := acl.Live()
	got, err := aclnn.Sprint(t.Context(), st, x)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(got, "float16[1,40,40]FRACTAL_NZ\n[[[ 0.,  1.,  2., ..., 37., 38., 39.],\n  [40., 41., 42., ...,"), got)
	require.Equal(t, before, acl.Live())
}

func TestSprintRefused(t *testing.T) {
	ctx, st := t.Context(), openStream(t)
	for _, dt := range []aclnn.DType{aclnn.Int4, aclnn.HiFloat8, aclnn.Complex32} {
		_, err := aclnn.Sprint(ctx, st, made(t)(aclnn.New(st, dt, 4)))
		require.ErrorIs(t, err, acl.ErrNotSupported)
		require.ErrorContains(t, err, dt.String())
	}
	x := made(t)(aclnn.Zeros(st, aclnn.Float32, 4))
	for _, call := range []func() (string, error){
		func() (string, error) { return aclnn.Sprint(nothing, st, x) },
		func() (string, error) { return aclnn.Sprint(ctx, nil, x) },
		func() (string, error) { return aclnn.Sprint(ctx, st, nil) },
		func() (string, error) { return aclnn.Sprint(ctx, st, x.Narrow(0, 3, 2)) },
	} {
		_, err := call()
		require.ErrorIs(t, err, acl.ErrInvalidArgument)
	}
	require.ErrorIs(t, aclnn.Print(ctx, st, io.Discard, nil), acl.ErrInvalidArgument)
}

// failing is a writer that takes nothing.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestPrint(t *testing.T) {
	ctx, st := t.Context(), openStream(t)
	x := made(t)(aclnn.FromSlice(ctx, st, aclnn.Int32, []int32{1, 2}, 2))
	var b strings.Builder
	require.NoError(t, aclnn.Print(ctx, st, &b, x))
	require.Equal(t, "int32[2]ND\n[1, 2]\n", b.String())
	require.ErrorIs(t, aclnn.Print(ctx, st, failing{}, x), io.ErrClosedPipe)
	require.ErrorIs(t, aclnn.Print(ctx, st, nil, x), acl.ErrInvalidArgument)
}
