package api

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/goascend/cann/examples/serve/replicas"
)

// beginSpan starts the span of a request, in the trace that its headers name or in a new one.
func (s *Server) beginSpan(r *http.Request, id string) (*http.Request, trace.Span) {
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	method, path := brief(r.Method), brief(r.URL.Path)
	ctx, span := s.Tracer.Start(ctx, method+" "+path, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", method), attribute.String("url.path", path), attribute.String("request.id", id)))
	return r.WithContext(ctx), span
}

// endSpan ends the span of a request.
func endSpan(span trace.Span, status int) {
	span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, http.StatusText(status))
	}
	span.End()
}

// times are when a choice passed from one phase to the next. Those that it has not reached are zero.
type times struct{ queued, admitted, first, ended time.Time }

// phases makes a span for each phase that a choice has reached: in the queue, while its prompt is read, and
// while it generates. The last one has the error that has ended the choice.
func (s *Server) phases(ctx context.Context, choice int, t times, g *replicas.Generation, tokens int, err error) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return
	}
	for _, p := range []struct {
		name       string
		from, to   time.Time
		attributes []attribute.KeyValue
	}{
		{"queue", t.queued, t.admitted, nil},
		{"prefill", t.admitted, t.first, []attribute.KeyValue{attribute.Int("cached_tokens", g.Cached())}},
		{"decode", t.first, t.ended, []attribute.KeyValue{attribute.Int("tokens", tokens)}},
	} {
		last := p.to.IsZero() || p.to.Equal(t.ended)
		if last {
			p.to = t.ended
		}
		_, span := s.Tracer.Start(ctx, p.name, trace.WithTimestamp(p.from), trace.WithAttributes(attribute.Int("choice", choice)), trace.WithAttributes(p.attributes...))
		if last && err != nil {
			span.RecordError(err, trace.WithTimestamp(p.to))
			span.SetStatus(codes.Error, err.Error())
		}
		span.End(trace.WithTimestamp(p.to))
		if last {
			return
		}
	}
}
