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
// rounds, because others may keep the processors busy.
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
			median := time.Hour
			for round := 0; round < 6 && median >= limit; round++ {
				var took []time.Duration
				for i := range tries {
					// The wait's pauses grow to 5 ms after 160 ms.
					ctx, cancel := context.WithTimeout(background, time.Duration(i%3)*90*time.Millisecond+time.Millisecond)
					err := wait(ctx)
					end, _ := ctx.Deadline()
					took = append(took, time.Since(end))
					cancel()
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
				slices.Sort(took)
				t.Logf("the median is %v, the longest %v", took[tries/2], took[tries-1])
				median = min(median, took[tries/2])
			}
			require.Less(t, median, limit)
		})
	}
}
