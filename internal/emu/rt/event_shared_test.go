package rt

import (
	"encoding/hex"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

func (p *process) ipcEvent(t *Thread) uint64 {
	return p.out(t, "aclrtCreateEventExWithFlag", 0, uint64(eventIPC))
}

func (p *process) status(t *Thread, event uint64) int32 {
	return int32(p.out(t, "aclrtQueryEventStatus", 1, event))
}

const (
	recordedComplete = int32(abi.ACL_EVENT_RECORDED_STATUS_COMPLETE)
	recordedNotReady = int32(abi.ACL_EVENT_RECORDED_STATUS_NOT_READY)
)

// TestEventOfAnotherProcess: a stream waits for a record that another process queues, then the
// other process for one of this.
func TestEventOfAnotherProcess(t *testing.T) {
	const variable = "CANN_EMU_TEST_EVENTS"
	p := newProcess(t)
	th := p.thread(0)
	s := p.stream(th)
	if text := os.Getenv(variable); text != "" {
		handles, err := hex.DecodeString(text)
		require.NoError(t, err)
		ping := p.out(th, "aclrtIpcOpenEventHandle", 1, address(&handles[0]))
		pong := p.out(th, "aclrtIpcOpenEventHandle", 1, address(&handles[ipcHandleSize]))
		require.Equal(t, recordedNotReady, p.status(th, ping))
		p.must(th, "aclrtRecordEvent", pong, s) // here are waiters: the parent goes on
		p.must(th, "aclrtStreamWaitEvent", s, ping)
		p.must(th, "aclrtSynchronizeStream", s)
		require.Equal(t, recordedComplete, p.status(th, ping))
		p.must(th, "aclrtSynchronizeEvent", ping)
		for _, e := range []uint64{ping, pong} {
			p.must(th, "aclrtDestroyEvent", e)
		}
		require.Zero(t, p.r.Handles.Count(EventKind))
		return
	}
	ping, pong := p.ipcEvent(th), p.ipcEvent(th)
	handles := make([]byte, 2*ipcHandleSize)
	p.must(th, "aclrtIpcGetEventHandle", ping, address(&handles[0]))
	p.must(th, "aclrtIpcGetEventHandle", pong, address(&handles[ipcHandleSize]))
	assert.Equal(t, recordedComplete, p.status(th, pong), "never recorded")

	// ping is recorded before the other process starts, and passes when pong has come back.
	gate := make(chan struct{})
	other := p.stream(th)
	p.submit(th, other, func() error { <-gate; return nil })
	p.must(th, "aclrtRecordEvent", ping, other)
	cmd := exec.Command(os.Args[0], "-test.run", "^TestEventOfAnotherProcess$")
	cmd.Env = append(os.Environ(), variable+"="+hex.EncodeToString(handles))
	done := make(chan error, 1)
	var out []byte
	go func() {
		var err error
		out, err = cmd.CombinedOutput()
		done <- err
	}()
	e, _ := Lookup[*Event](&p.r.Handles, pong)
	select {
	case err := <-done:
		require.NoError(t, err, "the other process ended before ping was recorded: %s", out)
	case <-recorded(e.shared):
	}
	p.must(th, "aclrtStreamWaitEvent", s, pong)
	p.must(th, "aclrtSynchronizeStream", s)
	close(gate)
	require.NoError(t, <-done, "%s", out)
	for _, e := range []uint64{ping, pong} {
		p.must(th, "aclrtDestroyEvent", e)
	}
	require.Zero(t, p.r.Handles.Count(EventKind))
	require.Equal(t, paramInvalid, p.call(th, "aclrtIpcOpenEventHandle", address(&handles[0]), address(new(uint64))))
}

// recorded is closed when an event has been recorded once.
func recorded(x *sharedEvent) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		x.page.until(0, func() bool { return x.page.word(0).Load() > 0 }, nil, after(time.Minute))
	}()
	return done
}

// Each wait is for the latest record at its time, also when records pass out of their order.
func TestSharedEventRecords(t *testing.T) {
	p := newProcess(t)
	th := p.thread(1)
	e := p.ipcEvent(th)
	handle := make([]byte, ipcHandleSize)
	p.must(th, "aclrtIpcGetEventHandle", e, address(&handle[0]))
	twin := p.out(th, "aclrtIpcOpenEventHandle", 1, address(&handle[0]))
	slow, fast, waiter := p.stream(th), p.stream(th), p.stream(th)
	gate := make(chan struct{})
	p.submit(th, slow, func() error { <-gate; return nil })
	p.must(th, "aclrtRecordEvent", e, slow)
	p.must(th, "aclrtStreamWaitEvent", waiter, twin)
	p.must(th, "aclrtRecordEvent", twin, fast)
	p.must(th, "aclrtSynchronizeEvent", e)
	require.Equal(t, recordedComplete, p.status(th, e), "the latest record has passed")
	require.EqualValues(t, abi.ACL_STREAM_STATUS_NOT_READY, int32(p.out(th, "aclrtStreamQuery", 1, waiter)), "but not the one that the stream waits for")
	close(gate)
	p.must(th, "aclrtSynchronizeStream", waiter)

	// An abort lets go who waits, and who waits for the aborted stream's record.
	block := make(chan struct{})
	p.submit(th, slow, func() error { <-block; return nil })
	p.must(th, "aclrtRecordEvent", e, slow)
	require.EqualValues(t, eventSyncTimeout, p.call(th, "aclrtSynchronizeEventWithTimeout", e, 1))
	p.must(th, "aclrtStreamWaitEventWithTimeout", waiter, e, 1)
	require.EqualValues(t, waitTimeout, p.call(th, "aclrtSynchronizeStream", waiter))
	p.must(th, "aclrtStreamWaitEvent", waiter, e)
	p.must(th, "aclrtStreamAbort", waiter)
	p.must(th, "aclrtStreamAbort", slow)
	close(block)
	p.must(th, "aclrtSynchronizeEvent", e)
	for range 2 * recordPlaces {
		p.must(th, "aclrtRecordEvent", e, fast)
	}
	p.must(th, "aclrtSynchronizeEvent", twin)
	p.must(th, "aclrtDestroyEvent", e)
	p.must(th, "aclrtRecordEvent", twin, fast)
	p.must(th, "aclrtSynchronizeEvent", twin)
	p.must(th, "aclrtDestroyEvent", twin)
	require.Zero(t, p.r.Handles.Count(EventKind))
}

func TestSharedEventFaults(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	s := p.stream(th)
	e, plain := p.ipcEvent(th), p.event(th)
	word, handle := address(new(uint64)), make([]byte, ipcHandleSize)
	for _, x := range []struct {
		name string
		code int32
		args []uint64
		text string
	}{
		{"aclrtCreateEventExWithFlag", paramInvalid, []uint64{word, uint64(eventIPC | eventSync)}, "cannot be combined"},
		{"aclrtCreateEventWithFlag", paramInvalid, []uint64{word, uint64(eventIPC)}, "cannot be combined"},
		{"aclrtIpcGetEventHandle", paramInvalid, []uint64{plain, address(&handle[0])}, "ACL_EVENT_IPC"},
		{"aclrtIpcGetEventHandle", paramInvalid, []uint64{77, address(&handle[0])}, "no live event"},
		{"aclrtIpcGetEventHandle", invalidParam, []uint64{e, 0}, "handle is null"},
		{"aclrtIpcOpenEventHandle", invalidParam, []uint64{address(&handle[0]), 0}, "event is null"},
		{"aclrtIpcOpenEventHandle", paramInvalid, []uint64{address(&handle[0]), word}, "no key of the emulator"},
		{"aclrtResetEvent", featureNotSupported, []uint64{e, s}, "aclrtResetEvent"},
		{"aclrtQueryEvent", featureNotSupported, []uint64{e, word}, "aclrtQueryEvent"},
		{"aclrtQueryEventWaitStatus", featureNotSupported, []uint64{e, word}, "aclrtQueryEventWaitStatus"},
		{"aclrtEventElapsedTime", featureNotSupported, []uint64{word, e, e}, "has no time"},
		{"aclrtEventGetTimestamp", featureNotSupported, []uint64{e, word}, "has no time"},
	} {
		require.Equal(t, x.code, p.call(th, x.name, x.args...), x.name)
		require.Contains(t, takeText(th), x.text, x.name)
	}
	require.Equal(t, int32(contextNull), p.call(new(Thread), "aclrtCreateEventExWithFlag", word, uint64(eventIPC)))

	p.must(th, "aclmdlRICaptureBegin", s, uint64(captureRelaxed))
	require.Equal(t, featureNotSupported, p.call(th, "aclrtRecordEvent", e, s))
	require.Equal(t, featureNotSupported, p.call(th, "aclrtStreamWaitEvent", s, e))
	require.Contains(t, takeText(th), "cannot be captured")
	g := p.out(th, "aclmdlRICaptureEnd", 1, s)
	p.must(th, "aclmdlRIDestroy", g)
	for _, x := range []uint64{e, plain} {
		p.must(th, "aclrtDestroyEvent", x)
	}
}
