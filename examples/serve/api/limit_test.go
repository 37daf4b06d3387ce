package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
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
	s := start(t, engine.Options{Blocks: 4, BlockSize: 16}, func(c *api.Config) { c.Keys, c.Profiles = []string{"another", "a key"}, true })
	_, err := s.client.Completions.New(t.Context(), greedy("a", 1))
	require.NoError(t, err)
	for _, key := range []string{"", "a ke", "a key2", "A KEY"} {
		_, err := s.client.Completions.New(t.Context(), greedy("a", 1), option.WithAPIKey(key))
		require.Equal(t, 401, statusOf(t, err))
	}
	for _, path := range []string{"/v1/models", "/healthz", "/readyz", "/metrics", "/debug/pprof/"} {
		status, text := s.get(t, path)
		require.Equal(t, 401, status, path)
		require.Contains(t, text, "invalid_api_key")
	}
}

// TestMonitor: what monitors ask for needs a key, or is on a listener of its own, which needs none.
func TestMonitor(t *testing.T) {
	for _, apart := range []bool{false, true} {
		s := start(t, engine.Options{Blocks: 4, BlockSize: 16}, func(c *api.Config) { c.Keys, c.Apart, c.Profiles = []string{"a key"}, apart, true })
		for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ok\n", "/metrics": "vllm:num_requests_running", "/debug/pprof/": "goroutine"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
			require.NoError(t, err)
			r.Header.Set("Authorization", "Bearer a key")
			got, err := s.HTTP.Do(r)
			require.NoError(t, err)
			text, err := io.ReadAll(got.Body)
			require.NoError(t, err)
			require.NoError(t, got.Body.Close())
			if apart {
				require.Equal(t, 404, got.StatusCode, path)
				at := httptest.NewRecorder()
				s.Handler.Monitor().ServeHTTP(at, httptest.NewRequest(http.MethodGet, path, nil))
				require.Contains(t, at.Body.String(), want)
			} else {
				require.Contains(t, string(text), want)
			}
		}
	}
}

// TestLargeBodies: a client that sends more than a server takes sees the answer.
func TestLargeBodies(t *testing.T) {
	s := start(t, engine.Options{Blocks: 4, BlockSize: 16}, nil)
	body := strings.Repeat(" ", 64<<20)
	for _, length := range []int64{int64(len(body)), -1} { // of a body in chunks nothing is known
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/completions", io.NopCloser(strings.NewReader(body)))
		require.NoError(t, err)
		r.ContentLength = length
		got, err := s.HTTP.Do(r)
		require.NoError(t, err)
		text, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		require.NoError(t, got.Body.Close())
		require.Equal(t, http.StatusRequestEntityTooLarge, got.StatusCode)
		require.Contains(t, string(text), "more than 65536 bytes")
	}
}

// TestPatience: a client that does not read keeps no request for ever, whether it waits for an answer or a stream.
func TestPatience(t *testing.T) {
	s := start(t, engine.Options{Blocks: 64, BlockSize: 16, Sequences: 32}, func(c *api.Config) { c.Patience, c.PerClient, c.MaxChoices = 50*time.Millisecond, 1, 32 })
	for _, stream := range []string{"false", "true"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
		require.NoError(t, err)
		require.NoError(t, c.(*net.TCPConn).SetReadBuffer(1024))
		body := `{"model":"small","prompt":"a","n":32,"max_tokens":30,"logprobs":20,"stream":` + stream + `}`
		for range 8 { // answers of a megabyte, more than the system keeps for a client
			_, err = fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			require.NoError(t, err)
		}
		// The only place of the client is taken until the server gives up.
		require.Eventually(t, func() bool {
			_, err := s.client.Completions.New(t.Context(), greedy("a", 1))
			return err == nil && s.Engine.Stats().Running+s.Engine.Stats().Waiting == 0
		}, time.Minute, 10*time.Millisecond)
		require.NoError(t, c.Close())
	}
}

// TestLog: a request to a model has a line with who, what and how long; monitors have none.
func TestLog(t *testing.T) {
	var log lines
	s := start(t, engine.Options{Blocks: 16, BlockSize: 16}, func(c *api.Config) {
		c.Keys, c.Logger = []string{"another", "a key"}, slog.New(slog.NewTextHandler(&log, nil))
	})
	_, err := s.client.Completions.New(t.Context(), greedy("the", 4))
	require.NoError(t, err)
	for _, path := range []string{"/healthz", "/metrics", "/"} {
		_, _ = s.get(t, path)
	}
	require.Eventually(t, func() bool { return len(log.all()) == 1 }, time.Minute, time.Millisecond)
	line := log.all()[0]
	for _, part := range []string{`client="key 2"`, "model=small", "status=200", "prompt_tokens=3", "completion_tokens=4", "cached_tokens=0", "took=", "queued=", "first_token="} {
		require.Contains(t, line, part)
	}
	require.NotContains(t, line, "a key")
	long := strings.Repeat("x", 40_000)
	_, err = s.client.Completions.New(t.Context(), openai.CompletionNewParams{Model: openai.CompletionNewParamsModel(long), Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("a")}})
	require.Equal(t, 404, statusOf(t, err))
	_, _ = s.get(t, "/v1/"+long)
	r, err := http.NewRequestWithContext(t.Context(), long, s.URL+"/v1/models", nil)
	require.NoError(t, err)
	answer, err := s.HTTP.Do(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	_, _ = s.get(t, "/v1/x"+strings.Repeat("é", 20_000)) // the end of what is shown lies within a character
	require.Eventually(t, func() bool { return len(log.all()) == 5 }, time.Minute, time.Millisecond)
	for _, line := range log.all()[1:] {
		require.Less(t, len(line), 1000)
	}
	require.Contains(t, log.all()[2], "path=/v1/"+long[:100])
	require.Contains(t, log.all()[4], "é…")
	require.NotContains(t, log.all()[4], `\x`)
}

// lines collects lines.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(strings.Lines(l.text.String()))
}

// TestParameters: an error names the parameter as the interface does, and numbers may have a fraction that is zero.
func TestParameters(t *testing.T) {
	s := start(t, engine.Options{Blocks: 16, BlockSize: 16}, nil)
	for param, value := range map[string]string{
		"seed": `"x"`, "temperature": "-1", "top_p": "1.5", "top_k": "2.5", "min_p": "-1", "max_tokens": "-1", "presence_penalty": "1e9", "frequency_penalty": "-1e9", "repetition_penalty": "-1",
		"n": "4.5", "stop": "7", "stream": "1", "logit_bias": "[]", "logprobs": "21",
	} {
		status, _, text := s.post(t, "/v1/completions", `{"model":"small","prompt":"a","`+param+`":`+value+`}`)
		require.Equal(t, 400, status, text)
		require.Contains(t, text, `"param":"`+param+`"`)
		require.Contains(t, text, `"message":"`+param+`: `)
	}
	for _, prompt := range []string{`""`, `[]`, `["a",""]`, `[[]]`} {
		status, _, text := s.post(t, "/v1/completions", `{"model":"small","prompt":`+prompt+`}`)
		require.Equal(t, 400, status)
		require.Contains(t, text, `"param":"prompt"`)
	}
	status, _, text := s.post(t, "/v1/completions", `{"model":"small","prompt":"a","max_tokens":4.0,"n":2e0,"seed":7.0,"top_k":5.0,"logprobs":1.0}`)
	require.Equal(t, 200, status, text)
	require.Contains(t, text, `"completion_tokens":8`)
}

// TestLongPrompts: a prompt that is too long is refused before it is read whole.
func TestLongPrompts(t *testing.T) {
	s := start(t, engine.Options{Blocks: 8, BlockSize: 16}, nil)
	for _, path := range []string{"/v1/completions", "/v1/chat/completions", "/v1/embeddings"} {
		long, most := strings.Repeat("a", 128), 127
		body := map[string]any{"model": "small", "prompt": long}
		switch path {
		case "/v1/chat/completions":
			body = map[string]any{"model": "small", "messages": []any{map[string]string{"role": "user", "content": long}}}
		case "/v1/embeddings":
			long, most = long+"a", 128 // nothing is generated behind it
			body = map[string]any{"model": "small", "input": long}
		}
		text, err := json.Marshal(body)
		require.NoError(t, err)
		status, _, answer := s.post(t, path, string(text))
		require.Equal(t, 400, status)
		require.Contains(t, answer, `"code":"context_length_exceeded"`)
		require.Contains(t, answer, fmt.Sprintf("more than %d tokens", most))
	}
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
