package hccl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Causes of a *GroupError, for errors.Is.
var (
	ErrPortInUse     = errors.New("the rendezvous port is in use")
	ErrRanksMissing  = errors.New("not all ranks came in time")
	ErrRankLost      = errors.New("a rank left the group")
	ErrOutOfStep     = errors.New("the ranks make different calls")
	ErrRankFailed    = errors.New("a rank could not do its part")
	ErrMessageSize   = errors.New("the message is too large")
	ErrStranger      = errors.New("the peer is not of this job")
	ErrWorldMismatch = errors.New("the ranks disagree about the group")
	ErrGroupClosed   = errors.New("used after Close")
	ErrGroupBusy     = errors.New("two calls at once on one group")
	ErrGaveUp        = errors.New("the call's context ended")
)

// wireCauses are the causes that travel to the other ranks, numbered by position.
var wireCauses = []error{ErrRanksMissing, ErrRankLost, ErrOutOfStep, ErrRankFailed, ErrMessageSize, ErrWorldMismatch, ErrGaveUp}

// GroupError is a failed call of a host group, or a group that could not be formed.
type GroupError struct {
	Group  string // the group's name
	Op     string // "rendezvous", "barrier", "all-gather of int", …
	Call   uint64 // number of the call in the group, from 1; 0 before the group was formed
	Rank   int    // who reports it
	Ranks  []int  // who is to blame: missing, lost, failed; of the group's numbering
	Detail string

	cause error // one of the causes above
	err   error // what is behind it, or nil
}

func (e *GroupError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "hccl: group %q rank %d: %s", e.Group, e.Rank, e.Op)
	if e.Call > 0 {
		fmt.Fprintf(&b, " (call %d)", e.Call)
	}
	b.WriteString(": " + e.cause.Error())
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

// Unwrap gives the cause and what is behind it, such as context.DeadlineExceeded, to
// errors.Is and errors.As.
func (e *GroupError) Unwrap() []error {
	if e.err == nil {
		return []error{e.cause}
	}
	return []error{e.cause, e.err}
}

// rankList writes ranks shortly: "ranks 1, 3-5".
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
