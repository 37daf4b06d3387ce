package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/goascend/cann/examples/job"
)

// logger is that of a rank's operators. With -v rank 0 writes to out, too, which kernels they get.
func (o options) logger(rank int, out io.Writer) *slog.Logger {
	log := job.Warnings()
	if !o.verbose || rank > 0 {
		return log
	}
	return slog.New(&decisions{Handler: log.Handler(), out: out, written: map[string]bool{}})
}

// decisions is a handler that writes each choice of a kernel in a line, and passes warnings on. Arguments
// that differ only in what does not matter for the reasons share a line.
type decisions struct {
	slog.Handler // of warnings
	out          io.Writer
	mu           sync.Mutex
	written      map[string]bool
}

// Enabled implements slog.Handler.
func (d *decisions) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle implements slog.Handler.
func (d *decisions) Handle(ctx context.Context, r slog.Record) (err error) {
	if d.Handler.Enabled(ctx, r.Level) {
		return d.Handler.Handle(ctx, r)
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "decision" {
			err = d.write(a.Value.String())
		}
		return true
	})
	return err
}

func (d *decisions) write(line string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.written[line] {
		return nil
	}
	d.written[line] = true
	_, err := fmt.Fprintln(d.out, line)
	return err
}
