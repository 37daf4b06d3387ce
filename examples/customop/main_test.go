package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/examples/customop/rowscale"
)

// available skips a test where neither the emulation nor the operator's package is there.
func available(t *testing.T) {
	acltest.Need(t)
	if err := new(rowscale.RowScaleParams).Operator().Available(); err != nil {
		t.Skip(err)
	}
}

func TestCustomOperator(t *testing.T) {
	available(t)
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	require.Equal(t, "[15 20 25] [300 350 400]\n", out.String())
	require.Empty(t, acl.Live())
}

// TestFaults: whichever call of CANN fails, the operator's own included, the program returns an error and
// leaves nothing open.
func TestFaults(t *testing.T) {
	var sweep acltest.Sweep
	sweep.Run(t, func(t *testing.T) error {
		err := run(t.Context(), new(bytes.Buffer))
		require.Empty(t, acl.Live())
		return err
	})
}
