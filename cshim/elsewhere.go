//go:build !(linux && cgo && (amd64 || arm64))

package cshim

import "runtime"

// This file stands for the C side where there can be no CANN: on other systems and processors,
// and in programs built without cgo. No function is ever found there, with the tag emu or
// without, so that the crossings below it are never reached.

// Emulated reports whether the program calls the emulator linked into it.
const Emulated = false

// Opened lists the libraries of a group that were found: none.
func Opened(l Library) ([]string, error) { return nil, elsewhere(l) }

func resolve(l Library, _ string) (uint64, error) { return 0, elsewhere(l) }

func elsewhere(l Library) *LibraryError {
	build := runtime.GOOS + "/" + runtime.GOARCH
	if runtime.GOOS == "linux" && (runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64") {
		build += " without cgo"
	}
	return &LibraryError{Library: l, Build: build}
}

func bindRuntime() {}

func bindBase() error { return elsewhere(NNOp) }

func (*Call) run() {}

func (*Call) runWide(*wide) {}

func (*head) launch(*uint64) {}

func (*head) release() {}

func (*head) prepareOnly(_, _ *uint64) {}

func (*head) run(_, _, _ *uint64, _ uint32) {}

// Forget makes every OS thread forget which context it has current: none has one.
func Forget() {}

// Thread is pthread_self of the calling OS thread, by which CANN knows the threads that run
// callbacks: 0 where CANN cannot be.
func Thread() uint64 { return 0 }

func freeText(uint64) {}

func hostFuncAddress() uint64 { return 0 }

func bindExceptions() {}

func exceptionAddress() uint64 { return 0 }

func exceptions(uint64, *[keptExceptions]Exception) (int, uint64) { return 0, 0 }
