package main

import (
	"context"
	"errors"
	"os"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/goascend/cann/acl"
)

// scope is the name under which the program makes spans.
const scope = "github.com/goascend/cann/examples/serve"

// tracing sends spans to a collector.
type tracing struct {
	provider *sdk.TracerProvider
	stop     func() // of the observer of calls
}

// newTracing returns nil if neither -trace nor the variables of OpenTelemetry name a collector. The other
// variables, such as OTEL_EXPORTER_OTLP_HEADERS and OTEL_SERVICE_NAME, count as well.
func (o *options) newTracing(ctx context.Context, rt *acl.Runtime) (*tracing, error) {
	if o.trace == "" && os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		if o.traceCalls {
			return nil, errors.New("-trace-calls needs -trace or OTEL_EXPORTER_OTLP_ENDPOINT")
		}
		return nil, nil
	}
	var to []otlptracehttp.Option
	if o.trace != "" {
		to = append(to, otlptracehttp.WithEndpointURL(o.trace))
	}
	exporter, err := otlptracehttp.New(ctx, to...)
	if err != nil {
		return nil, err
	}
	from, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "serve")), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, errors.Join(err, exporter.Shutdown(ctx))
	}
	t := &tracing{provider: sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(from)), stop: func() {}}
	if o.traceCalls {
		if t.stop, err = traceCalls(rt, t.tracer()); err != nil {
			return nil, errors.Join(err, t.provider.Shutdown(ctx))
		}
	}
	return t, nil
}

func (t *tracing) tracer() trace.Tracer { return t.provider.Tracer(scope) }

// close sends what is left, until ctx ends.
func (t *tracing) close(ctx context.Context) error {
	t.stop()
	return t.provider.Shutdown(ctx)
}

// traceCalls makes a span of each launch, copy and wait, until stop is called. A step serves many requests, so
// that these spans belong to none of them.
func traceCalls(rt *acl.Runtime, tracer trace.Tracer) (stop func(), err error) {
	return rt.Observe(func(c acl.Call) {
		_, span := tracer.Start(context.Background(), c.Name, trace.WithTimestamp(c.Began), trace.WithAttributes(
			attribute.Int("device", c.Device), attribute.Int("stream", c.Stream), attribute.Int("bytes", c.Bytes)))
		if c.Err != nil {
			span.SetStatus(codes.Error, c.Err.Error())
		}
		span.End(trace.WithTimestamp(c.Began.Add(c.Took)))
	})
}
