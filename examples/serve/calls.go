package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/goascend/cann/acl"
)

// countCalls returns metrics of the process's launches, copies and waits, which count until stop is called.
func countCalls(rt *acl.Runtime) (all []prometheus.Collector, stop func(), err error) {
	launches := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cann_launches_total", Help: "Launches of operators and graphs."}, []string{"operator"})
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "cann_failed_calls_total", Help: "Launches, copies and waits that returned an error."}, []string{"call"})
	copied := prometheus.NewCounter(prometheus.CounterOpts{Name: "cann_copied_bytes_total", Help: "Bytes that copies were asked for."})
	waited := prometheus.NewCounter(prometheus.CounterOpts{Name: "cann_wait_seconds_total", Help: "Time in waits for streams, events and devices."})
	stop, err = rt.Observe(func(c acl.Call) {
		if c.Err != nil {
			failures.WithLabelValues(c.Name).Inc()
		}
		switch c.Kind {
		case acl.CallLaunch:
			launches.WithLabelValues(c.Name).Inc()
		case acl.CallCopy:
			copied.Add(float64(max(c.Bytes, 0)))
		case acl.CallWait:
			waited.Add(c.Took.Seconds())
		}
	})
	return []prometheus.Collector{launches, failures, copied, waited}, stop, err
}
