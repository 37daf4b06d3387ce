package ccl

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/sanitize"
)

// comm is one rank's end of a communicator.
type comm struct {
	library *Library
	handle  rt.Handle // 0 until it is published
	name    string
	device  int
	owner   int  // device among whose communicators HCCL keeps it
	alone   bool // made by HcclCommInitAll, whose threads have one device each
	rank    int
	size    int
	sub     bool
	config  config
	links   []link // by rank, nil at the own one
	fabric  *fabric
	parts   map[string]int // number of sub-communicators made so far, by ranks and id

	linking  sync.Once
	connect  func() error // links the ranks at the first call that needs it; nil if already linked
	unlinked error        // why that failed

	turn    chan struct{}   // holds a value while no collective is running
	current exchange        // the running phase
	keep    []byte          // see fold
	order   *sanitize.Order // shared by all ranks in this process, which wait for each other
	streams *sanitize.Turn  // of this rank, whose collectives take turns
	pending atomic.Int64    // number of collectives that are queued or running
	asleep  atomic.Bool     // suspended

	mu      sync.Mutex
	broken  chan struct{} // closed by the first failure
	failure *rt.Fault
	repeats map[repetition]*work

	positions []position // by rank; nil on a schedule, which has no other ranks
	handed    handed     // guarded by library.mu

	windows []*window // in the order in which they were registered; guarded by library.mu
	left    bool      // close has begun; guarded by library.mu
}

// newComm makes a communicator with a configuration and reserves its name, which must be unique per device. The
// communicator has no handle until it is published. The caller releases it with close.
func (l *Library) newComm(cfg config, device, owner, rank, size int) (*comm, error) {
	keep, err := scratch(2 * piece)
	if err != nil {
		return nil, refuse(internal, "EI0007: memory of communicator %q: %v", cfg.name, err)
	}
	c := &comm{
		library: l, config: cfg, name: cfg.name, device: device, owner: owner, rank: rank, size: size, keep: keep,
		links: make([]link, size), order: l.rt.Order(cfg.name), streams: &sanitize.Turn{Name: fmt.Sprintf("communicator %q", cfg.name)}, turn: make(chan struct{}, 1), broken: make(chan struct{}),
	}
	c.turn <- struct{}{}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := place{owner, cfg.name}
	if l.names[key] != nil {
		release(keep)
		return nil, refuse(badParameter, "EI0003: device %d already has a communicator named %q; destroy it, or give this one another hcclCommName%s", owner, cfg.name, misplaced(owner, device))
	}
	l.names[key] = c
	return c, nil
}

// patience returns how long a collective waits for a peer; 0 is for ever.
func (c *comm) patience() time.Duration {
	if c.config.execute != nil {
		return *c.config.execute
	}
	return c.library.timeouts.Execute
}

// linked links the ranks if that has not happened yet, and returns the error of linking them. It does not return
// later failures of the communicator: the stream reports those.
func (c *comm) linked() error {
	c.linking.Do(func() {
		if c.connect == nil {
			return
		}
		if c.unlinked = c.connect(); c.unlinked != nil {
			c.fail(fault(faultTimeout, "%v", c.unlinked))
		}
	})
	return c.unlinked
}

// publish gives the communicator its handle.
func (c *comm) publish() rt.Handle {
	handle := c.library.rt.Handles.New(rt.CommKind, c)
	c.library.mu.Lock()
	defer c.library.mu.Unlock()
	c.handle = handle
	return handle
}

// fail marks the communicator as failed. Only the first failure is kept.
func (c *comm) fail(f *rt.Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil {
		c.failure = f
		close(c.broken)
	}
}

func (c *comm) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil {
		return nil
	}
	return c.failure
}

// close closes this rank's links and releases its name, its place in the fabric and its memory.
func (c *comm) close() {
	for _, peer := range c.links {
		if peer != nil {
			peer.close()
		}
	}
	for _, w := range c.library.leave(c) {
		c.library.rt.Handles.Delete(w.handle)
	}
	release(c.keep)
	c.keep = nil
	c.handed.free()
}

// fabric connects the ranks of a communicator that are in this process.
type fabric struct {
	id     string
	queues map[[2]int]*queue // by sender and receiver
	comms  map[int]*comm
}

// enter registers a communicator under its rank in the fabric with an id and links it to the
// peers in this process. The first communicator to enter creates the fabric.
func (c *comm) enter(id string, here func(rank int) bool) error {
	l := c.library
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.fabrics[id]
	if f == nil {
		f = &fabric{id: id, queues: make(map[[2]int]*queue), comms: make(map[int]*comm)}
		l.fabrics[id] = f
	}
	if f.comms[c.rank] != nil {
		return refuse(internal, "EI0014: rank %d of communicator %q joined twice", c.rank, c.name)
	}
	f.comms[c.rank] = c
	c.fabric = f
	get := func(from, to int) *queue {
		q := f.queues[[2]int{from, to}]
		if q == nil {
			q = newQueue()
			f.queues[[2]int{from, to}] = q
		}
		return q
	}
	for r := range c.size {
		if r == c.rank || !here(r) {
			continue
		}
		c.links[r] = &pipe{out: get(c.rank, r), in: get(r, c.rank), peer: r, theirs: func() *comm {
			l.mu.Lock()
			defer l.mu.Unlock()
			return f.comms[r]
		}}
	}
	return nil
}

// leave releases a communicator's name and its place in the fabric, and returns the windows that it had. The last
// communicator to leave removes the fabric.
func (l *Library) leave(c *comm) (windows []*window) {
	l.mu.Lock()
	defer l.mu.Unlock()
	windows, c.windows, c.left = c.windows, nil, true
	delete(l.names, place{c.owner, c.name})
	f := c.fabric
	if f == nil {
		return windows
	}
	delete(f.comms, c.rank)
	if len(f.comms) == 0 {
		delete(l.fabrics, f.id)
	}
	return windows
}

func (c *comm) String() string {
	return fmt.Sprintf("rank %d of %d of %q", c.rank, c.size, c.name)
}

func (c *comm) checkRank(function, what string, r uint32) error {
	if int64(r) >= int64(c.size) {
		return refuse(badParameter, "EI0003: %s: %s %d; communicator %q has ranks 0 to %d", function, what, r, c.name, c.size-1)
	}
	return nil
}

// Find looks up a communicator by device and name, for operators that both compute and
// communicate. ok is false if there is none or it is not published yet.
func (l *Library) Find(device int, name string) (handle rt.Handle, rank, size int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, c := range l.names {
		if key.name == name && c.device == device && c.handle != 0 {
			return c.handle, c.rank, c.size, true
		}
	}
	return 0, 0, 0, false
}
