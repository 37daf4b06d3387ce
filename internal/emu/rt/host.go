package rt

import (
	"maps"
	"sync"
)

// hostMemory holds the page-locked host memory: memory that aclrtMallocHost allocated and memory
// that a program registered with aclrtHostRegister.
type hostMemory struct {
	mu      sync.RWMutex
	pinned  spans
	owned   map[uint64]bool // allocated here, not registered
	adopted map[uint64]bool // allocated here and also registered
}

// isPinned reports whether n bytes at addr lie in one pinned range.
func (h *hostMemory) isPinned(addr uint64, n uint64) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	i := h.pinned.find(addr)
	return i >= 0 && n <= h.pinned[i].end-addr
}

// add registers a pinned range. It returns false when the range overlaps another one.
func (h *hostMemory) add(addr, n uint64, owned bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.pinned {
		if addr < x.end && x.start < addr+n {
			return false
		}
	}
	h.pinned.insert(span{start: addr, end: addr + n})
	if h.owned == nil {
		h.owned = make(map[uint64]bool)
	}
	h.owned[addr] = owned
	return true
}

// adopt notes that a range that was allocated here has also been registered. It returns false when
// the range was not allocated here or is registered already.
func (h *hostMemory) adopt(addr, n uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.pinned.find(addr)
	if i < 0 || n > h.pinned[i].end-addr || !h.owned[h.pinned[i].start] || h.adopted[addr] {
		return false
	}
	if h.adopted == nil {
		h.adopted = make(map[uint64]bool)
	}
	h.adopted[addr] = true
	return true
}

// remove drops the range that starts at addr and that was added with the same value of owned.
func (h *hostMemory) remove(addr uint64, owned bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !owned && h.adopted[addr] {
		delete(h.adopted, addr)
		return true
	}
	i := h.pinned.at(addr)
	if i < 0 || h.owned[addr] != owned {
		return false
	}
	x := h.pinned.remove(i)
	delete(h.owned, addr)
	maps.DeleteFunc(h.adopted, func(at uint64, _ bool) bool { return at >= x.start && at < x.end })
	return true
}
