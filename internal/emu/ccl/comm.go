package ccl

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/goascend/cann/internal/emu/rt"
)

// comm is one rank's end of a communicator.
type comm struct {
	library *Library
	handle  uint64 // 0 until it is published
	name    string
	device  int
	rank    int
	size    int
	sub     bool
	links   []link // by rank, nil at the own one
	fabric  *fabric
	parts   map[string]int // sub-communicators made so far, by ranks and id

	met  sync.Once
	meet func() error // links the ranks in the first call that needs them; nil when they are

	turn    chan struct{} // has a value when no collective is under way
	current exchange      // what the collective under way does
	keep    []byte        // see fold
	order   *rt.Order     // of all ranks in this process: they wait for each other
	pending atomic.Int64  // collectives queued or under way
	asleep  atomic.Bool   // suspended

	mu      sync.Mutex
	broken  chan struct{} // closed by the first failure
	failure *rt.Fault
	repeats map[repetition]*work
}

// newComm takes a name, which occurs once per device. Until the communicator is published
// nobody can use it; close gives all back.
func (l *Library) newComm(name string, device, rank, size int) (*comm, error) {
	keep, err := scratch(2 * piece)
	if err != nil {
		return nil, refuse(internal, "EI0007: memory of communicator %q: %v", name, err)
	}
	c := &comm{
		library: l, name: name, device: device, rank: rank, size: size, keep: keep,
		links: make([]link, size), order: l.rt.Order(name), turn: make(chan struct{}, 1), broken: make(chan struct{}),
	}
	c.turn <- struct{}{}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := place{device, name}
	if l.names[key] != nil {
		release(keep)
		return nil, refuse(badParameter, "EI0003: device %d already has a communicator named %q; destroy it, or give this one another hcclCommName", device, name)
	}
	l.names[key] = c
	return c, nil
}

// linked waits for the ranks to meet, if they have not yet.
func (c *comm) linked() error {
	c.met.Do(func() {
		if c.meet == nil {
			return
		}
		if err := c.meet(); err != nil {
			c.fail(fault(faultTimeout, "%v", err))
		}
	})
	return c.reason()
}

// publish gives the communicator its handle.
func (c *comm) publish() uint64 {
	handle := c.library.rt.Handles.New(rt.CommKind, c)
	c.library.mu.Lock()
	defer c.library.mu.Unlock()
	c.handle = handle
	return handle
}

// fail ends the communicator; the first failure counts.
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

// close ends this rank's links and gives its name, place and memory back.
func (c *comm) close() {
	for _, peer := range c.links {
		if peer != nil {
			peer.close()
		}
	}
	c.library.leave(c)
	release(c.keep)
	c.keep = nil
}

// fabric connects the ranks of a communicator that are in this process.
type fabric struct {
	id     string
	queues map[[2]int]*queue // by sender and receiver
	comms  map[int]*comm
}

// enter makes a communicator the one of its rank in the fabric with an id, which the first
// one makes, and links it to the peers in this process.
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

// leave gives up a communicator's name and place; the last one ends the fabric.
func (l *Library) leave(c *comm) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.names, place{c.device, c.name})
	f := c.fabric
	if f == nil {
		return
	}
	delete(f.comms, c.rank)
	if len(f.comms) == 0 {
		delete(l.fabrics, f.id)
	}
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

// Find is the communicator of a name on a device, for operators that compute and communicate.
func (l *Library) Find(device int, name string) (handle uint64, rank, size int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok := l.names[place{device, name}]
	if !ok || c.handle == 0 {
		return 0, 0, 0, false
	}
	return c.handle, c.rank, c.size, true
}
