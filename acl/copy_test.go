package acl_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
)

func TestCopyRoundTrip(t *testing.T) {
	st := openStream(t)
	for _, n := range []int{1, 3, 511, 16 << 10, 16<<10 + 1, 5 << 20} {
		src := make([]float32, n)
		for i := range src {
			src[i] = float32(i)
		}
		buf, err := st.Malloc(4 * n)
		require.NoError(t, err)
		require.NoError(t, acl.CopyToDevice(background, st, buf, src))
		clearAfter := append([]float32(nil), src...)
		clear(src)
		dst := make([]float32, n)
		require.NoError(t, acl.CopyFromDevice(background, st, dst, buf))
		assert.Equal(t, clearAfter, dst)
		require.NoError(t, buf.Close())
	}
}
