package hccl_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/internal/acltest"
)

// The setting of the process is read back, and what is none is refused before HCCL sees it.
func TestDeterminism(t *testing.T) {
	acltest.Open(t)
	before, err := hccl.ProcessDeterminism()
	if errors.Is(err, hccl.ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	defer func() { assert.NoError(t, hccl.SetDeterminism(before)) }()
	for _, d := range []hccl.Determinism{hccl.Deterministic, hccl.NotDeterministic} {
		require.NoError(t, hccl.SetDeterminism(d))
		got, err := hccl.ProcessDeterminism()
		require.NoError(t, err)
		assert.Equal(t, d, got)
	}
	for _, d := range []hccl.Determinism{hccl.DeterminismUnset, hccl.Strict + 1} {
		var e *hccl.Error
		require.ErrorAs(t, hccl.SetDeterminism(d), &e)
		assert.ErrorIs(t, e, hccl.ErrArgument)
		assert.Zero(t, e.Code, "HCCL was called")
	}
}
