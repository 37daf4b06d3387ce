package budget_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/budget"
)

// TestPipe: a pipe in the place of a file is refused at once. To open one waits for who writes into it, for ever.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	_, err := budget.ReadFile(path, 1)
	require.ErrorContains(t, err, "no regular file")
}
