package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// metrics keeps the numbers of the last step in a file in Prometheus' text format, which the textfile collector
// of node_exporter reads: https://prometheus.io/docs/instrumenting/exposition_formats.
type metrics struct {
	path   string
	last   entry
	tokens int // of this run
}

// newMetrics refuses a name that the collector would not read.
func newMetrics(path string) (*metrics, error) {
	if filepath.Ext(path) != ".prom" {
		return nil, fmt.Errorf("-metrics %s: the collector of node_exporter reads files whose names end in .prom", path)
	}
	m := &metrics{path: path}
	return m, m.save()
}

// save replaces the file: a reader sees the numbers of one step.
func (m *metrics) save() error {
	next := m.path + ".next"
	if err := os.WriteFile(next, m.text(), 0o666); err != nil {
		return err
	}
	return os.Rename(next, m.path)
}

// text writes the numbers of the last step.
func (m *metrics) text() []byte {
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

// write takes the numbers of a step.
func (m *metrics) write(e entry) error {
	if m == nil {
		return nil
	}
	if e.EvalLoss == 0 { // it is not computed at every step
		e.EvalLoss = m.last.EvalLoss
	}
	if e.Ranks == nil {
		e.Ranks = m.last.Ranks
	}
	m.last, m.tokens = e, m.tokens+e.Tokens
	return m.save()
}
