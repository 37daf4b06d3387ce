package rt

import "sync"

// allocator is what a program gives instead of CANN's own allocation of operators' memory:
// an object and C functions. The emulator keeps it for those who ask; its operators take
// their workspace from the caller and call none of it.
type allocator struct {
	object, alloc, free, advise, address uint64
}

// allocators are the registered ones by stream. They are copies: a description may be
// changed or destroyed after it was registered.
type allocators struct {
	mu sync.Mutex
	of map[uint64]registeredAllocator
}

type registeredAllocator struct {
	description uint64
	allocator
}

func (r *Runtime) allocatorFunctions() table {
	return table{
		"aclrtAllocatorCreateDesc": func(*Thread, []uint64) uint64 { return r.Handles.New(AllocatorKind, &allocator{}) },
		"aclrtAllocatorDestroyDesc": func(t *Thread, a []uint64) uint64 {
			if _, ok := Lookup[*allocator](&r.Handles, a[0]); !ok {
				return t.noAllocator("aclrtAllocatorDestroyDesc", a[0])
			}
			r.Handles.Delete(a[0])
			return 0
		},
		"aclrtAllocatorSetObjToDesc":                  r.setAllocator("aclrtAllocatorSetObjToDesc", "allocator", func(d *allocator) *uint64 { return &d.object }),
		"aclrtAllocatorSetAllocFuncToDesc":            r.setAllocator("aclrtAllocatorSetAllocFuncToDesc", "func", func(d *allocator) *uint64 { return &d.alloc }),
		"aclrtAllocatorSetFreeFuncToDesc":             r.setAllocator("aclrtAllocatorSetFreeFuncToDesc", "func", func(d *allocator) *uint64 { return &d.free }),
		"aclrtAllocatorSetAllocAdviseFuncToDesc":      r.setAllocator("aclrtAllocatorSetAllocAdviseFuncToDesc", "func", func(d *allocator) *uint64 { return &d.advise }),
		"aclrtAllocatorSetGetAddrFromBlockFuncToDesc": r.setAllocator("aclrtAllocatorSetGetAddrFromBlockFuncToDesc", "func", func(d *allocator) *uint64 { return &d.address }),
		"aclrtAllocatorRegister":                      r.registerAllocator,
		"aclrtAllocatorUnregister":                    r.unregisterAllocator,
		"aclrtAllocatorGetByStream":                   r.allocatorOfStream,
	}
}

func (t *Thread) noAllocator(function string, handle uint64) uint64 {
	return t.Fail(invalidParam, "EH0001: %s: %#x is no description of an allocator, or it was destroyed", function, handle)
}

// setAllocator makes a setter of one part of a description.
func (r *Runtime) setAllocator(function, argument string, part func(*allocator) *uint64) Func {
	return func(t *Thread, a []uint64) uint64 {
		d, ok := Lookup[*allocator](&r.Handles, a[0])
		if !ok {
			return t.noAllocator(function, a[0])
		}
		if a[1] == 0 {
			return t.null(function, argument)
		}
		*part(d) = a[1]
		return 0
	}
}

func (r *Runtime) registerAllocator(t *Thread, a []uint64) uint64 {
	const function = "aclrtAllocatorRegister"
	if a[0] == 0 {
		return t.null(function, "stream")
	}
	s, code := r.Stream(t, a[0])
	if s == nil {
		return uint64(uint32(code))
	}
	d, ok := Lookup[*allocator](&r.Handles, a[1])
	if !ok {
		return t.noAllocator(function, a[1])
	}
	for _, part := range []struct {
		name  string
		value uint64
	}{{"object", d.object}, {"alloc function", d.alloc}, {"free function", d.free}, {"function for the address of a block", d.address}} {
		if part.value == 0 {
			return t.null(function, "the description's "+part.name)
		}
	}
	r.allocators.mu.Lock()
	defer r.allocators.mu.Unlock()
	if r.allocators.of == nil {
		r.allocators.of = make(map[uint64]registeredAllocator)
	}
	for stream := range r.allocators.of {
		if _, live := Lookup[*Stream](&r.Handles, stream); !live {
			delete(r.allocators.of, stream)
		}
	}
	r.allocators.of[a[0]] = registeredAllocator{description: a[1], allocator: *d}
	return 0
}

// unregisterAllocator finds no mistake in a stream without an allocator.
func (r *Runtime) unregisterAllocator(t *Thread, a []uint64) uint64 {
	if a[0] == 0 {
		return t.null("aclrtAllocatorUnregister", "stream")
	}
	r.allocators.mu.Lock()
	defer r.allocators.mu.Unlock()
	delete(r.allocators.of, a[0])
	return 0
}

// allocatorOfStream writes the parts that the caller has a place for.
func (r *Runtime) allocatorOfStream(t *Thread, a []uint64) uint64 {
	const function = "aclrtAllocatorGetByStream"
	if a[1] == 0 {
		return t.null(function, "allocatorDesc")
	}
	if a[0] == 0 {
		return t.null(function, "stream")
	}
	r.allocators.mu.Lock()
	d, ok := r.allocators.of[a[0]]
	r.allocators.mu.Unlock()
	if _, live := Lookup[*Stream](&r.Handles, a[0]); !ok || !live {
		return t.Fail(invalidParam, "EH0001: %s: no allocator is registered for stream %#x", function, a[0])
	}
	for i, v := range []uint64{d.description, d.object, d.alloc, d.free, d.advise, d.address} {
		if a[1+i] != 0 {
			Write(a[1+i], v)
		}
	}
	return 0
}
