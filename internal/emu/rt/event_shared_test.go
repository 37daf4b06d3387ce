package rt_test

import (
	"encoding/hex"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

func (p *process) ipcEvent(t *rt.Thread) uint64 {
	return p.Out(t, "aclrtCreateEventExWithFlag", 0, uint64(eventIPC))
}

func (p *process) status(t *rt.Thread, event uint64) int32 {
	return int32(p.Out(t, "aclrtQueryEventStatus", 1, event))
}

const (
	recordedComplete = int32(abi.ACL_EVENT_RECORDED_STATUS_COMPLETE)
	recordedNotReady = int32(abi.ACL_EVENT_RECORDED_STATUS_NOT_READY)
)

// TestEventOfAnotherProcess checks that a stream waits for a record that another process queues,
// and then the other way round.
func TestEventOfAnotherProcess(t *testing.T) {
	const variable = "CANN_EMU_TEST_EVENTS"
	p := newProcess(t)
	th := p.Thread(0)
	s := p.Stream(th)
	if text := os.Getenv(variable); text != "" {
		handles, err := hex.DecodeString(text)
		require.NoError(t, err)
		ping := p.Out(th, "aclrtIpcOpenEventHandle", 1, rttest.Address(&handles[0]))
		pong := p.Out(th, "aclrtIpcOpenEventHandle", 1, rttest.Address(&handles[ipcHandleSize]))
		require.Equal(t, recordedNotReady, p.status(th, ping))
		p.Must(th, "aclrtRecordEvent", pong, s) // the parent waits for this record
		p.Must(th, "aclrtStreamWaitEvent", s, ping)
		p.Must(th, "aclrtSynchronizeStream", s)
		require.Equal(t, recordedComplete, p.status(th, ping))
		p.Must(th, "aclrtSynchronizeEvent", ping)
		for _, e := range []uint64{ping, pong} {
			p.Must(th, "aclrtDestroyEvent", e)
		}
		require.Zero(t, p.Runtime.Handles.Count(rt.EventKind))
		return
	}
	ping, pong := p.ipcEvent(th), p.ipcEvent(th)
	handles := make([]byte, 2*ipcHandleSize)
	p.Must(th, "aclrtIpcGetEventHandle", ping, rttest.Address(&handles[0]))
	p.Must(th, "aclrtIpcGetEventHandle", pong, rttest.Address(&handles[ipcHandleSize]))
	assert.Equal(t, recordedComplete, p.status(th, pong), "never recorded")

	// ping is recorded before the other process starts, and passes after pong.
	gate := make(chan struct{})
	other := p.Stream(th)
	p.Submit(th, other, func() error { <-gate; return nil })
	p.Must(th, "aclrtRecordEvent", ping, other)
	cmd := exec.Command(os.Args[0], "-test.run", "^TestEventOfAnotherProcess$")
	cmd.Env = append(os.Environ(), variable+"="+hex.EncodeToString(handles))
	done := make(chan error, 1)
	var out []byte
	go func() {
		var err error
		out, err = cmd.CombinedOutput()
		done <- err
	}()
	e, _ := rt.Lookup[*rt.Event](&p.Runtime.Handles, pong)
	select {
	case err := <-done:
		require.NoError(t, err, "the other process ended before ping was recorded: %s", out)
	case <-recorded(e):
	}
	p.Must(th, "aclrtStreamWaitEvent", s, pong)
	p.Must(th, "aclrtSynchronizeStream", s)
	close(gate)
	require.NoError(t, <-done, "%s", out)
	for _, e := range []uint64{ping, pong} {
		p.Must(th, "aclrtDestroyEvent", e)
	}
	require.Zero(t, p.Runtime.Handles.Count(rt.EventKind))
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtIpcOpenEventHandle", rttest.Address(&handles[0]), rttest.Address(new(uint64))))
}

// recorded returns a channel that is closed when an event has been recorded once.
func recorded(e *rt.Event) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.AwaitRecord(time.Minute)
	}()
	return done
}

// TestSharedEventRecords checks that each wait is for the latest record at its time, even when
// records pass out of order.
func TestSharedEventRecords(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(1)
	e := p.ipcEvent(th)
	handle := make([]byte, ipcHandleSize)
	p.Must(th, "aclrtIpcGetEventHandle", e, rttest.Address(&handle[0]))
	twin := p.Out(th, "aclrtIpcOpenEventHandle", 1, rttest.Address(&handle[0]))
	slow, fast, waiter := p.Stream(th), p.Stream(th), p.Stream(th)
	gate := make(chan struct{})
	p.Submit(th, slow, func() error { <-gate; return nil })
	p.Must(th, "aclrtRecordEvent", e, slow)
	p.Must(th, "aclrtStreamWaitEvent", waiter, twin)
	p.Must(th, "aclrtRecordEvent", twin, fast)
	p.Must(th, "aclrtSynchronizeEvent", e)
	require.Equal(t, recordedComplete, p.status(th, e), "the latest record has passed")
	require.EqualValues(t, abi.ACL_STREAM_STATUS_NOT_READY, int32(p.Out(th, "aclrtStreamQuery", 1, waiter)), "but not the one that the stream waits for")
	close(gate)
	p.Must(th, "aclrtSynchronizeStream", waiter)

	// A record passes after a later one that has its word.
	late := make(chan struct{})
	p.Submit(th, slow, func() error { <-late; return nil })
	p.Must(th, "aclrtRecordEvent", e, slow)
	for range rt.RecordPlaces {
		p.Must(th, "aclrtRecordEvent", e, fast)
	}
	p.Must(th, "aclrtSynchronizeStream", fast)
	close(late)
	p.Must(th, "aclrtSynchronizeStream", slow)
	p.Must(th, "aclrtSynchronizeEventWithTimeout", e, 100)

	// An abort releases waiting streams, and those that wait for a record of the aborted stream.
	block := make(chan struct{})
	p.Submit(th, slow, func() error { <-block; return nil })
	p.Must(th, "aclrtRecordEvent", e, slow)
	require.EqualValues(t, rt.EventSyncTimeout, p.Call(th, "aclrtSynchronizeEventWithTimeout", e, 1))
	p.Must(th, "aclrtStreamWaitEventWithTimeout", waiter, e, 1)
	require.EqualValues(t, rt.WaitTimeout, p.Call(th, "aclrtSynchronizeStream", waiter))
	p.Must(th, "aclrtStreamWaitEvent", waiter, e)
	p.Must(th, "aclrtStreamAbort", waiter)
	p.Must(th, "aclrtStreamAbort", slow)
	close(block)
	p.Must(th, "aclrtSynchronizeEvent", e)
	for range 2 * rt.RecordPlaces {
		p.Must(th, "aclrtRecordEvent", e, fast)
	}
	p.Must(th, "aclrtSynchronizeEvent", twin)
	p.Must(th, "aclrtDestroyEvent", e)
	p.Must(th, "aclrtRecordEvent", twin, fast)
	p.Must(th, "aclrtSynchronizeEvent", twin)
	p.Must(th, "aclrtDestroyEvent", twin)
	require.Zero(t, p.Runtime.Handles.Count(rt.EventKind))
}

func TestSharedEventFaults(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s := p.Stream(th)
	e, plain := p.ipcEvent(th), p.Event(th)
	word, handle := rttest.Address(new(uint64)), make([]byte, ipcHandleSize)
	for _, x := range []struct {
		name string
		code int32
		args []uint64
		text string
	}{
		{"aclrtCreateEventExWithFlag", rt.ParamInvalid, []uint64{word, uint64(eventIPC | eventSync)}, "cannot be combined"},
		{"aclrtCreateEventWithFlag", rt.ParamInvalid, []uint64{word, uint64(eventIPC)}, "cannot be combined"},
		{"aclrtIpcGetEventHandle", rt.ParamInvalid, []uint64{plain, rttest.Address(&handle[0])}, "ACL_EVENT_IPC"},
		{"aclrtIpcGetEventHandle", rt.ParamInvalid, []uint64{77, rttest.Address(&handle[0])}, "no live event"},
		{"aclrtIpcGetEventHandle", rt.InvalidParam, []uint64{e, 0}, "handle is null"},
		{"aclrtIpcOpenEventHandle", rt.InvalidParam, []uint64{rttest.Address(&handle[0]), 0}, "event is null"},
		{"aclrtIpcOpenEventHandle", rt.ParamInvalid, []uint64{rttest.Address(&handle[0]), word}, "no key of the emulator"},
		{"aclrtResetEvent", rt.FeatureNotSupported, []uint64{e, s}, "aclrtResetEvent"},
		{"aclrtQueryEvent", rt.FeatureNotSupported, []uint64{e, word}, "aclrtQueryEvent"},
		{"aclrtQueryEventWaitStatus", rt.FeatureNotSupported, []uint64{e, word}, "aclrtQueryEventWaitStatus"},
		{"aclrtEventElapsedTime", rt.FeatureNotSupported, []uint64{word, e, e}, "has no time"},
		{"aclrtEventGetTimestamp", rt.FeatureNotSupported, []uint64{e, word}, "has no time"},
	} {
		require.Equal(t, x.code, p.Call(th, x.name, x.args...), x.name)
		require.Contains(t, rttest.Text(th), x.text, x.name)
	}
	require.Equal(t, int32(rt.ContextNull), p.Call(new(rt.Thread), "aclrtCreateEventExWithFlag", word, uint64(eventIPC)))

	p.Must(th, "aclmdlRICaptureBegin", s, uint64(captureRelaxed))
	require.Equal(t, rt.FeatureNotSupported, p.Call(th, "aclrtRecordEvent", e, s))
	require.Equal(t, rt.FeatureNotSupported, p.Call(th, "aclrtStreamWaitEvent", s, e))
	require.Contains(t, rttest.Text(th), "cannot be captured")
	g := p.Out(th, "aclmdlRICaptureEnd", 1, s)
	p.Must(th, "aclmdlRIDestroy", g)
	for _, x := range []uint64{e, plain} {
		p.Must(th, "aclrtDestroyEvent", x)
	}
}
