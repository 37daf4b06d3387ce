package acl

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/goascend/cann/cshim"
)

// ringSize is how many launches a stream remembers, named how many of them an error names.
const (
	ringSize = 1024
	named    = 32
)

// ring holds the last launches of a stream, for the error of an asynchronous fault.
type ring struct {
	launched atomic.Uint64 // number of launches
	clean    atomic.Uint64 // number of launches known to have ended well
	waited   atomic.Uint64 // clean when the clock was last read
	last     [ringSize]launch
}

// launch is an operator. If its number is timed, at is when it was launched.
type launch struct {
	op     atomic.Pointer[cshim.Operator]
	number atomic.Uint64 // from 1; written after the operator
	timed  atomic.Uint64
	at     atomic.Int64 // nanoseconds since began
}

// timedEvery is how many launches share one reading of the clock, which takes as long as an empty
// call of C. The first launch after a wait has its own.
const timedEvery = 32

// began is the start of the process's clock. The times of launches are counted from it.
var began = time.Now()

func (r *ring) add(op *cshim.Operator) {
	n := r.launched.Add(1)
	l := &r.last[(n-1)%ringSize]
	l.op.Store(op)
	l.number.Store(n)
	if clean := r.clean.Load(); n%timedEvery == 1 || clean != r.waited.Load() {
		r.waited.Store(clean)
		l.at.Store(int64(time.Since(began)))
		l.timed.Store(n)
	}
}

// passed notes that the first n launches have ended well.
func (r *ring) passed(n uint64) {
	for {
		old := r.clean.Load()
		if n <= old || r.clean.CompareAndSwap(old, n) {
			return
		}
	}
}

// operator is that of launch n, or nil while another goroutine writes it, or the launch that takes its place.
func (r *ring) operator(n uint64) *cshim.Operator {
	l := &r.last[(n-1)%ringSize]
	if l.number.Load() != n {
		return nil
	}
	op := l.op.Load()
	if r.launched.Load()-n >= ringSize {
		return nil
	}
	return op
}

// recent names the launches that may have failed, the newest first.
func (r *ring) recent() []string { return r.names(r.clean.Load()) }

func (r *ring) names(from uint64) []string {
	n := r.launched.Load()
	if n > named {
		from = max(from, n-named)
	}
	var names []string
	for i := n; i > from; i-- {
		if op := r.operator(i); op != nil {
			names = append(names, op.Symbol)
		}
	}
	return names
}

// rankSuspects puts the operators that CANN's message names first, and lists each operator
// once. Without such a name the oldest launch comes first: what follows a fault is skipped
// or works with its results.
func rankSuspects(newestFirst []string, message string) []string {
	oldest := slices.Clone(newestFirst)
	slices.Reverse(oldest)
	var named, others []string
	for _, op := range oldest {
		list := &others
		if strings.Contains(message, strings.TrimPrefix(op, "aclnn")) {
			list = &named
		}
		if !slices.Contains(*list, op) {
			*list = append(*list, op)
		}
	}
	// The longest name is the one meant: Add is a part of AddRmsNorm.
	slices.SortStableFunc(named, func(a, b string) int { return len(b) - len(a) })
	return append(named, others...)
}

// blamesOperator reports whether the error may come from an operator launched earlier.
func (e *Error) blamesOperator() bool { return e.Code.Damage() == DamageWork && e.group != ErrAborted }

// Launched is an operator that a stream was given.
type Launched struct {
	At       time.Time `json:"at"` // of the launch, or of one up to 31 launches before it
	Device   int       `json:"device"`
	Stream   int       `json:"stream"`
	Number   uint64    `json:"number"` // of the launch on its stream, from 1
	Operator string    `json:"operator"`
	Ended    bool      `json:"ended"` // a wait for the stream has returned since
}

// LastLaunches returns the operators launched last on all open streams of the device, the oldest
// first: at most limit, and 1024 of each stream. It waits for nothing, so that it can be called when
// the device hangs.
func (d *Device) LastLaunches(limit int) []Launched {
	if d == nil || d.scope == nil {
		return nil
	}
	var all []Launched
	for _, q := range d.scope.chip.queues() {
		all = append(all, q.launches()...)
	}
	slices.SortFunc(all, func(a, b Launched) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Number, b.Number)) })
	return all[max(0, len(all)-max(limit, 0)):]
}

// launches lists what the ring of a stream holds. An entry that is being written is left out.
func (q *queue) launches() (all []Launched) {
	r := &q.ring
	n, clean := r.launched.Load(), r.clean.Load()
	from := n - min(n, ringSize)
	var at int64
	for i := from; i < n; i++ { // until one is timed, the first ones have its time
		if l := &r.last[i%ringSize]; l.timed.Load() == i+1 {
			at = l.at.Load()
			break
		}
	}
	for i := from; i < n; i++ {
		l := &r.last[i%ringSize]
		if l.timed.Load() == i+1 {
			at = l.at.Load()
		}
		op := r.operator(i + 1)
		if op == nil {
			continue
		}
		all = append(all, Launched{At: began.Add(time.Duration(at)), Device: q.scope.chip.id, Stream: q.id, Number: i + 1, Operator: op.Symbol, Ended: i < clean})
	}
	return all
}
