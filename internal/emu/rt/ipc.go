package rt

import (
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// exchange holds the device memory that this process shares with others: its own exported
// allocations and the allocations that it imported.
type exchange struct {
	mu      sync.Mutex
	exports map[string]*Memory // by key
	imports map[string]uint64  // address of the reserved range, by key
}

// share moves an allocation into a file that other processes can open. While it runs, no queued
// work may write to the allocation.
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

// unshare maps the device's own memory again behind a freed allocation that was shared. The caller
// holds m.mu.
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
	_ = remap(x.start+m.delta, x.reserved, unix.PROT_READ|unix.PROT_WRITE, kind, fd, x.start-m.base) // replaces pages that are mapped already
	_ = f.Close()
}

// aclrtIpcMemGetExportKey: flag 1 turns the check of process ids off.
func (r *Runtime) aclrtIpcMemGetExportKey(t *Thread, devPtr Address, size uint64, key Out[byte], room, flags uint64) Code {
	const function = "aclrtIpcMemGetExportKey"
	if room < keySize || flags > 1 {
		return t.Fail(ParamInvalid, "EE1003: %s: len %d, flags %d; a key has %d bytes, flags are 0 or 1", function, room, flags, keySize)
	}
	m := r.memoryOf(uint64(devPtr))
	if m == nil {
		return t.Fail(ParamInvalid, "EE1003: %s: %#x is no address of aclrtMalloc", function, devPtr)
	}
	name, err := m.share(uint64(devPtr), size, flags == 0)
	if err != nil {
		return t.Fail(ParamInvalid, "EE1003: %s: %v", function, err)
	}
	writeKey(key, keySize, name)
	x := &r.exchange
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.exports == nil {
		x.exports = make(map[string]*Memory)
	}
	x.exports[CString(uint64(key))] = m
	return 0
}

func (r *Runtime) aclrtIpcMemSetImportPid(t *Thread, key string, pid In[int32], num uint64) Code {
	const function = "aclrtIpcMemSetImportPid"
	f, ok := r.exchange.file(key)
	if !ok || num == 0 || num > maxPids {
		return t.Fail(ParamInvalid, "EE1003: %s: %q was not exported by this process, or %d are no 1 to %d process ids", function, key, num, maxPids)
	}
	if err := f.admit(true, pid.Slice(num)); err != nil {
		return t.Fail(RuntimeInternal, "EE9999: %s: %v", function, err)
	}
	return 0
}

// file returns the shared file behind a key that this process exported.
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

// aclrtIpcMemImportByKey maps memory of another process as memory of the current device.
func (r *Runtime) aclrtIpcMemImportByKey(t *Thread, devPtr Out[Address], key string, flags uint64) Code {
	const function = "aclrtIpcMemImportByKey"
	if flags > 1 {
		return t.Fail(ParamInvalid, "EE1003: %s: flags %d; 0 or 1 are possible", function, flags)
	}
	c, code := r.Current(t)
	if c == nil {
		return code
	}
	x := &r.exchange
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, twice := x.imports[key]; twice {
		return t.Fail(ParamInvalid, "EE1003: %s: %q is imported already", function, key)
	}
	name, err := parseKey(key)
	var f sharedFile
	if err == nil {
		f, err = openShared(name)
	}
	if err != nil {
		return t.Fail(ParamInvalid, "EE1003: %s: %v", function, err)
	}
	s, err := newSpace(f.size)
	if err == nil {
		err = r.virtual.mapWhole(s, &physical{device: c.device, file: f, freed: true})
	}
	if err != nil {
		_ = f.Close()
		return t.Fail(MemoryAllocation, "EL0003: %s: %v", function, err)
	}
	if x.imports == nil {
		x.imports = make(map[string]uint64)
	}
	x.imports[key] = s.start
	devPtr.Set(Address(s.start))
	return 0
}

// aclrtIpcMemClose ends an import, or withdraws an export so that the key can no longer be
// imported.
func (r *Runtime) aclrtIpcMemClose(t *Thread, key string) Code {
	const function = "aclrtIpcMemClose"
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
		return t.Fail(ParamInvalid, "EE1003: %s: %q is neither imported nor exported here", function, key)
	}
	return 0
}

// mapWhole adds a reserved range that consists of one mapping.
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

// discard removes a range and its mappings.
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
