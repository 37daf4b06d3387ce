package profile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
)

// profiler accepts calls to CANN's profiler and refuses them in a wrong order. It makes the folders for
// the results and measures nothing; CANN_EMU_TRACE does that.
type profiler struct {
	mu          sync.Mutex
	initialised bool
	folder      string                  // of aclprofInit
	made        int                     // folders of profiles in it
	running     map[*profileConfig]bool // configurations that are started
	ranges      map[uint32]bool         // open ranges
	lastRange   uint32
}

// Objects behind the handles of the profiler.
type (
	profileConfig struct {
		handle  rt.Handle
		devices []int
	}
	profileStep  struct{}
	profileStamp struct{}
)

func (r *Runtime) aclprofInit(t *rt.Thread, profilerResultPath string, length uint64) rt.Code {
	const function = "aclprofInit"
	if n := uint64(len(profilerResultPath)); n != length {
		return t.Fail(rt.InvalidParam, "EH0001: %s: the path has %d bytes and not length %d", function, n, length)
	}
	r.profiler.mu.Lock()
	defer r.profiler.mu.Unlock()
	if r.profiler.initialised {
		return t.Fail(int32(abi.ACL_ERROR_REPEAT_INITIALIZE), "EK0002: %s: the profiler was initialised; call aclprofFinalize first", function)
	}
	if profilerResultPath == "" {
		return t.Fail(int32(abi.ACL_ERROR_INVALID_FILE), "EK0001: %s: the path is empty", function)
	}
	r.profiler.initialised, r.profiler.folder, r.profiler.made = true, profilerResultPath, 0
	return 0
}

func (r *Runtime) aclprofFinalize(t *rt.Thread) rt.Code {
	r.profiler.mu.Lock()
	defer r.profiler.mu.Unlock()
	if !r.profiler.initialised {
		return profilerIsOff(t, "aclprofFinalize")
	}
	r.profiler.initialised = false
	clear(r.profiler.running)
	return 0
}

func profilerIsOff(t *rt.Thread, function string) rt.Code {
	return t.Fail(int32(abi.ACL_ERROR_PROF_NOT_RUN), "EK0001: %s: the profiler is not initialised; call aclprofInit first", function)
}

func (r *Runtime) aclprofSetConfig(t *rt.Thread, configType int32, config string, configLength uint64) rt.Code {
	const function = "aclprofSetConfig"
	if n := uint64(len(config)); n == 0 || n != configLength {
		return t.Fail(rt.InvalidParam, "EH0001: %s: the configuration has %d bytes and not configLength %d", function, n, configLength)
	}
	if configType < 0 || configType > int32(abi.ACL_PROF_SYS_MEM_SERVICEFLOW) {
		return t.Fail(rt.InvalidParam, "EH0001: %s: configType %d does not exist", function, configType)
	}
	return 0
}

// aclprofCreateConfig returns null for devices that do not exist, as CANN does.
func (r *Runtime) aclprofCreateConfig(t *rt.Thread, deviceIDList *uint32, deviceNums uint32, _ int32, _ uintptr, _ uint64) rt.Handle {
	const function = "aclprofCreateConfig"
	if deviceNums > 0 && deviceIDList == nil {
		t.Null(function, "deviceIdList")
		return 0
	}
	if n := r.Devices(); int(deviceNums) > n {
		t.Fail(rt.InvalidParam, "EH0001: %s: %d devices, there are %d", function, deviceNums, n)
		return 0
	}
	c := new(profileConfig)
	for _, id := range unsafe.Slice(deviceIDList, deviceNums) {
		if _, code := r.Device(t, int32(id)); code != 0 {
			return 0
		}
		c.devices = append(c.devices, int(id))
	}
	c.handle = r.Handles.New(rt.ProfileKind, c)
	return c.handle
}

//npugen:decode aclprofConfig
func (r *Runtime) profileConfig(t *rt.Thread, function, parameter string, h rt.Handle) (*profileConfig, rt.Code) {
	if h == 0 {
		return nil, t.Null(function, parameter)
	}
	c, ok := rt.Lookup[*profileConfig](&r.Handles, h)
	if !ok {
		return nil, t.Fail(rt.InvalidParam, "EH0001: %s: %#x is no live configuration of the profiler", function, h)
	}
	return c, 0
}

func (r *Runtime) aclprofDestroyConfig(profilerConfig *profileConfig) rt.Code {
	r.Handles.Delete(profilerConfig.handle)
	return 0
}

func (r *Runtime) aclprofStart(t *rt.Thread, profilerConfig *profileConfig) rt.Code {
	const function = "aclprofStart"
	p := &r.profiler
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.initialised:
		return profilerIsOff(t, function)
	case p.records(profilerConfig.devices):
		return t.Fail(int32(abi.ACL_ERROR_PROF_ALREADY_RUN), "EK0001: %s: a device of %v is recorded already", function, profilerConfig.devices)
	case p.running == nil:
		p.running = make(map[*profileConfig]bool)
	}
	if err := p.output(profilerConfig.devices); err != nil {
		return t.Fail(int32(abi.ACL_ERROR_INVALID_FILE), "EK0001: %s: %v", function, err)
	}
	p.running[profilerConfig] = true
	return 0
}

// records reports whether one of the devices, or the same configuration, is recorded.
func (p *profiler) records(devices []int) bool {
	for c := range p.running {
		if slices.ContainsFunc(devices, func(id int) bool { return slices.Contains(c.devices, id) }) {
			return true
		}
	}
	return false
}

// output makes the folders that CANN makes when a profile starts: PROF_, a number, the time, and one
// folder for each device in it.
func (p *profiler) output(devices []int) error {
	p.made++
	now := time.Now()
	name := fmt.Sprintf("PROF_%06d_%s%03d_%d", p.made, now.Format("20060102150405"), now.Nanosecond()/1e6, os.Getpid())
	for _, id := range devices {
		if err := os.MkdirAll(filepath.Join(p.folder, name, fmt.Sprintf("device_%d", id)), 0o750); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runtime) aclprofStop(t *rt.Thread, profilerConfig *profileConfig) rt.Code {
	p := &r.profiler
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running[profilerConfig] {
		return t.Fail(int32(abi.ACL_ERROR_PROF_NOT_RUN), "EK0001: aclprofStop: this configuration was not started")
	}
	delete(p.running, profilerConfig)
	return 0
}

func (r *Runtime) aclprofCreateStepInfo() rt.Handle {
	return r.Handles.New(rt.ProfileKind, &profileStep{})
}

//npugen:decode aclprofStepInfo
func (r *Runtime) profileStep(t *rt.Thread, function string, h rt.Handle) (*profileStep, rt.Code) {
	s, ok := rt.Lookup[*profileStep](&r.Handles, h)
	if !ok {
		return nil, t.Fail(rt.InvalidParam, "EH0001: %s: %#x is no live step", function, h)
	}
	return s, 0
}

// The destructors without a result ignore a wrong handle.

func (r *Runtime) aclprofDestroyStepInfo(stepInfo rt.Handle) {
	if _, ok := rt.Lookup[*profileStep](&r.Handles, stepInfo); ok {
		r.Handles.Delete(stepInfo)
	}
}

func (r *Runtime) aclprofDestroyStamp(stamp rt.Handle) {
	if _, ok := rt.Lookup[*profileStamp](&r.Handles, stamp); ok {
		r.Handles.Delete(stamp)
	}
}

func (r *Runtime) aclprofGetStepTimestamp(t *rt.Thread, _ *profileStep, tag int32, _ *rt.Stream) rt.Code {
	if tag != int32(abi.ACL_STEP_START) && tag != int32(abi.ACL_STEP_END) {
		return t.Fail(rt.InvalidParam, "EH0001: aclprofGetStepTimestamp: tag %d is neither start nor end", tag)
	}
	return 0
}

func (r *Runtime) aclprofCreateStamp() rt.Handle {
	return r.Handles.New(rt.ProfileKind, &profileStamp{})
}

//npugen:decode stamp
func (r *Runtime) profileStamp(t *rt.Thread, function string, h rt.Handle) (*profileStamp, rt.Code) {
	s, ok := rt.Lookup[*profileStamp](&r.Handles, h)
	if !ok {
		return nil, t.Fail(rt.InvalidParam, "EH0001: %s: %#x is no live stamp", function, h)
	}
	return s, 0
}

func (r *Runtime) aclprofSetStampTraceMessage(_ *profileStamp, _ rt.In[byte], _ uint32) rt.Code {
	return 0
}

func (r *Runtime) aclprofMark(*profileStamp) rt.Code { return 0 }
func (r *Runtime) aclprofPush(*profileStamp) rt.Code { return 0 }
func (r *Runtime) aclprofPop() rt.Code               { return 0 }

func (r *Runtime) aclprofMarkEx(_ rt.In[byte], _ uint64, _ *rt.Stream) rt.Code { return 0 }

func (r *Runtime) aclprofRangeStart(_ *profileStamp, rangeID rt.Out[uint32]) rt.Code {
	p := &r.profiler
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ranges == nil {
		p.ranges = make(map[uint32]bool)
	}
	p.lastRange++
	p.ranges[p.lastRange] = true
	rangeID.Set(p.lastRange)
	return 0
}

func (r *Runtime) aclprofRangeStop(t *rt.Thread, rangeID uint32) rt.Code {
	p := &r.profiler
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ranges[rangeID] {
		return t.Fail(rt.InvalidParam, "EH0001: aclprofRangeStop: range %d is not under way", rangeID)
	}
	delete(p.ranges, rangeID)
	return 0
}
