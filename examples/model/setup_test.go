package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
)

// setUp opens device 0 with a stream and the operators. When the test ends it closes everything and
// checks for leaks.
func setUp(t *testing.T) (*acl.Stream, *ops.Registry) {
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	reg, err := ops.NewRegistry(ops.EnvOf(dev))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, reg.Close()) })
	return st, reg
}

// download reads a float32 tensor.
func download(t *testing.T, st *acl.Stream, x *aclnn.Tensor) []float32 {
	values := make([]float32, x.Len())
	require.NoError(t, aclnn.CopyFromDevice(t.Context(), st, values, x))
	return values
}
