package acl

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/goascend/cann/cshim"
)

// ringSize is how many launches a stream remembers.
const ringSize = 32

// ring holds the last launches of a stream, for the error of an asynchronous fault.
type ring struct {
	launched atomic.Uint64 // number of launches
	clean    atomic.Uint64 // number of launches known to have ended well
	last     [ringSize]atomic.Pointer[cshim.Operator]
}

func (r *ring) add(op *cshim.Operator) {
	r.last[(r.launched.Add(1)-1)%ringSize].Store(op)
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

// recent names the launches that may have failed, the newest first.
func (r *ring) recent() []string { return r.names(r.clean.Load()) }

func (r *ring) names(from uint64) []string {
	n := r.launched.Load()
	if n > ringSize {
		from = max(from, n-ringSize)
	}
	var names []string
	for i := n; i > from; i-- {
		if op := r.last[(i-1)%ringSize].Load(); op != nil {
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
