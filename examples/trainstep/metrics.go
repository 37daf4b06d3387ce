package main

import (
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics serves the numbers of the last step to Prometheus, at /metrics.
type metrics struct {
	server *http.Server
	listen net.Listener
	serve  sync.WaitGroup
	err    error // of serve, after it

	spent *prometheus.GaugeVec // seconds of the last step, by rank and what they were spent on

	mu   sync.Mutex
	last entry
	seen float64 // tokens of this run
}

func newMetrics(address string) (*metrics, error) {
	listen, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	m := &metrics{listen: listen}
	registry := prometheus.NewRegistry()
	gauge := func(name, help string, value func(e entry) float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "trainstep_" + name, Help: help}, func() float64 { return value(m.get()) }))
	}
	gauge("step", "Steps done.", func(e entry) float64 { return float64(e.Step) })
	gauge("loss", "Loss of the last step, in nats a token.", func(e entry) float64 { return e.Loss })
	gauge("eval_loss", "Loss of the held-out samples when it was last told; 0 before.", func(e entry) float64 { return e.EvalLoss })
	gauge("gradient_norm", "Norm of the gradients before clipping.", func(e entry) float64 { return e.Norm })
	gauge("learning_rate", "Learning rate of the last step.", func(e entry) float64 { return e.LR })
	gauge("step_seconds", "Time of the last step.", func(e entry) float64 { return e.Seconds })
	gauge("tokens_per_second", "Tokens a second on all devices.", func(e entry) float64 { return e.TokensPerSecond })
	gauge("tokens_per_second_per_device", "Tokens a second on each device.", func(e entry) float64 { return e.PerDevice })
	gauge("mfu", "Part of the chip's peak that is used; 0 where the peak is not known.", func(e entry) float64 { return e.MFU })
	gauge("memory_peak_bytes", "Most memory in use on the device of rank 0.", func(e entry) float64 { return float64(e.MemoryPeak) })
	gauge("bad_lines", "Lines of the samples that could not be used.", func(e entry) float64 { return float64(e.BadLines) })
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "trainstep_tokens_total", Help: "Tokens of this run."}, func() float64 {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.seen
	}))
	m.spent = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "trainstep_rank_seconds", Help: "What the last step was spent on."}, []string{"rank", "on"})
	registry.MustRegister(m.spent)
	handler := http.NewServeMux()
	handler.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	m.server = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	m.serve.Go(func() { m.err = m.server.Serve(listen) })
	return m, nil
}

func (m *metrics) get() entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// set takes the numbers of a step.
func (m *metrics) set(e entry) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.EvalLoss == 0 { // it is not told at every step
		e.EvalLoss = m.last.EvalLoss
	}
	m.last, m.seen = e, m.seen+float64(e.Tokens)
	for rank, t := range e.Ranks {
		name := strconv.Itoa(rank)
		m.spent.WithLabelValues(name, "kernels").Set(t.Kernels)
		m.spent.WithLabelValues(name, "communication").Set(t.Communication)
		m.spent.WithLabelValues(name, "waiting").Set(t.Waiting)
	}
}

// Close ends the server.
func (m *metrics) Close() error {
	if m == nil {
		return nil
	}
	err := m.server.Close()
	m.serve.Wait()
	if !errors.Is(m.err, http.ErrServerClosed) {
		err = errors.Join(err, m.err)
	}
	return err
}
