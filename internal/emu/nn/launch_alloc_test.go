//go:build !asan && !race

// The detectors' builds keep less in pools and on the stack.

package nn

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The cost of a launch is that of its allocations, so none may come in unnoticed.
func TestLaunchAllocates(t *testing.T) {
	for _, l := range launches(t) {
		assert.LessOrEqual(t, testing.AllocsPerRun(100, l.launcher(t)), l.allocations, l.name)
	}
}
