package api_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/examples/serve/api/apitest"
	"github.com/goascend/cann/examples/serve/engine"
	"github.com/goascend/cann/hccl/world"
)

// TestLostRank: when another rank ends while no request runs, the server is not ready any more, and requests get
// status 503.
func TestLostRank(t *testing.T) {
	groups, err := world.LocalGroups(t.Context(), 2, world.GroupConfig{})
	require.NoError(t, err)
	rt, followed := acltest.Open(t), make(chan error, 1)
	o := func(rank int) engine.Options {
		return engine.Options{Blocks: 32, BlockSize: 16, Group: groups[rank]}
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	go func() { followed <- engine.Follow(ctx, rt, 1, apitest.Load, o(1)) }()
	s := start(t, o(0), nil)
	_, err = s.client.Completions.New(t.Context(), greedy("the", 4))
	require.NoError(t, err)
	leave()
	require.ErrorIs(t, <-followed, context.Canceled)
	require.Eventually(t, func() bool { status, _ := s.get(t, "/readyz"); return status == 503 }, time.Minute, time.Millisecond)
	for path, body := range map[string]string{
		"/v1/completions": `{"model":"small","prompt":"a"}`, "/v1/chat/completions": `{"model":"small","messages":[{"role":"user","content":"a"}],"stream":true}`,
		"/v1/embeddings": `{"model":"small","input":"a"}`,
	} {
		status, header, text := s.post(t, path, body)
		require.Equal(t, http.StatusServiceUnavailable, status, text)
		require.Equal(t, "1", header.Get("Retry-After"))
		require.Contains(t, text, `"code":"device_failed"`)
	}
	status, _ := s.get(t, "/healthz")
	require.Equal(t, 200, status)
	<-s.Engine.Done()
}
