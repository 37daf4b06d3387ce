package main

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRun: the losses fall, and those of several ranks are those of one within 1e-6 of them.
func TestRun(t *testing.T) {
	acltest.Need(t)
	for _, ranks := range []int{2, 4} {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), &out, ranks, 6))
		before := 10.0
		for step := 1; step <= 6; step++ {
			var number, several int
			var one, same float64
			_, err := fmt.Fscanf(&out, "step %d  1 rank %f  %d ranks %f\n", &number, &one, &several, &same)
			require.NoError(t, err)
			require.Equal(t, []int{step, ranks}, []int{number, several})
			require.InEpsilon(t, one, same, 1e-6)
			require.Less(t, one, before)
			before = one
		}
		require.Empty(t, acl.Live())
	}
}

func TestRefusals(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), io.Discard, 3, 1), "-ranks 3")
	require.ErrorContains(t, run(t.Context(), io.Discard, 2, 0), "-steps 0")
}
