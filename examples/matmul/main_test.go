package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
)

func TestMatmul(t *testing.T) {
	acltest.Need(t)
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	require.Equal(t, "float32[2,2]ND\n[[14., 32.],\n [32., 77.]]\n", out.String())
	require.Empty(t, acl.Live())
}

// TestFaults: whichever call of CANN fails, the program returns an error and leaves nothing open.
func TestFaults(t *testing.T) {
	var sweep acltest.Sweep
	sweep.Run(t, func(t *testing.T) error {
		err := run(t.Context(), new(bytes.Buffer))
		require.Empty(t, acl.Live(), "left open")
		return err
	})
}
