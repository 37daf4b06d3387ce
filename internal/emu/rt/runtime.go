package rt

import (
	"sync"
	"sync/atomic"
	"time"
)

// Runtime is the state of one emulated process: everything that CANN keeps behind its C functions.
type Runtime struct {
	Handles  Handles
	Trace    *Trace // nil when calls are not traced
	Captures Captures

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
	profiler   profiler
	allocators allocators
	dumps      dumps
	marks      marks
	sysParams  sync.Map // process-wide options by number
	ends       []func() // functions of AtFinalize

	exception   atomic.Uintptr // exception callback
	streamCount atomic.Int32   // last stream id
	notifyCount atomic.Int32   // last notify id
	faults      *Faults
	sanitizer   *sanitizer    // nil without a sanitizer
	allocations atomic.Uint64 // number of allocations made so far
	orders      sync.Map      // *Order by name
	outside     Order         // of streams that synchronise through other processes
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

// NewMachine returns the runtime of the machine that c describes. The memory of a device is
// reserved on first use.
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

// Order returns the Order of a name, the same one at each call.
func (r *Runtime) Order(name string) *Order {
	o, _ := r.orders.LoadOrStore(name, new(Order))
	return o.(*Order)
}

// Device returns a visible device by index.
//
//npugen:decode deviceId peerDeviceId otherDeviceId
func (r *Runtime) Device(t *Thread, id int32) (*Device, Code) {
	if r.err != nil {
		return nil, t.Fail(InternalError, "EH9999: %v", r.err)
	}
	if id < 0 || int(id) >= len(r.devices) {
		return nil, t.Fail(InvalidDevice, "EE1003: device %d does not exist, there are %d devices", id, len(r.devices))
	}
	return r.devices[id], 0
}
