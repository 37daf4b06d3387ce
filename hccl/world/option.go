package world

import (
	"cmp"
	"log/slog"
)

// Option is an optional setting of Join, LocalGroups and StartWatchdog.
type Option func(*options)

type options struct{ log *slog.Logger }

// WithLogger sets a logger. A group logs the connections that it rejects, and a watchdog logs the
// faults that it passes to OnFault. Without a logger, or with nil, nothing is logged. The
// documentation of acl.WithLogger has the form for a *zap.Logger.
func WithLogger(log *slog.Logger) Option { return func(o *options) { o.log = log } }

func choose(all []Option) options {
	var o options
	for _, set := range all {
		if set != nil {
			set(&o)
		}
	}
	o.log = cmp.Or(o.log, slog.New(slog.DiscardHandler))
	return o
}
