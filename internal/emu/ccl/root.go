package ccl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/handshake"
)

// A root info holds the magic, a secret, the communicator's name and the root's address.
const (
	rootMagic   = "CANNEMU1"
	rootSecret  = 8
	secretSize  = 32
	rootName    = rootSecret + secretSize
	rootAddress = rootName + 32
	addressSize = 128
)

// root is the listener behind a root info. Each rank sends it its address; once all ranks
// have joined, it sends every rank the list of its peers.
type root struct {
	name     string
	secret   []byte
	listener *handshake.Listener
	deadline time.Time

	mu       sync.Mutex
	size     int // number of ranks, as the first one gave it
	waiting  map[int]waiter
	answer   *table      // sent to every rank, nil until it is known
	answered int         // number of ranks that have been sent the answer
	end      *time.Timer // after a failure, closes the listener once late ranks have the answer
}

// waiter is a rank that waits for the others.
type waiter struct {
	hello hello
	conn  *handshake.Conn
}

// hello is how a rank introduces itself when it connects.
type hello struct {
	Rank, Size, Device int
	Physical           int    // number of the device on its server
	Chip               string // its SoC
	Process            string // equal for ranks of one process
	Host               string // equal for processes that can share memory
	Address            string // where peers of other processes connect
}

// table is the root's answer.
type table struct {
	Peers   []hello // by rank
	Session string  // names this rendezvous
	Code    int32   // HcclResult when ranks are missing or contradict each other
	Text    string
}

// rootInfo is C's HcclRootInfo.
type rootInfo [abi.HCCL_ROOT_INFO_BYTES]byte

func (l *Library) HcclGetRootInfo(t *rt.Thread, rootInfo rt.Out[rootInfo]) error {
	const call = "HcclGetRootInfo"
	if l.invalid != nil {
		return l.invalid
	}
	if _, err := l.ownerOf(t, call); err != nil {
		return err
	}
	listener, err := listenRoot()
	if err != nil {
		return err
	}
	r := l.serve(newRoot(listener, []byte(random(secretSize/2))))
	rootInfo.Set(r.info())
	return nil
}

// info returns the bytes that the ranks need to find and authenticate the root.
func (r *root) info() (info rootInfo) {
	copy(info[:], rootMagic)
	copy(info[rootSecret:], r.secret)
	copy(info[rootName:], r.name)
	copy(info[rootAddress:], r.listener.Addr().String())
	return info
}

func newRoot(listener net.Listener, secret []byte) *root {
	return &root{name: random(16), secret: secret, listener: handshake.Listen(listener, protocol, secret, nil), waiting: make(map[int]waiter)}
}

func (l *Library) connectDeadline() time.Time { return time.Now().Add(l.timeouts.Connect) }

// serve accepts ranks at the root, in the background, until all have joined, the connect
// timeout expires, the root gives up, or the process finalizes.
func (l *Library) serve(r *root) *root {
	r.deadline = l.connectDeadline()
	l.mu.Lock()
	l.roots[r.name] = r
	l.mu.Unlock()
	l.serving.Go(func() {
		r.serve()
		if r.failure() == nil { // else it stays until its own rank has got the failure
			l.forget(r)
		}
	})
	return r
}

func (l *Library) forget(r *root) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.roots, r.name)
}

// close ends the roots whose ranks have not all joined.
func (l *Library) close() {
	l.mu.Lock()
	roots := slices.Collect(maps.Values(l.roots))
	l.mu.Unlock()
	for _, r := range roots {
		r.giveUp(errors.New("its process called aclFinalize"))
		_ = r.listener.Close()
		l.forget(r)
	}
	l.serving.Wait()
}

// giveUp reports to the waiting ranks that the communicator cannot be made.
func (r *root) giveUp(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answer == nil {
		r.answerAll(table{Code: internal, Text: fmt.Sprintf("EI0015: the root gave up: %v", why)})
	}
}

// failure returns why the communicator cannot be made, or nil.
func (r *root) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answer == nil || r.answer.Code == 0 {
		return nil
	}
	return refuse(r.answer.Code, "%s", r.answer.Text)
}

func (r *root) serve() {
	ctx, cancel := context.WithDeadline(context.Background(), r.deadline)
	defer cancel()
	for {
		conn, err := r.listener.Accept(ctx)
		if err != nil && ctx.Err() == nil {
			r.giveUp(err) // for want of file descriptors; a root that has closed its listener has given its answer before
		}
		if err != nil {
			break
		}
		r.admit(conn)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.listener.Close()
	if r.answer == nil && len(r.waiting) > 0 {
		r.answerAll(table{Code: timedOut, Text: fmt.Sprintf("EI0015: ranks %s of %d did not join in HCCL_CONNECT_TIMEOUT", r.missing(), r.size)})
	}
	if r.end != nil {
		r.end.Stop()
	}
}

func (r *root) missing() string {
	var m []string
	for i := range r.size {
		if _, ok := r.waiting[i]; !ok {
			m = append(m, fmt.Sprint(i))
		}
	}
	return strings.Join(m, ", ")
}

// admit reads the hello of a connection and adds its rank, or refuses it.
func (r *root) admit(conn *handshake.Conn) {
	var h hello
	if json.Unmarshal(conn.Hello(), &h) != nil {
		_ = conn.Close()
		return
	}
	_ = conn.SetDeadline(r.deadline.Add(patience))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size == 0 {
		r.size = h.Size
	}
	switch earlier, taken := r.waiting[h.Rank]; {
	case r.answer != nil:
		r.answerOne(conn)
		return
	case h.Size != r.size:
		r.refuse(waiter{h, conn}, fmt.Sprintf("EI0014: rank %d says that there are %d ranks, others say %d", h.Rank, h.Size, r.size))
		return
	case h.Rank < 0 || h.Rank >= r.size:
		r.refuse(waiter{h, conn}, fmt.Sprintf("EI0014: rank %d of %d", h.Rank, r.size))
		return
	case taken:
		r.refuse(waiter{h, conn}, fmt.Sprintf("EI0014: rank %d joined twice, from %s and %s", h.Rank, earlier.hello.Address, h.Address))
		return
	}
	r.waiting[h.Rank] = waiter{h, conn}
	if len(r.waiting) < r.size {
		return
	}
	peers := make([]hello, r.size)
	for i, g := range r.waiting {
		peers[i] = g.hello
	}
	r.answerAll(table{Peers: peers, Session: r.name})
}

// refuse reports to all ranks, including the offender, that the communicator cannot be made. The
// caller holds r.mu.
func (r *root) refuse(offender waiter, text string) {
	r.answerAll(table{Code: internal, Text: text})
	r.answerOne(offender.conn)
}

// answerAll sends the answer to the waiting ranks. After a failure the root listens for a while
// longer, so that late ranks learn the reason. The caller holds r.mu.
func (r *root) answerAll(answer table) {
	r.answer = &answer
	if answer.Code == 0 {
		// All ranks have joined: later connections are for the next root at this address.
		_ = r.listener.Stop()
	} else {
		r.end = time.AfterFunc(2*patience, func() { _ = r.listener.Stop() })
	}
	for _, g := range r.waiting {
		r.answerOne(g.conn)
	}
	r.waiting = nil
}

// answerOne sends the answer to one rank and stops listening after the last one. The caller
// holds r.mu.
func (r *root) answerOne(conn *handshake.Conn) {
	_ = send(conn, r.answer) // if the rank is gone, its peers will notice
	_ = conn.Close()
	if r.answered++; r.answered == r.size {
		_ = r.listener.Stop()
	}
}
