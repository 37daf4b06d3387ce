package kernel

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// join counts the calling thread, and moves it to another core if a thread of the crew started on
// its core. In a virtual machine Linux takes an idle core for a core that the host has taken away.
// It then wakes a thread on the core of the thread that wakes it, and leaves both there for
// milliseconds.
func (c *crew) join() {
	core := current()
	if before := c.cores.Or(1 << core); before>>core&1 != 0 {
		leave(before)
		c.cores.Or(1 << current())
	}
	c.started.Add(1)
}

// current returns the number of the calling thread's core.
func current() (core uint32) {
	_, _, _ = unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&core)), 0, 0)
	return core
}

// leave moves the calling thread to a core that is not in the set, if it may run on one. It may
// run on the same cores as before afterwards.
func leave(set uint64) {
	// A thread that Go starts from this one would inherit the smaller set, but from a locked one none is.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil {
		return
	}
	other := all
	for i := range 64 {
		if set>>i&1 != 0 {
			other.Clear(i)
		}
	}
	if other.Count() > 0 && unix.SchedSetaffinity(0, &other) == nil {
		_ = unix.SchedSetaffinity(0, &all)
	}
}

// yield lets other threads run that wait for the calling one's core.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
