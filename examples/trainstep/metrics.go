package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// metrics serves the numbers of the last step to Prometheus, at /metrics, in its text format:
// https://prometheus.io/docs/instrumenting/exposition_formats.
type metrics struct {
	server *http.Server
	listen net.Listener
	serve  sync.WaitGroup
	err    error // of serve, after it

	mu     sync.Mutex
	last   entry
	tokens int // of this run
}

func newMetrics(address string) (*metrics, error) {
	listen, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	m := &metrics{listen: listen}
	handler := http.NewServeMux()
	handler.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(m.text()) // a client that is gone needs no answer
	})
	m.server = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	m.serve.Go(func() { m.err = m.server.Serve(listen) })
	return m, nil
}

// text writes the numbers of the last step.
func (m *metrics) text() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b bytes.Buffer
	head := func(name, kind, help string) {
		fmt.Fprintf(&b, "# HELP trainstep_%s %s\n# TYPE trainstep_%s %s\n", name, help, name, kind)
	}
	e := m.last
	for _, g := range []struct {
		name, help string
		value      float64
	}{
		{"step", "Steps done.", float64(e.Step)},
		{"loss", "Loss of the last step, in nats a token.", e.Loss},
		{"eval_loss", "Loss of the held-out samples when it was last computed; 0 before.", e.EvalLoss},
		{"gradient_norm", "Norm of the gradients before clipping.", e.Norm},
		{"learning_rate", "Learning rate of the last step.", e.LR},
		{"step_seconds", "Time of the last step.", e.Seconds},
		{"tokens_per_second", "Tokens a second on all devices.", e.TokensPerSecond},
		{"tokens_per_second_per_device", "Tokens a second on each device.", e.PerDevice},
		{"mfu", "Part of the chip's peak that is used; 0 where the peak is not known.", e.MFU},
		{"memory_peak_bytes", "Most memory in use on the device of rank 0.", float64(e.MemoryPeak)},
		{"bad_lines", "Lines of the samples that could not be used.", float64(e.BadLines)},
	} {
		head(g.name, "gauge", g.help)
		fmt.Fprintf(&b, "trainstep_%s %v\n", g.name, g.value)
	}
	head("tokens_total", "counter", "Tokens of this run.")
	fmt.Fprintf(&b, "trainstep_tokens_total %d\n", m.tokens)
	if len(e.Ranks) > 0 {
		head("rank_seconds", "gauge", "What the last step was spent on.")
	}
	for rank, t := range e.Ranks {
		fmt.Fprintf(&b, "trainstep_rank_seconds{on=\"kernels\",rank=\"%d\"} %v\n", rank, t.Kernels)
		fmt.Fprintf(&b, "trainstep_rank_seconds{on=\"communication\",rank=\"%d\"} %v\n", rank, t.Communication)
		fmt.Fprintf(&b, "trainstep_rank_seconds{on=\"waiting\",rank=\"%d\"} %v\n", rank, t.Waiting)
	}
	return b.Bytes()
}

// set takes the numbers of a step.
func (m *metrics) set(e entry) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.EvalLoss == 0 { // it is not computed at every step
		e.EvalLoss = m.last.EvalLoss
	}
	if e.Ranks == nil {
		e.Ranks = m.last.Ranks
	}
	m.last, m.tokens = e, m.tokens+e.Tokens
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
