package api_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/qwen"
	"github.com/goascend/cann/examples/serve/api"
	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/examples/serve/language"
	"github.com/goascend/cann/examples/weights"
	"github.com/goascend/cann/ops"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(acltest.Suite{M: m}) }

// server is a server of a small model of bytes.
type server struct {
	*httptest.Server
	engine *engine.Engine
	client openai.Client
}

// start starts a server, and stops it with the test.
func start(t *testing.T, o engine.Options, change func(c *api.Config)) *server {
	source := weights.Source{DType: aclnn.Float32, Type: "qwen3", Steps: 2, Seed: 1, Text: []byte(strings.Repeat("the quick brown fox ", 20))}
	load := func(ctx context.Context, st *acl.Stream, reg *ops.Registry) (*qwen.Model, error) {
		return source.Model(ctx, st, reg, io.Discard)
	}
	e, err := engine.Open(t.Context(), acltest.Open(t), 0, load, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, e.Close())
		require.Zero(t, e.Stats().Used)
	})
	l, err := language.Load("", e.Vocab())
	require.NoError(t, err)
	c := api.Config{Engine: e, Language: l, Model: "small", MaxBody: 1 << 16}
	if change != nil {
		change(&c)
	}
	s, err := api.New(c)
	require.NoError(t, err)
	web := httptest.NewServer(s)
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		web.Close()
	})
	return &server{web, e, openai.NewClient(
		option.WithBaseURL(web.URL+"/v1"), option.WithAPIKey("a key"), option.WithMaxRetries(0), option.WithHTTPClient(&http.Client{Transport: transport}),
	)}
}

// post sends a body, and returns the answer.
func (s *server) post(t *testing.T, path, body string) (status int, header http.Header, text string) {
	r, err := s.Client().Post(s.URL+path, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Body.Close()) }()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, r.Header, string(b)
}

// get returns a page.
func (s *server) get(t *testing.T, path string) (status int, text string) {
	r, err := s.Client().Get(s.URL + path)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Body.Close()) }()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, string(b)
}
