package job

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/hccl/world"
)

// Variables that launch sets for its ranks.
const (
	EnvWatchdog = "CANN_WATCHDOG"   // default of -watchdog
	EnvFlight   = "CANN_FLIGHT_DIR" // default of -flight
)

// Watching configures the watchdog of a rank.
type Watching struct {
	Limit  time.Duration // within which the ranks end when one does not answer; 0 = not watched
	Flight string        // folder for flight records, "" for none
}

// Flags defines the flags -watchdog and -flight.
func (w *Watching) Flags(f *flag.FlagSet) error {
	limit := 10 * time.Minute
	if text := os.Getenv(EnvWatchdog); text != "" {
		var err error
		if limit, err = time.ParseDuration(text); err != nil || limit < 0 {
			return fmt.Errorf("%s=%q: it must be a duration such as 5m, or 0 for no watchdog", EnvWatchdog, text)
		}
	}
	f.DurationVar(&w.Limit, "watchdog", limit, "end within this time of a rank's last answer, or of the start of a collective that does not end, and name the rank; 0 waits for ever")
	f.StringVar(&w.Flight, "flight", os.Getenv(EnvFlight), "`folder` for the flight records: each rank writes its last launches and collectives there on a fault, a stall and SIGQUIT")
	return nil
}

// Guard watches a rank: it ends the job when ranks stop answering or a collective does not end, and
// writes the flight record.
type Guard struct {
	watching Watching
	rank     int
	size     int
	device   *acl.Device
	cancel   context.CancelCauseFunc
	report   io.Writer
	comms    []*hccl.Comm
	dog      *world.Watchdog
	forget   []func()
	quit     chan os.Signal
	stopped  chan struct{}

	once     sync.Once     // for the first fault
	faulty   chan struct{} // closed then
	recorded sync.Once
	mu       sync.Mutex
	exit     *time.Timer
	closed   bool
}

// exitStatus is of a process that is stuck after a fault.
const exitStatus = 1

// NewGuard starts to watch. All ranks of the group call it, with their communicators. On a fault it
// writes what is wrong to report, ends the context of cancel with that cause, and ends the process
// unless Release comes soon. End it before the communicators are closed.
func NewGuard(ctx context.Context, cancel context.CancelCauseFunc, group *world.Group, dev *acl.Device, comms []*hccl.Comm, w Watching, report io.Writer) (*Guard, error) {
	g := &Guard{watching: w, rank: group.Rank(), size: group.Size(), device: dev, cancel: cancel, report: report, comms: comms, stopped: make(chan struct{}), faulty: make(chan struct{})}
	if w.Limit > 0 && group.Size() > 1 {
		if err := g.watch(ctx, group, dev); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	if w.Flight != "" && len(quits) > 0 {
		g.quit = make(chan os.Signal, 1)
		signal.Notify(g.quit, quits...)
		quitting.Add(1)
		go g.attend()
	}
	return g, nil
}

func (g *Guard) watch(ctx context.Context, group *world.Group, dev *acl.Device) error {
	for _, c := range g.comms {
		if err := c.Track(dev); err != nil {
			return err
		}
	}
	own, err := Whole(ctx, group, "watchdog")
	if err != nil {
		return err
	}
	// A silent rank is found after two intervals and the stall; what is left is for the end.
	g.dog = world.StartWatchdog(own, world.WatchdogConfig{
		Interval: min(g.watching.Limit/10, time.Second), Stall: g.watching.Limit * 6 / 10, OnFault: g.fault,
	})
	for _, c := range g.comms {
		g.forget = append(g.forget, g.dog.Watch(c))
	}
	return nil
}

// quitting counts the guards of the process that have not written their record on a signal.
var quitting sync.WaitGroup

// attend writes the record on SIGQUIT, and lets the signal have its usual effect when all ranks of the
// process have done so.
func (g *Guard) attend() {
	select {
	case <-g.quit:
		g.record("SIGQUIT")
		quitting.Done()
		quitting.Wait()
		raise()
	case <-g.stopped:
		quitting.Done()
	}
}

// fault is called by the watchdog. A rank that stops answering makes the others end, one after the
// other; one that only sees a peer leave gives the watchdog a moment to name the silent rank.
func (g *Guard) fault(err error) {
	var stall *world.StallError
	if errors.Is(err, acl.ErrPeerLost) && !errors.As(err, &stall) {
		time.AfterFunc(g.moment(), func() { g.end(err) })
		return
	}
	g.end(err)
}

// moment is the time that a consequence waits for its cause.
func (g *Guard) moment() time.Duration { return min(g.watching.Limit/10, time.Second) }

// end ends the rank. Whatever the rank does then, its process ends before the limit. After Close it
// does nothing.
func (g *Guard) end(err error) {
	g.once.Do(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.closed {
			return
		}
		fmt.Fprintf(g.report, "rank %d of %d: %v\n", g.rank, g.size, err)
		g.record(err.Error())
		g.exit = time.AfterFunc(min(g.watching.Limit/10, 10*time.Second), func() {
			fmt.Fprintf(g.report, "rank %d of %d: ending the process, which is stuck after: %v\n", g.rank, g.size, err)
			os.Exit(exitStatus)
		})
		g.cancel(err)
		close(g.faulty)
	})
}

// settle waits a moment for the watchdog, if the error of a rank only says that another is gone: the
// watchdog may be about to say why.
func (g *Guard) settle(err error) {
	if g.dog == nil || weight(err) == 0 {
		return
	}
	moment := time.NewTimer(g.moment())
	defer moment.Stop()
	select {
	case <-g.faulty:
	case <-moment.C:
	}
}

// record writes the flight record once, if there is a folder for it, and says where it is.
func (g *Guard) record(why string) {
	if g.watching.Flight == "" {
		return
	}
	g.recorded.Do(func() {
		var progress []world.Progress
		for _, c := range g.comms {
			if p := c.Progress(); p.Comm != "" {
				progress = append(progress, p)
			}
		}
		path, err := Record(g.watching.Flight, g.rank, g.size, g.device, why, progress)
		if err != nil {
			fmt.Fprintf(g.report, "rank %d of %d: no flight record: %v\n", g.rank, g.size, err)
			return
		}
		fmt.Fprintf(g.report, "rank %d of %d: flight record in %s\n", g.rank, g.size, path)
	})
}

// End closes the guard of a rank whose work ends with err, and completes err by the fault that ended
// the rank, if one did. ctx is the rank's, of NewGuard's cancel. On an error it writes the flight
// record and reports the error to the other ranks.
func (g *Guard) End(ctx context.Context, err *error) {
	// While ctx goes on, context.Canceled is an end that was asked for.
	if *err != nil && (ctx.Err() != nil || !errors.Is(*err, context.Canceled)) {
		g.settle(*err)
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) && !errors.Is(*err, cause) {
			*err = errors.Join(cause, *err)
		}
		g.record((*err).Error())
		g.dog.Fail(*err)
	}
	*err = errors.Join(*err, g.Close())
}

// Release lets the process live on after a fault. It is called when the rank has closed everything.
func (g *Guard) Release() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.exit != nil {
		g.exit.Stop()
	}
}

// Close ends the watch.
func (g *Guard) Close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	for _, forget := range g.forget {
		forget()
	}
	g.forget = nil
	if g.quit != nil {
		signal.Stop(g.quit)
		close(g.stopped)
		g.quit = nil
	}
	return g.dog.Close()
}
