package rt_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// TestExpiredWaits: a timed wait for a stream that expires leaves a task behind, until the queue is
// full, and an error in the log; that for an event only the error.
func TestExpiredWaits(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s := p.Stream(th)
	e := p.Event(th)
	gate, entered := make(chan struct{}), make(chan struct{})
	p.Submit(th, s, func() error { close(entered); <-gate; return nil })
	<-entered
	p.Must(th, "aclrtRecordEvent", e, s)
	for range 3 {
		require.Equal(t, int32(507046), p.Call(th, "aclrtSynchronizeStreamWithTimeout", s, 1))
		require.Equal(t, int32(507046), p.Call(th, "aclrtSynchronizeDeviceWithTimeout", 1))
		require.Equal(t, int32(507047), p.Call(th, "aclrtSynchronizeEventWithTimeout", e, 1))
	}
	require.Equal(t, rt.Backlog{Expired: 9, Pending: 7}, p.Runtime.Backlog())
	st, _ := p.Runtime.Stream(th, s)
	require.Zero(t, st.Waiters(), "nobody waits any more")
	for range rt.QueueDepth {
		require.Equal(t, int32(507046), p.Call(th, "aclrtSynchronizeStreamWithTimeout", s, 1))
	}
	require.Equal(t, rt.QueueDepth, st.Queued(), "launches block from here on")
	close(gate)
	p.Must(th, "aclrtSynchronizeStreamWithTimeout", s, 60000)
	require.Zero(t, p.Runtime.Backlog().Pending)
	p.Must(th, "aclrtDestroyEvent", e)
}

// TestFaultIsReportedOnce: queries and waits for events do not report a fault; the wait for the stream
// does, once.
func TestFaultIsReportedOnce(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s := p.Stream(th)
	e := p.Event(th)
	status := new(uint64)
	for range 100 {
		p.Submit(th, s, func() error { return errors.New("crash") })
		p.Must(th, "aclrtRecordEvent", e, s)
		p.Must(th, "aclrtSynchronizeEvent", e)
		p.Must(th, "aclrtSynchronizeEventWithTimeout", e, 60000)
		p.Must(th, "aclrtQueryEventStatus", e, rttest.Address(status))
		p.Must(th, "aclrtStreamQuery", s, rttest.Address(status))
		require.Equal(t, int32(507035), p.Call(th, "aclrtSynchronizeStream", s))
		require.Contains(t, rttest.Text(th), "crash")
		p.Must(th, "aclrtSynchronizeStream", s)
	}
	p.Must(th, "aclrtSetStreamFailureMode", s, 1)
	p.Submit(th, s, func() error { return errors.New("crash") })
	require.Equal(t, int32(507035), p.Call(th, "aclrtSynchronizeStream", s))
	for name, args := range map[string][]uint64{
		"aclrtSynchronizeEvent": {e}, "aclrtQueryEventStatus": {e, rttest.Address(status)}, "aclrtStreamQuery": {s, rttest.Address(status)},
	} {
		require.Equal(t, int32(507035), p.Call(th, name, args...), "%s of a stopped context", name)
	}
	p.Must(th, "aclrtDestroyEvent", e)
}

// TestWaitAcrossDevices: a stream waits for an event of another device, but not on the oldest chips,
// where the call succeeds all the same.
func TestWaitAcrossDevices(t *testing.T) {
	for soc, waits := range map[string]bool{"Ascend910B1": true, "Ascend910_9391": true, "Ascend910A": false} {
		p := newMachine(t, rt.Config{Devices: 2, Memory: 1 << 20, SoC: soc})
		here, there := p.Thread(0), p.Thread(1)
		s, other := p.Stream(here), p.Stream(there)
		e := p.Event(there)
		gate, ran := make(chan struct{}), make(chan struct{})
		p.Submit(there, other, func() error { <-gate; return nil })
		p.Must(there, "aclrtRecordEvent", e, other)
		p.Must(here, "aclrtStreamWaitEvent", s, e)
		p.Submit(here, s, func() error { close(ran); return nil })
		if waits {
			require.Equal(t, int32(507046), p.Call(here, "aclrtSynchronizeStreamWithTimeout", s, 10), soc)
		} else {
			<-ran
		}
		close(gate)
		<-ran
		p.Must(here, "aclrtSynchronizeStream", s)
		p.Must(there, "aclrtDestroyEvent", e)
	}
}
