package engine_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goascend/cann/examples/serve/engine"
)

func TestStops(t *testing.T) {
	s := engine.NewStops([]string{"\n\n", "END", ""})
	for _, c := range []struct {
		piece, text string
		found       bool
	}{{"a", "a", false}, {"\n", "", false}, {"bE", "\nb", false}, {"N", "", false}, {"X", "ENX", false}, {"E", "", false}, {"Ey", "EEy", false}, {"zEN", "z", false}, {"D\n\n", "", true}} {
		text, found := s.Next(c.piece)
		require.Equal(t, c.text, text, "after %q", c.piece)
		require.Equal(t, c.found, found)
	}
	require.Empty(t, s.Flush())
	text, _ := s.Next("tail E")
	require.Equal(t, "tail ", text)
	require.Equal(t, "E", s.Flush())
}

// TestStopsInPieces: however a text is cut, the text before the first stop string comes out, and nothing
// of the stop string is shown before.
func TestStopsInPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 0, 30, -1)
		whole := letters.Draw(t, "text")
		stops := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 1, 4, -1), 0, 3).Draw(t, "stops")
		want, stopped := whole, false
		for end := range len(whole) + 1 { // the stop string that is complete first
			first := -1
			for _, stop := range stops {
				if strings.HasSuffix(whole[:end], stop) && (first < 0 || end-len(stop) < first) {
					first = end - len(stop)
				}
			}
			if first >= 0 {
				want, stopped = whole[:first], true
				break
			}
		}
		s, got, found := engine.NewStops(stops), "", false
		for _, c := range whole {
			var text string
			text, found = s.Next(string(c))
			if got += text; found {
				break
			}
			require.True(t, strings.HasPrefix(want, got))
		}
		if !found {
			got += s.Flush()
		}
		require.Equal(t, stopped, found)
		require.Equal(t, want, got)
	})
}
