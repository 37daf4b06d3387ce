package ccl_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/rt"
)

// A barrier of some ranks ends without the others, and one of all ranks ends at its own limit, as a failed kernel.
func TestBarrierOf(t *testing.T) {
	for connection := range worlds {
		t.Run(connection, func(t *testing.T) {
			all := unjoined(t, 3, patient, connection)
			joinAll(all)
			each(all, func(r *rank) {
				barrier := func(ranks []int, within time.Duration) {
					require.NoError(r.tb, r.n.l.BarrierOf(r.t, rt.Handle(r.comm), rt.Handle(r.stream), func() ([]int, time.Duration) { return ranks, within }))
				}
				barrier(nil, 0)
				if r.id != 1 {
					barrier([]int{0, 2}, watchdog)
				}
				require.Zero(r.tb, r.sync(), r.text())
			})
			r := all[0]
			require.NoError(t, r.n.l.BarrierOf(r.t, rt.Handle(r.comm), rt.Handle(r.stream), func() ([]int, time.Duration) { return nil, time.Millisecond }))
			require.EqualValues(t, 507015, r.sync())
			require.Contains(t, r.text(), "within 1ms")
			for _, r := range all {
				r.close()
			}
		})
	}
}
