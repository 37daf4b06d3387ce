package rt

import (
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// exchange is the device memory that this process shares with others: allocations of its
// own that they may import, and theirs that it has imported.
type exchange struct {
	mu      sync.Mutex
	exports map[string]*Memory // by key
	imports map[string]uint64  // address of the reserved range, by key
}

func (r *Runtime) ipcFunctions() table {
	return table{
		"aclrtIpcMemGetExportKey": r.exportMemory,
		"aclrtIpcMemSetImportPid": r.allowImport,
		"aclrtIpcMemImportByKey":  r.importMemory,
		"aclrtIpcMemClose":        r.closeKey,
	}
}

// share moves an allocation into a file that other processes can open. No work that writes
// to the allocation may be under way.
func (m *Memory) share(addr, n uint64, check bool) (name uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.live.at(addr)
	switch {
	case i < 0:
		return 0, fmt.Errorf("%#x does not start an allocation", addr)
	case n > m.live[i].end-addr:
		return 0, fmt.Errorf("%d bytes are more than the allocation of %d", n, m.live[i].end-addr)
	case m.live[i].reserved%hostPage != 0:
		return 0, fmt.Errorf("an allocation of %d bytes shares its page with others; allocate %d or more", n, hostPage)
	}
	f, ok := m.shared[addr]
	if !ok {
		if f, err = m.moveToFile(m.live[i]); err != nil {
			return 0, err
		}
	}
	return f.name(), f.admit(check, nil)
}

func (m *Memory) moveToFile(x span) (sharedFile, error) {
	f, err := newSharedFile(x.reserved)
	if err != nil {
		return f, err
	}
	if _, err = f.WriteAt(m.bytes(x.start, x.end), 0); err == nil {
		err = remap(x.start+m.delta, x.reserved, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED, int(f.Fd()), 0)
	}
	if err != nil {
		_ = f.Close()
		return f, err
	}
	if m.shared == nil {
		m.shared = make(map[uint64]sharedFile)
	}
	m.shared[x.start] = f
	return f, nil
}

// unshare puts the device's own memory back behind a freed allocation. m.mu is held.
func (m *Memory) unshare(x span) {
	f, ok := m.shared[x.start]
	if !ok {
		return
	}
	delete(m.shared, x.start)
	kind, fd := anonymous, -1
	if m.file != nil {
		kind, fd = unix.MAP_SHARED, int(m.file.Fd())
	}
	_ = remap(x.start+m.delta, x.reserved, unix.PROT_READ|unix.PROT_WRITE, kind, fd, x.start-m.base) // over pages that are mapped
	_ = f.Close()
}

// exportMemory: flag 1 turns the check of process ids off.
func (r *Runtime) exportMemory(t *Thread, a []uint64) uint64 {
	const function = "aclrtIpcMemGetExportKey"
	if a[0] == 0 || a[2] == 0 {
		return t.null(function, "devPtr or key")
	}
	if a[3] < keySize || a[4] > 1 {
		return t.Fail(paramInvalid, "EE1003: %s: len %d, flags %d; a key has %d bytes, flags are 0 or 1", function, a[3], a[4], keySize)
	}
	m := r.memoryOf(a[0])
	if m == nil {
		return t.Fail(paramInvalid, "EE1003: %s: %#x is no address of aclrtMalloc", function, a[0])
	}
	name, err := m.share(a[0], a[1], a[4] == 0)
	if err != nil {
		return t.Fail(paramInvalid, "EE1003: %s: %v", function, err)
	}
	writeKey(a[2], keySize, name)
	x := &r.exchange
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.exports == nil {
		x.exports = make(map[string]*Memory)
	}
	x.exports[CString(a[2])] = m
	return 0
}

func (r *Runtime) allowImport(t *Thread, a []uint64) uint64 {
	const function = "aclrtIpcMemSetImportPid"
	if a[0] == 0 || a[1] == 0 {
		return t.null(function, "key or pid")
	}
	key := CString(a[0])
	f, ok := r.exchange.file(key)
	if !ok || a[2] == 0 || a[2] > maxPids {
		return t.Fail(paramInvalid, "EE1003: %s: %q was not exported by this process, or %d are no 1 to %d process ids", function, key, a[2], maxPids)
	}
	if err := f.admit(true, Read[int32](a[1], a[2])); err != nil {
		return t.Fail(runtimeInternal, "EE9999: %s: %v", function, err)
	}
	return 0
}

// file is what an exported key of this process stands for.
func (x *exchange) file(key string) (sharedFile, bool) {
	x.mu.Lock()
	m := x.exports[key]
	x.mu.Unlock()
	if m == nil {
		return sharedFile{}, false
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, f := range m.shared {
		if name, err := parseKey(key); err == nil && f.name() == name {
			return f, true
		}
	}
	return sharedFile{}, false
}

// importMemory maps memory of another process as memory of the current device.
func (r *Runtime) importMemory(t *Thread, a []uint64) uint64 {
	const function = "aclrtIpcMemImportByKey"
	if a[0] == 0 || a[1] == 0 {
		return t.null(function, "devPtr or key")
	}
	if a[2] > 1 {
		return t.Fail(paramInvalid, "EE1003: %s: flags %d; 0 or 1 are possible", function, a[2])
	}
	c, code := r.current(t)
	if c == nil {
		return code
	}
	key := CString(a[1])
	x := &r.exchange
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, twice := x.imports[key]; twice {
		return t.Fail(paramInvalid, "EE1003: %s: %q is imported already", function, key)
	}
	name, err := parseKey(key)
	var f sharedFile
	if err == nil {
		f, err = openShared(name)
	}
	if err != nil {
		return t.Fail(paramInvalid, "EE1003: %s: %v", function, err)
	}
	s, err := newSpace(f.size)
	if err == nil {
		err = r.virtual.mapWhole(s, &physical{device: c.device, file: f, freed: true})
	}
	if err != nil {
		_ = f.Close()
		return t.Fail(memoryAllocation, "EL0003: %s: %v", function, err)
	}
	if x.imports == nil {
		x.imports = make(map[string]uint64)
	}
	x.imports[key] = s.start
	Write(a[0], s.start)
	return 0
}

// closeKey ends an import, or what others may import by the key.
func (r *Runtime) closeKey(t *Thread, a []uint64) uint64 {
	const function = "aclrtIpcMemClose"
	if a[0] == 0 {
		return t.null(function, "key")
	}
	key := CString(a[0])
	f, exported := r.exchange.file(key)
	x := &r.exchange
	x.mu.Lock()
	defer x.mu.Unlock()
	start, imported := x.imports[key]
	switch {
	case imported:
		delete(x.imports, key)
		r.virtual.discard(start)
	case exported:
		delete(x.exports, key)
		_ = f.admit(true, nil)
	default:
		return t.Fail(paramInvalid, "EE1003: %s: %q is neither imported nor exported here", function, key)
	}
	return 0
}

// mapWhole makes a range of one mapping.
func (v *virtual) mapWhole(s *space, p *physical) error {
	if err := remap(s.start+s.delta, s.reserved, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED, int(p.file.Fd()), 0); err != nil {
		s.unmap()
		return err
	}
	p.maps = 1
	s.segments = []segment{{span: s.span, memory: p}}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.spaces = append(v.spaces, s)
	return nil
}

// discard ends a range with its mappings.
func (v *virtual) discard(start uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	i := slices.IndexFunc(v.spaces, func(s *space) bool { return s.start == start })
	if i < 0 {
		return
	}
	v.spaces[i].drop()
	v.spaces = slices.Delete(v.spaces, i, i+1)
}
