package hccl

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
)

const (
	handshakeLimit = 10 * time.Second       // for a stranger that connects and says nothing
	handshakesOpen = 512                    // at once; more wait in the kernel's queue
	dialPause      = 100 * time.Millisecond // between attempts while rank 0 is not there yet
)

// Rendezvous forms the host group of all ranks of a world: rank 0 listens at World.Address,
// the others connect. It returns when all are there. ctx should have a deadline, for a rank
// may never come: the error then is ErrRanksMissing on every rank that came, and names those
// that did not. Connections that do not prove to know World.Secret are turned away and do not
// disturb. Rank 0 binds the host of the address when that is its own, else all of its
// addresses, as behind a service address of Kubernetes.
//
// Other errors: ErrPortInUse at rank 0; ErrStranger at a rank whose secret differs or that
// met another program; ErrWorldMismatch on all when sizes differ or a rank comes twice.
func Rendezvous(ctx context.Context, w World, c GroupConfig) (*Group, error) {
	if c.Listener != nil && w.Rank == 0 {
		defer c.Listener.Close()
	}
	if err := w.Check(); err != nil {
		return nil, err
	}
	g := newGroup(w, c)
	if w.Size == 1 {
		return g, nil
	}
	var err error
	if w.Rank == 0 {
		err = g.host(ctx, w.Address, c.Listener)
	} else {
		err = g.visit(ctx, w.Address)
	}
	if err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// rankSecret is a secret for jobs whose ranks share a parent.
func rankSecret() string { return rand.Text() }

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

// host is rank 0's side.
func (g *Group) host(ctx context.Context, address string, ln net.Listener) error {
	if ln == nil {
		var err error
		if ln, err = g.listen(ctx, address); err != nil {
			return err
		}
	}
	inside, leave := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer ln.Close()
	defer leave()
	g.links = make([]*link, g.size)
	applicants := make(chan *applicant)
	wg.Go(func() { g.door(inside, ln, applicants) })

	p := newPatience(ctx)
	defer p.timer.Stop()
	// A mismatch does not end the wait: ranks that come later are to hear of it too.
	var mismatch *GroupError
	here := make([]bool, g.size)
	here[0] = true
	for missing := g.size - 1; missing > 0; {
		var late *GroupError
		select {
		case a := <-applicants:
			code := g.judge(a.hello)
			l, err := a.answer(code)
			switch {
			case code != welcome:
				a.conn.Close()
				mismatch = g.failed("rendezvous", 0, ErrWorldMismatch, answers[code], fmt.Sprintf("a process at %v says it is rank %d of %d", a.conn.RemoteAddr(), a.rank, a.size), a.rank)
			case err != nil: // it left; it may come back
				a.conn.Close()
				continue
			default:
				g.links[a.rank] = l
			}
			if a.rank < g.size && !here[a.rank] {
				here[a.rank] = true
				missing--
			}
			p.shorten(a.budget)
			continue
		case <-p.timer.C:
			late = g.failed("rendezvous", 0, ErrRanksMissing, context.DeadlineExceeded, "they did not connect to "+address, absent(here)...)
		case <-ctx.Done():
			late = g.failed("rendezvous", 0, ErrGaveUp, ctx.Err(), "rank 0 waited for others", absent(here)...)
		}
		if mismatch == nil {
			return g.dismiss(late)
		}
		break
	}
	if mismatch != nil {
		return g.dismiss(mismatch)
	}
	if lost, err := g.deliver(ctx, func(int) []byte { return nil }); err != nil {
		return g.dismiss(g.linkFailed(ctx, "rendezvous", 0, lost, err))
	}
	return nil
}

// dismiss tells the ranks that came why there will be no group.
func (g *Group) dismiss(fault *GroupError) error {
	g.tell(&message{kind: abort, cause: wireCause(fault.cause), label: fault.reason(), ranks: fault.Ranks})
	return fault
}

// reason is what the other ranks are told.
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

// door accepts connections and sends on those that prove to be of the job, until ctx ends and
// the listener is closed.
func (g *Group) door(ctx context.Context, ln net.Listener, out chan<- *applicant) {
	var wg sync.WaitGroup
	defer wg.Wait()
	places := make(chan struct{}, handshakesOpen)
	for {
		conn, err := ln.Accept()
		if err != nil {
			if ctx.Err() == nil {
				g.logger.Warn("hccl: rendezvous cannot accept", zap.Error(err))
			}
			return
		}
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			conn.SetDeadline(time.Now().Add(handshakeLimit))
			release := endWith(ctx, conn)
			a, err := examine(conn, g.secret)
			release() // before the applicant is handed on: ctx ends when all are there
			if err != nil {
				conn.Close()
				g.logger.Warn("hccl: rendezvous turned a connection away", zap.Stringer("from", conn.RemoteAddr()), zap.Error(err))
				return
			}
			select {
			case out <- a:
			case <-ctx.Done():
				conn.Close()
			}
		})
	}
}

// visit is the side of every rank but 0.
func (g *Group) visit(ctx context.Context, address string) error {
	var last error
	for {
		l, err := g.knock(ctx, address)
		var fault *GroupError
		switch {
		case err == nil:
			g.links = []*link{l}
			return g.awaitOthers(ctx)
		case errors.Is(err, errSecret), errors.Is(err, errNotRendezvous):
			fault = g.failed("rendezvous", 0, ErrStranger, err, "at "+address)
		case errors.Is(err, errSizeDiffers), errors.Is(err, errRankTaken), errors.Is(err, errRankBeyond):
			fault = g.failed("rendezvous", 0, ErrWorldMismatch, err, fmt.Sprintf("this is rank %d of %d", g.rank, g.size))
		}
		if fault != nil {
			return fault
		}
		if ctx.Err() == nil {
			last = err
		}
		pause := time.NewTimer(dialPause)
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

// knock connects and shakes hands once.
func (g *Group) knock(ctx context.Context, address string) (*link, error) {
	dialer := net.Dialer{Timeout: handshakeLimit}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	l := &link{conn: conn}
	release := l.bound(ctx, time.Now().Add(handshakeLimit))
	defer release()
	if l, err = joinHub(conn, g.secret, hello{rank: g.rank, size: g.size, budget: budget(ctx)}); err != nil {
		conn.Close()
		return nil, err
	}
	return l, nil
}

// awaitOthers waits until rank 0 says that all are there.
func (g *Group) awaitOthers(ctx context.Context) error {
	l := g.links[0]
	release := l.bound(ctx, time.Time{})
	defer release()
	m, err := l.receive(0)
	switch {
	case err != nil:
		return g.linkFailed(ctx, "rendezvous", 0, 0, err)
	case m.kind == abort:
		return g.heard("rendezvous", 0, m)
	}
	return nil
}
