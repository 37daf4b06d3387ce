package acl_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/abi"
)

func TestProfile(t *testing.T) {
	rt := acltest.Open(t)
	st := acltest.Stream(t, acltest.Device(t, rt, 0))
	folder := filepath.Join(t.TempDir(), "deep", "profiles")
	p, err := rt.Profile(acl.ProfileConfig{Folder: folder, Devices: []int{0}, Metrics: acl.MetricsMemory})
	require.NoError(t, err)
	require.Equal(t, folder, p.Folder())
	_, err = rt.Profile(acl.ProfileConfig{Folder: folder})
	require.ErrorIs(t, err, acl.ErrBusy)
	x := tensors(t, st, 3, 4)
	step := st.Range("step")
	require.NoError(t, aclnn.Mul(st, aclnn.MulParams{Self: x[0], Other: x[1], Out: x[2]}))
	step.End()
	require.NoError(t, st.Synchronize(t.Context()))
	require.NoError(t, p.Close())
	require.NoError(t, p.Close(), "the second time it does nothing")
	made, err := filepath.Glob(filepath.Join(folder, "PROF_*", "device_*"))
	require.NoError(t, err)
	require.Len(t, made, 1, "one device was recorded")

	p, err = rt.Profile(acl.ProfileConfig{Folder: folder, Parts: acl.ProfileTasks | acl.ProfileMemory})
	require.NoError(t, err, "another can begin when one has ended")
	require.NoError(t, p.Close())
	var none *acl.Profile
	require.NoError(t, none.Close())
	require.Empty(t, none.Folder())
}

func TestProfileRefused(t *testing.T) {
	rt := acltest.Open(t)
	acltest.Device(t, rt, 0)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, cfg := range map[string]acl.ProfileConfig{
		"no folder":           {},
		"a file as folder":    {Folder: file},
		"a folder in a file":  {Folder: filepath.Join(file, "x")},
		"NUL":                 {Folder: "a\x00b"},
		"metrics":             {Folder: t.TempDir(), Metrics: 77},
		"no devices":          {Folder: t.TempDir(), Devices: []int{}},
		"device out of range": {Folder: t.TempDir(), Devices: []int{99}},
		"device twice":        {Folder: t.TempDir(), Devices: []int{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rt.Profile(cfg)
			require.ErrorIs(t, err, acl.ErrInvalidArgument)
		})
	}
	p, err := rt.Profile(acl.ProfileConfig{Folder: t.TempDir()})
	require.NoError(t, err, "a refused profile leaves nothing open")
	require.NoError(t, p.Close())
	require.NoError(t, rt.Close())
	_, err = rt.Profile(acl.ProfileConfig{Folder: t.TempDir()})
	require.ErrorIs(t, err, acl.ErrClosed)
}

// TestRanges looks for the ranges in the trace of the emulator, on the rows of the host and of the
// stream.
func TestRanges(t *testing.T) {
	for name, variables := range map[string][]string{"newest": nil, "CANN 8.1": {"CANN_EMU_API=" + abi.V81RC1}} {
		t.Run(name, func(t *testing.T) { ranges(t, variables...) })
	}
}

func ranges(t *testing.T, variables ...string) {
	path := filepath.Join(t.TempDir(), "trace.json")
	acltest.Rerun(t, func(t *testing.T) {
		st := acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0))
		x := tensors(t, st, 3, 4)
		layer := st.Range("layer 3")
		require.NoError(t, aclnn.Mul(st, aclnn.MulParams{Self: x[0], Other: x[1], Out: x[2]}))
		layer.End()
		st.Mark("loss")
		require.NoError(t, capture(t, st, func() error {
			st.Range("captured").End()
			return st.Memset(x[0].Buffer(), 0, 4)
		}).Replay(st))
		require.NoError(t, st.Synchronize(t.Context()))
		for _, name := range []string{"", "a\x00b"} {
			require.Zero(t, st.Range(name))
			st.Mark(name)
		}
		acl.Range{}.End()
		var none *acl.Stream
		none.Range("x").End()
		none.Mark("x")
	}, append(variables, "CANN_EMU_TRACE="+path)...)
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return // only the emulator writes it, and the process of the body has none
	}
	require.NoError(t, err)
	assert.Contains(t, string(text), `"captured"`)
	assert.NotContains(t, string(text), `"begin captured"`)
	for _, name := range []string{`"layer 3"`, `"begin layer 3"`, `"end layer 3"`, `"loss"`} {
		assert.Contains(t, string(text), name)
	}
}

// TestExceptions checks that the error of a fault has what CANN passed to the exception callback, and that
// it points to CANN's log of the process if there is one.
func TestExceptions(t *testing.T) {
	logs := t.TempDir()
	t.Setenv("ASCEND_PROCESS_LOG_PATH", logs)
	dev := acltest.Device(t, acltest.Open(t), 0)
	nothing := nowhere(t, dev) // for all: another allocation could have it before the work at it has run
	fail := func(st *acl.Stream) *acl.Error {
		require.NoError(t, launchAt(t, st, nothing))
		var e *acl.Error
		require.ErrorAs(t, st.Synchronize(t.Context()), &e)
		require.ErrorIs(t, e, acl.ErrKernel)
		return e
	}
	st, other := acltest.Stream(t, dev), acltest.Stream(t, dev)
	e := fail(st)
	require.Len(t, e.Exceptions, 1)
	x := e.Exceptions[0]
	assert.Equal(t, acl.Exception{Device: 0, Stream: st.ID(), Task: x.Task, Thread: x.Thread, Code: abi.ACL_ERROR_RT_VECTOR_CORE_EXCEPTION}, x)
	assert.ErrorContains(t, e, fmt.Sprintf("of stream %d failed with 507035 (ACL_ERROR_RT_VECTOR_CORE_EXCEPTION)", st.ID()))
	assert.NotContains(t, e.Error(), "CANN's log")

	folder := filepath.Join(logs, "debug", "plog")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("plog-%d_20261122.log", os.Getpid())), nil, 0o600))
	require.NoError(t, launchAt(t, other, nothing))
	e = fail(st)
	require.Len(t, e.Exceptions, 1, "that of the other stream is not reported here")
	assert.Equal(t, st.ID(), e.Exceptions[0].Stream)
	assert.ErrorContains(t, e, fmt.Sprintf("CANN's log of this process is %s", filepath.Join(folder, fmt.Sprintf("plog-%d_*.log", os.Getpid()))))
	require.ErrorAs(t, other.Synchronize(t.Context()), &e)
	require.Len(t, e.Exceptions, 1)
	assert.Equal(t, other.ID(), e.Exceptions[0].Stream)
}
