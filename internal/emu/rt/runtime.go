package rt

import (
	"sync"
	"sync/atomic"
	"time"
)

// Runtime is the state of one emulated process: what CANN keeps behind its C functions.
type Runtime struct {
	Handles Handles
	Trace   *Trace // nil records nothing

	config Config
	err    error // why the machine's description is unusable; every SetDevice repeats it
	start  time.Time

	life       lifecycle
	devices    []*Device
	host       hostMemory
	virtual    virtual
	managed    managed
	exchange   exchange
	reports    reporters
	captures   captures
	profiler   profiler
	allocators allocators
	queues     queues
	dumps      dumps
	marks      marks
	sysParams  sync.Map // process-wide options by number

	exception   atomic.Uint64 // exception callback
	streamCount atomic.Int32  // for stream ids
	graphCount  atomic.Int32  // for graph ids
	notifyCount atomic.Int32  // for notify ids
	faults      *Faults
	sanitizer   *sanitizer    // nil watches nothing
	allocations atomic.Uint64 // allocations ever made
	orders      sync.Map      // by name, see Order
	outside     Order         // of streams that meet by way of other processes
	socName     func() uint64
}

// New returns the runtime of the machine that the environment describes (ConfigFromEnv).
func New() *Runtime {
	c, err := ConfigFromEnv()
	r := NewMachine(c)
	if err == nil {
		r.Trace, err = OpenTrace(c.Trace)
	}
	r.err = err
	return r
}

// NewMachine returns the runtime of a machine. Devices take memory when they are first
// used.
func NewMachine(c Config) *Runtime {
	r := &Runtime{config: c, faults: c.Faults, start: time.Now()}
	r.socName = sync.OnceValue(func() uint64 { return NewCString(c.SoC) })
	for i := range c.Devices {
		r.devices = append(r.devices, &Device{id: i, physical: i, rt: r, peers: make(map[int]bool)})
	}
	r.sanitizer = newSanitizer(r, c.Sanitize)
	visible(r)
	return r
}

// table maps C names to functions of one subject.
type table map[string]Func

// Functions returns every emulated function of the runtime by C name.
func (r *Runtime) Functions() map[string]Func {
	all := make(map[string]Func)
	for _, t := range []table{
		r.lifecycleFunctions(), r.versionFunctions(), r.errorFunctions(), r.deviceFunctions(), r.contextFunctions(),
		r.streamFunctions(), r.eventFunctions(), r.sharedEventFunctions(), r.memoryFunctions(), r.copyFunctions(), r.batchFunctions(), r.dataBufferFunctions(), r.callbackFunctions(),
		r.captureFunctions(), r.graphFunctions(), r.conditionFunctions(), r.buildFunctions(), r.eventFlagFunctions(), r.virtualFunctions(), r.physicalFunctions(), r.ipcFunctions(), r.notifyFunctions(),
		r.limitFunctions(), r.overflowFunctions(), r.groupFunctions(), r.signalFunctions(), r.profilerFunctions(),
		r.optionFunctions(), r.allocatorFunctions(), r.tensorDescFunctions(), r.capabilityFunctions(), valueFunctions(),
		r.queueFunctions(), r.queueRouteFunctions(), r.channelFunctions(), r.datasetFunctions(), r.dumpFunctions(), r.markFunctions(),
	} {
		for name, f := range t {
			all[name] = f
		}
	}
	return all
}

// Order is the order of a name, the same at each call.
func (r *Runtime) Order(name string) *Order {
	o, _ := r.orders.LoadOrStore(name, new(Order))
	return o.(*Order)
}

// device returns a visible device by index.
func (r *Runtime) device(t *Thread, id int32) (*Device, uint64) {
	if r.err != nil {
		return nil, t.Fail(internalError, "EH9999: %v", r.err)
	}
	if id < 0 || int(id) >= len(r.devices) {
		return nil, t.Fail(invalidDevice, "EE1003: device %d does not exist, there are %d devices", id, len(r.devices))
	}
	return r.devices[id], 0
}
