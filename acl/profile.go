package acl

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/goascend/cann/internal/abi"
)

// ProfileParts select what a profile records. CANN knows more parts than are named here; their bits
// (ACL_PROF_…) can be added.
type ProfileParts uint64

// Parts of a profile.
const (
	ProfileAPI         ProfileParts = abi.ACL_PROF_ACL_API        // calls of acl and aclnn on the host
	ProfileTasks       ProfileParts = abi.ACL_PROF_TASK_TIME      // when each kernel ran
	ProfileCores       ProfileParts = abi.ACL_PROF_AICORE_METRICS // counters of the AI Cores, see ProfileMetrics
	ProfileAICPU       ProfileParts = abi.ACL_PROF_AICPU          // what the AI CPU did
	ProfileL2          ProfileParts = abi.ACL_PROF_L2CACHE        // hits of the level 2 cache
	ProfileCollectives ProfileParts = abi.ACL_PROF_HCCL_TRACE     // HCCL's tasks
	ProfileRanges      ProfileParts = abi.ACL_PROF_MSPROFTX       // Stream.Range and Stream.Mark
	ProfileRuntime     ProfileParts = abi.ACL_PROF_RUNTIME_API    // calls inside the runtime
	ProfileMemory      ProfileParts = abi.ACL_PROF_TASK_MEMORY    // memory that operators take
	ProfileAttributes  ProfileParts = abi.ACL_PROF_OP_ATTR        // attributes of operators
	profileUsual                    = ProfileAPI | ProfileTasks | ProfileCores | ProfileAICPU | ProfileCollectives | ProfileRanges
)

// ProfileMetrics are the counters that an AI Core keeps with ProfileCores: one group at a time.
type ProfileMetrics int32

// Groups of counters.
const (
	MetricsPipes      ProfileMetrics = iota // share of time in which each pipe works; the usual group
	MetricsArithmetic                       // kinds of instructions of the cube and vector units
	MetricsMemory                           // bandwidth of memory
	MetricsL0                               // bandwidth of the L0 buffers
	MetricsUB                               // bandwidth of the Unified Buffer
	MetricsConflicts                        // conflicts of resources
	MetricsL2                               // hits of the level 2 cache
	MetricsAccess                           // accesses to memory
)

var metrics = map[ProfileMetrics]aclprofAicoreMetrics{
	MetricsPipes: abi.ACL_AICORE_PIPE_UTILIZATION, MetricsArithmetic: abi.ACL_AICORE_ARITHMETIC_UTILIZATION,
	MetricsMemory: abi.ACL_AICORE_MEMORY_BANDWIDTH, MetricsL0: abi.ACL_AICORE_L0B_AND_WIDTH, MetricsUB: abi.ACL_AICORE_MEMORY_UB,
	MetricsConflicts: abi.ACL_AICORE_RESOURCE_CONFLICT_RATIO, MetricsL2: abi.ACL_AICORE_L2_CACHE, MetricsAccess: abi.ACL_AICORE_MEMORY_ACCESS,
}

// ProfileConfig selects what a profile records and where. Only Folder is needed.
type ProfileConfig struct {
	// Folder gets a folder PROF_… for each profile, which msprof --export=on --output=… makes tables
	// and a timeline of. It is made if it is missing.
	Folder string
	// Devices are recorded; nil records all that the process can see.
	Devices []int
	// Parts selects what the profiler records. 0 selects calls, kernels with the counters of Metrics,
	// collectives, the AI CPU and ranges.
	Parts ProfileParts
	// Metrics are the counters of ProfileCores.
	Metrics ProfileMetrics
}

// Profile is a recording of CANN's profiler that has begun. Close ends it.
type Profile struct {
	folder string
	config aclprofConfig
	once   sync.Once
	err    error
}

// profiling is held while a Profile is open: CANN records one at a time.
var profiling sync.Mutex

// Profile begins to record what the devices do (aclprofInit, aclprofStart) until Profile.Close. CANN
// records one profile at a time: with ErrBusy another is open, in this module or started by
// msprof around the process. Work that is queued now and not yet done may be recorded in part;
// synchronise before, and before Close. The runtime must stay open until Close.
//
// The emulator accepts the calls and makes the folders, but has nothing to write into them; its own
// recording is CANN_EMU_TRACE.
func (rt *Runtime) Profile(cfg ProfileConfig) (_ *Profile, err error) {
	const op = "Runtime.Profile"
	if err := rt.usable(op); err != nil {
		return nil, err
	}
	ids, err := rt.profiled(op, &cfg)
	if err != nil {
		return nil, err
	}
	if !profiling.TryLock() {
		return nil, refuse(op, ErrBusy, "another profile is open, and CANN records one at a time")
	}
	defer func() {
		if err != nil {
			profiling.Unlock()
		}
	}()
	folder := append([]byte(cfg.Folder), 0)
	if err := aclprofInit(0, &folder[0], uint64(len(cfg.Folder))); err != nil {
		return nil, wrap(err)
	}
	p := &Profile{folder: cfg.Folder}
	p.config, err = aclprofCreateConfig(0, &ids[0], uint32(len(ids)), metrics[cfg.Metrics], 0, uint64(cfg.Parts))
	switch {
	case err != nil:
		err = wrap(err)
	case p.config == 0:
		err = refuse(op, ErrInvalidArgument, "CANN makes no configuration of devices %d with parts %#x; its log has the reason", ids, uint64(cfg.Parts))
	default:
		if err = aclprofStart(0, p.config); err == nil {
			return p, nil
		}
		err = wrap(err)
		_ = aclprofDestroyConfig(0, p.config) // the first error counts
	}
	_ = aclprofFinalize(0) // likewise
	return nil, err
}

// profiled checks a configuration and fills in what it leaves open. It returns the devices.
func (rt *Runtime) profiled(op string, cfg *ProfileConfig) (ids []uint32, err error) {
	if cfg.Folder == "" || strings.ContainsRune(cfg.Folder, 0) {
		return nil, refuse(op, ErrInvalidArgument, "the folder is %q; name one that the profile can be written to", cfg.Folder)
	}
	if _, ok := metrics[cfg.Metrics]; !ok {
		return nil, refuse(op, ErrInvalidArgument, "there are no metrics %d", cfg.Metrics)
	}
	n, err := rt.DeviceCount()
	if err != nil {
		return nil, err
	}
	if cfg.Devices == nil {
		for id := range n {
			ids = append(ids, uint32(id))
		}
	}
	seen := make(map[int]bool)
	for _, id := range cfg.Devices {
		if id < 0 || id >= n || seen[id] {
			return nil, refuse(op, ErrInvalidArgument, "the devices are %v; name each of devices 0 to %d at most once", cfg.Devices, n-1)
		}
		seen[id] = true
		ids = append(ids, uint32(id))
	}
	if len(ids) == 0 {
		return nil, refuse(op, ErrInvalidArgument, "there is no device to record")
	}
	if cfg.Parts == 0 {
		cfg.Parts = profileUsual
	}
	if cfg.Folder, err = filepath.Abs(cfg.Folder); err == nil {
		err = os.MkdirAll(cfg.Folder, 0o750)
	}
	if err != nil {
		return nil, refuse(op, ErrInvalidArgument, "the folder of the profile: %v", err)
	}
	return ids, nil
}

// Folder is the absolute path of the folder in which the PROF_… folder of the profile is.
func (p *Profile) Folder() string {
	if p == nil {
		return ""
	}
	return p.folder
}

// Close ends the recording and has CANN write it (aclprofStop, aclprofFinalize). The second time it
// does nothing.
func (p *Profile) Close() error {
	if p == nil || p.config == 0 {
		return nil
	}
	p.once.Do(func() {
		defer profiling.Unlock()
		var errs []error
		for _, err := range []error{aclprofStop(0, p.config), aclprofDestroyConfig(0, p.config), aclprofFinalize(0)} {
			if err != nil {
				errs = append(errs, wrap(err))
			}
		}
		p.err = errors.Join(errs...)
	})
	err := p.err
	p.err = nil
	return err
}
