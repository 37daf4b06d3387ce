//go:build !linux

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// CANN exists for Linux only. On other systems launch compiles, and starts and ends programs
// without process groups: processes that a rank has started may outlive it.

var forwarded = []os.Signal{os.Interrupt, syscall.SIGTERM}

func separate(*exec.Cmd) {}

func send(p *os.Process, s syscall.Signal) {
	if s == syscall.SIGKILL || p.Signal(s) != nil {
		_ = p.Kill() // Windows has no other signal
	}
}
