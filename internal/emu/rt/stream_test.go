package rt_test

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// TestStreamsAgainstModel runs random sequences of tasks, records and waits on four streams. It
// checks that every task that must come before another, according to a model, has run when the
// other runs.
func TestStreamsAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newProcess(t)
		th := p.Thread(0)
		const streams, events = 4, 3
		var s, e [4]uint64
		for i := range streams {
			s[i] = p.Stream(th)
		}
		for i := range events {
			e[i] = p.Event(th)
		}
		var mu sync.Mutex
		done := make(map[int]bool)
		// before[i] lists the tasks that come before the next task of stream i; recorded[k] lists
		// those that event k covers.
		var before [streams][]int
		var recorded [events][]int
		next := 0
		var wrong atomic.Int32
		for range rapid.IntRange(1, 60).Draw(rt, "length") {
			i := rapid.IntRange(0, streams-1).Draw(rt, "stream")
			k := rapid.IntRange(0, events-1).Draw(rt, "event")
			switch rapid.IntRange(0, 2).Draw(rt, "step") {
			case 0:
				id, needs := next, slices.Clone(before[i])
				next++
				p.Submit(th, s[i], func() error {
					mu.Lock()
					defer mu.Unlock()
					for _, n := range needs {
						if !done[n] {
							wrong.Add(1)
						}
					}
					done[id] = true
					return nil
				})
				before[i] = append(before[i], id)
			case 1:
				p.Must(th, "aclrtRecordEvent", e[k], s[i])
				recorded[k] = slices.Clone(before[i])
			case 2:
				p.Must(th, "aclrtStreamWaitEvent", s[i], e[k])
				before[i] = append(before[i], recorded[k]...)
			}
		}
		p.Must(th, "aclrtSynchronizeDevice")
		require.Zero(rt, wrong.Load())
		require.Len(rt, done, next)
		for i := range streams {
			p.Must(th, "aclrtDestroyStream", s[i])
		}
		for i := range events {
			p.Must(th, "aclrtDestroyEvent", e[i])
		}
	})
}

func TestContinueOnFailure(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s := p.Stream(th)
	ran := 0
	p.Submit(th, s, func() error { return errors.New("first") })
	p.Submit(th, s, func() error { ran++; return nil })
	p.Submit(th, s, func() error { return &rt.Fault{Code: 507015, Text: "second"} })
	require.Equal(t, int32(507015), p.Call(th, "aclrtSynchronizeStream", s), "a later failure replaces an earlier one")
	require.Contains(t, rttest.Text(th), "second")
	require.Equal(t, 1, ran)
	p.Must(th, "aclrtSynchronizeStream", s)
	p.Must(th, "aclrtDestroyStream", s)
}

func TestStopOnFailure(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s, other := p.Stream(th), p.Stream(th)
	p.Must(th, "aclrtSetStreamFailureMode", s, 1)
	gate := make(chan struct{})
	ran := false
	p.Submit(th, s, func() error { <-gate; return errors.New("crash") })
	p.Submit(th, s, func() error { ran = true; return nil })
	close(gate)
	require.Equal(t, int32(507035), p.Call(th, "aclrtSynchronizeStream", s))
	require.False(t, ran, "what follows a failure is not run")
	word := new(uint64)
	for name, args := range map[string][]uint64{
		"aclrtSynchronizeStream": {other}, "aclrtStreamQuery": {other, rttest.Address(word)}, "aclrtSynchronizeDevice": {},
	} {
		require.Equal(t, int32(507035), p.Call(th, name, args...), "%s repeats the failure", name)
		require.Contains(t, rttest.Text(th), "crash")
	}
	st, _ := p.Runtime.Stream(th, other)
	require.Equal(t, uint64(507035), p.Runtime.Submit(th, st, rt.Task{Name: "later", Run: func() error { return nil }}))
}

func TestAbort(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s, source := p.Stream(th), p.Stream(th)
	e := p.Event(th)
	gate := make(chan struct{})
	p.Submit(th, source, func() error { <-gate; return nil })
	p.Must(th, "aclrtRecordEvent", e, source)
	p.Must(th, "aclrtStreamWaitEvent", s, e) // without an end, as seen by s
	ran := false
	p.Submit(th, s, func() error { ran = true; return nil })
	code := make(chan int32)
	go func() {
		other := &rt.Thread{Context: th.Context}
		code <- p.Call(other, "aclrtSynchronizeStream", s)
	}()
	st, _ := p.Runtime.Stream(th, s)
	require.Eventually(t, func() bool { return st.Waiters() == 1 }, time.Minute, time.Millisecond)
	p.Must(th, "aclrtStreamAbort", s)
	require.Equal(t, int32(107023), <-code)
	require.False(t, ran)
	p.Submit(th, s, func() error { ran = true; return nil })
	p.Must(th, "aclrtSynchronizeStream", s)
	require.True(t, ran, "an aborted stream works on")
	close(gate)
	p.Must(th, "aclrtDestroyStream", s)
	p.Must(th, "aclrtDestroyStream", source)
	p.Must(th, "aclrtDestroyEvent", e)
}

// TestAbortEndsTasksFirst: a stream counts a task as done only after the abort has dropped it, and starts no other before.
func TestAbortEndsTasksFirst(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s := p.Stream(th)
	st, _ := p.Runtime.Stream(th, s)
	gate, dropping, dropped := make(chan struct{}), make(chan struct{}), make(chan struct{})
	p.Submit(th, s, func() error { <-gate; return nil })
	then := make(chan struct{})
	require.Zero(t, p.Runtime.Submit(th, st, rt.Task{Name: "dropped", Then: func() { close(then) }, Drop: func() { close(dropping); <-dropped }}))
	aborted, waited, later := make(chan int32), make(chan int32), make(chan struct{})
	go func() { waited <- p.Call(&rt.Thread{Context: th.Context}, "aclrtSynchronizeStream", s) }()
	require.Eventually(t, func() bool { return st.Waiters() == 1 }, time.Minute, time.Millisecond)
	go func() { aborted <- p.Call(&rt.Thread{Context: th.Context}, "aclrtStreamAbort", s) }()
	<-dropping
	p.Submit(th, s, func() error { close(later); return nil })
	close(gate)
	for range 20 {
		select {
		case <-then:
			require.Fail(t, "done before it was dropped")
		case <-waited:
			require.Fail(t, "the wait ended before")
		case <-later:
			require.Fail(t, "the next task began before")
		case <-time.After(time.Millisecond):
		}
	}
	close(dropped)
	require.Zero(t, <-aborted)
	require.Equal(t, int32(107023), <-waited)
	<-then
	<-later
	p.Must(th, "aclrtDestroyStream", s)
}

// TestFullQueueBlocks checks that a launch on a full stream waits for a free place.
func TestFullQueueBlocks(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s := p.Stream(th)
	gate := make(chan struct{})
	var ran atomic.Int32
	p.Submit(th, s, func() error { <-gate; return nil })
	submitted := make(chan struct{})
	go func() {
		other := &rt.Thread{Context: th.Context}
		for range rt.QueueDepth + 10 {
			p.Submit(other, s, func() error { ran.Add(1); return nil })
		}
		close(submitted)
	}()
	st, _ := p.Runtime.Stream(th, s)
	require.Eventually(t, func() bool { return st.Queued() == rt.QueueDepth }, time.Minute, time.Millisecond)
	select {
	case <-submitted:
		t.Fatal("nothing blocked")
	default:
	}
	close(gate)
	<-submitted
	p.Must(th, "aclrtSynchronizeStream", s)
	require.Equal(t, int32(rt.QueueDepth+10), ran.Load())
	p.Must(th, "aclrtDestroyStream", s)
}

func TestStreamLimit(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	word := new(uint64)
	for range rt.MaxStreams {
		p.Must(th, "aclrtCreateStream", rttest.Address(word))
	}
	require.Equal(t, int32(207008), p.Call(th, "aclrtCreateStream", rttest.Address(word)))
	require.Contains(t, rttest.Text(th), "EE1023")
	p.Must(th, "aclrtDestroyStream", *word)
	p.Must(th, "aclrtCreateStream", rttest.Address(word))
}

// TestStatusEnums checks that the two queries of an event return inverted values.
func TestStatusEnums(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s := p.Stream(th)
	ex := p.Event(th)
	plain := p.Out(th, "aclrtCreateEvent", 0)
	status := func(name string, e uint64) uint64 { return p.Out(th, name, 1, e) }
	require.Equal(t, uint64(1), status("aclrtQueryEventStatus", ex), "an Ex event that was never recorded is complete")
	require.Equal(t, uint64(0), status("aclrtQueryEventStatus", plain), "another one is not")
	require.Equal(t, uint64(1), status("aclrtQueryEvent", plain))
	p.Must(th, "aclrtSynchronizeEvent", plain)
	p.Must(th, "aclrtRecordEvent", plain, s)
	p.Must(th, "aclrtSynchronizeEvent", plain)
	require.Equal(t, uint64(1), status("aclrtQueryEventStatus", plain))
	require.Equal(t, uint64(0), status("aclrtQueryEvent", plain))
	require.Equal(t, uint64(0), status("aclrtQueryEventWaitStatus", plain))
	p.Must(th, "aclrtDestroyEvent", ex)
	p.Must(th, "aclrtDestroyEvent", plain)
}

// TestManyThreads uses several devices from many OS threads concurrently.
func TestManyThreads(t *testing.T) {
	p := newProcess(t)
	var threads [4]*rt.Thread
	for d := range threads {
		threads[d] = p.Thread(d)
	}
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			th := &rt.Thread{Context: threads[g%4].Context}
			for i := range 50 {
				s := p.Stream(th)
				e := p.Event(th)
				addr := p.Out(th, "aclrtMalloc", 0, uint64(100+i), 0)
				p.Must(th, "aclrtMemsetAsync", addr, 100, uint64(g), 100, s)
				p.Must(th, "aclrtRecordEvent", e, s)
				p.Must(th, "aclrtSynchronizeEvent", e)
				p.Must(th, "aclrtSynchronizeDevice") // while others create and destroy streams
				p.Must(th, "aclrtFree", addr)
				p.Must(th, "aclrtDestroyEvent", e)
				p.Must(th, "aclrtDestroyStream", s)
				p.Must(th, "aclrtSetCurrentContext", threads[(g+i)%4].Context)
			}
		})
	}
	wg.Wait()
}
