package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/examples/serve/api"
	"github.com/goascend/cann/examples/serve/api/apitest"
	"github.com/goascend/cann/examples/serve/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(acltest.Suite{M: m}) }

// server is a server of a small model with OpenAI's own client.
type server struct {
	*apitest.Server
	client openai.Client
}

// start starts a server, and stops it with the test.
func start(t *testing.T, o engine.Options, change func(c *api.Config)) *server {
	s := apitest.Start(t, o, change)
	return &server{s, openai.NewClient(
		option.WithBaseURL(s.URL+"/v1"), option.WithAPIKey("a key"), option.WithMaxRetries(0), option.WithHTTPClient(s.HTTP),
	)}
}

// post sends a body, and returns the answer.
func (s *server) post(t *testing.T, path, body string) (status int, header http.Header, text string) {
	r, err := s.HTTP.Post(s.URL+path, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Body.Close()) }()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, r.Header, string(b)
}

// get returns a page.
func (s *server) get(t *testing.T, path string) (status int, text string) {
	r, err := s.HTTP.Get(s.URL + path)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Body.Close()) }()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, string(b)
}
