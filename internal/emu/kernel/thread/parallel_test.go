package thread

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setThreads lets kernels use n threads until the test ends.
func setThreads(t *testing.T, n int) {
	if os.Getenv("CANN_EMU_THREADS") != "" {
		t.Skip("CANN_EMU_THREADS fixes the number of threads")
	}
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// once calls Parallel and reports, without t, whether each item was computed once.
func once(n, grain int64) error {
	seen := make([]atomic.Int32, n)
	Parallel(n, grain, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			seen[i].Add(1)
		}
	})
	for i := range seen {
		if k := seen[i].Load(); k != 1 {
			return fmt.Errorf("item %d of %d was computed %d times", i, n, k)
		}
	}
	return nil
}

func TestEachItemOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 8, 17} {
		t.Run(fmt.Sprint(threads), func(t *testing.T) {
			setThreads(t, threads)
			for n := range int64(300) {
				require.NoError(t, once(n, 1+n%7))
			}
		})
	}
}

// TestManyCallers: callers at the same time, whose kernels call kernels, while the number of threads changes.
func TestManyCallers(t *testing.T) {
	setThreads(t, 4)
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for n := range int64(50) {
				Parallel(4, 1, func(lo, hi int64) { assert.NoError(t, once(n*(hi-lo), 1)) })
			}
		})
	}
	for i := range 200 {
		runtime.GOMAXPROCS(1 + i%5)
		runtime.Gosched()
	}
	all.Wait()
	require.Eventually(t, alone, time.Minute, time.Millisecond)
}

// TestWorkersShare: a caller that waits in its part of the work leaves the rest to a worker, and no more workers are at work than the pool has.
func TestWorkersShare(t *testing.T) {
	setThreads(t, 3)
	var now, most atomic.Int64
	var all sync.WaitGroup
	both := make(chan struct{}, 1)
	Parallel(2, 1, func(_, _ int64) { // ends only if two threads compute
		select {
		case both <- struct{}{}:
			both <- struct{}{}
		case <-both:
		}
	})
	for range 5 {
		all.Go(func() {
			Parallel(100, 1, func(_, _ int64) {
				k := now.Add(1)
				for old := most.Load(); k > old && !most.CompareAndSwap(old, k); old = most.Load() {
				}
				runtime.Gosched()
				now.Add(-1)
			})
		})
	}
	all.Wait()
	require.LessOrEqual(t, most.Load(), int64(5+2), "five callers and two workers")
}

// alone reports whether the pool has no workers.
func alone() bool {
	pool.Lock()
	defer pool.Unlock()
	return pool.count == 0 && pool.idle == 0 && len(pool.queue) == 0
}

// TestEnd: a task waits for its worker, which leaves the pool after a while without tasks.
func TestEnd(t *testing.T) {
	setThreads(t, 2)
	both, finish := make(chan struct{}), make(chan struct{})
	gone := make(chan struct{})
	var caller atomic.Bool
	go func() {
		defer close(gone)
		Parallel(2, 1, func(_, _ int64) {
			if caller.CompareAndSwap(false, true) { // the first thread ends, the second one is still at work
				<-both
				return
			}
			close(both)
			<-finish
		})
	}()
	<-both
	require.False(t, alone())
	select {
	case <-gone:
		t.Fatal("Parallel returned before its worker had ended")
	default:
	}
	close(finish)
	<-gone
	require.Eventually(t, alone, time.Minute, time.Millisecond)
}

// TestAfterSleep: workers that sleep, and workers that have left, come to the next task.
func TestAfterSleep(t *testing.T) {
	setThreads(t, 3)
	for _, pause := range []time.Duration{0, 20 * time.Microsecond, time.Millisecond, 10 * time.Millisecond, 30 * time.Millisecond} {
		for range 20 {
			var all sync.WaitGroup
			all.Add(3)
			Parallel(3, 1, func(_, _ int64) { // ends only if three threads compute
				all.Done()
				all.Wait()
			})
			time.Sleep(pause)
		}
	}
}
