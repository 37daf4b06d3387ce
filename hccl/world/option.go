package world

import "go.uber.org/zap"

// Option is an optional setting of Join, LocalGroups and StartWatchdog.
type Option func(*options)

type options struct{ log *zap.Logger }

// WithLogger sets a logger. A group logs the connections that it rejects, and a watchdog logs the
// faults that it passes to OnFault. Without a logger, or with nil, nothing is logged. Package
// acl/slogzap converts a log/slog handler to such a logger.
func WithLogger(log *zap.Logger) Option { return func(o *options) { o.log = log } }

func choose(all []Option) options {
	var o options
	for _, set := range all {
		if set != nil {
			set(&o)
		}
	}
	if o.log == nil {
		o.log = zap.NewNop()
	}
	return o
}
