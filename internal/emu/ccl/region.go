package ccl

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/handshake"
)

// region is memory that two processes of one host share. It has a pair of rings, one per
// direction, for each communicator of both. It is an unnamed file, so nothing is left behind
// when the processes are killed. A page costs memory only after its first use.
type region struct {
	bytes []byte
	side  int // 0 in the process that created it, else 1
	pid   int // process id of the other process

	memory *rt.Memory // memory of this rank's device; the other process has mapped it
	window []byte     // mapping of the other rank's device memory, nil without one
}

const (
	pairs      = 255 // maximum number of communicators at the same time
	ringBytes  = 256 << 10
	ringHead   = 4096
	pairBytes  = 2 * (ringHead + ringBytes)
	tableBytes = 4096 // the table of pairs and the lock that follows it
	regionSize = tableBytes + pairs*pairBytes
	nonceAt    = regionSize // the nonces, one per side, follow the rings
	nonceSize  = 32
)

// pairState is an entry of the table: it names the communicator that uses the pair of rings.
type pairState struct {
	id   uint64 // 0 while free
	left uint32 // number of sides that have released it
	_    uint32
}

// The table must hold all entries and the lock.
const _ = uint(tableBytes - (pairs+1)*unsafe.Sizeof(pairState{}))

func (r *region) pair(i int) *pairState {
	return (*pairState)(unsafe.Pointer(&r.bytes[uintptr(i)*unsafe.Sizeof(pairState{})]))
}

// locked runs f while it holds the lock of the table. It gives up after about ten seconds, in
// case the other process was killed while it held the lock.
func (r *region) locked(f func() error) error {
	lock := (*atomic.Uint32)(unsafe.Pointer(r.pair(pairs)))
	for range 10 * time.Second / slice {
		if lock.CompareAndSwap(0, 1) {
			defer lock.Store(0)
			return f()
		}
		sleep(lock, 1)
	}
	return refuse(internal, "EI0006: process %d holds the memory it shares; was it killed?", r.pid)
}

// claim returns the index of the rings of a channel. The first side to call it allocates them.
func (r *region) claim(channel uint64) (pair int, err error) {
	id := channel + 1 // the world's channel is 0
	free := -1
	err = r.locked(func() error {
		for i := range pairs {
			switch r.pair(i).id {
			case id:
				pair = i
				return nil
			case 0:
				if free < 0 {
					free = i
				}
			}
		}
		if free < 0 {
			return refuse(internal, "EI0007: this pair of processes has %d communicators already; destroy some", pairs)
		}
		pair = free
		r.pair(pair).id = id
		return nil
	})
	return pair, err
}

// release gives up a pair of rings. The second side to do so clears them for reuse.
func (r *region) release(pair int) {
	_ = r.locked(func() error { // if the other process died, its rings are not reused
		p := r.pair(pair)
		if p.left++; p.left < 2 {
			return nil
		}
		for d := range 2 {
			clear(r.ring(pair, d).head())
		}
		*p = pairState{}
		return nil
	})
}

// ring returns the ring of a pair in which the given side sends.
func (r *region) ring(pair, side int) *ring {
	at := tableBytes + pair*pairBytes + side*(ringHead+ringBytes)
	return &ring{bytes: r.bytes[at : at+ringHead+ringBytes]}
}

func (r *region) nonce(side int) []byte { return r.bytes[nonceAt+side*nonceSize:][:nonceSize] }

func (r *region) unmap() {
	release(r.window)
	release(r.bytes)
}

// sharing describes one side's memory while two ranks agree whether to share memory.
type sharing struct {
	Pid     int
	File    uintptr // descriptor of the region in that process
	Address uint64  // address of this side's nonce
	Agreed  bool

	Device     uintptr // descriptor of the memory of its device
	DeviceSize int64   // 0 when others cannot map it
}

// share returns a description of this side: its nonce and the memory of its device.
func share(nonce []byte, memory *rt.Memory) sharing {
	s := sharing{Pid: os.Getpid(), Address: addressOf(nonce)}
	if memory == nil { // the device was reset
		return s
	}
	if file, size := memory.File(); file != nil {
		s.Device, s.DeviceSize = file.Fd(), size
	}
	return s
}

// open opens a file of the other process by its descriptor there.
func (s sharing) open(descriptor uintptr, mode int) (int, error) {
	return unix.Open(fmt.Sprintf("/proc/%d/fd/%d", s.Pid, descriptor), mode|unix.O_CLOEXEC, 0)
}

// window maps the other side's device memory for reading. It returns nil if that is not
// possible; the memory is then read by address.
func (s sharing) window() []byte {
	if s.DeviceSize <= 0 {
		return nil
	}
	fd, err := s.open(s.Device, unix.O_RDONLY)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) != nil || stat.Size != s.DeviceSize {
		return nil
	}
	b, err := unix.Mmap(fd, 0, int(s.DeviceSize), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil
	}
	return b
}

// hostIdentity returns a text that is equal for processes of the same boot and PID namespace.
func hostIdentity() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return random(16)
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return random(16)
	}
	return strings.TrimSpace(string(boot)) + space
}

var errApart = errors.New("the processes may not read each other's memory")

// offer creates a region and shares it with the rank at the other end. A nil region without an
// error means that the two ranks use the connection only.
func offer(conn *handshake.Conn, memory *rt.Memory) (*region, error) {
	fd, err := unix.MemfdCreate("cann-emu-link", unix.MFD_CLOEXEC)
	if err != nil {
		return agree(conn, nil, err)
	}
	defer func() { _ = unix.Close(fd) }() // mappings stay
	r, err := mapRegion(fd, true)
	if err != nil {
		return agree(conn, nil, err)
	}
	nonce := unnamed()
	copy(r.nonce(0), nonce)
	mine := share(nonce, memory)
	mine.File, mine.Agreed = uintptr(fd), true
	var theirs sharing
	if err = send(conn, mine); err == nil {
		err = receive(conn, &theirs)
	}
	if err != nil {
		r.unmap()
		return nil, err
	}
	r.pid, r.memory = theirs.Pid, memory
	if !theirs.Agreed {
		err = errApart
	} else {
		err = r.probe(theirs.Address, 1)
		r.window = theirs.window()
	}
	r, err = agree(conn, r, err)
	release(nonce)
	return r, err
}

// join maps a region that the other end offers. A nil region without an error means that the
// two ranks use the connection only.
func join(conn *handshake.Conn, memory *rt.Memory) (*region, error) {
	var theirs sharing
	if err := receive(conn, &theirs); err != nil || !theirs.Agreed {
		return nil, err
	}
	r, err := openRegion(theirs)
	nonce := unnamed()
	defer release(nonce)
	mine := share(nonce, memory)
	mine.Agreed = err == nil
	if err == nil {
		r.memory = memory
		copy(r.nonce(1), nonce)
	}
	if e := send(conn, mine); e != nil || err != nil {
		if r != nil {
			r.unmap()
		}
		return nil, e
	}
	var verdict sharing
	if err := receive(conn, &verdict); err != nil || !verdict.Agreed {
		r.unmap()
		return nil, err
	}
	return r, nil
}

// agree reports to the other side whether the region will be used.
func agree(conn *handshake.Conn, r *region, failure error) (*region, error) {
	err := send(conn, sharing{Agreed: failure == nil})
	if (err != nil || failure != nil) && r != nil {
		r.unmap()
		r = nil
	}
	return r, err
}

func openRegion(s sharing) (*region, error) {
	fd, err := s.open(s.File, unix.O_RDWR)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	r, err := mapRegion(fd, false)
	if err != nil {
		return nil, err
	}
	r.side, r.pid = 1, s.Pid
	if err := r.probe(s.Address, 0); err != nil {
		r.unmap()
		return nil, err
	}
	r.window = s.window()
	return r, nil
}

func mapRegion(fd int, fresh bool) (*region, error) {
	const size = regionSize + 2*nonceSize
	if fresh {
		if err := unix.Ftruncate(fd, size); err != nil {
			return nil, err
		}
	}
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return nil, err
	}
	if s.Size != size {
		return nil, fmt.Errorf("a region of %d bytes, not %d", s.Size, size)
	}
	b, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return &region{bytes: b}, err
}

// probe reads the other side's nonce from that process's memory. This proves that the memory
// can be read and that both processes use the same PID namespace.
func (r *region) probe(address uint64, side int) error {
	got := unnamed()
	defer release(got)
	clear(got)
	if err := r.read(got, address); err != nil {
		return err
	}
	if string(got) != string(r.nonce(side)) {
		return errApart
	}
	return nil
}

// unnamed returns random bytes outside Go's heap, at an address that other processes can read.
func unnamed() []byte {
	b, err := scratch(nonceSize)
	if err != nil {
		b = make([]byte, nonceSize) // the peer's probe fails then, so memory is not shared
	}
	_, _ = rand.Read(b) // never fails
	return b
}

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// read copies memory of the other process.
func (r *region) read(to []byte, address uint64) error {
	for len(to) > 0 {
		local := []unix.Iovec{{Base: &to[0], Len: uint64(len(to))}}
		remote := []unix.RemoteIovec{{Base: uintptr(address), Len: len(to)}}
		n, err := unix.ProcessVMReadv(r.pid, local, remote, 0)
		if err != nil {
			return err
		}
		to, address = to[n:], address+uint64(n)
	}
	return nil
}

// slice is how long a wait sleeps before it checks for cancellation.
const slice = 2 * time.Millisecond

const futexWait, futexWake = 0, 1

// sleep blocks while *word equals old, until wake is called on it, for at most a slice.
func sleep(word *atomic.Uint32, old uint32) {
	limit := unix.NsecToTimespec(int64(slice))
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(old), uintptr(unsafe.Pointer(&limit)), 0, 0)
}

func wake(word *atomic.Uint32) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, 1, 0, 0, 0)
}
