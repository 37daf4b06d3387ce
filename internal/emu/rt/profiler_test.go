package rt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// TestProfiler: what a program does around its work is accepted in that order only.
func TestProfiler(t *testing.T) {
	const notRun, alreadyRun = int32(abi.ACL_ERROR_PROF_NOT_RUN), int32(abi.ACL_ERROR_PROF_ALREADY_RUN)
	p := newProcess(t)
	th := p.thread(0)
	path, devices := append([]byte("./out"), 0), &[2]uint32{0, 3}
	create := func(n uint64) uint64 {
		return p.f["aclprofCreateConfig"](th, []uint64{address(devices), n, uint64(abi.ACL_AICORE_NONE), 0, 1})
	}
	c := create(2)
	require.NotZero(t, c)
	require.Equal(t, notRun, p.call(th, "aclprofStart", c))
	require.Equal(t, notRun, p.call(th, "aclprofFinalize"))
	require.Equal(t, invalidParam, p.call(th, "aclprofInit", 0, 0))
	require.Equal(t, invalidParam, p.call(th, "aclprofInit", address(&path[0]), 4))
	p.must(th, "aclprofInit", address(&path[0]), 5)
	require.Equal(t, alreadyRun, p.call(th, "aclprofInit", address(&path[0]), 5))
	require.Equal(t, invalidParam, p.call(th, "aclprofStart", 0))
	require.Equal(t, invalidParam, p.call(th, "aclprofStart", 77))
	p.must(th, "aclprofStart", c)
	require.Equal(t, alreadyRun, p.call(th, "aclprofStart", c))
	p.must(th, "aclprofStop", c)
	require.Equal(t, notRun, p.call(th, "aclprofStop", c))
	p.must(th, "aclprofDestroyConfig", c)
	require.Equal(t, invalidParam, p.call(th, "aclprofStop", c))
	p.must(th, "aclprofFinalize")

	for _, n := range []uint64{5, 1} { // more devices than there are, and one that does not exist
		devices[0] = 9
		require.Zero(t, create(n))
		require.Contains(t, takeText(th), "devices")
	}
	require.Zero(t, p.f["aclprofCreateConfig"](th, []uint64{0, 1, 0, 0, 0}))
	require.NotEmpty(t, takeText(th))
	frequency := append([]byte("50"), 0)
	p.must(th, "aclprofSetConfig", uint64(abi.ACL_PROF_DVPP_FREQ), address(&frequency[0]), 2)
	require.Equal(t, invalidParam, p.call(th, "aclprofSetConfig", 99, address(&frequency[0]), 2))
	require.Equal(t, invalidParam, p.call(th, "aclprofSetConfig", 1, address(&frequency[0]), 3))
	require.Equal(t, invalidParam, p.call(th, "aclprofSetConfig", 1, 0, 3))
	require.Zero(t, p.r.Handles.Count(ProfileKind))
}

func TestProfilerMarks(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	s := p.stream(th)
	text := append([]byte("epoch"), 0)
	stamp, step := p.f["aclprofCreateStamp"](th, nil), p.f["aclprofCreateStepInfo"](th, nil)
	p.must(th, "aclprofSetStampTraceMessage", stamp, address(&text[0]), 5)
	p.must(th, "aclprofMark", stamp)
	p.must(th, "aclprofPush", stamp)
	p.must(th, "aclprofPop")
	id := new(uint32)
	p.must(th, "aclprofRangeStart", stamp, address(id))
	p.must(th, "aclprofRangeStop", uint64(*id))
	require.Equal(t, invalidParam, p.call(th, "aclprofRangeStop", uint64(*id)))
	p.must(th, "aclprofMarkEx", address(&text[0]), 5, s)
	p.must(th, "aclprofGetStepTimestamp", step, uint64(abi.ACL_STEP_START), s)
	require.Equal(t, invalidParam, p.call(th, "aclprofGetStepTimestamp", step, 7, s))
	require.Equal(t, invalidParam, p.call(th, "aclprofGetStepTimestamp", stamp, 0, s), "a stamp is no step")
	require.Equal(t, invalidParam, p.call(th, "aclprofRangeStart", stamp, 0))
	require.Equal(t, invalidParam, p.call(th, "aclprofSetStampTraceMessage", stamp, 0, 5))
	require.Equal(t, invalidParam, p.call(th, "aclprofMarkEx", 0, 0, s))
	p.call(th, "aclprofDestroyStepInfo", stamp)
	require.Equal(t, 2, p.r.Handles.Count(ProfileKind), "a stamp is not destroyed as a step")
	p.call(th, "aclprofDestroyStamp", stamp)
	p.call(th, "aclprofDestroyStepInfo", step)
	require.Zero(t, p.r.Handles.Count(ProfileKind))
	for _, name := range []string{"aclprofMark", "aclprofPush", "aclprofRangeStart", "aclprofSetStampTraceMessage"} {
		require.Equal(t, invalidParam, p.call(th, name, stamp, address(&text[0]), 5), name)
	}
	p.must(th, "aclrtDestroyStream", s)
}
