package key_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/ops/key"
)

func TestExtent(t *testing.T) {
	for _, c := range []struct {
		n, most int64
		by16    bool
		text    string
	}{
		{0, 0, false, "0"}, {1, 1, false, "1"}, {2, 2, false, "2..2"}, {3, 4, false, "3..4"}, {4, 4, false, "3..4"}, {8, 8, false, "5..8"},
		{9, 16, false, "9..16"}, {16, 16, true, "16..16 by 16"}, {17, 32, false, "17..32"}, {48, 64, true, "48..64 by 16"}, {63, 64, false, "33..64"},
		{1 << 20, 1 << 20, true, "524304..1048576 by 16"}, {1<<40 + 1, 1 << 41, false, "1099511627777..2199023255552"},
	} {
		e := key.ExtentOf(c.n)
		require.Equal(t, c.most, e.Most(), c.n)
		require.Equal(t, c.by16, e.By16(), c.n)
		require.Equal(t, c.text, e.String(), c.n)
	}
	classes := map[key.Extent]bool{}
	for n := range int64(1<<20 + 1) {
		classes[key.ExtentOf(n)] = true
	}
	require.Len(t, classes, 39)
}

// FuzzExtent checks that two sizes have the same class exactly if Most and By16 are equal.
func FuzzExtent(f *testing.F) {
	f.Add(int64(0), int64(1))
	f.Add(int64(15), int64(16))
	f.Add(int64(4097), int64(math.MaxInt32))
	f.Fuzz(func(t *testing.T, n, m int64) {
		if min(n, m) < 0 || max(n, m) > 1<<48 { // larger tensors do not exist
			return
		}
		e, other := key.ExtentOf(n), key.ExtentOf(m)
		require.LessOrEqual(t, n, e.Most())
		require.True(t, n == 0 || 2*n > e.Most())
		require.Equal(t, n != 0 && n%16 == 0, e.By16())
		require.Equal(t, e.Most() == other.Most() && e.By16() == other.By16(), e == other)
	})
}
