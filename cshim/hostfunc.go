package cshim

import "sync"

// hostFuncs are the Go functions that wait to be called from C, by number: C must not hold
// Go pointers.
var hostFuncs struct {
	sync.Mutex
	last uint64
	m    map[uint64]func()
}

// RegisterHostFunc returns a C function pointer and its argument, such that calling the one
// with the other runs f once, on the calling thread. cancel takes the registration back if
// the launch failed.
func RegisterHostFunc(f func()) (function, argument uint64, cancel func()) {
	hostFuncs.Lock()
	defer hostFuncs.Unlock()
	if hostFuncs.m == nil {
		hostFuncs.m = make(map[uint64]func())
	}
	hostFuncs.last++
	n := hostFuncs.last
	hostFuncs.m[n] = f
	return hostFuncAddress(), n, func() { takeHostFunc(n) }
}

func takeHostFunc(n uint64) func() {
	hostFuncs.Lock()
	defer hostFuncs.Unlock()
	f := hostFuncs.m[n]
	delete(hostFuncs.m, n)
	return f
}
