package world

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestNilLogger(t *testing.T) {
	for name, set := range map[string][]Option{"none": nil, "nil": {WithLogger(nil)}} {
		t.Run(name, func(t *testing.T) {
			assert.False(t, choose(set).log.Enabled(t.Context(), slog.LevelError))
		})
	}
}

// TestRare counts which events of a flood are logged.
func TestRare(t *testing.T) {
	var each rare
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	passed := func(events int, at time.Time) (n int) {
		for range events {
			if each.passes(at) {
				n++
			}
		}
		return n
	}
	assert.Equal(t, 10, passed(99, at))
	assert.Equal(t, 1, passed(1, at.Add(time.Second-1)), "the hundredth of the second")
	assert.Equal(t, 0, passed(99, at.Add(time.Second-1)))
	assert.Equal(t, 12, passed(250, at.Add(time.Second)), "another second")
}
