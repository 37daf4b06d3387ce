package acl

import (
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

// Config configures how the process uses CANN. The zero value is the usual one. What one Open
// turns on, another does not turn off.
type Config struct {
	// File is the path of the JSON file that aclInit reads, "" for none. CANN takes one per
	// process: it counts the first time only, and a later Open with another is refused.
	File string `json:"file,omitempty"`
	// LaunchBlocking synchronises after each launch, so that a fault shows at the call that
	// caused it. The environment variable ASCEND_LAUNCH_BLOCKING=1 turns it on too.
	LaunchBlocking bool `json:"launch_blocking,omitempty"`
	// LeakStacks keeps the stack at which each object was made, for the report of a leak.
	// Costs microseconds per object.
	LeakStacks bool `json:"leak_stacks,omitempty"`
	// QuietLeaks keeps the emulator from printing the first leak to standard error when there
	// is no logger.
	QuietLeaks bool `json:"quiet_leaks,omitempty"`
	// ReleaseLeaks releases buffers of the cache, streams and events that were collected without
	// Close. Memory is given out again, and a stream destroyed, when the work that was queued
	// before has ended. Leaks are reported all the same: the collector may notice them late. An
	// object whose address or handle was given to other C code must be kept reachable while that
	// code uses it. Memory outside the cache, host memory, arenas, contexts and devices stay. It
	// costs about a microsecond per object and some nanoseconds per tensor of a launch.
	ReleaseLeaks bool `json:"release_leaks,omitempty"`
	// Expandable makes the caches of devices opened from now on take blocks of more than a
	// mebibyte from one range of addresses (aclrtReserveMemAddress) into which memory is mapped in
	// pages of 20 MiB (aclrtMallocPhysical, aclrtMapMem). Blocks of changing sizes, such as the
	// activations of batches of different lengths, then leave no segments that fit none of them.
	// Buffer.Share cannot pass such memory to other processes: it needs MallocDirect.
	Expandable bool `json:"expandable,omitempty"`
	// MemoryPool, if not 0, is the number of bytes of a memory pool of CANN (aclrtMemPoolCreate) from which the cache of
	// each device opened from now on takes its segments, and so the most that it holds; it is rounded up to whole
	// pages of 2 MiB. A device with less free memory is refused (ErrOutOfMemory), and so is Expandable beside it.
	// Atlas A2 with CANN 9.1 or newer has such pools: others are refused with ErrNotSupported. CANN calls them a trial.
	// Memory of MallocDirect and MallocPhysical does not come from the pool.
	MemoryPool int `json:"memory_pool,omitempty"`
}

// Option is an argument of Open that is an object, such as a logger.
type Option func()

// WithLogger gives the package a logger, for the whole process. It gets leaks and the failures
// that no call can return. Nil takes the logger away. A *zap.Logger becomes such a logger by zap's
// own go.uber.org/zap/exp/zapslog:
//
//	acl.WithLogger(slog.New(zapslog.NewHandler(log.Core())))
func WithLogger(log *slog.Logger) Option { return func() { process.log.Store(log) } }

// process is the state that CANN has once per process.
var process processState

type processState struct {
	log       atomic.Pointer[slog.Logger]
	stacks    atomic.Bool
	quiet     atomic.Bool
	printed   atomic.Bool // the leak that is printed without a logger
	releasing atomic.Bool
	expanding atomic.Bool
	pooling   atomic.Int64 // bytes of Config.MemoryPool
	blocking  atomic.Bool
	reaper    reaper

	mu       sync.Mutex
	refs     int
	joined   bool // other code had initialised CANN
	lasting  bool // CANN stays initialised without users
	ended    bool // this package has called aclFinalize
	file     string
	everOpen bool
	slots    map[int]*slot
}

// Runtime is an open CANN. CANN is initialised once per process: every Open joins it, and it is
// finalised when the last Runtime and everything made from them is closed. CANN 8.1 cannot be
// initialised a second time: it stays initialised, except with Config.File, after whose end Open is
// refused.
type Runtime struct {
	owned
	soc string
}

// Open initialises CANN (aclInit) or joins what is open. Each Open needs a Close. On a
// machine without CANN the error is ErrNotInstalled and lists the libraries and paths tried;
// in a program for another system than Linux, or without cgo, it names that.
func Open(cfg Config, options ...Option) (*Runtime, error) {
	for _, o := range options {
		if o != nil {
			o()
		}
	}
	if err := retain(cfg); err != nil {
		return nil, err
	}
	rt := new(Runtime)
	// A null name, or a library without the function, leaves the name empty.
	rt.soc, _ = aclrtGetSocName(0)
	rt.open(KindRuntime, leak{})
	return rt, nil
}

// retain counts a user of CANN, and initialises it for the first one.
func retain(cfg Config) error {
	p := &process
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.everOpen && cfg.File != p.file {
		return refuse("acl.Open", ErrInvalidArgument, "CANN was initialised with configuration file %q and cannot take %q in the same process", p.file, cfg.File)
	}
	first := p.refs == 0
	pooling := int64(cfg.MemoryPool)
	if pooling == 0 && !first {
		pooling = p.pooling.Load()
	}
	switch expanding := cfg.Expandable || !first && p.expanding.Load(); {
	case cfg.MemoryPool < 0:
		return refuse("acl.Open", ErrInvalidArgument, "Config.MemoryPool is %d bytes", cfg.MemoryPool)
	case pooling > 0 && expanding:
		return refuse("acl.Open", ErrInvalidArgument, "Config.MemoryPool and Config.Expandable are two sources of one cache; choose one")
	}
	if first {
		if err := p.start(cfg.File); err != nil {
			return err
		}
	}
	p.refs++
	p.pooling.Store(pooling)
	for flag, on := range map[*atomic.Bool]bool{
		&p.blocking: cfg.LaunchBlocking || os.Getenv("ASCEND_LAUNCH_BLOCKING") == "1",
		&p.stacks:   cfg.LeakStacks, &p.quiet: cfg.QuietLeaks, &p.releasing: cfg.ReleaseLeaks, &p.expanding: cfg.Expandable,
	} {
		flag.Store(on || !first && flag.Load())
	}
	return nil
}

// start initialises CANN; p.mu is held.
func (p *processState) start(file string) error {
	if p.lasting {
		watchExceptions()
		return nil
	}
	joined, err := initialise(file)
	switch {
	case err != nil:
		return wrap(err)
	case joined && p.ended:
		return refuse("acl.Open", ErrNotSupported, "this CANN cannot be initialised again after aclFinalize in one process; keep a Runtime open as long as the process uses devices")
	}
	p.joined, p.file, p.everOpen = joined, file, true
	watchExceptions()
	if p.slots == nil {
		p.slots = make(map[int]*slot)
	}
	return nil
}

// share counts one more user of CANN, which is open.
func share() {
	process.mu.Lock()
	defer process.mu.Unlock()
	process.refs++
}

// initialise calls aclInit; joined reports that another part of the process had done so.
func initialise(file string) (joined bool, err error) {
	var path *byte
	if file != "" {
		path = &append([]byte(file), 0)[0]
	}
	err = aclInit(0, path)
	if codeOf(err) == abi.ACL_ERROR_REPEAT_INITIALIZE {
		return true, nil
	}
	return false, err
}

// release takes back one retain. The last one finalises CANN if its version counts users. One that
// does not cannot be initialised again either: it is finalised only if there is a configuration
// file, whose dumps and profiles that completes, and if no other code initialised it.
func release() error {
	p := &process
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refs--
	if p.refs > 0 {
		return nil
	}
	forgetExceptions()
	_, err := aclFinalizeReference(0)
	var missing *cshim.SymbolError
	if errors.As(err, &missing) {
		if p.joined || p.file == "" {
			p.lasting = !p.joined
			cshim.Forget()
			return nil
		}
		err = aclFinalize(0)
		p.ended = true
	}
	cshim.Forget()
	if err == nil || codeOf(err) == abi.ACL_ERROR_REPEAT_FINALIZE {
		return nil
	}
	return wrap(err)
}

// Close gives the runtime back; the second time it does nothing. Devices and what was made
// from them stay usable.
func (rt *Runtime) Close() error {
	if rt == nil || !rt.close() {
		return nil
	}
	return release()
}

// usable refuses calls on a closed runtime.
func (rt *Runtime) usable(op string) error {
	switch {
	case rt == nil || rt.state.Load() == 0:
		return neverMade(op, KindRuntime)
	case !rt.isOpen():
		return refuse(op, ErrClosed, "the runtime is closed")
	}
	return nil
}

// SoC is the chip's name, such as "Ascend910B1"; "" when CANN does not know it
// (aclrtGetSocName). With different chips in one machine it is that of device 0.
func (rt *Runtime) SoC() string {
	if rt == nil {
		return ""
	}
	return rt.soc
}

// Emulated reports whether the program calls the emulator linked into it.
func (rt *Runtime) Emulated() bool { return cshim.Emulated }

// DeviceCount is the number of devices that the process can see (aclrtGetDeviceCount).
func (rt *Runtime) DeviceCount() (int, error) {
	if err := rt.usable("Runtime.DeviceCount"); err != nil {
		return 0, err
	}
	n, err := aclrtGetDeviceCount(0)
	if err != nil {
		return 0, wrap(err)
	}
	return int(n), nil
}
