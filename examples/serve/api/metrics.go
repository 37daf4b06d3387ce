package api

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/examples/serve/replicas"
)

// metrics are those of a server, by the names that vLLM gave them.
type metrics struct {
	registry              *prometheus.Registry
	first, between, whole prometheus.Histogram
	success               *prometheus.CounterVec
}

// seconds are the bounds of histograms, from a millisecond to four minutes.
var seconds = prometheus.ExponentialBuckets(0.001, 2, 19)

func newMetrics(e *replicas.Set, model string) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	r := prometheus.WrapRegistererWith(prometheus.Labels{"model_name": model}, m.registry)
	histogram := func(name, help string) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "vllm:" + name, Help: help, Buckets: seconds})
		r.MustRegister(h)
		return h
	}
	m.first = histogram("time_to_first_token_seconds", "Time from the request to its first token.")
	m.between = histogram("inter_token_latency_seconds", "Time between two tokens of a request.")
	m.whole = histogram("e2e_request_latency_seconds", "Time from the request to its end.")
	m.success = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "vllm:request_success_total", Help: "Requests that ended, by reason."}, []string{"finished_reason"})
	r.MustRegister(m.success)
	for _, c := range []struct {
		name, help string
		counts     bool
		value      func(s engine.Stats) float64
	}{
		{"num_requests_running", "Requests that generate.", false, func(s engine.Stats) float64 { return float64(s.Running) }},
		{"num_requests_waiting", "Requests that wait.", false, func(s engine.Stats) float64 { return float64(s.Waiting) }},
		{"kv_cache_usage_perc", "Part of the blocks that requests read; 1 is all.", false, func(s engine.Stats) float64 { return float64(s.Used) / float64(max(s.Blocks, 1)) }},
		{"prefix_cache_queries_total", "Tokens of prompts that were looked up.", true, func(s engine.Stats) float64 { return float64(s.PromptTokens) }},
		{"prefix_cache_hits_total", "Tokens of prompts that were found.", true, func(s engine.Stats) float64 { return float64(s.PrefixHits) }},
		{"prompt_tokens_total", "Tokens of prompts.", true, func(s engine.Stats) float64 { return float64(s.PromptTokens) }},
		{"generation_tokens_total", "Generated tokens.", true, func(s engine.Stats) float64 { return float64(s.GeneratedTokens) }},
		{"num_preemptions_total", "Requests that had to wait again for lack of blocks.", true, func(s engine.Stats) float64 { return float64(s.Preemptions) }},
		{"spec_decode_num_draft_tokens_total", "Draft tokens.", true, func(s engine.Stats) float64 { return float64(s.Drafted) }},
		{"spec_decode_num_accepted_tokens_total", "Draft tokens that were accepted.", true, func(s engine.Stats) float64 { return float64(s.Accepted) }},
		{"device_faults_total", "Steps that the device failed.", true, func(s engine.Stats) float64 { return float64(s.Faults) }},
	} {
		value := func() float64 { return c.value(e.Stats()) }
		if c.counts {
			r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "vllm:" + c.name, Help: c.help}, value))
		} else {
			r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "vllm:" + c.name, Help: c.help}, value))
		}
	}
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// token notes the time of a token; last is that of the one before.
func (m *metrics) token(began, last, now time.Time) {
	if last.IsZero() {
		m.first.Observe(now.Sub(began).Seconds())
	} else {
		m.between.Observe(now.Sub(last).Seconds())
	}
}

// ended notes the end of a choice.
func (m *metrics) ended(p piece, took time.Duration) {
	reason := string(p.reason)
	if p.err != nil {
		reason = "abort"
	}
	m.success.WithLabelValues(reason).Inc()
	m.whole.Observe(took.Seconds())
}
