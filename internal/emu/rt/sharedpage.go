package rt

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sharedPage is a page of 32-bit words on which processes can wait: the shared state of a notify,
// an event or a queue.
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

// openPage opens the page of a key that this or another process exported.
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

// mapShared maps the file and takes ownership of it.
func mapShared(f sharedFile) (*sharedPage, error) {
	memory, err := unix.Mmap(int(f.Fd()), 0, hostPage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	p := &sharedPage{file: f, memory: memory}
	// Queued tasks may use the page after its handle is gone, so it is unmapped when the last
	// reference is gone.
	runtime.AddCleanup(p, func(memory []byte) { _ = unix.Munmap(memory) }, memory)
	return p, nil
}

// close closes the file, so that it can no longer be opened; existing mappings stay valid.
func (p *sharedPage) close() { _ = p.file.Close() }

func (p *sharedPage) word(i int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&p.memory[4*i]))
}

const futexWait, futexWake = 0, 1

func (p *sharedPage) futex(i, op int, value uint32, limit *unix.Timespec) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&p.memory[4*i])), uintptr(op), uintptr(value), uintptr(unsafe.Pointer(limit)), 0, 0)
}

// set stores a word and wakes at most n waiters.
func (p *sharedPage) set(i int, value uint32, n int32) {
	p.word(i).Store(value)
	p.futex(i, futexWake, uint32(n), nil)
}

// raise sets a word, unless it has that value or a later one, and wakes all waiters.
func (p *sharedPage) raise(i int, value uint32) {
	w := p.word(i)
	for old := w.Load(); int32(value-old) > 0 && !w.CompareAndSwap(old, value); {
		old = w.Load()
	}
	p.futex(i, futexWake, math.MaxInt32, nil)
}

// pageSlice is the longest time before a cancelled wait returns.
const pageSlice = 10 * time.Millisecond

// until waits until done returns true or cancel is closed, and looks again whenever word i changes.
// It returns false only at the deadline; a zero deadline means no limit.
func (p *sharedPage) until(i int, done func() bool, cancel <-chan struct{}, deadline time.Time) bool {
	slice := unix.NsecToTimespec(int64(pageSlice))
	for {
		seen := p.word(i).Load()
		if done() {
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

// after returns the deadline for a limit that starts now; a limit of 0 has no deadline.
func after(limit time.Duration) time.Time {
	if limit <= 0 {
		return time.Time{}
	}
	return time.Now().Add(limit)
}
