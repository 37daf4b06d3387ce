package acl_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
)

// TestAnyThreadAnyDevice: 64 goroutines use 4 devices each, and change OS threads between
// the calls. A call that got another goroutine's context would get code 107003.
func TestAnyThreadAnyDevice(t *testing.T) {
	rt := acltest.Open(t)
	n, err := rt.DeviceCount()
	require.NoError(t, err)
	n = min(n, 4)
	var devices []*acl.Device
	var streams []*acl.Stream
	for id := range n {
		devices = append(devices, acltest.Device(t, rt, id))
		streams = append(streams, acltest.Stream(t, devices[id]))
	}
	var all sync.WaitGroup
	for g := range 64 {
		all.Go(func() {
			for round := range 8 {
				switchThread()
				dev, shared := devices[(g+round)%n], streams[(g+round)%n]
				own, err := dev.NewStream()
				if !assert.NoError(t, err) {
					return
				}
				assert.NoError(t, exchange(dev, own, shared, int32(1000*g+round)))
				switchThread()
				assert.NoError(t, own.Close())
			}
		})
	}
	all.Wait()
	for _, dev := range devices {
		require.NoError(t, dev.Synchronize(background))
		assert.Zero(t, dev.Allocator().Stats().InUse)
	}
}

// exchange sends a value through a stream of its own and one that others use too.
func exchange(dev *acl.Device, own, shared *acl.Stream, value int32) (err error) {
	keep := func(e error) {
		if err == nil {
			err = e
		}
	}
	a, e := own.Malloc(4)
	keep(e)
	b, e := dev.Malloc(4)
	keep(e)
	if err != nil {
		return err
	}
	keep(acl.CopyToDevice(background, own, a, []int32{value}))
	switchThread()
	ev, e := own.Record()
	keep(e)
	if err != nil {
		return err
	}
	keep(shared.Wait(ev))
	switchThread()
	keep(shared.Copy(b, a, 4))
	got := make([]int32, 1)
	switchThread()
	keep(acl.CopyFromDevice(background, shared, got, b))
	keep(ev.Close())
	keep(a.Close())
	keep(b.Close())
	if err == nil && got[0] != value {
		return &wrongValue{got[0], value}
	}
	return err
}

type wrongValue struct{ got, want int32 }

func (e *wrongValue) Error() string { return "another value came back" }

// switchThread makes it likely that the goroutine goes on on another OS thread: this one is
// lent to a goroutine that locks it and ends.
func switchThread() {
	var done sync.WaitGroup
	done.Go(func() {
		runtime.LockOSThread()
		runtime.Gosched()
		runtime.UnlockOSThread()
	})
	done.Wait()
}

// TestDevicesOpenAndCloseAtOnce: the first and the last user of a device may coincide.
func TestDevicesOpenAndCloseAtOnce(t *testing.T) {
	rt := acltest.Open(t)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 20 {
				dev, err := rt.Device(0)
				if !assert.NoError(t, err) {
					return
				}
				st, err := dev.NewStream()
				assert.NoError(t, err)
				b, err := st.Malloc(100)
				assert.NoError(t, err)
				assert.NoError(t, st.Memset(b, 1, 100))
				assert.NoError(t, dev.Close())
				assert.NoError(t, b.Close())
				assert.NoError(t, st.Close())
			}
		})
	}
	all.Wait()
}
