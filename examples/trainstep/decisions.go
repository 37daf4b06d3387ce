package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/goascend/cann/acl/slogzap"
)

// warnings is the logger of what the user should know, such as leaks and kernels that leave the AI Core.
func warnings() *zap.Logger {
	return slogzap.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// logger is that of a rank's operators. With -v rank 0 writes to out, too, which kernels they get.
func (o options) logger(rank int, out io.Writer) *zap.Logger {
	log := warnings()
	if !o.verbose || rank > 0 {
		return log
	}
	return zap.New(zapcore.NewTee(log.Core(), &decisions{out: out, written: map[string]bool{}}))
}

// decisions is a core that writes each choice of a kernel in a line. Arguments that differ only in what
// does not matter for the reasons share a line.
type decisions struct {
	out     io.Writer
	mu      sync.Mutex
	written map[string]bool
}

// Enabled implements zapcore.Core.
func (d *decisions) Enabled(level zapcore.Level) bool { return level == zapcore.InfoLevel }

// With implements zapcore.Core; operators give their fields with each entry.
func (d *decisions) With([]zapcore.Field) zapcore.Core { return d }

// Check implements zapcore.Core.
func (d *decisions) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if d.Enabled(e.Level) {
		return to.AddCore(e, d)
	}
	return to
}

// Write implements zapcore.Core.
func (d *decisions) Write(_ zapcore.Entry, fields []zapcore.Field) error {
	for _, f := range fields {
		if f.Key != "decision" {
			continue
		}
		line := fmt.Sprint(f.Interface)
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.written[line] {
			return nil
		}
		d.written[line] = true
		_, err := fmt.Fprintln(d.out, line)
		return err
	}
	return nil
}

// Sync implements zapcore.Core.
func (d *decisions) Sync() error { return nil }
