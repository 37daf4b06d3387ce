package rt

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestStreamsAgainstModel runs random histories of work, records and waits on four streams.
// What the model says must have happened before a piece of work has happened when it runs.
func TestStreamsAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newProcess(t)
		th := p.thread(0)
		const streams, events = 4, 3
		var s, e [4]uint64
		for i := range streams {
			s[i] = p.stream(th)
		}
		for i := range events {
			e[i] = p.event(th)
		}
		var mu sync.Mutex
		done := make(map[int]bool)
		// before[i] is the work that precedes the next work of stream i; recorded[k] what an
		// event stands for.
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
				p.submit(th, s[i], func() error {
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
				p.must(th, "aclrtRecordEvent", e[k], s[i])
				recorded[k] = slices.Clone(before[i])
			case 2:
				p.must(th, "aclrtStreamWaitEvent", s[i], e[k])
				before[i] = append(before[i], recorded[k]...)
			}
		}
		p.must(th, "aclrtSynchronizeDevice")
		require.Zero(rt, wrong.Load())
		require.Len(rt, done, next)
		for i := range streams {
			p.must(th, "aclrtDestroyStream", s[i])
		}
		for i := range events {
			p.must(th, "aclrtDestroyEvent", e[i])
		}
	})
}

func TestContinueOnFailure(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	s := p.stream(th)
	ran := 0
	p.submit(th, s, func() error { return errors.New("first") })
	p.submit(th, s, func() error { ran++; return nil })
	p.submit(th, s, func() error { return &Fault{Code: 507015, Text: "second"} })
	require.Equal(t, int32(507015), p.call(th, "aclrtSynchronizeStream", s), "a later failure replaces an earlier one")
	require.Contains(t, takeText(th), "second")
	require.Equal(t, 1, ran)
	p.must(th, "aclrtSynchronizeStream", s)
	p.must(th, "aclrtDestroyStream", s)
}

func TestStopOnFailure(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	s, other := p.stream(th), p.stream(th)
	p.must(th, "aclrtSetStreamFailureMode", s, 1)
	gate := make(chan struct{})
	ran := false
	p.submit(th, s, func() error { <-gate; return errors.New("crash") })
	p.submit(th, s, func() error { ran = true; return nil })
	close(gate)
	require.Equal(t, int32(507035), p.call(th, "aclrtSynchronizeStream", s))
	require.False(t, ran, "what follows a failure is not run")
	word := new(uint64)
	for name, args := range map[string][]uint64{
		"aclrtSynchronizeStream": {other}, "aclrtStreamQuery": {other, address(word)}, "aclrtSynchronizeDevice": {},
	} {
		require.Equal(t, int32(507035), p.call(th, name, args...), "%s repeats the failure", name)
		require.Contains(t, takeText(th), "crash")
	}
	st, _ := p.r.Stream(th, other)
	require.Equal(t, uint64(507035), p.r.Submit(th, st, Task{Name: "later", Run: func() error { return nil }}))
}

func TestAbort(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	s, source := p.stream(th), p.stream(th)
	e := p.event(th)
	gate := make(chan struct{})
	p.submit(th, source, func() error { <-gate; return nil })
	p.must(th, "aclrtRecordEvent", e, source)
	p.must(th, "aclrtStreamWaitEvent", s, e) // waits for ever, as far as s can tell
	ran := false
	p.submit(th, s, func() error { ran = true; return nil })
	code := make(chan int32)
	go func() {
		other := &Thread{Context: th.Context}
		code <- p.call(other, "aclrtSynchronizeStream", s)
	}()
	st, _ := p.r.Stream(th, s)
	require.Eventually(t, func() bool {
		st.mu.Lock()
		defer st.mu.Unlock()
		return len(st.waiters) == 1
	}, 5*time.Second, time.Millisecond)
	p.must(th, "aclrtStreamAbort", s)
	require.Equal(t, int32(107023), <-code)
	require.False(t, ran)
	p.submit(th, s, func() error { ran = true; return nil })
	p.must(th, "aclrtSynchronizeStream", s)
	require.True(t, ran, "an aborted stream works on")
	close(gate)
	p.must(th, "aclrtDestroyStream", s)
	p.must(th, "aclrtDestroyStream", source)
	p.must(th, "aclrtDestroyEvent", e)
}

// TestFullQueueBlocks: a stream holds so many tasks; the next launch waits for a place.
func TestFullQueueBlocks(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	s := p.stream(th)
	gate := make(chan struct{})
	var ran atomic.Int32
	p.submit(th, s, func() error { <-gate; return nil })
	submitted := make(chan struct{})
	go func() {
		other := &Thread{Context: th.Context}
		for range queueDepth + 10 {
			p.submit(other, s, func() error { ran.Add(1); return nil })
		}
		close(submitted)
	}()
	st, _ := p.r.Stream(th, s)
	require.Eventually(t, func() bool {
		st.mu.Lock()
		defer st.mu.Unlock()
		return len(st.queue)-st.head == queueDepth
	}, 5*time.Second, time.Millisecond)
	select {
	case <-submitted:
		t.Fatal("nothing blocked")
	default:
	}
	close(gate)
	<-submitted
	p.must(th, "aclrtSynchronizeStream", s)
	require.Equal(t, int32(queueDepth+10), ran.Load())
	p.must(th, "aclrtDestroyStream", s)
}

func TestStreamLimit(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	word := new(uint64)
	for range maxStreams {
		p.must(th, "aclrtCreateStream", address(word))
	}
	require.Equal(t, int32(207008), p.call(th, "aclrtCreateStream", address(word)))
	require.Contains(t, takeText(th), "EE1023")
	p.must(th, "aclrtDestroyStream", *word)
	p.must(th, "aclrtCreateStream", address(word))
}

// TestStatusEnums: the two queries of an event answer with inverted values.
func TestStatusEnums(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	s := p.stream(th)
	ex := p.event(th)
	plain := p.out(th, "aclrtCreateEvent", 0)
	status := func(name string, e uint64) uint64 { return p.out(th, name, 1, e) }
	require.Equal(t, uint64(1), status("aclrtQueryEventStatus", ex), "an Ex event that was never recorded is complete")
	require.Equal(t, uint64(0), status("aclrtQueryEventStatus", plain), "another one is not")
	require.Equal(t, uint64(1), status("aclrtQueryEvent", plain))
	p.must(th, "aclrtSynchronizeEvent", plain)
	p.must(th, "aclrtRecordEvent", plain, s)
	p.must(th, "aclrtSynchronizeEvent", plain)
	require.Equal(t, uint64(1), status("aclrtQueryEventStatus", plain))
	require.Equal(t, uint64(0), status("aclrtQueryEvent", plain))
	require.Equal(t, uint64(0), status("aclrtQueryEventWaitStatus", plain))
	p.must(th, "aclrtDestroyEvent", ex)
	p.must(th, "aclrtDestroyEvent", plain)
}

// TestManyThreads: OS threads and devices in any combination, all at once.
func TestManyThreads(t *testing.T) {
	p := newProcess(t)
	var threads [4]*Thread
	for d := range threads {
		threads[d] = p.thread(d)
	}
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			th := &Thread{Context: threads[g%4].Context}
			for i := range 50 {
				s := p.stream(th)
				e := p.event(th)
				addr := p.out(th, "aclrtMalloc", 0, uint64(100+i), 0)
				p.must(th, "aclrtMemsetAsync", addr, 100, uint64(g), 100, s)
				p.must(th, "aclrtRecordEvent", e, s)
				p.must(th, "aclrtSynchronizeEvent", e)
				p.must(th, "aclrtSynchronizeDevice") // while others make and destroy streams
				p.must(th, "aclrtFree", addr)
				p.must(th, "aclrtDestroyEvent", e)
				p.must(th, "aclrtDestroyStream", s)
				p.must(th, "aclrtSetCurrentContext", threads[(g+i)%4].Context)
			}
		})
	}
	wg.Wait()
}
