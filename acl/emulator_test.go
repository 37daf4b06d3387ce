//go:build emu

package acl_test

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/abi"
)

// again runs tests of this package in a process with another emulator.
func again(t *testing.T, run string, env ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run", run)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// TestHostFuncOnOlderCANN runs the tests of host functions again in a process whose CANN has
// aclrtLaunchCallback only.
func TestHostFuncOnOlderCANN(t *testing.T) {
	const api = "CANN_EMU_API"
	if os.Getenv(api) != "" {
		t.Skip("this is the process with the older CANN")
	}
	out := again(t, "HostFunc|Abort|Wait|Fault$|Leak", api+"="+abi.V81RC1)
	require.Contains(t, out, "--- PASS: TestHostFuncRunsInOrder")
	require.NotContains(t, out, "no host functions")
}

// TestLeaksArePrinted: without a logger the emulator prints the first leak of a process, unless it
// is told not to.
func TestLeaksArePrinted(t *testing.T) {
	const mode = "CANN_TEST_LEAKS"
	if how := os.Getenv(mode); how != "" {
		rt, err := acl.Open(acl.Config{QuietLeaks: how == "quiet", LeakStacks: how == "stacks"})
		require.NoError(t, err)
		dev, err := rt.Device(0)
		require.NoError(t, err)
		gone := make(chan struct{}, 2)
		for range 2 {
			forget(t, func() (*acl.Buffer, error) { return dev.Malloc(100) }, func(b *acl.Buffer) {
				runtime.AddCleanup(b, func(struct{}) { gone <- struct{}{} }, struct{}{})
			})
		}
		collect(t, func() bool { return len(gone) == 2 && (how == "quiet" || acl.LeakPrinted()) }, "two leaks")
		runtime.KeepAlive(dev) // and the runtime, which it leads to
		return
	}
	const text = "acl: an object of kind buffer with 100 bytes was collected without Close; it stays with the process."
	for how, times := range map[string]int{"plain": 1, "stacks": 1, "quiet": 0} {
		out := again(t, "^TestLeaksArePrinted$", mode+"="+how)
		require.Equal(t, times, strings.Count(out, text), "%s: %s", how, out)
		require.Equal(t, how == "stacks", strings.Contains(out, "acl.(*Context).Malloc"), "%s: %s", how, out)
	}
}

// TestFailuresAskedFor: CANN_EMU_FAULTS reaches the calls of this package as CANN's failures
// do, those of queued work with the operator's name.
func TestFailuresAskedFor(t *testing.T) {
	const rules = "aclrtCreateStreamWithConfig:2=207008;aclnnExpGetWorkspaceSize=161002;run/aclnnMul=507015"
	acltest.Faults(t, rules, func(t *testing.T) {
		dev := acltest.Device(t, acltest.Open(t), 0)
		st := acltest.Stream(t, dev)
		_, err := dev.NewStream()
		var e *acl.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, acl.Code(207008), e.Code)
		x := tensors(t, st, 3, 4)
		require.ErrorIs(t, aclnn.Exp(st, aclnn.ExpParams{Self: x[0], Out: x[1]}), acl.ErrInvalidArgument)
		require.NoError(t, aclnn.Mul(st, aclnn.MulParams{Self: x[0], Other: x[1], Out: x[2]}))
		err = st.Synchronize(background)
		require.ErrorIs(t, err, acl.ErrKernel)
		require.ErrorContains(t, err, "aclnnMul")
	})
}

// TestSanitizers: CANN_EMU_SANITIZE finds what a program must not do with device memory, and
// leaves the ordered program alone.
func TestSanitizers(t *testing.T) {
	acltest.Rerun(t, func(t *testing.T) {
		dev := acltest.Device(t, acltest.Open(t), 0)
		one, two := acltest.Stream(t, dev), acltest.Stream(t, dev)
		x := tensors(t, one, 3, 4)
		exp := func(st *acl.Stream, from, to *aclnn.Tensor) {
			require.NoError(t, aclnn.Exp(st, aclnn.ExpParams{Self: from, Out: to}))
		}
		require.NoError(t, aclnn.InplaceZero(one, aclnn.InplaceZeroParams{SelfRef: x[0]}))
		exp(one, x[0], x[1])
		require.NoError(t, one.Synchronize(background))
		exp(two, x[0], x[1])
		require.NoError(t, two.Synchronize(background), "the program waited for the first stream")

		exp(one, x[0], x[1])
		exp(two, x[0], x[1])
		first, second := one.Synchronize(background), two.Synchronize(background)
		if first == nil {
			first = second
		}
		require.ErrorIs(t, first, acl.ErrKernel)
		for _, part := range []string{"race: aclnnExp on stream", "writes out", "nothing orders them", "aclrtStreamWaitEvent"} {
			require.ErrorContains(t, first, part)
		}
	}, "CANN_EMU_SANITIZE=memory,race")
}
