package hccl

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Group is a set of ranks that exchange data of the host: metrics, names of files, root info.
// It runs over TCP of its own and never over HCCL, so it works while the devices are busy,
// stuck or gone. All ranks of a group make the same calls in the same order, one at a time;
// each call waits for all ranks, and its context bounds the wait on all of them.
//
// Members talk to rank 0 of the group, which costs two messages per rank and call: made for
// small things. A call in which a rank is lost, comes too late or makes another call fails on
// every rank that is left, and the group is then broken: each later call gives the same
// error. Only ErrRankFailed leaves the group usable.
type Group struct {
	name       string
	rank, size int
	maxMessage int
	logger     *zap.Logger
	secret     []byte

	links []*link // at rank 0: by rank, nil at 0; elsewhere one, to rank 0; none in a group of one
	close sync.Once
	gone  atomic.Bool // Close was called

	busy   sync.Mutex // held during a call
	calls  uint64
	broken error
}

// GroupConfig says how a group is made. The zero value will do.
type GroupConfig struct {
	// Name is for errors; "world" when empty.
	Name string
	// MaxMessage is how many bytes one rank may contribute to a call, 64 MiB when 0. It must
	// be the same on all ranks.
	MaxMessage int
	// Listener is rank 0's, when it listens already. Rendezvous closes it.
	Listener net.Listener
	// Logger hears of strangers that are turned away. Nil is silence.
	Logger *zap.Logger
}

const (
	defaultMaxMessage = 64 << 20
	maxMaxMessage     = 1 << 30 // a frame's length has 32 bits
)

// newGroup fills what does not depend on connections.
func newGroup(w World, c GroupConfig) *Group {
	g := &Group{name: c.Name, rank: w.Rank, size: w.Size, maxMessage: c.MaxMessage, logger: c.Logger}
	if g.name == "" {
		g.name = "world"
	}
	if g.maxMessage <= 0 {
		g.maxMessage = defaultMaxMessage
	}
	g.maxMessage = min(g.maxMessage, maxMaxMessage)
	if g.logger == nil {
		g.logger = zap.NewNop()
	}
	secret := w.Secret
	if secret == "" {
		secret = "job " + w.Job
	}
	g.secret = proof([]byte(secret), []byte(g.name))
	return g
}

// LocalGroups makes a group of n ranks inside the process, over loopback, for programs that
// run their ranks as goroutines. The caller closes each of them.
func LocalGroups(ctx context.Context, n int, c GroupConfig) ([]*Group, error) {
	if n < 1 {
		return nil, World{Size: n}.Check()
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, newGroup(World{Size: n}, c).failed("rendezvous", 0, ErrPortInUse, err, "no port of the loopback is free")
	}
	c.Listener = ln
	groups, errs := make([]*Group, n), make([]error, n)
	secret := rankSecret()
	var wg sync.WaitGroup
	for rank := range n {
		w := World{Rank: rank, Size: n, LocalRank: rank, LocalSize: n, Device: rank, Address: ln.Addr().String(), Secret: secret, Launcher: "goroutines"}
		wg.Go(func() { groups[rank], errs[rank] = Rendezvous(ctx, w, c) })
	}
	wg.Wait()
	for _, err := range errs {
		if err == nil {
			continue
		}
		for _, g := range groups {
			if g != nil {
				g.Close()
			}
		}
		return nil, err
	}
	return groups, nil
}

// Name is the group's, for errors and logs.
func (g *Group) Name() string { return g.name }

// Rank is this rank's number in the group, Size how many there are.
func (g *Group) Rank() int { return g.rank }

// Size is how many ranks there are.
func (g *Group) Size() int { return g.size }

// Close leaves the group. Ranks that still wait for this one get ErrRankLost. A call that
// runs in another goroutine ends with an error.
func (g *Group) Close() error {
	g.close.Do(func() {
		g.gone.Store(true)
		for _, l := range g.links {
			if l != nil {
				l.conn.Close()
			}
		}
	})
	return nil
}

// failed makes the group's error.
func (g *Group) failed(op string, call uint64, cause, err error, detail string, ranks ...int) *GroupError {
	return &GroupError{Group: g.name, Op: op, Call: call, Rank: g.rank, Ranks: ranks, Detail: detail, cause: cause, err: err}
}

// heard makes an error of what rank 0 says of a failure.
func (g *Group) heard(op string, call uint64, m *message) *GroupError {
	e := g.failed(op, call, wireCauses[m.cause], nil, m.label, m.ranks...)
	if e.cause == ErrRanksMissing {
		e.err = context.DeadlineExceeded
	}
	return e
}

// budget is how long ctx allows, 0 without a deadline.
func budget(ctx context.Context) time.Duration {
	d, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return max(time.Until(d), 1)
}

// early is when rank 0 stops waiting, given how long the least patient rank does: soon enough
// that all ranks still hear which are missing.
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
