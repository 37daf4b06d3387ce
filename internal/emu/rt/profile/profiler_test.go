package profile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// TestProfiler checks that the calls of the profiler are accepted only in the right order.
func TestProfiler(t *testing.T) {
	const notRun, alreadyRun = int32(abi.ACL_ERROR_PROF_NOT_RUN), int32(abi.ACL_ERROR_PROF_ALREADY_RUN)
	p := newProcess(t)
	th := p.Thread(0)
	folder := filepath.Join(t.TempDir(), "out")
	path, devices, n := append([]byte(folder), 0), &[2]uint32{0, 3}, uint64(len(folder))
	create := func(n uint64) uint64 {
		return p.Functions["aclprofCreateConfig"](th, []uint64{rttest.Address(devices), n, uint64(abi.ACL_AICORE_NONE), 0, 1})
	}
	c := create(2)
	require.NotZero(t, c)
	require.Equal(t, notRun, p.Call(th, "aclprofStart", c))
	require.Equal(t, notRun, p.Call(th, "aclprofFinalize"))
	require.Equal(t, rt.InvalidParam, p.Call(th, "aclprofInit", 0, 0))
	require.Equal(t, rt.InvalidParam, p.Call(th, "aclprofInit", rttest.Address(&path[0]), n-1))
	require.Equal(t, int32(abi.ACL_ERROR_INVALID_FILE), p.Call(th, "aclprofInit", rttest.String(""), 0))
	p.Must(th, "aclprofInit", rttest.Address(&path[0]), n)
	require.Equal(t, int32(abi.ACL_ERROR_REPEAT_INITIALIZE), p.Call(th, "aclprofInit", rttest.Address(&path[0]), n))
	require.Equal(t, rt.InvalidParam, p.Call(th, "aclprofStart", 0))
	require.Equal(t, rt.InvalidParam, p.Call(th, "aclprofStart", 77))
	p.Must(th, "aclprofStart", c)
	require.Equal(t, alreadyRun, p.Call(th, "aclprofStart", c))
	other := create(1)
	require.Equal(t, alreadyRun, p.Call(th, "aclprofStart", other), "device 0 is recorded")
	p.Must(th, "aclprofDestroyConfig", other)
	made, err := filepath.Glob(filepath.Join(folder, "PROF_000001_*", "device_3"))
	require.NoError(t, err)
	require.Len(t, made, 1)
	p.Must(th, "aclprofStop", c)
	require.Equal(t, notRun, p.Call(th, "aclprofStop", c))
	p.Must(th, "aclprofDestroyConfig", c)
	require.Equal(t, rt.InvalidParam, p.Call(th, "aclprofStop", c))
	p.Must(th, "aclprofFinalize")

	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	p.Must(th, "aclprofInit", rttest.String(file), uint64(len(file)))
	c = create(2)
	require.Equal(t, int32(abi.ACL_ERROR_INVALID_FILE), p.Call(th, "aclprofStart", c), "a file is no folder")
	p.Must(th, "aclprofDestroyConfig", c)
	p.Must(th, "aclprofFinalize")

	for _, n := range []uint64{5, 1} { // more devices than exist, and one that does not exist
		devices[0] = 9
		require.Zero(t, create(n))
		require.Contains(t, rttest.Text(th), "devices")
	}
	require.Zero(t, p.Functions["aclprofCreateConfig"](th, []uint64{0, 1, 0, 0, 0}))
	require.NotEmpty(t, rttest.Text(th))
	frequency := append([]byte("50"), 0)
	p.Must(th, "aclprofSetConfig", uint64(abi.ACL_PROF_DVPP_FREQ), rttest.Address(&frequency[0]), 2)
	require.Equal(t, rt.InvalidParam, p.Call(th, "aclprofSetConfig", 99, rttest.Address(&frequency[0]), 2))
	require.Equal(t, rt.InvalidParam, p.Call(th, "aclprofSetConfig", 1, rttest.Address(&frequency[0]), 3))
	require.Equal(t, rt.InvalidParam, p.Call(th, "aclprofSetConfig", 1, 0, 3))
	require.Zero(t, p.Runtime.Handles.Count(rt.ProfileKind))
}

func TestProfilerMarks(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s := p.Stream(th)
	text := append([]byte("epoch"), 0)
	stamp, step := p.Functions["aclprofCreateStamp"](th, nil), p.Functions["aclprofCreateStepInfo"](th, nil)
	p.Must(th, "aclprofSetStampTraceMessage", stamp, rttest.Address(&text[0]), 5)
	p.Must(th, "aclprofMark", stamp)
	p.Must(th, "aclprofPush", stamp)
	p.Must(th, "aclprofPop")
	id := new(uint32)
	p.Must(th, "aclprofRangeStart", stamp, rttest.Address(id))
	p.Must(th, "aclprofRangeStop", uint64(*id))
	require.Equal(t, rt.InvalidParam, p.Call(th, "aclprofRangeStop", uint64(*id)))
	p.Must(th, "aclprofMarkEx", rttest.Address(&text[0]), 5, s)
	p.Must(th, "aclprofGetStepTimestamp", step, uint64(abi.ACL_STEP_START), s)
	require.Equal(t, rt.InvalidParam, p.Call(th, "aclprofGetStepTimestamp", step, 7, s))
	require.Equal(t, rt.InvalidParam, p.Call(th, "aclprofGetStepTimestamp", stamp, 0, s), "a stamp is no step")
	require.Equal(t, rt.InvalidParam, p.Call(th, "aclprofRangeStart", stamp, 0))
	require.Equal(t, rt.InvalidParam, p.Call(th, "aclprofSetStampTraceMessage", stamp, 0, 5))
	require.Equal(t, rt.InvalidParam, p.Call(th, "aclprofMarkEx", 0, 0, s))
	p.Call(th, "aclprofDestroyStepInfo", stamp)
	require.Equal(t, 2, p.Runtime.Handles.Count(rt.ProfileKind), "a stamp is not destroyed as a step")
	p.Call(th, "aclprofDestroyStamp", stamp)
	p.Call(th, "aclprofDestroyStepInfo", step)
	require.Zero(t, p.Runtime.Handles.Count(rt.ProfileKind))
	for _, name := range []string{"aclprofMark", "aclprofPush", "aclprofRangeStart", "aclprofSetStampTraceMessage"} {
		require.Equal(t, rt.InvalidParam, p.Call(th, name, stamp, rttest.Address(&text[0]), 5), name)
	}
	p.Must(th, "aclrtDestroyStream", s)
}
