package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/examples/serve/replicas"
)

// watch asks the driver for the health of the devices, and suspends the replicas whose devices have a major alarm
// until it is gone. It shows what the driver has reported last as metrics.
type watch struct {
	rt     *acl.Runtime
	set    *replicas.Set
	tensor int // devices of a replica
	log    *slog.Logger
	said   map[int]string // what the log has of a replica, by its first device

	mu     sync.Mutex
	latest map[int]acl.Health // by device
}

// watch begins to watch the devices of a set, until stop is called.
func (o *options) watch(ctx context.Context, rt *acl.Runtime, set *replicas.Set) (w *watch, stop func()) {
	w = &watch{rt: rt, set: set, tensor: max(o.engine.Tensor, 1), log: o.engine.Logger, said: map[int]string{}, latest: map[int]acl.Health{}}
	if o.health <= 0 {
		return w, func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // requests run after ctx has ended
	var ended sync.WaitGroup
	ended.Go(func() { w.run(ctx, o.health) })
	return w, func() {
		cancel()
		ended.Wait()
	}
}

// run asks at intervals until ctx ends, or the driver cannot answer.
func (w *watch) run(ctx context.Context, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		for _, x := range w.set.Status() {
			err := w.ask(ctx, x.Device)
			if errors.Is(err, acl.ErrNotInstalled) || errors.Is(err, acl.ErrNotSupported) {
				w.log.Info("the health of devices is not known", "error", err)
				return
			}
			if ctx.Err() != nil {
				return
			}
			w.say(x.Device, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// ask asks for the devices of a replica and suspends it if one has an alarm. What the driver does not answer changes
// nothing.
func (w *watch) ask(ctx context.Context, first int) error {
	var bad []error
	for device := first; device < first+w.tensor; device++ {
		h, err := w.rt.Health(ctx, device)
		w.mu.Lock()
		if w.latest[device] = h; err != nil {
			delete(w.latest, device)
		}
		w.mu.Unlock()
		if err != nil {
			return err
		}
		if h.Alarm >= acl.AlarmMajor {
			bad = append(bad, alarmed(device, h))
		}
	}
	err := errors.Join(bad...)
	w.set.Suspend(first, err)
	return err
}

// alarmed is why a device gets no requests.
func alarmed(device int, h acl.Health) error {
	var faults []string
	for _, f := range h.Faults {
		faults = append(faults, strings.TrimSpace(fmt.Sprintf("%#x %s", f.Code, f.Text)))
	}
	return fmt.Errorf("device %d has the alarm %v: %s", device, h.Alarm, strings.Join(faults, ", "))
}

// say logs what has changed.
func (w *watch) say(first int, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == w.said[first] {
		return
	}
	w.said[first] = text
	if err != nil {
		w.log.Error("the health of a device", "device", first, "error", err)
	} else {
		w.log.Info("the device is well", "device", first)
	}
}

// Describe implements prometheus.Collector. Which metrics there are depends on the driver.
func (w *watch) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (w *watch) Collect(out chan<- prometheus.Metric) {
	w.mu.Lock()
	latest := maps.Clone(w.latest)
	w.mu.Unlock()
	for device, h := range latest {
		number := strconv.Itoa(device)
		for _, m := range []struct {
			name, help string
			kind       prometheus.ValueType
			value      float64
		}{
			{"alarm", "Worst alarm: 0 none, 1 minor, 2 major, 3 critical.", prometheus.GaugeValue, float64(h.Alarm)},
			{"aicore_utilization_ratio", "Use of the cores.", prometheus.GaugeValue, float64(h.AICore) / 100},
			{"memory_bandwidth_utilization_ratio", "Use of the memory's bandwidth.", prometheus.GaugeValue, float64(h.Bandwidth) / 100},
			{"memory_used_bytes", "Memory in use, by all processes.", prometheus.GaugeValue, float64(h.MemoryUsed)},
			{"memory_bytes", "Memory.", prometheus.GaugeValue, float64(h.MemoryTotal)},
			{"temperature_celsius", "Temperature.", prometheus.GaugeValue, float64(h.Temperature)},
			{"power_watts", "Power.", prometheus.GaugeValue, h.Power},
			{"ecc_corrected_total", "Errors of memory that were corrected.", prometheus.CounterValue, float64(h.ECC.Corrected)},
			{"ecc_uncorrected_total", "Errors of memory that could not be corrected.", prometheus.CounterValue, float64(h.ECC.Uncorrected)},
		} {
			if m.value >= 0 { // else the driver does not report it
				out <- prometheus.MustNewConstMetric(prometheus.NewDesc("cann_device_"+m.name, m.help, []string{"device"}, nil), m.kind, m.value, number)
			}
		}
		for _, p := range h.Processes {
			out <- prometheus.MustNewConstMetric(prometheus.NewDesc("cann_device_process_memory_bytes", "Memory in use by a process.", []string{"device", "process"}, nil),
				prometheus.GaugeValue, float64(p.Memory), number, strconv.Itoa(p.ID))
		}
		faults := map[uint32]bool{}
		for _, f := range h.Faults {
			faults[f.Code] = true
		}
		for code := range faults {
			out <- prometheus.MustNewConstMetric(prometheus.NewDesc("cann_device_fault", "1 for each fault that the driver has found.", []string{"device", "code"}, nil),
				prometheus.GaugeValue, 1, number, fmt.Sprintf("%#x", code))
		}
	}
}
