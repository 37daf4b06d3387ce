package main

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/serve/replicas"
)

// observe adds spans and metrics to the interface, until stop is called.
func (o *options) observe(ctx context.Context, rt *acl.Runtime, set *replicas.Set) (stop func(), err error) {
	t, err := o.newTracing(ctx, rt)
	if err != nil {
		return nil, err
	}
	calls, stopCounting, err := countCalls(rt)
	if err != nil {
		return nil, err
	}
	w, stopWatching := o.watch(ctx, rt, set)
	o.api.Collectors = append(append(calls, statusOf(set)...), w)
	if t != nil {
		o.api.Tracer = t.tracer()
	}
	return func() {
		stopWatching()
		stopCounting()
		if t == nil {
			return
		}
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := t.close(limit); err != nil {
			o.engine.Logger.Warn("spans were not sent", "error", err)
		}
	}, nil
}

// statusOf returns a metric for each replica.
func statusOf(set *replicas.Set) (all []prometheus.Collector) {
	for i, s := range set.Status() {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "cann_device_ready", Help: "1 if the device takes requests, 0 while it is opened again after a failure.",
			ConstLabels: prometheus.Labels{"device": strconv.Itoa(s.Device)},
		}, func() float64 {
			if set.Status()[i].Ready {
				return 1
			}
			return 0
		}))
	}
	return all
}
