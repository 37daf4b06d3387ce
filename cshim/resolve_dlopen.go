//go:build !emu && linux && cgo && (amd64 || arm64)

package cshim

/*
#cgo LDFLAGS: -ldl
// These functions keep no pointer; only cann_call_back may come back into Go.
#cgo noescape cann_call
#cgo nocallback cann_call
#cgo noescape cann_call_host
#cgo nocallback cann_call_host
#cgo noescape cann_launch
#cgo nocallback cann_launch
#cgo noescape cann_release
#cgo nocallback cann_release
#cgo noescape cann_prepare
#cgo nocallback cann_prepare
#cgo noescape cann_run
#cgo nocallback cann_run
#include <stdlib.h>
#include "dlopen.h"
#include "shim.h"
*/
import "C"

import (
	"os"
	"sync"
	"unsafe"
)

// Emulated reports whether the program calls the emulator linked into it.
const Emulated = false

// opened is the result of opening the libraries of one group.
type opened struct {
	once    sync.Once
	handles []handle
	tried   []Attempt
}

type handle struct {
	path  string
	value C.uint64_t
}

var groups [libraries]opened

// resolve finds a symbol in the libraries of a group, which it opens on first use.
func resolve(l Library, name string) (uint64, error) {
	symbol := C.CString(name)
	defer C.free(unsafe.Pointer(symbol))
	// As CANN's own clients do: a preloaded library wins.
	if os.Getenv("LD_PRELOAD") != "" {
		if p := C.dl_symbol(0, symbol); p != 0 {
			return uint64(p), nil
		}
	}
	g := &groups[l]
	g.once.Do(func() { g.open(candidates(l)) })
	if len(g.handles) == 0 {
		return 0, &LibraryError{Library: l, Tried: g.tried}
	}
	var tried []Attempt
	for _, h := range g.handles {
		if p := C.dl_symbol(h.value, symbol); p != 0 {
			return uint64(p), nil
		}
		tried = append(tried, Attempt{h.path, "has no such symbol"})
	}
	return 0, &SymbolError{Symbol: name, Library: l, Tried: tried}
}

// Opened lists the libraries of a group that were found, by path, or returns what was tried.
func Opened(l Library) ([]string, error) {
	g := &groups[l]
	g.once.Do(func() { g.open(candidates(l)) })
	if len(g.handles) == 0 {
		return nil, &LibraryError{Library: l, Tried: g.tried}
	}
	paths := make([]string, len(g.handles))
	for i, h := range g.handles {
		paths[i] = h.path
	}
	return paths, nil
}

// keepSignals asks CANN to leave the signals to Go. Its handlers of SIGSEGV and others, which a
// library installs when it is opened, would replace those of Go's runtime.
var keepSignals = sync.OnceFunc(func() {
	const variable = "ASCEND_COREDUMP_SIGNAL"
	if _, set := os.LookupEnv(variable); !set {
		_ = os.Setenv(variable, "none") // the name is valid
	}
})

// open opens what it can of the candidates, each file name from the first place that has it.
func (g *opened) open(cs []candidate) {
	keepSignals()
	have := make(map[string]bool)
	for _, c := range cs {
		if have[c.name] {
			continue
		}
		if err := c.allowed(); err != nil {
			g.tried = append(g.tried, Attempt{c.path, err.Error()})
			continue
		}
		path := C.CString(c.path)
		var reason *C.char
		h := C.dl_open(path, &reason)
		C.free(unsafe.Pointer(path))
		if h == 0 {
			if _, err := os.Stat(c.path); err == nil || !c.extra {
				g.tried = append(g.tried, Attempt{c.path, C.GoString(reason)})
			}
			C.free(unsafe.Pointer(reason))
			continue
		}
		have[c.name] = true
		g.handles = append(g.handles, handle{c.path, h})
	}
}
