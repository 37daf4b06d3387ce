package apitest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/examples/model"
	"github.com/goascend/cann/examples/serve/api"
	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/examples/serve/language"
	"github.com/goascend/cann/examples/serve/replicas"
	"github.com/goascend/cann/examples/weights"
	"github.com/goascend/cann/ops"
)

// Model is the name of the model in requests.
const Model = "small"

// Server is a server that runs in the test.
type Server struct {
	URL    string
	HTTP   *http.Client // for many connections at a time
	Engine *replicas.Set
	// Handler answers the requests to URL.
	Handler *api.Server
}

// Start starts a server, and stops it with the test, which fails if blocks are still in use then. change,
// if not nil, changes what the server is made with.
func Start(t *testing.T, o engine.Options, change func(c *api.Config)) *Server {
	t.Helper()
	return StartModel(t, Load, o, change)
}

// StartModel is Start with another model.
func StartModel(t *testing.T, load engine.Load, o engine.Options, change func(c *api.Config)) *Server {
	t.Helper()
	e, err := replicas.Open(t.Context(), acltest.Open(t), []int{0}, load, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, e.Close())
		require.Zero(t, e.Stats().Used)
	})
	l, err := language.Load("", e.Vocab())
	require.NoError(t, err)
	c := api.Config{Engine: e, Language: l, Model: Model, MaxBody: 1 << 16}
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
	return &Server{web.URL, &http.Client{Transport: transport}, e, s}
}

// Load trains the model.
func Load(ctx context.Context, st *acl.Stream, reg *ops.Registry, par model.Parallel) (*model.Model, error) {
	source := weights.Source{Parallel: par, DType: aclnn.Float32, Type: "qwen3", Steps: 2, Seed: 1, Text: []byte(strings.Repeat("the quick brown fox ", 20))}
	return source.Model(ctx, st, reg, io.Discard)
}
