package world

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/class"
)

// Causes of a *GroupError, for errors.Is. All except ErrRankFailed and ErrGaveUp also match a class of
// package acl, such as acl.ErrPeerLost; ErrGaveUp comes with the context's error.
var (
	ErrPortInUse    = class.Of(class.ErrBusy, "the rendezvous port is in use")
	ErrRanksMissing = class.Of(class.ErrTimeout, "not all ranks came in time")
	ErrRankLost     = class.Of(class.ErrPeerLost, "a rank was lost")
	ErrRankClosed   = class.Of(ErrRankLost, "a rank has closed the group") // also matches ErrRankLost
	ErrOutOfStep    = class.Of(class.ErrInvalidArgument, "the ranks make different calls")
	ErrRankFailed   = errors.New("a rank could not do its part")
	ErrMessageSize  = class.Of(class.ErrInvalidArgument, "the message is too large")
	ErrStranger     = class.Of(class.ErrInvalidArgument, "the peer is not of this job")
	ErrDisagree     = class.Of(class.ErrInvalidArgument, "the ranks disagree about the group")
	ErrClosed       = class.ErrClosed
	ErrNil          = class.Of(class.ErrInvalidArgument, "nil, or never made")
	ErrBusy         = class.Of(class.ErrBusy, "two calls at once on one group")
	ErrGaveUp       = errors.New("the call's context ended")
)

// wireCauses are the causes that are sent to other ranks, as their index in this list.
var wireCauses = []error{ErrRanksMissing, ErrRankClosed, ErrRankLost, ErrOutOfStep, ErrRankFailed, ErrMessageSize, ErrDisagree, ErrGaveUp}

// GroupError is a failed call of a host group, or a group that could not be formed.
type GroupError struct {
	Group  string // the group's name
	Op     string // "rendezvous", "barrier", "all-gather of int", …
	Call   uint64 // number of the call in the group, from 1; 0 before the group was formed
	Rank   int    // the rank that reports the error
	Ranks  []int  // the ranks at fault (missing, lost, failed), numbered as in the group
	Detail string

	cause error // one of the causes above
	err   error // the underlying error, or nil
}

func (e *GroupError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "world: group %q rank %d: %s", e.Group, e.Rank, e.Op)
	if e.Call > 0 {
		fmt.Fprintf(&b, " (call %d)", e.Call)
	}
	fmt.Fprintf(&b, ": %v", e.cause)
	if len(e.Ranks) > 0 {
		b.WriteString(": " + rankList(e.Ranks))
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if e.err != nil {
		b.WriteString(": " + e.err.Error())
	}
	return b.String()
}

// Unwrap returns the cause and the underlying error, such as context.DeadlineExceeded, for
// errors.Is and errors.As.
func (e *GroupError) Unwrap() []error {
	return slices.DeleteFunc([]error{e.cause, e.err}, func(err error) bool { return err == nil })
}

// rankList formats ranks compactly: "ranks 1, 3-5".
func rankList(ranks []int) string {
	ranks = slices.Sorted(slices.Values(ranks))
	var parts []string
	for i := 0; i < len(ranks); {
		j := i
		for j+1 < len(ranks) && ranks[j+1] == ranks[j]+1 {
			j++
		}
		switch j - i {
		case 0:
			parts = append(parts, fmt.Sprint(ranks[i]))
		case 1:
			parts = append(parts, fmt.Sprintf("%d, %d", ranks[i], ranks[j]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", ranks[i], ranks[j]))
		}
		i = j + 1
	}
	word := "ranks "
	if len(ranks) == 1 {
		word = "rank "
	}
	return word + strings.Join(parts, ", ")
}
