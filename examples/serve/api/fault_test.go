package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/examples/serve/engine"
)

// TestFaults: requests that the device fails end with status 503 or an event of the stream; others are
// computed again, and the server goes on.
func TestFaults(t *testing.T) {
	acltest.Faults(t, "run/aclnnScatterNdUpdate:3%=507015", func(t *testing.T) {
		s := start(t, engine.Options{Blocks: 32, BlockSize: 16}, nil)
		good, bad, cut, text := 0, 0, 0, ""
		for range 400 {
			if good > 3 && bad > 3 && cut > 3 {
				break
			}
			one, err := s.client.Completions.New(t.Context(), greedy("the", 8))
			if err != nil {
				require.Equal(t, http.StatusServiceUnavailable, statusOf(t, err))
				require.Equal(t, "device_failed", told(t, err).Code)
				bad++
			} else {
				if text == "" {
					text = one.Choices[0].Text
				}
				require.Equal(t, text, one.Choices[0].Text)
				good++
			}
			stream := s.client.Completions.NewStreaming(t.Context(), greedy("the", 8))
			for stream.Next() {
			}
			if stream.Err() != nil {
				require.ErrorContains(t, stream.Err(), "the device has failed")
				cut++
			}
		}
		require.Greater(t, min(good, bad, cut), 3)
	})
}
