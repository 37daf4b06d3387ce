package nn

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/testing/golden"
)

// TestPyTorch computes the recorded calls of operators with random arguments, and compares the results with PyTorch's.
func TestPyTorch(t *testing.T) {
	dir, err := golden.Dir()
	if errors.Is(err, golden.ErrNotShipped) {
		t.Skipf("%v", err)
	}
	require.NoError(t, err)
	calls, err := optest.ReadPyTorchCalls(filepath.Join(dir, "operators", "calls.jsonl.gz"))
	require.NoError(t, err)
	require.NotEmpty(t, calls)
	operators := map[string]bool{}
	for i, c := range calls {
		operators[c.Operator] = true
		assert.NoError(t, c.Compare(), "call %d: aclnn%s", i, c.Operator)
	}
	t.Logf("%d calls of %d operators", len(calls), len(operators))
}
