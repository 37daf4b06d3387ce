package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/examples/serve/api"
	"github.com/goascend/cann/examples/serve/engine"
)

// hostile are bodies of requests that ask for much work, or are wrong.
func hostile(t *testing.T) (all []string) {
	var members strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&members, `,"m%d":{}`, i)
	}
	choices := strings.Repeat(`,{"type":"array","items":{"$ref":"#"},"minItems":1}`, 200)
	for _, schema := range []string{
		`{"type":"array","minItems":20,"items":{"type":"object","additionalProperties":false,"properties":{` + members.String()[1:] + `}}}`,
		`{"anyOf":[{"type":"null"}` + choices + `]}`,
		`{"anyOf":[` + strings.Repeat(choices[1:]+",", 3) + `{}]}`,
		`{"type":"array","minItems":9223372036854775807}`,
		`{"$ref":"#"}`,
	} {
		body, err := json.Marshal(map[string]any{"model": "small", "max_tokens": 40, "n": 4, "messages": []any{map[string]string{"role": "user", "content": "a"}},
			"response_format": map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "x", "schema": json.RawMessage(schema)}}})
		require.NoError(t, err)
		all = append(all, string(body))
	}
	return append(all, strings.Repeat("[", 60_000), `{"model":"small","messages":[`+strings.Repeat("{},", 9000)+`{}]}`, `{"model":"small","messages":[{"role":"user","content":"`+strings.Repeat("a", 60_000)+`"}]}`)
}

// TestHostileClients: other clients get their answers while some ask for much work, leave, send too much or do not read, and what
// these have asked for is gone afterwards: memory, goroutines and blocks of the cache.
func TestHostileClients(t *testing.T) {
	s := start(t, engine.Options{Blocks: 256, BlockSize: 16, Sequences: 32}, func(c *api.Config) { c.Patience, c.PerClient = 100*time.Millisecond, 64 })
	want, err := s.client.Completions.New(t.Context(), greedy("the quick", 20))
	require.NoError(t, err)
	bodies := hostile(t)
	round := func() (heap uint64) {
		var all sync.WaitGroup
		for i, body := range bodies {
			all.Go(func() {
				if r, err := s.HTTP.Post(s.URL+"/v1/chat/completions", "application/json", strings.NewReader(body)); err == nil {
					_, _ = io.Copy(io.Discard, r.Body)
					_ = r.Body.Close()
				}
			})
			all.Go(func() { // one that leaves
				ctx, leave := context.WithTimeout(t.Context(), time.Duration(i)*10*time.Millisecond)
				defer leave()
				_, _ = s.client.Completions.New(ctx, greedy("a", 1000))
			})
			all.Go(func() { // one that does not read
				c, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
				if err != nil {
					return
				}
				defer func() { _ = c.Close() }()
				_, _ = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				time.Sleep(50 * time.Millisecond)
			})
		}
		for range 10 {
			got, err := s.client.Completions.New(t.Context(), greedy("the quick", 20))
			require.NoError(t, err)
			require.Equal(t, want.Choices[0].Text, got.Choices[0].Text)
		}
		all.Wait()
		require.Eventually(t, func() bool { return s.Engine.Stats().Running+s.Engine.Stats().Waiting+s.Engine.Stats().Used == 0 }, time.Minute, time.Millisecond)
		s.HTTP.CloseIdleConnections()
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	first := round()
	var last uint64
	for range 3 {
		last = round()
	}
	t.Logf("%d KiB after the first round, %d KiB at the end", first>>10, last>>10)
	require.Less(t, last, first+4<<20)
}
