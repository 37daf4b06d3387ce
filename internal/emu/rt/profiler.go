package rt

import (
	"sync"

	"github.com/goascend/cann/internal/abi"
)

// profiler accepts what programs say to CANN's profiler, and refuses what they say in the
// wrong order. It measures nothing: that is what CANN_EMU_TRACE is for.
type profiler struct {
	mu          sync.Mutex
	initialised bool
	running     map[uint64]bool // configurations that were started and not stopped
	ranges      map[uint32]bool // those under way
	lastRange   uint32
}

// What profiler handles stand for.
type (
	profileConfig struct{}
	profileStep   struct{}
	profileStamp  struct{}
)

func (r *Runtime) profilerFunctions() table {
	return table{
		"aclprofInit":                 r.profilerInit,
		"aclprofFinalize":             r.profilerFinalize,
		"aclprofSetConfig":            r.profilerSet,
		"aclprofCreateConfig":         r.createProfileConfig,
		"aclprofDestroyConfig":        r.destroyProfileConfig,
		"aclprofStart":                r.profilerStart,
		"aclprofStop":                 r.profilerStop,
		"aclprofCreateStepInfo":       func(*Thread, []uint64) uint64 { return r.Handles.New(ProfileKind, &profileStep{}) },
		"aclprofDestroyStepInfo":      destroyProfile[*profileStep](r),
		"aclprofGetStepTimestamp":     r.profileStepTime,
		"aclprofCreateStamp":          func(*Thread, []uint64) uint64 { return r.Handles.New(ProfileKind, &profileStamp{}) },
		"aclprofDestroyStamp":         destroyProfile[*profileStamp](r),
		"aclprofSetStampTraceMessage": r.stampMessage,
		"aclprofMark":                 r.stamped("aclprofMark"),
		"aclprofPush":                 r.stamped("aclprofPush"),
		"aclprofPop":                  success,
		"aclprofMarkEx":               r.markStream,
		"aclprofRangeStart":           r.rangeStart,
		"aclprofRangeStop":            r.rangeStop,
	}
}

// destroyProfile is a destructor without a result: a wrong handle is passed over.
func destroyProfile[T any](r *Runtime) Func {
	return func(_ *Thread, a []uint64) uint64 {
		if _, ok := Lookup[T](&r.Handles, a[0]); ok {
			r.Handles.Delete(a[0])
		}
		return 0
	}
}

func (r *Runtime) profilerInit(t *Thread, a []uint64) uint64 {
	const function = "aclprofInit"
	if a[0] == 0 {
		return t.null(function, "profilerResultPath")
	}
	if n := uint64(len(CString(a[0]))); n != a[1] {
		return t.Fail(invalidParam, "EH0001: %s: the path has %d bytes and not length %d", function, n, a[1])
	}
	r.profiler.mu.Lock()
	defer r.profiler.mu.Unlock()
	if r.profiler.initialised {
		return t.Fail(int32(abi.ACL_ERROR_PROF_ALREADY_RUN), "EK0001: %s: the profiler was initialised; call aclprofFinalize first", function)
	}
	r.profiler.initialised = true
	return 0
}

func (r *Runtime) profilerFinalize(t *Thread, _ []uint64) uint64 {
	r.profiler.mu.Lock()
	defer r.profiler.mu.Unlock()
	if !r.profiler.initialised {
		return t.profilerIsOff("aclprofFinalize")
	}
	r.profiler.initialised = false
	clear(r.profiler.running)
	return 0
}

func (t *Thread) profilerIsOff(function string) uint64 {
	return t.Fail(int32(abi.ACL_ERROR_PROF_NOT_RUN), "EK0001: %s: the profiler is not initialised; call aclprofInit first", function)
}

func (r *Runtime) profilerSet(t *Thread, a []uint64) uint64 {
	const function = "aclprofSetConfig"
	if a[1] == 0 {
		return t.null(function, "config")
	}
	if n := uint64(len(CString(a[1]))); n == 0 || n != a[2] {
		return t.Fail(invalidParam, "EH0001: %s: the configuration has %d bytes and not configLength %d", function, n, a[2])
	}
	if kind := int32(a[0]); kind < 0 || kind > int32(abi.ACL_PROF_SYS_MEM_SERVICEFLOW) {
		return t.Fail(invalidParam, "EH0001: %s: configType %d does not exist", function, kind)
	}
	return 0
}

// createProfileConfig gives null for devices that do not exist, as CANN does.
func (r *Runtime) createProfileConfig(t *Thread, a []uint64) uint64 {
	const function = "aclprofCreateConfig"
	n := uint64(uint32(a[1]))
	if n > 0 && a[0] == 0 {
		t.null(function, "deviceIdList")
		return 0
	}
	if n > uint64(len(r.devices)) {
		t.Fail(invalidParam, "EH0001: %s: %d devices, there are %d", function, n, len(r.devices))
		return 0
	}
	for i := range n {
		if _, code := r.device(t, *(*int32)(Pointer(a[0] + 4*i))); code != 0 {
			return 0
		}
	}
	return r.Handles.New(ProfileKind, &profileConfig{})
}

// profileConfig finds a configuration.
func (r *Runtime) profileConfig(t *Thread, function string, h uint64) (code uint64) {
	if h == 0 {
		return t.null(function, "profilerConfig")
	}
	if _, ok := Lookup[*profileConfig](&r.Handles, h); !ok {
		return t.Fail(invalidParam, "EH0001: %s: %#x is no live configuration of the profiler", function, h)
	}
	return 0
}

func (r *Runtime) destroyProfileConfig(t *Thread, a []uint64) uint64 {
	code := r.profileConfig(t, "aclprofDestroyConfig", a[0])
	if code == 0 {
		r.Handles.Delete(a[0])
	}
	return code
}

func (r *Runtime) profilerStart(t *Thread, a []uint64) uint64 {
	const function = "aclprofStart"
	if code := r.profileConfig(t, function, a[0]); code != 0 {
		return code
	}
	p := &r.profiler
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.initialised:
		return t.profilerIsOff(function)
	case p.running[a[0]]:
		return t.Fail(int32(abi.ACL_ERROR_PROF_ALREADY_RUN), "EK0001: %s: this configuration runs already", function)
	case p.running == nil:
		p.running = make(map[uint64]bool)
	}
	p.running[a[0]] = true
	return 0
}

func (r *Runtime) profilerStop(t *Thread, a []uint64) uint64 {
	const function = "aclprofStop"
	if code := r.profileConfig(t, function, a[0]); code != 0 {
		return code
	}
	p := &r.profiler
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running[a[0]] {
		return t.Fail(int32(abi.ACL_ERROR_PROF_NOT_RUN), "EK0001: %s: this configuration was not started", function)
	}
	delete(p.running, a[0])
	return 0
}

func (r *Runtime) profileStepTime(t *Thread, a []uint64) uint64 {
	const function = "aclprofGetStepTimestamp"
	if _, ok := Lookup[*profileStep](&r.Handles, a[0]); !ok {
		return t.Fail(invalidParam, "EH0001: %s: %#x is no live step", function, a[0])
	}
	if tag := int32(a[1]); tag != int32(abi.ACL_STEP_START) && tag != int32(abi.ACL_STEP_END) {
		return t.Fail(invalidParam, "EH0001: %s: tag %d is neither start nor end", function, tag)
	}
	_, code := r.Stream(t, a[2])
	return uint64(uint32(code))
}

func (r *Runtime) stampMessage(t *Thread, a []uint64) uint64 {
	const function = "aclprofSetStampTraceMessage"
	if _, ok := Lookup[*profileStamp](&r.Handles, a[0]); !ok {
		return t.noStamp(function, a[0])
	}
	if a[1] == 0 {
		return t.null(function, "msg")
	}
	return 0
}

func (t *Thread) noStamp(function string, h uint64) uint64 {
	return t.Fail(invalidParam, "EH0001: %s: %#x is no live stamp", function, h)
}

// stamped is a function of a stamp alone.
func (r *Runtime) stamped(function string) Func {
	return func(t *Thread, a []uint64) uint64 {
		if _, ok := Lookup[*profileStamp](&r.Handles, a[0]); !ok {
			return t.noStamp(function, a[0])
		}
		return 0
	}
}

func (r *Runtime) markStream(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclprofMarkEx", "msg")
	}
	_, code := r.Stream(t, a[2])
	return uint64(uint32(code))
}

func (r *Runtime) rangeStart(t *Thread, a []uint64) uint64 {
	const function = "aclprofRangeStart"
	if _, ok := Lookup[*profileStamp](&r.Handles, a[0]); !ok {
		return t.noStamp(function, a[0])
	}
	if a[1] == 0 {
		return t.null(function, "rangeId")
	}
	p := &r.profiler
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ranges == nil {
		p.ranges = make(map[uint32]bool)
	}
	p.lastRange++
	p.ranges[p.lastRange] = true
	Write(a[1], p.lastRange)
	return 0
}

func (r *Runtime) rangeStop(t *Thread, a []uint64) uint64 {
	id := uint32(a[0])
	p := &r.profiler
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ranges[id] {
		return t.Fail(invalidParam, "EH0001: aclprofRangeStop: range %d is not under way", id)
	}
	delete(p.ranges, id)
	return 0
}
