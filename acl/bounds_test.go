package acl

import (
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
)

// bare is a buffer that is not backed by a device, for checks that make no call.
func bare(size uint64) *Buffer {
	sc := &scope{chip: &chip{}}
	return &Buffer{region: region{mem: &memory{scope: sc}, addr: 1 << 40, size: size}}
}

// FuzzRows compares the check of two-dimensional copies with exact arithmetic.
func FuzzRows(f *testing.F) {
	f.Add(uint64(12), 4, 4, 2, 3)
	f.Add(uint64(12), 4, 1<<62, 2, 3)
	f.Add(uint64(1)<<40, 1<<62, 1<<62, 1, 5)
	f.Add(uint64(0), 0, 0, 0, 0)
	f.Fuzz(func(t *testing.T, size uint64, dpitch, spitch, width, height int) {
		dst, src := bare(size), bare(size)
		_, _, err := dst.mem.scope.rows("copy", dst, dpitch, src, spitch, width, height)
		if err != nil {
			require.ErrorIs(t, err, ErrInvalidArgument)
			return
		}
		require.True(t, width >= 0 && height >= 0 && width <= dpitch && width <= spitch)
		if width == 0 || height == 0 {
			return
		}
		for _, pitch := range []int{dpitch, spitch} {
			end := new(big.Int).Mul(big.NewInt(int64(height-1)), big.NewInt(int64(pitch)))
			end.Add(end, big.NewInt(int64(width)))
			require.LessOrEqual(t, end.Cmp(new(big.Int).SetUint64(size)), 0, "the copy reaches byte %v of %d", end, size)
		}
	})
}

// FuzzView compares the check of views with exact arithmetic.
func FuzzView(f *testing.F) {
	f.Add(uint64(8), 0, 8)
	f.Add(uint64(8), 8, 1)
	f.Add(uint64(8), 1<<62, 1<<62)
	f.Fuzz(func(t *testing.T, size uint64, offset, n int) {
		b := bare(size)
		v, err := b.View(offset, n)
		end := new(big.Int).Add(big.NewInt(int64(offset)), big.NewInt(int64(n)))
		fits := offset >= 0 && n >= 0 && end.Cmp(new(big.Int).SetUint64(size)) <= 0
		require.Equal(t, fits, err == nil)
		if err == nil {
			require.Equal(t, b.addr+uint64(offset), v.addr)
			require.Equal(t, n, v.Size())
		}
	})
}
