package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/examples/serve/api"
	"github.com/goascend/cann/examples/serve/engine"
)

// traced starts a server whose spans stay in memory.
func traced(t *testing.T) (*server, *tracetest.InMemoryExporter) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(spans))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.Background())) })
	return start(t, engine.Options{Blocks: 8, BlockSize: 16}, func(c *api.Config) { c.Tracer = provider.Tracer("test") }), spans
}

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// ask sends a completion within the trace of the parent, and returns its spans by name.
func (s *server) ask(t *testing.T, spans *tracetest.InMemoryExporter, body string) map[string]tracetest.SpanStub {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/completions", strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("traceparent", parent)
	answer, err := s.HTTP.Do(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	byName := map[string]tracetest.SpanStub{}
	require.Eventually(t, func() bool { // the span ends after the answer
		for _, x := range spans.GetSpans() {
			byName[x.Name] = x
		}
		return byName["POST /v1/completions"].EndTime.Unix() > 0
	}, time.Minute, time.Millisecond)
	return byName
}

// TestSpans: a request has a span in the trace of its client, and one for each phase, in order.
func TestSpans(t *testing.T) {
	s, spans := traced(t)
	got := s.ask(t, spans, `{"model":"small","prompt":"the","max_tokens":5}`)
	require.Len(t, got, 4)
	whole, queue, prefill, decode := got["POST /v1/completions"], got["queue"], got["prefill"], got["decode"]
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", whole.SpanContext.TraceID().String())
	require.Equal(t, "b7ad6b7169203331", whole.Parent.SpanID().String())
	require.Contains(t, whole.Attributes, attribute.Int("http.response.status_code", 200))
	require.Contains(t, decode.Attributes, attribute.Int("tokens", 5))
	for _, x := range []tracetest.SpanStub{queue, prefill, decode} {
		require.Equal(t, whole.SpanContext.SpanID(), x.Parent.SpanID())
		require.False(t, x.EndTime.Before(x.StartTime), x.Name)
		require.Equal(t, codes.Unset, x.Status.Code)
	}
	require.Equal(t, queue.EndTime, prefill.StartTime)
	require.Equal(t, prefill.EndTime, decode.StartTime)
	require.False(t, queue.StartTime.Before(whole.StartTime))

	spans.Reset()
	got = s.ask(t, spans, `{"model":"none","prompt":"the"}`)
	require.Len(t, got, 1, "it had no phases")
	require.Contains(t, got["POST /v1/completions"].Attributes, attribute.Int("http.response.status_code", 404))
	spans.Reset()
	_, _ = s.get(t, "/healthz")
	require.Empty(t, spans.GetSpans())
}

// TestSpansOfFailure: the phase in which a request failed has the error.
func TestSpansOfFailure(t *testing.T) {
	acltest.Faults(t, "run/aclnnAddRmsNorm:30+=507015", func(t *testing.T) {
		s, spans := traced(t)
		got := s.ask(t, spans, `{"model":"small","prompt":"the","max_tokens":50}`)
		require.Equal(t, codes.Error, got["POST /v1/completions"].Status.Code)
		failed := 0
		for _, name := range []string{"queue", "prefill", "decode"} {
			if got[name].Status.Code == codes.Error {
				failed++
			}
		}
		require.Equal(t, 1, failed)
	})
}
