package parallel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/niltest"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/mask"
	"github.com/goascend/cann/ops/parallel"
)

// TestNil: layers that nothing has made, and nil parameters, give errors and no panics.
func TestNil(t *testing.T) {
	refusals := []error{acl.ErrInvalidArgument, acl.ErrClosed}
	b := opstest.New(t)
	niltest.Receivers(t, refusals,
		(*parallel.TensorParallel)(nil), (*parallel.ContextParallel)(nil), (*parallel.Ulysses)(nil), (*parallel.ExpertParallel)(nil),
		(*parallel.ExpertPlan)(nil), (*parallel.Pipeline)(nil), (*parallel.Sharded)(nil), new(parallel.Sharded), (*parallel.ShardStream)(nil), new(parallel.ShardStream),
		(*parallel.Gradients)(nil), new(parallel.Gradients))
	context, err := parallel.NewContextParallel(b.Stream, b.Registry, nil, mask.Contiguous)
	require.NoError(t, err)
	experts, err := parallel.NewExpertParallel(nil, 1)
	require.NoError(t, err)
	for _, layer := range []any{
		parallel.NewTensorParallel(b.Registry, nil, false), context,
		parallel.NewUlysses(nil, mask.Contiguous), experts, pipeline(t, nil, 1, 1, 1, false),
	} {
		niltest.Parameters(t, refusals, layer)
	}
	x := b.Empty(aclnn.Float32, 2, 2)
	none := parallel.NewTensorParallel(nil, nil, false)
	err = none.ColumnLinear(t.Context(), b.Stream, &ops.LinearArgs{X: x, Weight: x, Out: x})
	require.ErrorContains(t, err, "take it from a registry")
}
