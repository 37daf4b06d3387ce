package acl

import (
	"context"
	"time"

	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

// forever is CANN's timeout of -1.
const forever = ^uint64(0)

// A wait that can be cancelled is cut into slices: CANN's waits sleep, and cannot be woken.
// The first is short, so that a cancellation soon after the call is seen soon.
const (
	firstSlice = 10 * time.Millisecond
	lastSlice  = 160 * time.Millisecond
)

// expired are the codes by which a slice ends without the work having ended.
func expired(code Code) bool {
	return code == abi.ACL_ERROR_RT_STREAM_SYNC_TIMEOUT || code == abi.ACL_ERROR_RT_EVENT_SYNC_TIMEOUT
}

// wait calls one of the functions …WithTimeout until the work has ended or ctx is done: with
// a handle as first argument, or for the whole device. interrupted is true in the latter
// case.
func (sc *scope) wait(ctx context.Context, f *cshim.Func, handle uint64, device bool) (interrupted bool, err error) {
	at := 1 // the timeout's position
	c := cshim.Call{Args: [cshim.Args]uint64{handle, forever}}
	if device {
		at = 0
		c.Args[0] = forever
	}
	if ctx.Done() == nil {
		return false, c.Do(f, sc.handle)
	}
	for slice := firstSlice; ; slice = min(2*slice, lastSlice) {
		if ctx.Err() != nil {
			return true, nil
		}
		next := slice
		if deadline, ok := ctx.Deadline(); ok {
			next = min(next, time.Until(deadline))
		}
		// CANN takes whole milliseconds, and not 0.
		c.Args[at] = uint64(max(1, (next+time.Millisecond-1)/time.Millisecond))
		if err := c.Do(f, sc.handle); err == nil || !expired(codeOf(err)) {
			return false, err
		}
	}
}
