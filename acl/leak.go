package acl

import (
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/goascend/cann/cshim"
)

// leak describes an object that was collected without Close. It must not lead to
// the object, which would then never be collected.
type leak struct {
	kind    Kind
	bytes   uint64 // of memory, 0 for other objects
	remains remains
	stack   []byte // where the object was made, if the process keeps that
}

// remains is the inner part of a collected object. It can be ended when idle is true.
type remains interface {
	idle() bool
	end() error
}

// heir gives the inner part of a new object to its leak, if the process releases leaks.
func heir[R remains](r R) remains {
	if !process.releasing.Load() {
		return nil
	}
	return r
}

// watching reports whether leaks are reported or released.
func watching() bool {
	return process.log.Load() != nil || process.releasing.Load() || cshim.Emulated && !process.quiet.Load()
}

// made adds where the object was made.
func (l leak) made() leak {
	if process.stacks.Load() {
		l.stack = debug.Stack()
	}
	return l
}

// found reports the leak and has the remains ended.
func (l leak) found() {
	if log := process.log.Load(); log != nil {
		l.report(log)
	} else if cshim.Emulated && !process.quiet.Load() && !process.printed.Swap(true) {
		fmt.Fprintln(os.Stderr, l)
	}
	if l.remains != nil {
		process.reaper.add(l)
	}
}

func (l leak) report(log *slog.Logger) {
	attrs := []any{"kind", l.kind.String(), "released", l.remains != nil}
	if l.bytes > 0 {
		attrs = append(attrs, "bytes", l.bytes)
	}
	if l.stack != nil {
		attrs = append(attrs, "made", string(l.stack))
	}
	log.Error("acl: an object was collected without Close", attrs...)
}

// String is the text for standard error.
func (l leak) String() string {
	what, fate := "of kind "+l.kind.String(), "it stays with the process"
	if l.bytes > 0 {
		what += fmt.Sprintf(" with %d bytes", l.bytes)
	}
	if l.remains != nil {
		fate = "it is released"
	}
	text := fmt.Sprintf("acl: an object %s was collected without Close; %s. Others are not printed: acl.WithLogger reports each, acl.Config.LeakStacks adds where they were made, acl.Config.QuietLeaks turns this message off", what, fate)
	if l.stack != nil {
		text += "\nmade at:\n" + string(l.stack)
	}
	return text
}

// reaper ends the remains of collected objects once the work that uses them has ended. Its
// goroutine runs while there are such; it belongs to the process, as the remains do.
type reaper struct {
	mu      sync.Mutex
	waiting []leak
	running bool
}

// The reaper asks whether remains are idle at intervals that grow, so that work that takes long
// is not disturbed.
const (
	firstAsk = time.Millisecond
	lastAsk  = 100 * time.Millisecond
)

func (r *reaper) add(l leak) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, l)
	if !r.running {
		r.running = true
		go r.run()
	}
}

// take returns the remains that wait to be ended; the reaper stops when there are none.
func (r *reaper) take() []leak {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.waiting
	r.waiting = nil
	r.running = len(all) > 0
	return all
}

// keep puts back remains that are not idle yet.
func (r *reaper) keep(busy []leak) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, busy...)
}

func (r *reaper) run() {
	for pause := firstAsk; ; pause = min(2*pause, lastAsk) {
		all := r.take()
		if len(all) == 0 {
			return
		}
		var busy []leak
		for _, l := range all {
			if !l.remains.idle() {
				busy = append(busy, l)
				continue
			}
			pause = firstAsk
			l.end()
		}
		if len(busy) > 0 {
			r.keep(busy)
			time.Sleep(pause)
		}
	}
}

// end ends the remains. No call can return the error.
func (l leak) end() {
	err := l.remains.end()
	live[l.kind].Add(-1)
	if log := process.log.Load(); err != nil && log != nil {
		log.Error("acl: an object that was collected could not be released cleanly", "kind", l.kind.String(), "error", err)
	}
}
