package acl

import (
	"bytes"
	"math"
	"runtime"

	"github.com/goascend/cann/internal/abi"
)

// ipcKey is the size of a key of shared memory with its NUL.
const ipcKey = 65

// Share gives other processes of this host access to the memory of a buffer of MallocDirect
// (aclrtIpcMemGetExportKey, aclrtIpcMemSetImportPid; from CANN 8.5). They open it with
// Context.Import and the key, which is text. pids are the processes that may; without any, all may
// that have the key. The others must close their buffers before this one is closed. Memory of the
// cache cannot be shared: its pages hold other buffers too.
func (b *Buffer) Share(pids ...int) (key string, err error) {
	const op = "Buffer.Share"
	if b == nil || b.mem == nil {
		return "", neverMade(op, KindBuffer)
	}
	m := b.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	last, shared := m.home.(exported)
	if !shared {
		if last.direct, shared = m.home.(direct); !shared {
			return "", m.scope.refuse(op, ErrInvalidArgument, "only buffers of MallocDirect can be shared")
		}
	}
	if b.region != (region{m, m.addr, m.size}) {
		return "", m.scope.refuse(op, ErrInvalidArgument, "a view cannot be shared, only its buffer")
	}
	if m.closed.Load() {
		return "", m.scope.refuse(op, ErrClosed, "the buffer is closed")
	}
	allowed := make([]int32, len(pids))
	for i, pid := range pids {
		if pid <= 0 || pid > math.MaxInt32 {
			return "", m.scope.refuse(op, ErrInvalidArgument, "%d is no process", pid)
		}
		allowed[i] = int32(pid)
	}
	flags := uint64(abi.ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION)
	if len(pids) > 0 {
		flags = abi.ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT
	}
	current, text := m.scope.handle, make([]byte, ipcKey)
	if err := aclrtIpcMemGetExportKey(current, uintptr(m.addr), m.size, &text[0], ipcKey, flags); err != nil {
		return "", m.scope.fail(err)
	}
	runtime.KeepAlive(b)
	name, _, _ := bytes.Cut(text, []byte{0})
	if key = string(name); key != last.key {
		m.home = exported{key, direct{func(current aclrtContext, address uintptr) error {
			if err := aclrtIpcMemClose(current, &text[0]); err != nil {
				return err
			}
			return last.free(current, address)
		}}}
	}
	if len(pids) > 0 {
		if err := aclrtIpcMemSetImportPid(current, &text[0], &allowed[0], uint64(len(allowed))); err != nil {
			return "", m.scope.fail(err)
		}
	}
	return key, nil
}

// exported is the home of memory that other processes may have opened.
type exported struct {
	key string // the last one
	direct
}

// Import opens n bytes of memory that another process shares, with the key and the size that it
// gave (aclrtIpcMemImportByKey, from CANN 8.5). The memory may be on another device of the host, to
// which the import enables access. A process imports a key once; Close ends that and leaves the
// memory to its owner.
func (x *Context) Import(key string, n int) (*Buffer, error) {
	const op = "Context.Import"
	if err := x.usable(op); err != nil {
		return nil, err
	}
	sc := x.scope
	if n <= 0 || len(key) == 0 || len(key) >= ipcKey {
		return nil, sc.refuse(op, ErrInvalidArgument, "%d bytes with a key of %d characters are not possible; a key has 1 to %d", n, len(key), ipcKey-1)
	}
	text := append([]byte(key), 0)
	addr, err := aclrtIpcMemImportByKey(sc.handle, &text[0], abi.ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS)
	if err != nil {
		return nil, sc.fail(err)
	}
	home := direct{func(current aclrtContext, _ uintptr) error { return aclrtIpcMemClose(current, &text[0]) }}
	return sc.chip.newBuffer(&memory{home: home}, uint64(addr), uint64(n)), nil
}
