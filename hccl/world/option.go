package world

import (
	"go.uber.org/zap/zapcore"

	"github.com/goascend/cann/internal/logging"
)

// Logger writes log entries. *zap.Logger of go.uber.org/zap implements it.
type Logger interface {
	// Check returns the entry to write, or nil if entries of the level are not logged.
	Check(level zapcore.Level, message string) *zapcore.CheckedEntry
}

// Option is an optional setting of Join, LocalGroups and StartWatchdog.
type Option func(*options)

type options struct{ log Logger }

// WithLogger sets a logger. A group logs the connections that it rejects, and a watchdog logs the
// faults that it passes to OnFault. Without a logger, or with nil, nothing is logged. Package
// acl/slogzap converts a log/slog handler to such a logger.
func WithLogger(log Logger) Option { return func(o *options) { o.log = log } }

func choose(all []Option) options {
	var o options
	for _, set := range all {
		if set != nil {
			set(&o)
		}
	}
	if logging.Nil(o.log) {
		o.log = logging.Nop{}
	}
	return o
}
