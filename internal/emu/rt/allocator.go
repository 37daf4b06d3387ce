package rt

import "sync"

// allocator is a memory allocator that a program registers to replace CANN's own for operator
// memory: an object and C functions. The emulator only stores it and returns it on request; its
// operators get their workspace from the caller and never call the functions.
type allocator struct {
	object, alloc, free, advise, address Address
}

// allocators holds the registered allocators by stream. It stores copies, because a program may
// change or destroy a description after it was registered.
type allocators struct {
	mu sync.Mutex
	of map[Handle]registeredAllocator
}

type registeredAllocator struct {
	description Handle
	allocator
}

func (r *Runtime) aclrtAllocatorCreateDesc() Handle {
	return r.Handles.New(AllocatorKind, &allocator{})
}

//npugen:decode aclrtAllocatorDesc
func (r *Runtime) allocator(t *Thread, function string, h Handle) (*allocator, Code) {
	d, ok := Lookup[*allocator](&r.Handles, h)
	if !ok {
		return nil, t.Fail(InvalidParam, "EH0001: %s: %#x is no description of an allocator, or it was destroyed", function, h)
	}
	return d, 0
}

func (r *Runtime) aclrtAllocatorDestroyDesc(t *Thread, allocatorDesc Handle) Code {
	_, code := r.allocator(t, "aclrtAllocatorDestroyDesc", allocatorDesc)
	if code == 0 {
		r.Handles.Delete(allocatorDesc)
	}
	return code
}

func (r *Runtime) aclrtAllocatorSetObjToDesc(allocatorDesc *allocator, allocator Address) Code {
	allocatorDesc.object = allocator
	return 0
}

func (r *Runtime) aclrtAllocatorSetAllocFuncToDesc(allocatorDesc *allocator, function Address) Code {
	allocatorDesc.alloc = function
	return 0
}

func (r *Runtime) aclrtAllocatorSetFreeFuncToDesc(allocatorDesc *allocator, function Address) Code {
	allocatorDesc.free = function
	return 0
}

func (r *Runtime) aclrtAllocatorSetAllocAdviseFuncToDesc(allocatorDesc *allocator, function Address) Code {
	allocatorDesc.advise = function
	return 0
}

func (r *Runtime) aclrtAllocatorSetGetAddrFromBlockFuncToDesc(allocatorDesc *allocator, function Address) Code {
	allocatorDesc.address = function
	return 0
}

func (r *Runtime) aclrtAllocatorRegister(t *Thread, stream *Stream, allocatorDesc Handle) Code {
	const function = "aclrtAllocatorRegister"
	d, code := r.allocator(t, function, allocatorDesc)
	if d == nil {
		return code
	}
	for _, part := range []struct {
		name  string
		value Address
	}{{"object", d.object}, {"alloc function", d.alloc}, {"free function", d.free}, {"function for the address of a block", d.address}} {
		if part.value == 0 {
			return t.Null(function, "the description's "+part.name)
		}
	}
	r.allocators.mu.Lock()
	defer r.allocators.mu.Unlock()
	if r.allocators.of == nil {
		r.allocators.of = make(map[Handle]registeredAllocator)
	}
	for h := range r.allocators.of {
		if _, live := Lookup[*Stream](&r.Handles, h); !live {
			delete(r.allocators.of, h)
		}
	}
	r.allocators.of[stream.handle] = registeredAllocator{description: allocatorDesc, allocator: *d}
	return 0
}

// aclrtAllocatorUnregister succeeds also when the stream has no allocator.
func (r *Runtime) aclrtAllocatorUnregister(stream Handle) Code {
	r.allocators.mu.Lock()
	defer r.allocators.mu.Unlock()
	delete(r.allocators.of, stream)
	return 0
}

// aclrtAllocatorGetByStream writes only the parts for which the caller passes a pointer.
func (r *Runtime) aclrtAllocatorGetByStream(t *Thread, stream Handle, allocatorDesc Out[Handle], allocator, allocFunc, freeFunc, allocAdviseFunc, getAddrFromBlockFunc *Address) Code {
	const function = "aclrtAllocatorGetByStream"
	r.allocators.mu.Lock()
	d, ok := r.allocators.of[stream]
	r.allocators.mu.Unlock()
	if _, live := Lookup[*Stream](&r.Handles, stream); !ok || !live {
		return t.Fail(InvalidParam, "EH0001: %s: no allocator is registered for stream %#x", function, stream)
	}
	allocatorDesc.Set(d.description)
	for _, part := range []struct {
		at    *Address
		value Address
	}{{allocator, d.object}, {allocFunc, d.alloc}, {freeFunc, d.free}, {allocAdviseFunc, d.advise}, {getAddrFromBlockFunc, d.address}} {
		if part.at != nil {
			*part.at = part.value
		}
	}
	return 0
}
