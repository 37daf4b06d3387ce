// Package budget bounds the work that input from strangers causes: schemas and prompts of requests, and templates,
// tokenizers and data sets that come with a model.
//
//	b := budget.New(ctx, "the schema", 1<<20)
//	err := b.Step(len(part))   // where the work is done; errors.Is(err, budget.ErrLimit) once it is too much
//
// A step is a piece of work of some 100 ns and some 100 bytes, so that a bound on steps bounds time and memory
// on every machine alike: about 100 ms and 100 MB of garbage for each million. What is kept, and what is read at once, is bounded by Size.
// Every error names the limit.
package budget

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// ErrLimit is the error of input that is larger, or makes more work, than its reader allows.
var ErrLimit = errors.New("over the limit")

// Budget is a number of steps that may still be made. It is safe for concurrent use.
type Budget struct {
	what  string
	steps int64
	left  atomic.Int64
	ctx   context.Context // of the request that the work is for
	whole *Budget         // of which this is a part, or nil
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

// often is a power of two: the context is looked at once in so many steps.
const often = 1 << 12

// Step takes n steps and one more. The error matches ErrLimit if they are not left, and is the context's cause if that has ended.
func (b *Budget) Step(n int) error {
	left := b.left.Add(-int64(n) - 1)
	if left < 0 {
		return fmt.Errorf("%w: %s takes more than %d steps", ErrLimit, b.what, b.steps)
	}
	if b.whole != nil {
		return b.whole.Step(n)
	}
	if left&^(often-1) != (left+int64(n)+1)&^(often-1) && b.ctx.Err() != nil {
		return context.Cause(b.ctx)
	}
	return nil
}

// Size returns an error that matches ErrLimit if something has more than most of a unit, such as bytes.
func Size(what string, n, most int, unit string) error {
	if n <= most {
		return nil
	}
	return fmt.Errorf("%w: %s has %d %s; at most %d are allowed", ErrLimit, what, n, unit, most)
}

// Config is the largest size in bytes of a JSON file with options, such as config.json, and of a key file.
const Config = 16 << 20

// ReadFile reads a file of at most so many bytes. The error of a larger one matches ErrLimit, and nothing of it is kept.
func ReadFile(path string, most int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // it is only read
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if err := Size(path, int(info.Size()), most, "bytes"); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(most)+1)) // devices and pipes have no size
	if err != nil {
		return nil, err
	}
	if len(text) > most {
		return nil, fmt.Errorf("%w: %s has more than %d bytes", ErrLimit, path, most)
	}
	return text, nil
}
