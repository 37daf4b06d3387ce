//go:build emu && linux && cgo && (amd64 || arm64)

package cshim

import "github.com/goascend/cann/internal/emu/machine"

// Emulated reports whether the program calls the emulator linked into it.
const Emulated = true

// Opened lists the libraries of a group that were found: the emulator is all of them.
func Opened(Library) ([]string, error) { return []string{"the emulator in this program"}, nil }

// resolve finds a symbol of the emulator. Calls may come back into Go, so unlike the
// dlopen build this one marks no C function noescape or nocallback.
func resolve(l Library, name string) (uint64, error) {
	if p := machine.Lookup(name); p != 0 {
		return uint64(p), nil
	}
	return 0, &SymbolError{Symbol: name, Library: l, Tried: []Attempt{{"the emulator", "has no such symbol"}}}
}
