package world

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/goascend/cann/internal/handshake"
)

// The pause between two attempts to dial rank 0, while it does not listen yet or turns this rank away
// because others wait there. It doubles from the first to the last.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 100 * time.Millisecond
)

// Join forms the host group of all ranks of a job: rank 0 listens at Place.Address and the others
// dial it. It returns when all ranks are connected. Give ctx a deadline, because a rank may never
// come: then the error is ErrRanksMissing on every rank that came, and names the missing ones. Rank
// 0 closes connections that do not prove knowledge of Place.Secret, and continues. It binds the
// host of the address if that is its own, otherwise all of its addresses, as behind a service
// address of Kubernetes.
//
// Ranks without a secret are refused with ErrNoSecret, before any of them opens a connection, unless
// the rendezvous is on the loopback or Place.Open is set.
//
// Other errors are ErrPortInUse at rank 0; ErrStranger at a rank whose secret differs or that
// reached another program; and ErrDisagree on all ranks if their sizes differ or a rank comes
// twice.
func Join(ctx context.Context, p Place, c GroupConfig, options ...Option) (*Group, error) {
	if c.Listener != nil && p.Rank == 0 {
		defer c.Listener.Close()
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	g := newGroup(p, c, options)
	if err := g.usable(ctx, "rendezvous"); err != nil {
		return nil, err
	}
	if p.Size == 1 {
		return g, nil
	}
	if p.Secret == "" && !p.Open && g.exposed(ctx, p, c.Listener) {
		return nil, g.failed("rendezvous", 0, ErrNoSecret, nil, fmt.Sprintf("the rendezvous is at %s: set %s to the same long random text on all hosts, or %s=1 in a network whose hosts you all trust", p.Address, EnvSecret, EnvOpen))
	}
	var err error
	if p.Rank == 0 {
		err = g.host(ctx, p.Address, c.Listener)
	} else {
		err = g.dial(ctx, p.Address)
	}
	if err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// exposed reports whether other hosts can reach the address of the rendezvous.
func (g *Group) exposed(ctx context.Context, p Place, ln net.Listener) bool {
	if p.Rank == 0 && ln != nil {
		return handshake.Exposed(ctx, ln.Addr().String())
	}
	return handshake.Exposed(ctx, p.Address)
}

// listen binds rank 0's port.
func (g *Group) listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	ln, err := config.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		_, port, _ := net.SplitHostPort(address)
		ln, err = config.Listen(ctx, "tcp", net.JoinHostPort("", port))
	}
	switch {
	case err == nil:
		return ln, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, g.failed("rendezvous", 0, ErrPortInUse, err, "another job or program listens there; set MASTER_PORT or "+EnvRendezvous+" to a free port on all ranks")
	}
	return nil, g.failed("rendezvous", 0, ErrRanksMissing, err, "rank 0 cannot listen at "+address)
}

// host runs the rendezvous on rank 0.
func (g *Group) host(ctx context.Context, address string, ln net.Listener) error {
	if ln == nil {
		var err error
		if ln, err = g.listen(ctx, address); err != nil {
			return err
		}
	}
	listener := handshake.Listen(ln, protocol, g.secret, g.refusals())
	defer func() {
		listener.Stop() // the next group may listen at this address
		g.ending.Go(func() { listener.Close() })
	}()
	g.links = make([]*handshake.Conn, g.size)
	p := newPatience(ctx)
	defer p.timer.Stop()
	// A mismatch does not end the wait, so that ranks that come later get the error too.
	var mismatch *GroupError
	here := make([]bool, g.size)
	here[0] = true
	for missing := g.size - 1; missing > 0; {
		c, err := acceptUntil(ctx, listener, p.until)
		if err != nil {
			if mismatch != nil {
				break
			}
			return g.dismiss(g.notAll(ctx, address, err, absent(here)))
		}
		h, err := parseHello(c.Hello())
		if err != nil {
			c.Close()
			continue
		}
		code := g.judge(h)
		err = g.answer(ctx, c, code)
		switch {
		case code != welcome:
			c.Close()
			mismatch = g.failed("rendezvous", 0, ErrDisagree, answers[code], fmt.Sprintf("a process at %v claims to be rank %d of %d", c.RemoteAddr(), h.rank, h.size), h.rank)
		case err != nil: // the rank disconnected; it may dial again
			c.Close()
			continue
		default:
			g.links[h.rank] = c
		}
		if h.rank < g.size && !here[h.rank] {
			here[h.rank] = true
			missing--
		}
		p.shorten(h.budget)
	}
	if mismatch != nil {
		return g.dismiss(mismatch)
	}
	if lost, err := g.deliver(ctx, func(int) []byte { return nil }); err != nil {
		return g.dismiss(g.linkFailed(ctx, "rendezvous", 0, lost, err))
	}
	return nil
}

// refusals returns a function that logs the connections that the rendezvous refuses, the first ten
// of a second and then every hundredth.
func (g *Group) refusals() func(from net.Addr, err error) {
	var failed, refused rare
	return func(from net.Addr, err error) {
		switch now := time.Now(); {
		case from == nil && failed.passes(now):
			g.logger.Warn("world: rendezvous cannot accept connections for a while", "error", err)
		case from != nil && refused.passes(now):
			g.logger.Warn("world: rendezvous refused a connection", "from", from, "error", err)
		}
	}
}

// rare lets the first ten events of a second pass, and then every hundredth.
type rare struct {
	mu     sync.Mutex
	second time.Time // its beginning
	events int
}

func (r *rare) passes(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.second) >= time.Second {
		r.second, r.events = now, 0
	}
	r.events++
	return r.events <= 10 || r.events%100 == 0
}

// acceptUntil waits for the next member, until the given time if that is not zero.
func acceptUntil(ctx context.Context, listener *handshake.Listener, until time.Time) (*handshake.Conn, error) {
	if !until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}
	return listener.Accept(ctx)
}

// raiseLimit is the remedy of a process at its limit of open files.
const raiseLimit = "raise the limit on open files (ulimit -n)"

// notAll makes the error with which rank 0 stops waiting for absent ranks.
func (g *Group) notAll(ctx context.Context, address string, err error, absent []int) *GroupError {
	switch {
	case errors.Is(ctx.Err(), context.Canceled): // a deadline that passes on a busy machine means that ranks are missing
		return g.failed("rendezvous", 0, ErrGaveUp, ctx.Err(), "rank 0 waited for others", absent...)
	case errors.Is(err, context.DeadlineExceeded):
		return g.failed("rendezvous", 0, ErrRanksMissing, err, "they did not connect to "+address, absent...)
	case errors.Is(err, handshake.ErrDescriptors):
		return g.failed("rendezvous", 0, ErrRankFailed, err, "it cannot accept connections at "+address, g.rank)
	}
	return g.failed("rendezvous", 0, ErrRanksMissing, err, "rank 0 cannot accept connections at "+address, absent...)
}

// answer sends a member whether it is accepted.
func (g *Group) answer(ctx context.Context, c *handshake.Conn, code byte) error {
	defer c.Bound(ctx, time.Now().Add(handshake.Limit))()
	return c.Send([]byte{code})
}

// dismiss sends all connected ranks the reason why the group is not formed.
func (g *Group) dismiss(fault *GroupError) error {
	g.announce(&message{kind: abort, cause: wireCause(fault.cause), label: fault.reason(), ranks: fault.Ranks})
	return fault
}

// reason is the text that is sent to the other ranks.
func (e *GroupError) reason() string {
	if e.err == nil {
		return e.Detail
	}
	return e.Detail + ": " + e.err.Error()
}

func (g *Group) judge(h hello) byte {
	switch {
	case h.size != g.size:
		return sizeDiffers
	case h.rank < 1 || h.rank >= g.size:
		return rankBeyond
	case g.links[h.rank] != nil:
		return rankTaken
	}
	return welcome
}

// dial runs the rendezvous on every rank except 0.
func (g *Group) dial(ctx context.Context, address string) error {
	var last error
	for wait := firstPause; ; wait = min(2*wait, lastPause) {
		c, err := g.dialOnce(ctx, address)
		var fault *GroupError
		switch {
		case err == nil:
			g.links = []*handshake.Conn{c}
			return g.awaitOthers(ctx)
		case errors.Is(err, handshake.ErrSecret):
			fault = g.failed("rendezvous", 0, ErrStranger, err, "at "+address+"; does another job use this port?")
		case errors.Is(err, handshake.ErrProtocol):
			fault = g.failed("rendezvous", 0, ErrStranger, err, "what listens at "+address+" is no rendezvous of this version")
		case errors.Is(err, errSizeDiffers), errors.Is(err, errRankTaken), errors.Is(err, errRankBeyond):
			fault = g.failed("rendezvous", 0, ErrDisagree, err, fmt.Sprintf("this is rank %d of %d", g.rank, g.size))
		case errors.Is(err, syscall.EMFILE): // other processes cannot give this one descriptors
			fault = g.failed("rendezvous", 0, ErrRankFailed, err, raiseLimit, g.rank)
		}
		if fault != nil {
			return fault
		}
		if ctx.Err() == nil {
			last = err
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			detail := "rank 0 does not listen at " + address
			if last != nil {
				detail += " (" + last.Error() + ")"
			}
			return g.failed("rendezvous", 0, ErrRanksMissing, ctx.Err(), detail, 0)
		}
	}
}

// dialOnce dials rank 0 once and introduces this rank.
func (g *Group) dialOnce(ctx context.Context, address string) (*handshake.Conn, error) {
	self := hello{rank: g.rank, size: g.size, budget: budget(ctx)}
	c, err := handshake.Dial(ctx, address, protocol, g.secret, self.bytes())
	if err != nil {
		return nil, err
	}
	defer c.Bound(ctx, time.Now().Add(handshake.Limit))()
	if err := readAnswer(c); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// awaitOthers waits until rank 0 reports that all ranks are connected.
func (g *Group) awaitOthers(ctx context.Context) error {
	c := g.links[0]
	defer c.Bound(ctx, time.Time{})()
	m, err := receive(c, 0)
	switch {
	case err != nil:
		return g.linkFailed(ctx, "rendezvous", 0, 0, err)
	case m.kind == abort:
		return g.heard("rendezvous", 0, m)
	case m.kind == goodbye:
		return g.failed("rendezvous", 0, ErrRankClosed, nil, "", 0)
	}
	return nil
}
