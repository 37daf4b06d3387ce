//go:build !asan && !race

// The detectors' builds keep less in pools and on the stack.

package op

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
)

// Checking an accepted call must not allocate, since it is part of each launch that the cache of executors does not know.
func TestAcceptanceAllocates(t *testing.T) {
	o := Find("Add")
	c := NewCall(o, []any{tensorOf(dtype.Float32, 2, 1), tensorOf(dtype.Float32, 3), &Scalar{DType: dtype.Float32}, tensorOf(dtype.Float32, 2, 3)}, Env{})
	require.Nil(t, c.refusal())
	assert.Zero(t, testing.AllocsPerRun(100, func() { c.refusal() }))
}
