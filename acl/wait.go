package acl

import (
	"context"
	"time"

	"github.com/goascend/cann/internal/abi"
)

// forever is CANN's timeout without limit.
const forever = -1

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

// wait calls synchronize, which waits for a number of milliseconds, until the work has ended or
// ctx is done; interrupted is true in the latter case.
func wait(ctx context.Context, synchronize func(timeout int32) error) (interrupted bool, err error) {
	if ctx.Done() == nil {
		return false, synchronize(forever)
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
		timeout := max(1, (next+time.Millisecond-1)/time.Millisecond)
		if err := synchronize(int32(timeout)); err == nil || !expired(codeOf(err)) {
			return false, err
		}
	}
}
