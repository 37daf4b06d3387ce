package api_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/serve/api"
	"github.com/goascend/cann/examples/serve/engine"
)

// serverError returns the server's error from that of OpenAI's client.
func serverError(t *testing.T, err error) (e *openai.Error) {
	require.ErrorAs(t, err, &e)
	return e
}

func statusOf(t *testing.T, err error) int { return serverError(t, err).StatusCode }

func TestKeys(t *testing.T) {
	s := start(t, engine.Options{Blocks: 4, BlockSize: 16}, func(c *api.Config) { c.Keys = []string{"another", "a key"} })
	_, err := s.client.Completions.New(t.Context(), greedy("a", 1))
	require.NoError(t, err)
	for _, key := range []string{"", "a ke", "a key2", "A KEY"} {
		_, err := s.client.Completions.New(t.Context(), greedy("a", 1), option.WithAPIKey(key))
		require.Equal(t, 401, statusOf(t, err))
	}
	status, text := s.get(t, "/readyz")
	require.Equal(t, 200, status)
	require.Equal(t, "ok\n", text)
	status, _ = s.get(t, "/v1/models")
	require.Equal(t, 401, status)
}

// long asks for a text of many tokens, as a stream, and waits for its beginning.
func (s *server) long(t *testing.T, ctx context.Context) func() error {
	stream := s.client.Completions.NewStreaming(ctx, greedy("the", 400))
	require.True(t, stream.Next(), "%v", stream.Err())
	return func() error {
		for stream.Next() {
		}
		return stream.Err()
	}
}

// TestBusy: when the queue is full, requests get status 429 and the time to wait.
func TestBusy(t *testing.T) {
	s := start(t, engine.Options{Blocks: 32, BlockSize: 16, Sequences: 1, Queue: 1}, nil)
	first := s.long(t, t.Context())
	second := make(chan error)
	go func() {
		_, err := s.client.Completions.New(t.Context(), greedy("a", 1))
		second <- err
	}()
	require.Eventually(t, func() bool { return s.Engine.Stats().Waiting == 1 }, time.Minute, time.Millisecond)
	status, header, text := s.post(t, "/v1/completions", `{"model":"small","prompt":"a"}`)
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Equal(t, "1", header.Get("Retry-After"))
	require.Contains(t, text, `"code":"rate_limit_exceeded"`)
	require.Contains(t, text, "too many requests wait")
	require.NoError(t, first())
	require.NoError(t, <-second)
}

// TestClients: a client has a limit of open requests.
func TestClients(t *testing.T) {
	s := start(t, engine.Options{Blocks: 32, BlockSize: 16}, func(c *api.Config) { c.PerClient = 1 })
	end := s.long(t, t.Context())
	_, err := s.client.Completions.New(t.Context(), greedy("a", 1))
	require.Equal(t, http.StatusTooManyRequests, statusOf(t, err))
	require.Contains(t, serverError(t, err).Message, "this client")
	require.NoError(t, end())
	require.Eventually(t, func() bool {
		_, err := s.client.Completions.New(t.Context(), greedy("a", 1))
		return err == nil
	}, time.Minute, time.Millisecond)
}

// TestLeave: the blocks of a client that leaves are free soon, whether it reads a stream or waits.
func TestLeave(t *testing.T) {
	s := start(t, engine.Options{Blocks: 64, BlockSize: 16}, nil)
	ctx, leave := context.WithCancel(t.Context())
	end := s.long(t, ctx)
	waited := make(chan error)
	go func() {
		_, err := s.client.Completions.New(ctx, greedy("a", 900))
		waited <- err
	}()
	require.Eventually(t, func() bool { return s.Engine.Stats().Running == 2 }, time.Minute, time.Millisecond)
	leave()
	require.ErrorIs(t, end(), context.Canceled)
	require.ErrorIs(t, <-waited, context.Canceled)
	require.Eventually(t, func() bool { return s.Engine.Stats().Used == 0 }, time.Minute, time.Millisecond)
	require.Less(t, s.Engine.Stats().GeneratedTokens, 1300)
}

// TestDeadline: a request that takes too long gets status 504; a stream that has begun, an error event.
func TestDeadline(t *testing.T) {
	s := start(t, engine.Options{Blocks: 512, BlockSize: 16}, func(c *api.Config) { c.Deadline = 300 * time.Millisecond })
	_, err := s.client.Completions.New(t.Context(), greedy("a", 8000))
	require.Equal(t, http.StatusGatewayTimeout, statusOf(t, err))
	stream := s.client.Completions.NewStreaming(t.Context(), greedy("the", 8000))
	for stream.Next() {
	}
	require.ErrorContains(t, stream.Err(), "longer than the server allows")
}

// TestDrain: a server that shuts down is not ready and refuses requests, while others end.
func TestDrain(t *testing.T) {
	s := start(t, engine.Options{Blocks: 32, BlockSize: 16}, nil)
	end := s.long(t, t.Context())
	drained := make(chan error)
	go func() { drained <- s.Engine.Drain(t.Context()) }()
	require.Eventually(t, func() bool { status, _ := s.get(t, "/readyz"); return status == 503 }, time.Minute, time.Millisecond)
	_, err := s.client.Completions.New(t.Context(), greedy("a", 1))
	require.Equal(t, http.StatusServiceUnavailable, statusOf(t, err))
	status, _ := s.get(t, "/healthz")
	require.Equal(t, 200, status)
	require.NoError(t, end())
	require.NoError(t, <-drained)
}

func TestMetrics(t *testing.T) {
	s := start(t, engine.Options{Blocks: 32, BlockSize: 16}, nil)
	_, err := s.client.Completions.New(t.Context(), greedy("the quick", 12))
	require.NoError(t, err)
	_, text := s.get(t, "/metrics")
	for _, line := range []string{
		`vllm:generation_tokens_total{model_name="small"} 12`, `vllm:prompt_tokens_total{model_name="small"} 9`, `vllm:num_requests_running{model_name="small"} 0`,
		`vllm:request_success_total{finished_reason="length",model_name="small"} 1`, `vllm:time_to_first_token_seconds_count{model_name="small"} 1`,
		`vllm:inter_token_latency_seconds_count{model_name="small"} 11`, `vllm:kv_cache_usage_perc{model_name="small"} 0`,
	} {
		require.Contains(t, text, line+"\n")
	}
}
