// Package budget bounds the work that input from strangers causes: schemas and prompts of requests, and templates,
// tokenizers and data sets that come with a model.
//
//	b := budget.New(ctx, "the schema", 1<<20)
//	err := b.Step(len(part))   // where the work is done; errors.Is(err, budget.ErrLimit) once it is too much
//
// A step is a piece of work of some 100 ns and some 100 bytes, so that a bound on steps bounds time and memory
// on every machine alike: about 100 ms and 100 MB of garbage for each million. What is kept, and what is read at once, is bounded by Size.
// Work whose steps nobody can count, such as a search that another package makes, is bounded by Time beside them. Every error names the limit.
package budget

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"time"
)

// ErrLimit is the error of input that is larger, or makes more work, than its reader allows.
var ErrLimit = errors.New("over the limit")

// ErrTime is the ErrLimit of work that took too much time: on another machine, or at another time, the same input may keep it.
var ErrTime = fmt.Errorf("%w", ErrLimit)

// Budget is a number of steps that may still be made. It is safe for concurrent use.
type Budget struct {
	what  string
	steps int64
	left  atomic.Int64
	ctx   context.Context // of the request that the work is for
	whole *Budget         // of which this is a part, or nil

	most, until time.Duration // the processor time of the thread that may be taken, and what its clock shows then; 0 for no bound
}

// New returns a budget for something, which errors name. The end of ctx ends it, too: then Step returns its cause.
func New(ctx context.Context, what string, steps int) *Budget {
	b := &Budget{what: what, steps: int64(steps), ctx: ctx}
	b.left.Store(b.steps)
	return b
}

// Part returns a budget for a part of the work, whose steps count in both.
func (b *Budget) Part(what string, steps int) *Budget {
	part := New(b.ctx, what, steps)
	part.whole = b
	return part
}

// Time bounds the processor time of the work too (ErrTime), which is then the caller's alone: Step is for its goroutine only, and the goroutine stays
// on its thread until end is called. Where the system does not count the time of a thread, the clock counts.
func (b *Budget) Time(most time.Duration) (end func()) {
	runtime.LockOSThread()
	b.most, b.until = most, threadTime()+most
	return runtime.UnlockOSThread
}

// often is a power of two: the context and the time are looked at once in so many steps.
const often = 1 << 9

// Step takes n steps and one more. The error matches ErrLimit if they are not left, and is the context's cause if that has ended.
func (b *Budget) Step(n int) error {
	left := b.left.Add(-int64(n) - 1)
	if left < 0 {
		return fmt.Errorf("%w: %s takes more than %d steps", ErrLimit, b.what, b.steps)
	}
	if b.whole != nil {
		if err := b.whole.Step(n); err != nil || b.most == 0 {
			return err
		}
	}
	if left&^(often-1) != (left+int64(n)+1)&^(often-1) {
		return b.Check()
	}
	return nil
}

// Timed does work whose steps nobody can count, on one thread, and takes a step for each 100 ns of the processor that it has taken. The error
// matches ErrTime.
func (b *Budget) Timed(work func()) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := threadTime()
	work()
	err := b.Step(int((threadTime() - began) / (100 * time.Nanosecond)))
	if errors.Is(err, ErrLimit) {
		return fmt.Errorf("%w: %s takes more than %d steps of 100 ns of the processor", ErrTime, b.what, b.steps)
	}
	return err
}

// Check reports the end of the context, and of the time. Step does so now and then.
func (b *Budget) Check() error {
	if b.ctx.Err() != nil {
		return context.Cause(b.ctx)
	}
	if b.most > 0 && threadTime() > b.until {
		return fmt.Errorf("%w: %s takes more than %v of the processor", ErrTime, b.what, b.most)
	}
	return nil
}

var begin = time.Now() // of the clock where a thread has none

// Size returns an error that matches ErrLimit if something has more than most of a unit, such as bytes.
func Size(what string, n, most int, unit string) error {
	if n <= most {
		return nil
	}
	return fmt.Errorf("%w: %s has %d %s; at most %d are allowed", ErrLimit, what, n, unit, most)
}

// Config is the largest size in bytes of a JSON file with options, such as tokenizer_config.json.
const Config = 16 << 20

// Open opens a regular file, or a link to one. A pipe, a device or a folder is refused: to open a pipe waits for who writes into it.
func Open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file: %v", path, info.Mode())
	}
	return os.Open(path)
}

// ReadFile reads a regular file of at most so many bytes. The error of a larger one matches ErrLimit, and nothing of it is kept.
func ReadFile(path string, most int) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // it is only read
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if err := Size(path, int(info.Size()), most, "bytes"); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(most)+1)) // it may grow meanwhile
	if err != nil {
		return nil, err
	}
	if len(text) > most {
		return nil, fmt.Errorf("%w: %s has more than %d bytes", ErrLimit, path, most)
	}
	return text, nil
}
