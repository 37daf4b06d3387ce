package main

import (
	"os"
	"os/exec"
	"syscall"
)

// forwarded are the signals that launch passes on to the ranks.
var forwarded = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// separate puts a rank into its own process group: a signal then also reaches the processes that
// the rank has started, and Ctrl-C reaches the ranks through launch only. The kernel kills the rank
// when launch dies.
func separate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// send signals the process group of a rank. It ignores the error if the rank has just ended.
func send(p *os.Process, s syscall.Signal) { _ = syscall.Kill(-p.Pid, s) }
