package world

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goascend/cann/internal/handshake"
)

// Group is a set of ranks that exchange host data, such as metrics, file names or root infos. It
// has its own TCP connections and never uses HCCL, so it works while the devices are busy, stuck or
// gone. All ranks of a group make the same calls in the same order, one at a time; each call waits
// for all ranks, and its context bounds the wait on all of them.
//
// Members exchange messages with rank 0 of the group only, two per rank and call: use it for small
// data. If a rank is lost, comes too late or makes another call, the call fails on every remaining
// rank and the group is broken: each later call returns the same error. Only ErrRankFailed leaves
// the group usable.
type Group struct {
	name       string
	rank, size int
	maxMessage int
	logger     *slog.Logger
	secret     []byte
	simulated  bool // the other ranks do not run

	links []*handshake.Conn // rank 0: by rank, nil at 0; other ranks: one link, to rank 0
	close sync.Once
	gone  atomic.Bool // Close was called
	// ending counts the goroutine that closes the listener of the rendezvous, which may wait for strangers
	// that are connected to it.
	ending sync.WaitGroup

	busy   sync.Mutex // held during a call
	calls  uint64
	broken error
}

// GroupConfig configures a group. Its zero value is valid.
type GroupConfig struct {
	// Name appears in errors; "world" when empty.
	Name string
	// MaxMessage is how many bytes one rank may contribute to a call, 64 MiB when 0. It must be the
	// same on all ranks.
	MaxMessage int
	// Listener is used by rank 0 instead of a new one if it is not nil. Join closes it.
	Listener net.Listener
}

const (
	defaultMaxMessage = 64 << 20
	maxMaxMessage     = 1 << 30 // a frame's length has 32 bits
)

// newGroup sets the fields that do not depend on connections.
func newGroup(p Place, c GroupConfig, options []Option) *Group {
	g := &Group{name: c.Name, rank: p.Rank, size: p.Size, maxMessage: c.MaxMessage, logger: choose(options).log}
	if g.name == "" {
		g.name = "world"
	}
	if g.maxMessage <= 0 {
		g.maxMessage = defaultMaxMessage
	}
	g.maxMessage = min(g.maxMessage, maxMaxMessage)
	secret := p.Secret
	if secret == "" {
		secret = "job " + p.Job
	}
	g.secret = derive([]byte(secret), []byte(g.name))
	return g
}

// derive computes a secret from another one for one purpose.
func derive(secret, purpose []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write(purpose)
	return h.Sum(nil)
}

// LocalGroups makes a group of n ranks inside the process over loopback, for programs that run
// their ranks as goroutines. The caller closes each of them. When one of them cannot join, it fails with that one's
// error, and within a minute when nothing happens.
func LocalGroups(ctx context.Context, n int, c GroupConfig, options ...Option) ([]*Group, error) {
	if n < 1 {
		return nil, Place{Size: n}.Check()
	}
	g := newGroup(Place{Size: n}, c, options)
	if err := g.usable(ctx, "rendezvous"); err != nil {
		return nil, err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, g.failed("rendezvous", 0, ErrGaveUp, ctx.Err(), "")
	case errors.Is(err, syscall.EMFILE):
		return nil, g.failed("rendezvous", 0, ErrRankFailed, err, raiseLimit, g.rank)
	case err != nil:
		return nil, g.failed("rendezvous", 0, ErrPortInUse, err, "no port of the loopback is free")
	}
	c.Listener = ln
	ctx, cancel := context.WithTimeout(ctx, localLimit)
	defer cancel()
	groups, first := make([]*Group, n), make(chan error, 1)
	secret := rand.Text()
	var wg sync.WaitGroup
	for rank := range n {
		p := Place{Rank: rank, Size: n, LocalRank: rank, LocalSize: n, Device: rank, Address: ln.Addr().String(), Secret: secret, Launcher: "goroutines"}
		wg.Go(func() {
			var err error
			if groups[rank], err = Join(ctx, p, c, options...); err != nil {
				select {
				case first <- err: // the others fail because of it
					cancel()
				default:
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-first:
		for _, g := range groups {
			g.Close()
		}
		return nil, err
	default:
		return groups, nil
	}
}

// Simulated makes the group of a rank whose peers do not run, for a rehearsal of one rank of a large job: each peer is taken to
// contribute what this rank does, and Share produces its value here whichever rank the root is. Sub makes such groups too. Only the
// emulator has communicators without peers, and only while it writes a schedule (CANN_EMU_SCHEDULE). A rank that is not below size
// gets ErrDisagree.
func Simulated(rank, size int) (*Group, error) {
	p := Place{Rank: rank, Size: size}
	g := newGroup(p, GroupConfig{}, nil)
	if rank < 0 || rank >= size {
		return nil, g.failed("simulation", 0, ErrDisagree, nil, fmt.Sprintf("rank %d of %d ranks", rank, size))
	}
	g.simulated = true
	return g, nil
}

// localLimit is how long the ranks of one process may take to join: they need milliseconds.
const localLimit = time.Minute

// Name returns the group's name for errors and logs.
func (g *Group) Name() string {
	if g == nil {
		return ""
	}
	return g.name
}

// Rank returns this rank's number in the group.
func (g *Group) Rank() int {
	if g == nil {
		return 0
	}
	return g.rank
}

// Size returns the number of ranks, 0 of a group that was never made.
func (g *Group) Size() int {
	if g == nil {
		return 0
	}
	return g.size
}

// usable refuses a call on a group that was never made, or without a context.
func (g *Group) usable(ctx context.Context, op string) error {
	switch {
	case g == nil || g.size == 0:
		return new(Group).failed(op, 0, ErrNil, nil, "the group; Join, LocalGroups and Group.Sub make one")
	case ctx == nil:
		return g.failed(op, 0, ErrNil, nil, "the context.Context; context.Background() never ends")
	}
	return nil
}

// Close leaves the group. Ranks that wait for this one get ErrRankClosed, or ErrRankLost if this rank is in a call
// in another goroutine, which then ends with an error.
func (g *Group) Close() error {
	if g == nil {
		return nil
	}
	g.close.Do(func() {
		g.gone.Store(true)
		if g.busy.TryLock() {
			g.announce(&message{kind: goodbye})
			g.busy.Unlock()
		}
		for _, l := range g.links {
			if l != nil {
				l.Close()
			}
		}
		g.ending.Wait()
	})
	return nil
}

// failed makes the group's error.
func (g *Group) failed(op string, call uint64, cause, err error, detail string, ranks ...int) *GroupError {
	return &GroupError{Group: g.name, Op: op, Call: call, Rank: g.rank, Ranks: ranks, Detail: detail, cause: cause, err: err}
}

// heard converts a failure message from rank 0 to an error.
func (g *Group) heard(op string, call uint64, m *message) *GroupError {
	e := g.failed(op, call, wireCauses[m.cause], nil, m.label, m.ranks...)
	if e.cause == ErrRanksMissing {
		e.err = context.DeadlineExceeded
	}
	return e
}

// budget returns the time left until the deadline of ctx, 0 without a deadline.
func budget(ctx context.Context) time.Duration {
	d, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return max(time.Until(d), 1)
}

// early returns when rank 0 stops waiting, given the shortest budget of all ranks: soon enough that
// every rank can still learn which ranks are missing.
func early(budget time.Duration) time.Time {
	return time.Now().Add(budget - min(budget/8, time.Second))
}

// patience keeps the earliest time at which rank 0 stops waiting.
type patience struct {
	timer *time.Timer
	until time.Time
}

func newPatience(ctx context.Context) *patience {
	p := &patience{timer: time.NewTimer(time.Hour)}
	p.timer.Stop()
	p.shorten(budget(ctx))
	return p
}

func (p *patience) shorten(budget time.Duration) {
	if budget == 0 {
		return
	}
	if at := early(budget); p.until.IsZero() || at.Before(p.until) {
		p.until = at
		p.timer.Reset(time.Until(at))
	}
}
