package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/mask"
)

// TestErrorClasses: every refusal of a dispatch matches a class of acl, so that a service can distinguish
// a wrong request from a fault of its own.
func TestErrorClasses(t *testing.T) {
	for err, class := range map[error]error{
		ops.ErrInvalid: acl.ErrInvalidArgument, ops.ErrPinned: acl.ErrInvalidArgument, ops.ErrUnknownKernel: acl.ErrInvalidArgument,
		mask.ErrRefused: acl.ErrInvalidArgument, ops.ErrNoKernel: acl.ErrNotSupported,
	} {
		require.ErrorIs(t, err, class, "%v", err)
	}
	reg, err := ops.NewRegistry(ops.Env{})
	require.NoError(t, err)
	require.ErrorIs(t, reg.RMSNorm().Check(new(ops.RMSNormArgs)), acl.ErrInvalidArgument)
	require.ErrorIs(t, reg.RMSNorm().Pin("no such kernel"), acl.ErrInvalidArgument)
}
