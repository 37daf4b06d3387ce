package slogzap

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// New makes a logger that writes to a handler, with the place of each call. A nil handler
// gives a logger that writes nothing.
func New(h slog.Handler) *zap.Logger { return zap.New(NewCore(h), zap.AddCaller()) }

// NewCore makes a zapcore.Core that writes to a handler, to be joined with others or given
// options. The handler decides which levels are written: zap's levels are those of slog of
// the same name, and DPanic, Panic and Fatal lie above slog.LevelError, four apart.
//
// Fields become attributes: zap.Namespace and objects become groups, zap.Error keeps the error
// itself. The logger's name becomes the attribute "logger", a stack the attribute "stack".
func NewCore(h slog.Handler) zapcore.Core {
	if h == nil {
		return zapcore.NewNopCore()
	}
	return &core{handler: h}
}

// core implements zapcore.Core.
type core struct{ handler slog.Handler }

// Enabled asks the handler.
func (c *core) Enabled(l zapcore.Level) bool {
	return c.handler.Enabled(context.Background(), level(l))
}

// level is slog's number of a level: both count from Info, slog in steps of four.
func level(l zapcore.Level) slog.Level { return slog.Level(4 * l) }

// With gives the fields to the handler, so that it can format them once.
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	h := c.handler
	for _, g := range encode(fields) {
		if g.name != "" {
			h = h.WithGroup(g.name)
		}
		if len(g.attrs) > 0 {
			h = h.WithAttrs(g.attrs)
		}
	}
	return &core{h}
}

// Check adds the core to an entry that the handler wants.
func (c *core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write hands an entry to the handler.
func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	var pc uintptr
	if e.Caller.Defined {
		pc = e.Caller.PC + 1 // slog takes return addresses, as runtime.Callers gives them
	}
	r := slog.NewRecord(e.Time, level(e.Level), e.Message, pc)
	if e.LoggerName != "" {
		r.AddAttrs(slog.String("logger", e.LoggerName))
	}
	if e.Stack != "" {
		r.AddAttrs(slog.String("stack", e.Stack))
	}
	r.AddAttrs(nest(encode(fields))...)
	return c.handler.Handle(context.Background(), r)
}

// Sync does nothing: handlers have no such call.
func (*core) Sync() error { return nil }
