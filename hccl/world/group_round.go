package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/goascend/cann/internal/handshake"
)

// round is one call of a group, seen from one rank.
type round struct {
	label string // description of the call, equal on all ranks
	body  []byte // this rank's part
	err   error  // why this rank has no part, or nil
	limit int    // maximum size of the result in bytes
	// spread runs on rank 0. It takes all parts and returns a function that gives each rank's
	// result.
	spread func(parts [][]byte) func(rank int) []byte
}

// farewell bounds the time for a last message to ranks that may not read it.
const farewell = time.Second

// run makes the call and returns this rank's result.
func (g *Group) run(ctx context.Context, r round) ([]byte, error) {
	if !g.busy.TryLock() {
		return nil, g.failed(r.label, 0, ErrBusy, nil, "ranks could not distinguish the calls; use one group per goroutine, see Group.Sub")
	}
	defer g.busy.Unlock()
	switch {
	case g.gone.Load():
		return nil, g.failed(r.label, 0, ErrClosed, nil, "")
	case g.broken != nil:
		return nil, g.broken
	case ctx.Err() != nil: // no rank has received anything of the call
		return nil, g.failed(r.label, 0, ErrGaveUp, ctx.Err(), "")
	}
	g.calls++
	if r.err == nil && len(r.body) > g.maxMessage {
		r.err = g.failed(r.label, g.calls, ErrMessageSize, nil, fmt.Sprintf("%d bytes, at most %d; raise GroupConfig.MaxMessage or send less", len(r.body), g.maxMessage))
		r.body = nil
	}
	if g.simulated {
		if e := g.refused(r, nil); e != nil {
			return nil, e
		}
		return r.spread(slices.Repeat([][]byte{r.body}, g.size))(g.rank), nil
	}
	if g.rank == 0 {
		return g.collect(ctx, r)
	}
	return g.contribute(ctx, r)
}

// breakWith makes every later call return err.
func (g *Group) breakWith(err *GroupError) error {
	if g.gone.Load() {
		err.cause, err.err = ErrClosed, nil
	}
	g.broken = err
	return err
}

// contribute runs the call on every rank except 0.
func (g *Group) contribute(ctx context.Context, r round) ([]byte, error) {
	l := g.links[0]
	defer l.Bound(ctx, time.Time{})()
	m := &message{kind: contribution, call: g.calls, budget: budget(ctx), label: r.label, body: r.body}
	if r.err != nil {
		m.kind, m.label = failure, r.err.Error()
		m.cause = wireCause(r.err)
	}
	sendErr := send(l, m)
	// Read even if sending failed: rank 0 may have sent the reason before it left.
	answer, err := receive(l, r.limit)
	switch {
	case err != nil && sendErr != nil:
		return nil, g.breakWith(g.linkFailed(ctx, r.label, g.calls, 0, sendErr))
	case err != nil:
		return nil, g.breakWith(g.linkFailed(ctx, r.label, g.calls, 0, err))
	case answer.kind == abort:
		return nil, g.breakWith(g.heard(r.label, g.calls, answer))
	case answer.kind == goodbye:
		return nil, g.breakWith(g.failed(r.label, g.calls, ErrRankClosed, nil, "", 0))
	case answer.kind == failure:
		e := g.heard(r.label, g.calls, answer)
		e.err = r.err // nil unless this rank failed
		return nil, e
	case answer.kind != result || answer.call != g.calls:
		return nil, g.breakWith(g.failed(r.label, g.calls, ErrOutOfStep, nil, fmt.Sprintf("rank 0 answers call %d", answer.call), 0))
	}
	return answer.body, nil
}

// linkFailed makes the error for a connection that ended.
func (g *Group) linkFailed(ctx context.Context, op string, call uint64, peer int, err error) *GroupError {
	var limit *handshake.SizeError
	switch {
	case ctx.Err() != nil:
		return g.failed(op, call, ErrGaveUp, ctx.Err(), "waiting for", peer)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return g.failed(op, call, ErrGaveUp, context.DeadlineExceeded, "waiting for", peer)
	case errors.As(err, &limit):
		return g.failed(op, call, ErrMessageSize, err, "", peer)
	case errors.Is(err, handshake.ErrForged), errors.Is(err, errMessage):
		return g.failed(op, call, ErrStranger, err, "", peer)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return g.failed(op, call, ErrRankLost, nil, "its connection ended; it was killed, or it ended without closing the group", peer)
	}
	return g.failed(op, call, ErrRankLost, err, "", peer)
}

// arrival is a member's part, or the error that replaces it.
type arrival struct {
	rank int
	m    *message
	err  error
}

// collect runs the call on rank 0.
func (g *Group) collect(ctx context.Context, r round) ([]byte, error) {
	parts := make([][]byte, g.size)
	parts[0] = r.body
	arrivals := make(chan arrival, g.size)
	for rank, l := range g.links {
		if l == nil {
			continue
		}
		l.SetDeadline(time.Time{})
		go func() {
			m, err := receive(l, g.maxMessage)
			arrivals <- arrival{rank: rank, m: m, err: err}
		}()
	}
	p := newPatience(ctx)
	defer p.timer.Stop()
	here := make([]bool, g.size)
	here[0] = true
	var fault *GroupError // breaks the group
	var refusals []arrival
	for waiting := g.size - 1; waiting > 0; {
		select {
		case a := <-arrivals:
			waiting--
			here[a.rank] = true
			switch {
			case fault != nil:
			case a.err != nil:
				fault = g.linkFailed(ctx, r.label, g.calls, a.rank, a.err)
			case a.m.kind == goodbye:
				fault = g.failed(r.label, g.calls, ErrRankClosed, nil, "", a.rank)
			case a.m.call != g.calls:
				fault = g.failed(r.label, g.calls, ErrOutOfStep, nil, fmt.Sprintf("it makes call %d, %s, while rank 0 makes call %d, %s", a.m.call, a.m.label, g.calls, r.label), a.rank)
			case a.m.kind == failure:
				refusals = append(refusals, a)
			case a.m.kind != contribution || a.m.label != r.label:
				fault = g.failed(r.label, g.calls, ErrOutOfStep, nil, fmt.Sprintf("it makes the call %s, rank 0 makes %s", a.m.label, r.label), a.rank)
			default:
				parts[a.rank] = a.m.body
				p.shorten(a.m.budget)
				continue
			}
		case <-p.timer.C:
			fault = g.failed(r.label, g.calls, ErrRanksMissing, context.DeadlineExceeded, "", absent(here)...)
		case <-ctx.Done():
			fault = g.failed(r.label, g.calls, ErrGaveUp, ctx.Err(), "rank 0 waited for others", absent(here)...)
		}
		if fault != nil { // wake the readers that still wait
			for _, l := range g.links {
				if l != nil {
					l.SetReadDeadline(time.Unix(1, 0))
				}
			}
			for ; waiting > 0; waiting-- {
				<-arrivals
			}
		}
	}
	if fault != nil {
		g.announce(&message{kind: abort, cause: wireCause(fault.cause), call: g.calls, label: fault.Detail, ranks: fault.Ranks})
		return nil, g.breakWith(fault)
	}
	if e := g.refused(r, refusals); e != nil {
		g.announce(&message{kind: failure, cause: wireCause(e.cause), call: g.calls, label: e.Detail, ranks: e.Ranks})
		return nil, e
	}
	gets := r.spread(parts)
	if lost, err := g.deliver(ctx, gets); err != nil {
		fault = g.linkFailed(ctx, r.label, g.calls, lost, err)
		return nil, g.breakWith(fault)
	}
	return gets(0), nil
}

// refused returns the error of a round in which ranks could not contribute, or nil.
func (g *Group) refused(r round, refusals []arrival) *GroupError {
	var e *GroupError
	if r.err != nil {
		e = g.failed(r.label, g.calls, wireCauses[wireCause(r.err)], r.err, r.err.Error(), 0)
	}
	for _, a := range refusals {
		if e == nil {
			e = g.failed(r.label, g.calls, wireCauses[a.m.cause], nil, a.m.label)
		}
		e.Ranks = append(e.Ranks, a.rank)
	}
	return e
}

// wireCause returns the number of the cause of err.
func wireCause(err error) uint8 {
	for i, cause := range wireCauses {
		if errors.Is(err, cause) {
			return uint8(i)
		}
	}
	return wireCause(ErrRankFailed)
}

func absent(here []bool) (ranks []int) {
	for rank, ok := range here {
		if !ok {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// deliver sends every member its result, and returns a rank that could not be reached.
func (g *Group) deliver(ctx context.Context, gets func(rank int) []byte) (lost int, err error) {
	return g.each(func(rank int, l *handshake.Conn) error {
		defer l.Bound(ctx, time.Time{})()
		return send(l, &message{kind: result, call: g.calls, body: gets(rank)})
	})
}

// announce sends the same final or failure message to every member. Members that do not read it in time
// notice the closed connection.
func (g *Group) announce(m *message) {
	g.each(func(_ int, l *handshake.Conn) error {
		l.SetDeadline(time.Now().Add(farewell))
		return send(l, m)
	})
}

// each runs do for all links of rank 0 concurrently.
func (g *Group) each(do func(rank int, l *handshake.Conn) error) (lost int, err error) {
	errs := make([]error, len(g.links))
	var wg sync.WaitGroup
	for rank, l := range g.links {
		if l != nil {
			wg.Go(func() { errs[rank] = do(rank, l) })
		}
	}
	wg.Wait()
	for rank, err := range errs {
		if err != nil {
			return rank, err
		}
	}
	return 0, nil
}
