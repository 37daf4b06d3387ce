package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/goascend/cann/examples/job"
)

// ended is a rank whose process has ended.
type ended struct {
	local  int
	status int
	how    string   // "exited with status 3", "was killed (signal: segmentation fault)"
	said   []string // its last lines: errors, or else what it printed
}

// processes are the ranks of this host.
type processes struct {
	options
	all     []*exec.Cmd // by local rank
	running []bool
	exits   chan ended
}

// run starts the ranks, again after a failure if -restarts says so, and returns when all have ended, with the status of
// the first that failed at last. Output is written in whole lines.
func run(o options, lookup func(string) (string, bool), signals <-chan os.Signal, stdout, stderr io.Writer) (status int, err error) {
	if o.flight == "" {
		if o.flight, _ = lookup(job.EnvFlight); o.flight == "" {
			if o.flight, err = os.MkdirTemp("", "cann-flight-"); err != nil {
				return 1, err
			}
			defer os.Remove(o.flight) // it fails if there are records
		}
	}
	pause := o.pause
	for restart := 1; ; restart++ {
		vars, err := o.variables(lookup) // with a port that is free now
		if err != nil {
			return 1, err
		}
		status, requested, err := o.start(append(vars, job.EnvFlight+"="+o.flight), signals, stdout, stderr)
		if status == 0 || requested || err != nil || restart > o.restarts {
			return status, err
		}
		fmt.Fprintf(stderr, "launch: restart %d of %d in %v\n", restart, o.restarts, pause)
		select {
		case <-time.After(pause):
		case s := <-signals:
			if s == os.Interrupt || s == syscall.SIGTERM {
				return status, nil
			}
		}
		pause = min(2*pause, time.Minute)
	}
}

// start starts the ranks once. requested reports whether a signal asked for their end.
func (o options) start(vars []string, signals <-chan os.Signal, stdout, stderr io.Writer) (status int, requested bool, err error) {
	// The kernel kills the ranks when the thread that started them ends, so that they do not
	// survive a launch that was killed. The thread must therefore live as long as the job.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	j := &processes{options: o, exits: make(chan ended, o.perNode)}
	var outLock, errLock sync.Mutex
	var wg sync.WaitGroup
	defer wg.Wait()
	for local := range o.perNode {
		rank := o.node*o.perNode + local
		cmd := exec.Command(o.command[0], o.command[1:]...)
		cmd.Env = append(os.Environ(), vars...)
		cmd.Env = append(cmd.Env, "RANK="+strconv.Itoa(rank), "LOCAL_RANK="+strconv.Itoa(local))
		separate(cmd)
		out := &lineWriter{to: stdout, lock: &outLock, prefix: fmt.Sprintf("[%d] ", rank)}
		errs := &lineWriter{to: stderr, lock: &errLock, prefix: fmt.Sprintf("[%d] ", rank)}
		cmd.Stdout, cmd.Stderr = out, errs
		// This bounds the wait for other processes that inherited the pipes.
		cmd.WaitDelay = o.grace
		if err := cmd.Start(); err != nil {
			j.signal(syscall.SIGKILL)
			return 127, false, fmt.Errorf("rank %d: %w", rank, err)
		}
		j.all, j.running = append(j.all, cmd), append(j.running, true)
		wg.Go(func() {
			e := wait(cmd)
			e.local = local
			out.flush()
			errs.flush()
			if e.said = errs.last; e.said == nil {
				e.said = out.last
			}
			j.exits <- e
		})
	}
	report := func(text string) {
		errLock.Lock()
		defer errLock.Unlock()
		fmt.Fprintln(stderr, "launch: "+text)
	}
	status, requested = j.attend(signals, report)
	if records, err := job.FlightNames(o.flight); err == nil && len(records) > 0 {
		report(fmt.Sprintf("%d flight records: npuinfo -flight %s", len(records), o.flight))
	}
	return status, requested, nil
}

// attend waits for all processes, forwards signals, and ends the ranks when one has failed. It reports whether a signal asked
// for their end.
func (j *processes) attend(signals <-chan os.Signal, report func(string)) (status int, asked bool) {
	end, kill := time.NewTimer(j.settle), time.NewTimer(j.grace)
	end.Stop()
	kill.Stop()
	interrupted, requested := false, false // requested: the ranks have got a request to end
	for left := len(j.all); left > 0; {
		select {
		case e := <-j.exits:
			left--
			j.running[e.local] = false
			if e.status == 0 || status != 0 {
				continue
			}
			status = e.status
			text := fmt.Sprintf("rank %d %s", j.node*j.perNode+e.local, e.how)
			if left > 0 {
				text += "; ending the others"
			}
			if len(e.said) > 0 {
				text += ". Its last lines:\n  " + strings.Join(e.said, "\n  ")
			}
			report(text)
			end.Reset(j.settle)
		case <-end.C:
			if !requested { // a second request would cut short what they do on the first
				requested = true
				j.signal(syscall.SIGTERM)
			}
			kill.Reset(j.grace)
		case <-kill.C:
			report(fmt.Sprintf("killing %d of %d ranks that did not end within %v", left, len(j.all), j.grace))
			j.signal(syscall.SIGKILL)
		case s := <-signals:
			if s == os.Interrupt && interrupted {
				report("killing the ranks after a second interrupt")
				s = syscall.SIGKILL
			}
			interrupted = interrupted || s == os.Interrupt
			if s == syscall.SIGTERM && !requested {
				kill.Reset(j.grace)
			}
			asked = asked || s == os.Interrupt || s == syscall.SIGTERM
			requested = requested || asked
			j.signal(s.(syscall.Signal))
		}
	}
	return status, asked
}

// signal signals the process groups of the running ranks. Errors are ignored, because a rank may
// have just ended.
func (j *processes) signal(s syscall.Signal) {
	for local, cmd := range j.all {
		if j.running[local] {
			send(cmd.Process, s)
		}
	}
}

// wait waits for a process and describes how it ended.
func wait(cmd *exec.Cmd) ended {
	err := cmd.Wait()
	state := cmd.ProcessState
	status, _ := state.Sys().(syscall.WaitStatus)
	switch {
	case status.Signaled():
		return ended{status: 128 + int(status.Signal()), how: fmt.Sprintf("was killed (%v)", state)}
	case state.ExitCode() != 0:
		return ended{status: state.ExitCode(), how: fmt.Sprintf("exited with status %d", state.ExitCode())}
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return ended{status: 1, how: err.Error()}
	}
	return ended{}
}
