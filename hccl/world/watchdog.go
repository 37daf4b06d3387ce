package world

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goascend/cann/internal/class"
)

// Progress describes how far a rank is in a communicator.
type Progress struct {
	// Comm names the communicator. It is equal on its ranks and unique among all communicators.
	Comm string
	// Rank is this rank's number in the communicator.
	Rank int
	// Seq is the number of collectives that this rank has queued, Done the number that have ended.
	Seq, Done uint64
	// Op describes collective Seq by what all ranks must agree on: kind, count, dtype, operation
	// and root.
	Op string
	// Exchanges is the number of sends, receives and batches of these that this rank has queued,
	// Exchanged the number that have ended. Ranks need not have the same.
	Exchanges, Exchanged uint64
	// Exchange describes the oldest exchange that has not ended, and Peers are its other ranks, as
	// the communicator numbers them.
	Exchange string
	Peers    []int
	// Since is how long Done, or Exchanged, has been unchanged while something is queued.
	Since time.Duration
}

// Monitored is the interface of a communicator that a Watchdog observes.
type Monitored interface {
	// Progress is called from the watchdog's goroutine and must not block.
	Progress() Progress
	// AsyncError returns an error that HCCL has detected asynchronously, or nil. It must not block.
	AsyncError() error
}

// awaited lists the ranks for which exchanges wait and that are in no exchange themselves.
func awaited(at map[int]Progress) (ranks []int) {
	for rank, p := range at {
		if p.Exchanged == p.Exchanges && slices.ContainsFunc(slices.Collect(maps.Values(at)), func(o Progress) bool { return slices.Contains(o.Peers, p.Rank) }) {
			ranks = append(ranks, rank)
		}
	}
	slices.Sort(ranks)
	return ranks
}

// Causes of a *StallError, for errors.Is.
var (
	ErrStalled    = class.Of(class.ErrTimeout, "a collective does not end")
	ErrMismatched = class.Of(class.ErrInvalidArgument, "the ranks queued different collectives under one number")
)

// StallError reports where each rank of a communicator is. Ranks are numbered as in the host group.
type StallError struct {
	Comm  string
	Seq   uint64 // the collective at which the ranks differ
	At    map[int]Progress
	Ranks []int // those that lag behind, or whose collective differs from the lowest rank's
	Err   error // ErrStalled, ErrMismatched, or the *GroupError that names ranks that do not answer
}

func (e *StallError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "world: communicator %s, collective %d: %v", e.Comm, e.Seq, e.Err)
	if len(e.Ranks) > 0 {
		b.WriteString("; look at " + rankList(e.Ranks))
	}
	// List ranks at the same collective together.
	places := map[string][]int{}
	for rank, p := range e.At {
		where := fmt.Sprintf("queued %d (%s), ended %d", p.Seq, p.Op, p.Done)
		if p.Seq == 0 {
			where = "queued none"
		}
		if p.Exchanged < p.Exchanges {
			where += fmt.Sprintf(", is in exchange %d (%s)", p.Exchanged+1, p.Exchange)
		}
		places[where] = append(places[where], rank)
	}
	var lines []string
	for where, ranks := range places {
		slices.Sort(ranks)
		lines = append(lines, rankList(ranks)+" "+where)
	}
	slices.Sort(lines)
	for _, line := range lines {
		b.WriteString("; " + line)
	}
	return b.String()
}

// Unwrap returns the cause for errors.Is.
func (e *StallError) Unwrap() error { return e.Err }

// WatchdogConfig configures a watchdog. Its zero value is valid.
type WatchdogConfig struct {
	// Interval is how often the ranks exchange their progress, 1 s when 0.
	Interval time.Duration
	// Stall is how long a collective may take, or a rank may be silent, 5 min when 0. Keep it below
	// HCCL_EXEC_TIMEOUT, after which the device aborts the collective.
	Stall time.Duration
	// OnFault is called once for each fault, on the watchdog's goroutine, with a *StallError, an
	// error of Monitored.AsyncError, or the *GroupError of a rank that is lost or silent, which is in
	// a *StallError if this rank waits in a collective. It must not call Close.
	OnFault func(error)
}

// Watchdog compares the progress of the ranks in their collectives over a host group. It reports
// ranks that are stuck, with what each rank is doing, because HCCL's own timeout comes late and
// does not name the missing ranks. It only reports; ending the job is left to the caller.
type Watchdog struct {
	group  *Group
	config WatchdogConfig
	log    *slog.Logger
	cancel context.CancelFunc // ends an exchange that takes too long at Close
	stop   chan struct{}
	once   sync.Once
	done   chan struct{}

	mu      sync.Mutex
	watched []Monitored
	failed  error // why this rank ends

	// These are used by the watchdog's goroutine only.
	seen map[string]bool // faults already reported
	last []note          // of all ranks, from the last exchange
}

// note is the message that the ranks exchange.
type note struct {
	Leaving  bool
	Progress []Progress
	Error    string // why the rank ends, or of a communicator's AsyncError
}

// StartWatchdog starts to watch. All ranks of the group call it. The watchdog takes ownership of
// the group and closes it, so give it a group of its own; see Group.Sub.
func StartWatchdog(g *Group, c WatchdogConfig, options ...Option) *Watchdog {
	if c.Interval <= 0 {
		c.Interval = time.Second
	}
	if c.Stall <= 0 {
		c.Stall = 5 * time.Minute
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &Watchdog{group: g, config: c, log: choose(options).log, cancel: cancel, stop: make(chan struct{}), done: make(chan struct{}), seen: map[string]bool{}}
	go w.watch(ctx)
	return w
}

// Watch adds a communicator. Call the returned function before closing the communicator.
func (w *Watchdog) Watch(m Monitored) (forget func()) {
	if w == nil || m == nil {
		return func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watched = append(w.watched, m)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.watched = slices.DeleteFunc(w.watched, func(o Monitored) bool { return o == m })
	}
}

// Fail sends the other ranks with the next exchange the reason why this rank ends: each of them reports it, as an
// error that matches ErrRankFailed. Close the watchdog then.
func (w *Watchdog) Fail(err error) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = err
}

// Close ends the watch on all ranks, waits for the goroutine, and closes the group. The other ranks
// stop watching without a report. It waits for an answer of the other ranks for two intervals and a
// second.
func (w *Watchdog) Close() error { return w.CloseContext(context.Background()) }

// CloseContext is Close that stops waiting for the other ranks when ctx ends. The watch ends all the
// same; the error then matches ctx.Err().
func (w *Watchdog) CloseContext(ctx context.Context) error {
	if w == nil || w.stop == nil {
		return nil
	}
	if ctx == nil {
		return w.group.usable(ctx, "close of a watchdog")
	}
	w.once.Do(func() { close(w.stop) })
	limit := time.NewTimer(2*w.config.Interval + farewell)
	defer limit.Stop()
	var err error
	select {
	case <-w.done:
	case <-limit.C:
	case <-ctx.Done():
		err = w.group.failed("close of a watchdog", 0, ErrGaveUp, ctx.Err(), "")
	}
	w.cancel()
	<-w.done
	return err
}

func (w *Watchdog) watch(ctx context.Context) {
	defer close(w.done)
	defer w.cancel()
	defer w.group.Close()
	tick := time.NewTicker(w.config.Interval)
	defer tick.Stop()
	for leaving := false; !leaving; {
		select {
		case <-tick.C:
		case <-w.stop:
			leaving = true
		}
		mine := w.note()
		mine.Leaving = leaving
		limited, cancel := context.WithTimeout(ctx, w.config.Interval+w.config.Stall)
		notes, err := AllGather(limited, w.group, mine)
		cancel()
		switch {
		case err != nil && ctx.Err() != nil: // Close did not get an answer
			return
		case errors.Is(err, ErrRankClosed), errors.Is(err, ErrGaveUp) && !errors.Is(err, context.DeadlineExceeded):
			return // another rank's Close did not get an answer
		case err != nil:
			err = w.silence(err)
			w.report(err.Error(), err)
			return
		}
		w.last = notes
		w.compare(notes)
		if slices.ContainsFunc(notes, func(n note) bool { return n.Leaving }) {
			return
		}
	}
}

// silence adds to the error of an exchange, which names the ranks that did not answer, what this rank
// waits for and what the others were last heard to do: in the communicator where this rank has waited
// longest, or, if it waits in none, in the one that it used most.
func (w *Watchdog) silence(err error) error {
	var silent *GroupError
	if !errors.As(err, &silent) || len(silent.Ranks) == 0 {
		return err
	}
	mine := w.note() // the exchange may have taken long
	if len(mine.Progress) == 0 {
		return err
	}
	longest := slices.MaxFunc(mine.Progress, func(a, b Progress) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Seq+a.Exchanges, b.Seq+b.Exchanges))
	})
	e := &StallError{Comm: longest.Comm, Seq: longest.Done + 1, At: map[int]Progress{w.group.rank: longest}, Ranks: silent.Ranks, Err: err}
	for rank, n := range w.last {
		for _, p := range n.Progress {
			if p.Comm == longest.Comm && rank != w.group.rank {
				e.At[rank] = p
			}
		}
	}
	return e
}

func (w *Watchdog) note() note {
	var n note
	for _, err := range w.look(&n) {
		w.report(err.Error(), err)
		n.Error = cmp.Or(n.Error, err.Error())
	}
	return n
}

// look queries the communicators. It holds the lock so that forget does not return during a query,
// and releases it before OnFault runs.
func (w *Watchdog) look(n *note) (faults []error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.watched {
		n.Progress = append(n.Progress, m.Progress())
		if err := m.AsyncError(); err != nil {
			faults = append(faults, err)
		}
	}
	if w.failed != nil {
		n.Error = w.failed.Error()
	}
	return faults
}

// report reports a fault unless it was reported before.
func (w *Watchdog) report(key string, err error) {
	if w.seen[key] {
		return
	}
	w.seen[key] = true
	w.log.Error("world: watchdog", "error", err)
	if w.config.OnFault != nil {
		w.config.OnFault(err)
	}
}

// compare checks the communicators of all ranks, so that each rank reports the same faults.
func (w *Watchdog) compare(notes []note) {
	comms := map[string]map[int]Progress{}
	for rank, n := range notes {
		if n.Error != "" && rank != w.group.rank {
			e := w.group.failed("watchdog", 0, ErrRankFailed, nil, n.Error, rank)
			w.report(e.Error(), e)
		}
		for _, p := range n.Progress {
			if comms[p.Comm] == nil {
				comms[p.Comm] = map[int]Progress{}
			}
			comms[p.Comm][rank] = p
		}
	}
	for name, at := range comms {
		if e := diagnose(name, at, w.config.Stall); e != nil {
			w.report(fmt.Sprintf("%s %d %v", e.Comm, e.Seq, e.Err), e)
		}
	}
}

// diagnose returns what is wrong with a communicator, or nil.
func diagnose(name string, at map[int]Progress, stall time.Duration) *StallError {
	ranks := make([]int, 0, len(at))
	stuck, lowest := false, ^uint64(0)
	for rank, p := range at {
		ranks = append(ranks, rank)
		stuck = stuck || p.Since >= stall && (p.Done < p.Seq || p.Exchanged < p.Exchanges)
		lowest = min(lowest, p.Seq)
	}
	slices.Sort(ranks)
	// Ranks at the same sequence number must run the same collective.
	first := map[uint64]int{}
	for _, rank := range ranks {
		p := at[rank]
		if other, ok := first[p.Seq]; !ok {
			first[p.Seq] = rank
		} else if at[other].Op != p.Op {
			return &StallError{Comm: name, Seq: p.Seq, At: at, Ranks: []int{other, rank}, Err: ErrMismatched}
		}
	}
	if !stuck {
		return nil
	}
	e := &StallError{Comm: name, Seq: lowest, At: at, Ranks: awaited(at), Err: ErrStalled}
	ahead := false
	for _, rank := range ranks {
		ahead = ahead || at[rank].Seq > lowest
	}
	if ahead { // the others wait for the ranks that have queued least
		e.Seq, e.Ranks = lowest+1, nil
		for _, rank := range ranks {
			if at[rank].Seq == lowest {
				e.Ranks = append(e.Ranks, rank)
			}
		}
	}
	return e
}
