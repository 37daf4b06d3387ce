package handshake

import (
	"net"
	"slices"
	"sync"
	"time"
)

// Limits on the connections whose handshake is not finished.
const (
	atOnce = 512                   // how many there may be
	grace  = 10 * time.Millisecond // what each has before another may take its place
)

// waiting is a connection whose handshake is not finished.
type waiting struct {
	conn   net.Conn
	source string // address without port
	since  time.Time
	left   chan struct{} // closed when it leaves
	opened bool          // it has sent a right opening; guarded by the doorstep
}

// doorstep holds the connections whose handshakes are not finished.
type doorstep struct {
	mu     sync.Mutex
	all    []*waiting     // oldest first
	silent map[string]int // how many have not sent a right opening, by source
	opened map[string]int // how many have, by source
	room   chan struct{}
}

func newDoorstep() *doorstep {
	return &doorstep{silent: make(map[string]int), opened: make(map[string]int), room: make(chan struct{}, 1)}
}

// count adds a connection to its source, or takes it away. The caller holds d.mu.
func (d *doorstep) count(w *waiting, n int) {
	counts := d.silent
	if w.opened {
		counts = d.opened
	}
	if counts[w.source] += n; counts[w.source] == 0 {
		delete(counts, w.source)
	}
}

// enter adds a connection. If there are too many, it returns the one that has to leave for it, or how
// long the caller has to wait before one may leave.
func (d *doorstep) enter(w *waiting) (leaves *waiting, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.all) >= atOnce {
		leaves = d.oldest()
		if wait = grace - time.Since(leaves.since); wait > 0 {
			return nil, wait
		}
		d.drop(leaves)
	}
	w.left = make(chan struct{})
	d.all = append(d.all, w)
	d.count(w, 1)
	return leaves, 0
}

// evict removes the connection that has to leave when the process has no descriptors left. It returns
// nil if there is none.
func (d *doorstep) evict() *waiting {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.all) == 0 {
		return nil
	}
	w := d.oldest()
	d.drop(w)
	return w
}

// leave removes a connection whose handshake has ended. It reports whether it was still there.
func (d *doorstep) leave(w *waiting) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.drop(w)
}

// open notes that a connection has sent a right opening, so others leave before it.
func (d *doorstep) open(w *waiting) { d.mark(w, true) }

// refuse notes that a connection does not know the secret, and so leaves like those that are silent. It
// reports whether it is still there.
func (d *doorstep) refuse(w *waiting) bool { return d.mark(w, false) }

func (d *doorstep) mark(w *waiting, opened bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.all, w) {
		return false
	}
	d.count(w, -1)
	w.opened = opened
	d.count(w, 1)
	return true
}

// oldest returns the connection that leaves next: the oldest of the source that has most connections,
// among those that have not sent a right opening if there are any. The caller holds d.mu.
func (d *doorstep) oldest() *waiting {
	counts := d.silent
	if len(counts) == 0 {
		counts = d.opened
	}
	most := 0
	for _, n := range counts {
		most = max(most, n)
	}
	for _, w := range d.all {
		if w.opened == (len(d.silent) == 0) && counts[w.source] == most {
			return w
		}
	}
	return nil
}

func (d *doorstep) drop(w *waiting) bool {
	i := slices.Index(d.all, w)
	if i < 0 {
		return false
	}
	d.all = slices.Delete(d.all, i, i+1)
	d.count(w, -1)
	close(w.left)
	select {
	case d.room <- struct{}{}:
	default:
	}
	return true
}

// sourceOf returns the address of a peer without its port.
func sourceOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}
