package rt

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Notify is a flag that one stream sets and another waits for and clears. It lies in shared
// memory, so that the streams may be of different processes.
type Notify struct {
	id    uint32
	file  sharedFile
	state []byte // the mapped flag
	owner bool   // made here: an imported one cannot be exported again
}

func (r *Runtime) notifyFunctions() table {
	return table{
		"aclrtCreateNotify":       r.createNotify,
		"aclrtDestroyNotify":      r.destroyNotify,
		"aclrtRecordNotify":       r.recordNotify,
		"aclrtWaitAndResetNotify": r.waitNotify,
		"aclrtGetNotifyId":        r.notifyID,
		"aclrtNotifyBatchReset":   r.resetNotifies,
		"aclrtNotifyGetExportKey": r.exportNotify,
		"aclrtNotifySetImportPid": r.allowNotify,
		"aclrtNotifyImportByKey":  r.importNotify,
	}
}

func (n *Notify) flag() *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&n.state[0])) }

const futexWait, futexWake = 0, 1

// futex waits until the flag is no longer old, at most for the limit, or wakes who waits.
func (n *Notify) futex(op int, value uint32, limit *unix.Timespec) {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&n.state[0])), uintptr(op), uintptr(value), uintptr(unsafe.Pointer(limit)), 0, 0)
}

func (n *Notify) set() {
	n.flag().Store(1)
	n.futex(futexWake, 1, nil)
}

// notifySlice bounds how long a wait takes to see that its stream was aborted.
const notifySlice = 10 * time.Millisecond

// waitAndReset takes the flag; a limit of 0 waits for ever.
func (n *Notify) waitAndReset(cancel <-chan struct{}, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	slice := unix.NsecToTimespec(int64(notifySlice))
	for !n.flag().CompareAndSwap(1, 0) {
		select {
		case <-cancel:
			return nil
		default:
		}
		if limit > 0 && time.Now().After(deadline) {
			return &Fault{Code: waitTimeout, Text: fmt.Sprintf("EE1002: notify %d was not recorded within %v", n.id, limit)}
		}
		n.futex(futexWait, 0, &slice)
	}
	return nil
}

func (r *Runtime) addNotify(t *Thread, function string, out uint64, f sharedFile, owner bool) uint64 {
	state, err := unix.Mmap(int(f.Fd()), 0, hostPage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = f.Close()
		return t.Fail(noNotifyResource, "EE1023: %s: %v", function, err)
	}
	n := &Notify{id: uint32(r.notifyCount.Add(1)), file: f, state: state, owner: owner}
	// Queued tasks hold the notify beyond its handle, so the last of them unmaps the flag.
	runtime.AddCleanup(n, func(state []byte) { _ = unix.Munmap(state) }, state)
	Write(out, r.Handles.New(NotifyKind, n))
	return 0
}

func (r *Runtime) createNotify(t *Thread, a []uint64) uint64 {
	const function = "aclrtCreateNotify"
	if a[0] == 0 {
		return t.null(function, "notify")
	}
	if a[1] > 1 {
		return t.Fail(paramInvalid, "EE1003: %s: flag %#x is unknown", function, a[1])
	}
	if c, code := r.current(t); c == nil {
		return code
	}
	f, err := newSharedFile(hostPage)
	if err != nil {
		return t.Fail(noNotifyResource, "EE1023: %s: %v", function, err)
	}
	return r.addNotify(t, function, a[0], f, true)
}

func (r *Runtime) notify(t *Thread, function string, h uint64) (*Notify, uint64) {
	if h == 0 {
		return nil, t.null(function, "notify")
	}
	n, ok := Lookup[*Notify](&r.Handles, h)
	if !ok {
		return nil, t.Fail(paramInvalid, "EE1003: %s: %#x is no live notify; was it destroyed?", function, h)
	}
	return n, 0
}

func (r *Runtime) destroyNotify(t *Thread, a []uint64) uint64 {
	n, code := r.notify(t, "aclrtDestroyNotify", a[0])
	if n == nil {
		return code
	}
	r.Handles.Delete(a[0])
	_ = n.file.Close()
	return 0
}

func (r *Runtime) recordNotify(t *Thread, a []uint64) uint64 {
	n, code := r.notify(t, "aclrtRecordNotify", a[0])
	if n == nil {
		return code
	}
	s, streamCode := r.Stream(t, a[1])
	if s == nil {
		return uint64(uint32(streamCode))
	}
	return r.Submit(t, s, Task{Name: "aclrtRecordNotify", Repeatable: true, Releases: &r.outside, Run: func() error { n.set(); return nil }})
}

func (r *Runtime) waitNotify(t *Thread, a []uint64) uint64 {
	n, code := r.notify(t, "aclrtWaitAndResetNotify", a[0])
	if n == nil {
		return code
	}
	s, streamCode := r.Stream(t, a[1])
	if s == nil {
		return uint64(uint32(streamCode))
	}
	limit := time.Duration(uint32(a[2])) * time.Second
	return r.Submit(t, s, Task{Name: "aclrtWaitAndResetNotify", Repeatable: true, Acquires: &r.outside, Wait: func(cancel <-chan struct{}) error {
		return n.waitAndReset(cancel, limit)
	}})
}

func (r *Runtime) notifyID(t *Thread, a []uint64) uint64 {
	n, code := r.notify(t, "aclrtGetNotifyId", a[0])
	if n == nil {
		return code
	}
	if a[1] == 0 {
		return t.null("aclrtGetNotifyId", "notifyId")
	}
	Write(a[1], n.id)
	return 0
}

func (r *Runtime) resetNotifies(t *Thread, a []uint64) uint64 {
	const function = "aclrtNotifyBatchReset"
	if a[0] == 0 || a[1] == 0 {
		return t.null(function, "notifies")
	}
	var all []*Notify
	for _, h := range Read[uint64](a[0], a[1]) {
		n, code := r.notify(t, function, h)
		if n == nil {
			return code
		}
		all = append(all, n)
	}
	for _, n := range all {
		n.flag().Store(0)
	}
	return 0
}

// exportNotify: flag 2 turns the check of process ids off.
func (r *Runtime) exportNotify(t *Thread, a []uint64) uint64 {
	const function = "aclrtNotifyGetExportKey"
	n, code := r.notify(t, function, a[0])
	if n == nil {
		return code
	}
	if a[1] == 0 {
		return t.null(function, "key")
	}
	if a[2] < keySize || a[3] != 0 && a[3] != 2 || !n.owner {
		return t.Fail(paramInvalid, "EE1003: %s: len %d, flags %d, made here: %t; a key has %d bytes, flags are 0 or 2, and only its maker exports a notify",
			function, a[2], a[3], n.owner, keySize)
	}
	if err := n.file.admit(a[3] == 0, nil); err != nil {
		return t.Fail(runtimeInternal, "EE9999: %s: %v", function, err)
	}
	writeKey(a[1], n.file.name())
	return 0
}

func (r *Runtime) allowNotify(t *Thread, a []uint64) uint64 {
	const function = "aclrtNotifySetImportPid"
	n, code := r.notify(t, function, a[0])
	if n == nil {
		return code
	}
	if a[1] == 0 || a[2] == 0 || a[2] > maxPids || !n.owner {
		return t.Fail(paramInvalid, "EE1003: %s: %d process ids; 1 to %d are possible, for a notify made here", function, a[2], maxPids)
	}
	if err := n.file.admit(true, Read[int32](a[1], a[2])); err != nil {
		return t.Fail(runtimeInternal, "EE9999: %s: %v", function, err)
	}
	return 0
}

func (r *Runtime) importNotify(t *Thread, a []uint64) uint64 {
	const function = "aclrtNotifyImportByKey"
	if a[0] == 0 || a[1] == 0 {
		return t.null(function, "notify or key")
	}
	name, err := parseKey(CString(a[1]))
	var f sharedFile
	if err == nil {
		f, err = openShared(name)
	}
	if err != nil {
		return t.Fail(paramInvalid, "EE1003: %s: %v", function, err)
	}
	return r.addNotify(t, function, a[0], f, false)
}
