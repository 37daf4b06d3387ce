package rt

import "sync"

// Kind is the type of object that a handle refers to.
type Kind uint8

// Kinds of handles.
const (
	ContextKind Kind = iota + 1
	StreamKind
	EventKind
	NotifyKind
	GraphKind
	TensorKind
	ScalarKind
	IntArrayKind
	FloatArrayKind
	BoolArrayKind
	TensorListKind
	ScalarListKind
	ExecutorKind
	CommKind
	StreamConfigKind
	TaskGroupKind
	PhysicalKind
	GroupInfoKind
	DataBufferKind
	ProfileKind
	AllocatorKind
	TensorDescKind
	LabelKind
	LabelListKind
	QueueAttrKind
	QueueRouteKind
	QueueRouteListKind
	QueueRouteQueryKind
	ChannelKind
	DatasetKind
	DataItemKind
	ConditionKind
	DomainKind
	BLASKind
	PlanKind
	MemPoolKind
	WindowKind
)

// Handles maps the opaque values given to C programs to Go objects. A handle is a non-canonical
// address that contains its kind and is never reused, so a stale, wrong or made-up handle is not
// found instead of naming another object.
type Handles struct {
	mu   sync.RWMutex
	next uint64
	m    map[uint64]any
}

const handleTag = 0xCA << 56

// New registers obj and returns its handle.
func (h *Handles) New(k Kind, obj any) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.m == nil {
		h.m = make(map[uint64]any)
	}
	h.next++
	id := handleTag | uint64(k)<<48 | h.next<<4
	h.m[id] = obj
	return id
}

// Get returns the object of a handle, or nil.
func (h *Handles) Get(id uint64) any {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.m[id]
}

// Delete forgets a handle and returns its object, or nil if it was not live.
func (h *Handles) Delete(id uint64) any {
	h.mu.Lock()
	defer h.mu.Unlock()
	obj := h.m[id]
	delete(h.m, id)
	return obj
}

// Count returns the number of live handles of one kind.
func (h *Handles) Count(k Kind) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	n := 0
	for id := range h.m {
		if Kind(id>>48) == k {
			n++
		}
	}
	return n
}

// Of returns the live objects of one kind by handle.
func (h *Handles) Of(k Kind) map[uint64]any {
	h.mu.RLock()
	defer h.mu.RUnlock()
	live := make(map[uint64]any)
	for id, obj := range h.m {
		if Kind(id>>48) == k {
			live[id] = obj
		}
	}
	return live
}

// Lookup is Get for an object of type T; it returns false for a handle of another kind.
func Lookup[T any](h *Handles, id uint64) (T, bool) {
	v, ok := h.Get(id).(T)
	return v, ok
}
