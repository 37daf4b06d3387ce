package hccl

import (
	"sync"
	"time"

	"github.com/goascend/cann/acl"
)

// Queued is a collective, or an exchange with some ranks, that a communicator of this process has
// queued.
type Queued struct {
	At       time.Time `json:"at"`
	Comm     string    `json:"comm"` // the communicator's name if it is tracked
	Rank     int       `json:"rank"` // in the communicator
	Size     int       `json:"size"`
	Device   int       `json:"device"`
	Stream   int       `json:"stream"`
	Number   uint64    `json:"number"`   // from 1, of the communicator's collectives, or of its exchanges
	Exchange bool      `json:"exchange"` // a send, receive or batch of these
	Call     string    `json:"call"`     // with what all ranks must agree on, or the peers
}

// flown is an entry of the flight record. Its texts are made when it is read.
type flown struct {
	at       time.Time
	comm     *Comm
	device   int
	stream   int
	number   uint64
	exchange bool
	call     tracked
}

// flightSize is how many calls the process remembers.
const flightSize = 1024

// flight keeps the last calls that the communicators of the process queued.
var flight struct {
	mu    sync.Mutex
	ring  [flightSize]flown
	count uint64
}

// queued notes a call that HCCL took, for the flight record and for a watchdog.
func (c *Comm) queued(st *acl.Stream, exchange bool, call tracked) error {
	count := &c.collectives
	if exchange {
		count = &c.exchanges
	}
	f := flown{at: time.Now(), comm: c, device: st.Device().ID(), stream: st.ID(), number: count.Add(1), exchange: exchange, call: call}
	flight.mu.Lock()
	flight.ring[flight.count%flightSize] = f
	flight.count++
	flight.mu.Unlock()
	t := c.tracker.Load()
	switch {
	case t == nil:
		return nil
	case exchange:
		return t.exchanges.queued(st, call)
	}
	return t.collectives.queued(st, call)
}

// forget drops a closed communicator's calls, so that the flight record does not keep it.
func (c *Comm) forget() {
	flight.mu.Lock()
	defer flight.mu.Unlock()
	closed := &Comm{name: c.name, rank: c.rank, size: c.size}
	for i := range flight.ring {
		if f := &flight.ring[i]; f.comm == c {
			f.comm = closed
		}
	}
}

// LastQueued returns the collectives and exchanges that the communicators of this process queued
// last, the oldest first, at most limit and 1024. It waits for nothing. It is no method of Comm,
// because a hang is found in the order of the calls of all communicators, those that are closed included.
func LastQueued(limit int) (all []Queued) {
	flight.mu.Lock()
	defer flight.mu.Unlock()
	n := flight.count
	for i := n - min(n, flightSize, uint64(max(limit, 0))); i < n; i++ {
		f := &flight.ring[i%flightSize]
		all = append(all, Queued{
			At: f.at, Comm: f.comm.name, Rank: f.comm.rank, Size: f.comm.size, Device: f.device, Stream: f.stream,
			Number: f.number, Exchange: f.exchange, Call: f.call.String(),
		})
	}
	return all
}
