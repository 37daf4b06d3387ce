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
	handle  uint64
	name    string
	device  int
	rank    int
	size    int
	sub     bool
	links   []link // by rank, nil at the own one
	fabric  *fabric

	turn    chan struct{} // has a value when no collective is under way
	keep    []byte        // see fold
	pending atomic.Int64  // collectives queued or under way
	asleep  atomic.Bool   // suspended

	mu      sync.Mutex
	broken  chan struct{} // closed by the first failure
	failure *rt.Fault
}

func (l *Library) newComm(name string, device, rank, size int, f *fabric) (*comm, error) {
	keep, err := scratch(2 * piece)
	if err != nil {
		return nil, refuse(internal, "EI0007: memory of communicator %q: %v", name, err)
	}
	c := &comm{
		library: l, name: name, device: device, rank: rank, size: size, fabric: f, keep: keep,
		links: make([]link, size), turn: make(chan struct{}, 1), broken: make(chan struct{}),
	}
	c.turn <- struct{}{}
	return c, nil
}

// register gives the communicator its handle; a name occurs once per device.
func (l *Library) register(c *comm) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := place{c.device, c.name}
	if l.names[key] != nil {
		return refuse(badParameter, "EI0003: device %d already has a communicator named %q; destroy it, or give this one another hcclCommName", c.device, c.name)
	}
	l.names[key] = c
	c.handle = l.rt.Handles.New(rt.CommKind, c)
	return nil
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

// close ends this rank's links and gives its memory back.
func (c *comm) close() {
	for _, peer := range c.links {
		if peer != nil {
			peer.close()
		}
	}
	if c.fabric != nil {
		c.library.leave(c.fabric, c.rank)
	}
	release(c.keep)
	c.keep = nil
}

// fabric connects the ranks of a communicator that are in this process.
type fabric struct {
	id     string
	queues map[[2]int]*queue // by sender and receiver
	comms  map[int]*comm
}

// join takes a rank's place in the fabric with an id, which the first one makes.
func (l *Library) join(id string) *fabric {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.fabrics[id]
	if f == nil {
		f = &fabric{id: id, queues: make(map[[2]int]*queue), comms: make(map[int]*comm)}
		l.fabrics[id] = f
	}
	return f
}

// enter registers a communicator under its rank and links it to the peers in this process.
func (l *Library) enter(f *fabric, c *comm, here func(rank int) bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.comms[c.rank] != nil {
		return refuse(internal, "EI0014: rank %d of communicator %q joined twice", c.rank, c.name)
	}
	f.comms[c.rank] = c
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

// leave gives up a rank's place; the last one ends the fabric.
func (l *Library) leave(f *fabric, rank int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(f.comms, rank)
	if len(f.comms) == 0 && l.fabrics[f.id] == f {
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
