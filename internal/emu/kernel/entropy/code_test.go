package entropy_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goascend/cann/internal/emu/kernel/entropy"
)

// Any bytes round-trip under any histogram. A corrupted code is refused or decodes to other
// bytes, and has no other effect.
func TestCode(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		counts := make([]int64, 256)
		for i := range rapid.IntRange(0, 256).Draw(r, "kinds") {
			counts[i] = rapid.Int64Range(0, 1<<31-1).Draw(r, "count")
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 0))
		bytes := make([]byte, rapid.IntRange(0, 300).Draw(r, "length"))
		for i := range bytes {
			bytes[i] = byte(random.Uint32())
		}
		s, err := entropy.New(counts)
		require.NoError(t, err)
		code, state := s.Encode(bytes)
		got := make([]byte, len(bytes))
		require.NoError(t, s.Decode(got, code, state))
		require.Equal(t, bytes, got)
		for i := range code {
			code[i] ^= byte(random.Uint32())
		}
		_ = s.Decode(got, code, state)
	})
	_, err := entropy.New(append(make([]int64, 255), -1))
	require.ErrorContains(t, err, "byte 255 has a count of -1")
}
