package rt

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// Runtime is the state of one emulated process: everything that CANN keeps behind its C functions.
type Runtime struct {
	Handles  Handles
	Trace    *Trace    // nil when calls are not traced
	Schedule *Schedule // nil when work is done in earnest
	Captures Captures

	config Config
	err    error // why the machine's description is unusable; aclInit and every SetDevice repeat it
	start  time.Time

	life       lifecycle
	devices    []*Device // that the process sees
	dies       []*Device // all
	host       hostMemory
	virtual    virtual
	managed    managed
	exchange   exchange
	reports    reporters
	allocators allocators
	sysParams  sync.Map                                         // process-wide options by number
	begins     []func(t *Thread, path string, text []byte) Code // functions of AtInitialize
	ends       []func()                                         // functions of AtFinalize

	exception   atomic.Uintptr // exception callback
	streamCount atomic.Int32   // last stream id
	notifyCount atomic.Int32   // last notify id
	expired     atomic.Uint64  // number of waits that ran out of time
	faults      *Faults
	sanitizer   *sanitize.Checker // nil without a sanitizer
	allocations atomic.Uint64     // number of allocations made so far
	orders      sync.Map          // *sanitize.Order by name
	outside     sanitize.Order    // of streams that synchronise through other processes
	socName     func() uint64
}

// New returns the runtime of the machine that the environment describes (ConfigFromEnv).
func New() *Runtime {
	c, err := ConfigFromEnv()
	r := NewMachine(c)
	if err == nil {
		r.Trace, err = OpenTrace(c.Trace)
	}
	r.err = cmp.Or(err, r.err)
	return r
}

// Refuse makes aclInit and the calls that set a device fail, unless err is nil or an earlier reason exists.
func (r *Runtime) Refuse(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Refused returns why the machine cannot be used, or nil: the environment describes none.
func (r *Runtime) Refused() error { return r.err }

// NewMachine returns the runtime of the machine that c describes. The memory of a device is
// reserved on first use.
func NewMachine(c Config) *Runtime {
	r := &Runtime{config: c, faults: c.Faults, start: time.Now()}
	r.Schedule, r.err = openSchedule(c.Schedule)
	r.socName = sync.OnceValue(func() uint64 { return NewCString(c.SoC) })
	for i := range c.Devices {
		r.devices = append(r.devices, &Device{id: i, physical: i, rt: r, peers: make(map[int]bool)})
	}
	r.sanitizer = sanitize.New(c.Sanitize, func(addr uint64) sanitize.Memory {
		if m := r.memoryOf(addr); m != nil {
			return m
		}
		return nil
	})
	r.dies = r.devices
	visible(r)
	return r
}

// Sanitizes reports whether tasks must list the memory that they access.
func (r *Runtime) Sanitizes() bool { return r.sanitizer != nil }

// API returns the older version of CANN whose ways are emulated, or "" for the newest.
func (r *Runtime) API() string { return r.config.API }

// PlainCube reports whether products of float32 are to stay float32, whatever cubeMathType says.
func (r *Runtime) PlainCube() bool { return r.config.PlainCube }

// Order returns the order of a name, the same one at each call.
func (r *Runtime) Order(name string) *sanitize.Order {
	o, _ := r.orders.LoadOrStore(name, new(sanitize.Order))
	return o.(*sanitize.Order)
}

// Backlog describes what waits of the program have left behind.
type Backlog struct {
	Expired uint64 // waits that ran out of time so far, each an error in CANN's log
	Pending int    // tasks that streams have not started
}

// Backlog counts over all devices.
func (r *Runtime) Backlog() Backlog {
	b := Backlog{Expired: r.expired.Load()}
	for _, d := range r.devices {
		for _, s := range d.allStreams() {
			s.mu.Lock()
			b.Pending += len(s.queue) - s.head
			s.mu.Unlock()
		}
	}
	return b
}

// Devices returns the number of visible devices.
func (r *Runtime) Devices() int { return len(r.devices) }

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
