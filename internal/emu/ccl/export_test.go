package ccl

import (
	"net"
	"syscall"
	"time"

	"github.com/goascend/cann/internal/emu/rt"
)

// ParseTable returns the number of ranks of a table.
func ParseTable(text []byte) (int, error) {
	t, err := parseTable(text)
	if err != nil {
		return 0, err
	}
	return len(t.ranks), nil
}

// PutOnOwnHost makes a library appear to be on a host of its own.
func PutOnOwnHost(l *Library) { l.host = random(16) }

// SetTimeouts changes how long a library waits, while no call runs.
func SetTimeouts(l *Library, t Timeouts) { l.timeouts = t }

// Remember makes a library remember the device of a thread, as HCCL did in 2024.
func Remember(l *Library) { l.remembers = true }

// Hold makes a stream wait until a channel is closed.
func Hold(l *Library, t *rt.Thread, stream uint64, until <-chan struct{}) {
	s, _ := l.rt.Stream(t, rt.Handle(stream))
	l.rt.Submit(t, s, rt.Task{Name: "hold", Run: func() error { <-until; return nil }})
}

// Lost makes a communicator lose a peer after a call has checked its handle, and returns what the call's next check
// says.
func Lost(l *Library, t *rt.Thread, comm, stream uint64) error {
	c, err := l.usable("HcclBarrier", rt.Handle(comm))
	if err != nil {
		return err
	}
	c.fail(gone(2).(*rt.Fault))
	_, err = c.stream(t, "HcclBarrier", rt.Handle(stream))
	return err
}

// PartIDs returns what gives the ids of a communicator's sub-communicators.
func PartIDs() func(id string) string { return (&comm{fabric: new(fabric)}).partID }

// TimedOut returns what the waits of a rank report whose timeout has passed when its communicator fails; with lose
// when lose has ended the connection to a peer and the reader of the connection has not noticed it yet.
func TimedOut(l *Library, comm uint64, peer int, lose func()) (all []error) {
	c, _ := l.usable("HcclBarrier", rt.Handle(comm))
	late := make(chan struct{})
	close(late)
	limit := &limit{c: c, late: late, timer: time.NewTimer(0)}
	if lose == nil {
		c.fail(gone(peer).(*rt.Fault))
	} else {
		w := wireOf(c.links[peer])
		w.mu.Lock() // the reader needs it to report the loss
		lose()
		time.AfterFunc(50*time.Millisecond, w.mu.Unlock)
	}
	for range 20 { // a choice among what is ready would be random
		all = append(all, limit.wait(nil), limit.passed())
	}
	return all
}

// Disconnect breaks the connection to a peer in another process.
func Disconnect(l *Library, comm uint64, peer int) {
	c, _ := l.usable("HcclBarrier", rt.Handle(comm))
	_ = wireOf(c.links[peer]).conn.Close()
}

// full is a listener of a process that is at its limit of open files.
type full struct{ net.Listener }

func (full) Accept() (net.Conn, error) {
	return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
}

// FullRoot returns the root info of a root whose process is at its limit of open files.
func FullRoot(l *Library) ([]byte, error) {
	listener, err := listenRoot()
	if err != nil {
		return nil, err
	}
	info := l.serve(newRoot(full{listener}, []byte(random(secretSize/2)))).info()
	return info[:], nil
}

// ServersOf returns the server of each rank, of which the root knows the hosts.
func ServersOf(hosts ...string) (servers []int) {
	var peers []hello
	for _, h := range hosts {
		peers = append(peers, hello{Host: h})
	}
	for _, p := range positionsOf(peers) {
		servers = append(servers, p.server)
	}
	return servers
}
