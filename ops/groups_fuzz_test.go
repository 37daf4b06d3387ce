package ops

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzGroups compares the check of a host group list with its definition: sizes are not negative
// and add up to the number of rows.
func FuzzGroups(f *testing.F) {
	f.Add([]byte{3, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0}, int64(8), false)
	f.Add([]byte{3, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0}, int64(8), true)
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 127, 255, 255, 255, 255, 255, 255, 255, 127}, int64(-2), false)
	f.Fuzz(func(t *testing.T, raw []byte, rows int64, cumulative bool) {
		if len(raw) < 8 || rows < 0 {
			return
		}
		g := Groups{Cumulative: cumulative}
		for ; len(raw) >= 8; raw = raw[8:] {
			g.Host = append(g.Host, int64(binary.LittleEndian.Uint64(raw)))
		}
		left, last, good := rows, int64(0), true
		for _, n := range g.Host {
			size := n
			if cumulative {
				if size, last = n-last, n; n < 0 {
					good = false
				}
			}
			if good = good && size >= 0 && size <= left; good {
				left -= size
			}
		}
		var c args
		g.validate(&c, int64(len(g.Host)), rows)
		if good && left == 0 {
			require.NoError(t, c.Err)
			return
		}
		require.True(t, errors.Is(c.Err, ErrInvalid), "%v accepted for %d rows", g, rows)
	})
}
