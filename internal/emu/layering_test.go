// Package emu_test checks how the packages of the emulator may depend on others. It has no code of its own.
package emu_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestImportsNoPublicPackage checks that the emulator, its tests included, depends on internal
// packages of the module only: the public ones stand above it.
func TestImportsNoPublicPackage(t *testing.T) {
	const module = "github.com/goascend/cann/"
	out, err := exec.Command("go", "list", "-tags", "emu", "-deps", "-test", "./...").Output()
	require.NoError(t, err)
	own := 0
	for line := range strings.Lines(string(out)) {
		path, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest, ours := strings.CutPrefix(path, module)
		if !ours {
			continue
		}
		own++
		assert.True(t, strings.HasPrefix(rest, "internal/") || strings.HasSuffix(rest, ".test"), "the emulator depends on %s", path)
	}
	assert.Greater(t, own, 50, "go list found fewer packages than the emulator has")
}
