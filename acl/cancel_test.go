package acl_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
)

// TestCancelledWait: a wait on a stream that hangs returns within 10 ms of the end of its context, also
// when it has waited for so long that it asks seldom. The median of several times counts, in the best of some
// rounds, beside how late a mere timer is, because others may keep the processors busy.
func TestCancelledWait(t *testing.T) {
	const tries, limit = 15, 10 * time.Millisecond
	dev := acltest.Device(t, acltest.Open(t), 0)
	st := acltest.Stream(t, dev)
	release := hold(t, st)
	defer func() {
		release()
		require.NoError(t, st.Synchronize(background))
	}()
	ev, err := st.Record()
	require.NoError(t, err)
	defer func() { require.NoError(t, ev.Close()) }()
	host := make([]byte, 64)
	buf := malloc(t, st, 64)
	waits := map[string]func(context.Context) error{
		"stream": st.Synchronize, "device": dev.Synchronize, "event": ev.Synchronize,
		"copy":  func(ctx context.Context) error { return acl.CopyFromDevice(ctx, st, host, buf) },
		"close": st.CloseContext,
	}
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			excess := time.Hour
			for round := 0; round < 6 && excess >= limit; round++ {
				var took, late []time.Duration
				for i := range tries {
					// The wait's pauses grow to 5 ms after 160 ms.
					ctx, cancel := context.WithTimeout(background, time.Duration(i%3)*90*time.Millisecond+time.Millisecond)
					end, _ := ctx.Deadline()
					timer := make(chan time.Duration, 1)
					time.AfterFunc(time.Until(end), func() { timer <- time.Since(end) })
					err := wait(ctx)
					took = append(took, time.Since(end))
					late = append(late, <-timer)
					cancel()
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
				slices.Sort(took)
				slices.Sort(late)
				t.Logf("the median is %v, the longest %v; of timers %v and %v", took[tries/2], took[tries-1], late[tries/2], late[tries-1])
				excess = min(excess, took[tries/2]-3*late[tries/2]) // a wait wakes up more than once
			}
			require.Less(t, excess, limit)
		})
	}
}
