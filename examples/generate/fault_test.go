package main

import (
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
)

// TestFaults: whichever call of CANN fails while a model is trained and generates, the program
// returns an error that names it, leaves nothing open, and generates when it runs again.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	var sweep acltest.Sweep
	for _, name := range []string{"qwen3", "qwen3_next"} {
		flags := map[string][]string{"qwen3": {"-graph"}}[name]
		if name != "qwen3" && os.Getenv(acltest.EnvSweep) == "" {
			continue // it takes a minute
		}
		t.Run(name, func(t *testing.T) {
			sweep.Run(t, func(t *testing.T) error {
				o, err := parseFlags(append([]string{"-type", name, "-train-steps", "1", "-n", "3"}, flags...), io.Discard)
				require.NoError(t, err)
				err = run(t.Context(), o, io.Discard, io.Discard)
				assert.Empty(t, acl.Live(), "left open")
				return err
			})
		})
	}
}
