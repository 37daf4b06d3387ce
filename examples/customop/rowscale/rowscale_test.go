package rowscale_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/customop/rowscale"
)

func stream(t *testing.T) *acl.Stream {
	st := acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0))
	if err := new(rowscale.RowScaleParams).Operator().Available(); err != nil {
		t.Skip(err)
	}
	return st
}

func tensor(t *testing.T, st *acl.Stream, dt aclnn.DType, values []float32, shape ...int64) *aclnn.Tensor {
	x, err := aclnn.FromSlice(t.Context(), st, dt, values, shape...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, x.Close()) })
	return x
}

// TestRowScale: every type of elements, with and without a bias, of matrices as they are, transposed,
// and cut out of larger ones.
func TestRowScale(t *testing.T) {
	st := stream(t)
	for dt, tolerance := range map[aclnn.DType]float64{aclnn.Float32: 1e-6, aclnn.Float16: 1e-3, aclnn.BFloat16: 1e-2} {
		values := make([]float32, 6*7)
		for i := range values {
			values[i] = float32(i%11) - 5
		}
		whole := tensor(t, st, dt, values, 6, 7)
		scale, bias := tensor(t, st, dt, []float32{1, -2, 0.5, 4, 3, -1, 8}, 7), tensor(t, st, dt, []float32{0.5, 1, 2, -3, 4, 0, 6}, 7)
		for name, x := range map[string]*aclnn.Tensor{
			"whole": whole, "transposed": whole.Transpose(0, 1), "part": whole.Narrow(0, 2, 3).Narrow(1, 1, 5),
		} {
			for _, b := range []*aclnn.Tensor{nil, bias} {
				rows, columns := x.Shape()[0], x.Shape()[1]
				if b != nil {
					b = b.Narrow(0, 0, rows)
				}
				out := tensor(t, st, dt, make([]float32, rows*columns), rows, columns)
				require.NoError(t, rowscale.RowScale(st, rowscale.RowScaleParams{X: x, Scale: scale.Narrow(0, 0, rows), Bias: b, Factor: 0.25, Out: out}))
				got, err := aclnn.ToSlice[float32](t.Context(), st, out)
				require.NoError(t, err)
				given, err := aclnn.ToSlice[float32](t.Context(), st, x)
				require.NoError(t, err)
				scales, err := aclnn.ToSlice[float32](t.Context(), st, scale)
				require.NoError(t, err)
				for i := range got {
					want := float64(given[i]) * float64(scales[int64(i)/columns]) / 4
					if b != nil {
						want += []float64{0.5, 1, 2, -3, 4, 0, 6}[int64(i)/columns]
					}
					require.InDelta(t, want, got[i], tolerance*math.Max(1, math.Abs(want)), "%v %s at %d", dt, name, i)
				}
			}
		}
	}
}

// TestRefusals: the operator refuses in phase one what it cannot compute.
func TestRefusals(t *testing.T) {
	st := stream(t)
	x, scale := tensor(t, st, aclnn.Float32, make([]float32, 6), 2, 3), tensor(t, st, aclnn.Float32, make([]float32, 2), 2)
	whole, err := aclnn.New(st, aclnn.Int32, 2, 3)
	require.NoError(t, err)
	defer func() { require.NoError(t, whole.Close()) }()
	for _, p := range []rowscale.RowScaleParams{
		{Scale: scale, Out: x},
		{X: x, Scale: scale},
		{X: scale, Scale: scale, Out: scale},
		{X: x, Scale: x, Out: x},
		{X: x, Scale: scale, Bias: x, Out: x},
		{X: x, Scale: scale, Out: scale},
		{X: x, Scale: tensor(t, st, aclnn.BFloat16, make([]float32, 2), 2), Out: x},
		{X: whole, Scale: scale, Out: x},
	} {
		require.ErrorIs(t, rowscale.RowScale(st, p), acl.ErrInvalidArgument)
	}
	require.Empty(t, st.Recent(), "nothing was launched")
}
