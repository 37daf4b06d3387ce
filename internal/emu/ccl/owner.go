package ccl

import (
	"fmt"

	"github.com/goascend/cann/internal/emu/rt"
)

// HCCL keeps its communicators in a table per device. HcclCommDestroy finds a communicator only in
// the table of the device that HCCL takes for the calling thread. Newer versions take the thread's
// current device. Those of 2024, and so that of CANN 8.1.RC1, take the device that was current when
// the thread first made or destroyed a communicator, for as long as the thread lives.

// ownerOf returns the device that HCCL takes for the thread.
func (l *Library) ownerOf(t *rt.Thread, call string) (int, error) {
	device, code := l.rt.CurrentDevice(t)
	if code != 0 {
		return 0, refuse(runtimeError, "EI0003: %s: no device is set on this thread", call)
	}
	if !l.remembers {
		return device, nil
	}
	if t.Collectives == 0 {
		t.Collectives = int32(device) + 1
	}
	return int(t.Collectives) - 1, nil
}

// findAt returns the communicator of a handle for a thread that destroys it.
func (l *Library) findAt(t *rt.Thread, call string, handle rt.Handle) (*comm, error) {
	c, err := l.find(call, handle)
	if err != nil {
		return nil, err
	}
	if c.alone { // HCCL looks in the table of its device
		if l.remembers {
			t.Collectives = int32(c.device) + 1
		}
		return c, nil
	}
	owner, err := l.ownerOf(t, call)
	if err != nil {
		return nil, err
	}
	if owner != c.owner {
		return nil, refuse(badParameter, "EI0003: %s: %v is not among the communicators of device %d; it stays%s", call, c, owner, misplaced(owner, c.device))
	}
	return c, nil
}

// misplaced explains why HCCL takes another device than that of the communicator.
func misplaced(owner, device int) string {
	if owner == device {
		return ""
	}
	return fmt.Sprintf(" (HCCL takes device %d for this thread, and the communicator is of device %d: make and destroy it on a thread that has used HCCL for no other device)", owner, device)
}
