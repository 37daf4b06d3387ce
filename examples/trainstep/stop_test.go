//go:build unix

package main

import (
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/examples/checkpoint"
	"github.com/goascend/cann/examples/job"
)

// TestStoppedRank: when one rank is stopped for ever, the others end within the watchdog's limit, and
// each of them names it, the collective in which it waits itself, and what the rank was doing. They
// leave flight records.
func TestStoppedRank(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	acltest.Need(t)
	// The default limit is ten minutes, so that half of it shows that the flag counts, on a busy machine too.
	const limit = 5 * time.Second
	for _, victim := range []int{0, 2} {
		t.Run(fmt.Sprint("rank ", victim), func(t *testing.T) {
			took := stopOne(t, victim, limit)
			t.Logf("all ended after %v", took)
			assert.Less(t, took, 5*time.Minute)
		})
	}
}

// stopOne stops one of four ranks and returns after which time the others have ended.
func stopOne(t *testing.T, victim int, limit time.Duration) time.Duration {
	dir := t.TempDir()
	ranks := startRanks(t, 4, smallFlags("-tp", "2", "-steps", "1000000", "-watchdog", limit.String(), "-flight", dir))
	training(t, ranks)
	require.NoError(t, ranks[victim].Process.Signal(syscall.SIGSTOP))
	began := time.Now()
	for i, r := range ranks {
		if i == victim {
			continue
		}
		require.Error(t, r.Wait())
		text := r.out.String()
		assert.Contains(t, text, fmt.Sprintf("look at rank %d; ", victim))
		assert.Regexp(t, `communicator \S+, collective \d+: `, text)
		assert.Regexp(t, `ranks? [\d, -]+ queued \d+ \(Hccl\w+ float32\[\d+\]`, text)
	}
	took := time.Since(began)
	require.NoError(t, ranks[victim].Process.Kill())
	require.Error(t, ranks[victim].Wait())
	records, err := job.ReadFlights(dir)
	require.NoError(t, err)
	require.Len(t, records, 3)
	for _, f := range records {
		assert.Contains(t, f.Why, fmt.Sprintf("look at rank %d", victim))
		assert.Greater(t, len(f.Launches), 100)
		assert.NotEmpty(t, f.Queued)
		assert.NotEmpty(t, f.Progress)
	}
	return took
}

// TestTerminated: ranks that get a request to end finish the step, save it and report that. The training goes on
// from there.
func TestTerminated(t *testing.T) {
	acltest.Need(t)
	dir := t.TempDir()
	ranks := startRanks(t, 2, smallFlags("-steps", "1000000", "-save", dir))
	training(t, ranks)
	for _, r := range ranks {
		send(t, r.Process, syscall.SIGTERM)
	}
	for _, r := range ranks {
		require.Error(t, r.Wait())
		assert.Regexp(t, `trainstep: ended after step \d+, saved in `+dir+`/step-\d{8}-[0-9a-f]{8}: terminated`, r.out.String())
	}
	set, err := checkpoint.Open(dir)
	require.NoError(t, err)
	step := set.About().Step
	require.Positive(t, step)
	require.NoError(t, set.Close())
	out, _ := trained(t, smallFlags("-ranks", "2", "-tp", "2", "-steps", strconv.Itoa(step+1), "-resume", dir)...)
	require.Contains(t, out, fmt.Sprintf("resumed after step %d from", step))
}

// TestQuit: SIGQUIT leaves a record of what the rank did, and ends it as usual.
func TestQuit(t *testing.T) {
	acltest.Need(t)
	dir := t.TempDir()
	ranks := startRanks(t, 1, smallFlags("-steps", "1000000", "-ranks", "2", "-flight", dir), "RANK=", "LOCAL_RANK=", "WORLD_SIZE=", "LOCAL_WORLD_SIZE=", "MASTER_ADDR=", "MASTER_PORT=")
	training(t, ranks)
	require.NoError(t, ranks[0].Process.Signal(syscall.SIGQUIT))
	require.Error(t, ranks[0].Wait())
	require.Contains(t, ranks[0].out.String(), "SIGQUIT: quit")
	records, err := job.ReadFlights(dir)
	require.NoError(t, err)
	require.Len(t, records, 2)
	for _, f := range records {
		assert.Equal(t, "SIGQUIT", f.Why)
		assert.Equal(t, ranks[0].Process.Pid, f.Process)
		for _, l := range f.Launches {
			assert.Equal(t, f.Rank, l.Device)
		}
	}
}
