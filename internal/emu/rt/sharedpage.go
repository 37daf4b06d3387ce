package rt

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sharedPage is a page of 32-bit words that processes wait on: the state of a notify, an event
// or a queue that they have in common.
type sharedPage struct {
	file   sharedFile
	memory []byte
}

func newSharedPage() (*sharedPage, error) {
	f, err := newSharedFile(hostPage)
	if err != nil {
		return nil, err
	}
	return mapShared(f)
}

// openPage finds the page of a key that another process, or this one, has exported.
func openPage(key string) (*sharedPage, error) {
	name, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	f, err := openShared(name)
	if err != nil {
		return nil, err
	}
	return mapShared(f)
}

// mapShared takes the file over.
func mapShared(f sharedFile) (*sharedPage, error) {
	memory, err := unix.Mmap(int(f.Fd()), 0, hostPage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	p := &sharedPage{file: f, memory: memory}
	// Queued tasks hold the page beyond its handle, so the last of them unmaps it.
	runtime.AddCleanup(p, func(memory []byte) { _ = unix.Munmap(memory) }, memory)
	return p, nil
}

// close ends what others may open; who has the page keeps it.
func (p *sharedPage) close() { _ = p.file.Close() }

func (p *sharedPage) word(i int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&p.memory[4*i]))
}

const futexWait, futexWake = 0, 1

func (p *sharedPage) futex(i, op int, value uint32, limit *unix.Timespec) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&p.memory[4*i])), uintptr(op), uintptr(value), uintptr(unsafe.Pointer(limit)), 0, 0)
}

// set stores a word and wakes at most n who wait for it.
func (p *sharedPage) set(i int, value uint32, n int32) {
	p.word(i).Store(value)
	p.futex(i, futexWake, uint32(n), nil)
}

// pageSlice bounds how long a wait takes to see that it was cancelled.
const pageSlice = 10 * time.Millisecond

// until waits until a word satisfies the condition; false when the time is up. A zero deadline
// waits for ever, and a closed cancel ends the wait.
func (p *sharedPage) until(i int, met func() bool, cancel <-chan struct{}, deadline time.Time) bool {
	slice := unix.NsecToTimespec(int64(pageSlice))
	for {
		seen := p.word(i).Load()
		if met() {
			return true
		}
		select {
		case <-cancel:
			return true
		default:
		}
		if !deadline.IsZero() && time.Now().After(deadline) {
			return false
		}
		p.futex(i, futexWait, seen, &slice)
	}
}

// after is the deadline of a limit from now on; a limit of 0 has none.
func after(limit time.Duration) time.Time {
	if limit <= 0 {
		return time.Time{}
	}
	return time.Now().Add(limit)
}
