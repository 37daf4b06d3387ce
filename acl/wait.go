package acl

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// forever is CANN's timeout without limit.
const forever = -1

// CANN's timed waits are not used: one that expires logs an error, takes a snapshot of the device
// and leaves a task on the stream, so that a long wait in slices would fill the stream. A wait that
// can be cancelled asks instead whether the work has ended, first without a pause, because most
// waits are short, and then at intervals that grow with the wait.
const (
	eager      = 100 // times that it asks without a pause
	patience   = 32  // a pause lasts at most this part of the time waited
	shortPause = 20 * time.Microsecond
	longPause  = 5 * time.Millisecond
)

// poll asks until the answer is yes or an error, or until ctx is done; interrupted is true in the
// latter case.
func poll(ctx context.Context, ask func() (bool, error)) (interrupted bool, err error) {
	for range eager {
		if done, err := ask(); done || err != nil {
			return false, err
		}
		if ctx.Err() != nil {
			return true, nil
		}
		runtime.Gosched()
	}
	start, timer := time.Now(), time.NewTimer(shortPause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return true, nil
		}
		if done, err := ask(); done || err != nil {
			return false, err
		}
		timer.Reset(min(max(time.Since(start)/patience, shortPause), longPause))
	}
}

// aside runs calls of CANN that block, one at a time, each on a goroutine of its own: CANN cannot
// wake such a call when a context ends. A call that its caller has left goes on to its end.
type aside struct {
	mu      sync.Mutex
	running chan struct{} // closed when the call that runs has returned; nil when none runs
	left    error         // what calls returned that no wait has reported yet
}

// wait runs a blocking call that begins after wait was called, until it returns or ctx is done.
func (a *aside) wait(ctx context.Context, call func() error) (interrupted bool, err error) {
	for {
		a.mu.Lock()
		running, mine := a.running, a.running == nil
		if mine {
			running = make(chan struct{})
			a.running = running
			go a.run(call)
		}
		a.mu.Unlock()
		select {
		case <-running:
		case <-ctx.Done():
			return true, nil
		}
		if mine {
			return false, a.take()
		}
	}
}

func (a *aside) run(call func() error) {
	err := call()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.left = err
	}
	close(a.running)
	a.running = nil
}

// take returns what a call left behind, once.
func (a *aside) take() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.left
	a.left = nil
	return err
}

// finish waits for the call that runs, if there is one. Its work must have ended.
func (a *aside) finish() {
	a.mu.Lock()
	running := a.running
	a.mu.Unlock()
	if running != nil {
		<-running
	}
}
