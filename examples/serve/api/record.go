package api

import (
	"context"
	"time"
)

// record holds the fields of the log line of a request to a model.
type record struct {
	model    string
	usage    usage
	admitted time.Time // when the last of its choices left the queue; zero before
	first    time.Time // when its first token came
}

type recordKey struct{}

// withRecord returns a context with an empty record.
func withRecord(ctx context.Context) (context.Context, *record) {
	about := new(record)
	return context.WithValue(ctx, recordKey{}, about), about
}

// recordOf returns the record of a request.
func recordOf(ctx context.Context) *record {
	about, ok := ctx.Value(recordKey{}).(*record)
	if !ok {
		return new(record)
	}
	return about
}

// fields are the parts of the log's line, as far as the request has come.
func (r *record) fields(began time.Time) (all []any) {
	if r.model != "" {
		all = append(all, "model", brief(r.model))
	}
	if r.usage.Prompt > 0 {
		all = append(all, "prompt_tokens", r.usage.Prompt, "cached_tokens", r.usage.Details.Cached, "completion_tokens", r.usage.Completion)
	}
	if !r.admitted.IsZero() {
		all = append(all, "queued", r.admitted.Sub(began))
	}
	if !r.first.IsZero() {
		all = append(all, "first_token", r.first.Sub(began))
	}
	return all
}
