package ops

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
)

// TestGatedDeltaFlops checks that the products of the chunked forward pass cost at most twice the
// formula, which is 2C(3K + 2V) + 6KV per token and value head, and those of the recurrence 6KV.
func TestGatedDeltaFlops(t *testing.T) {
	st := acltest.Stream(t, acltest.Device(t, acltest.Open(t), 0))
	for _, c := range []struct{ tokens, hk, hv, k, v int64 }{
		{64, 1, 1, 128, 128}, {256, 2, 4, 128, 128}, {512, 4, 4, 64, 32}, {1000, 1, 2, 32, 64}, {130, 2, 2, 128, 128},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			f := func(shape ...int64) *aclnn.Tensor {
				x, err := aclnn.New(st, aclnn.Float32, shape...)
				require.NoError(t, err)
				require.NoError(t, aclnn.InplaceZero(st, aclnn.InplaceZeroParams{Self: x}))
				t.Cleanup(func() { require.NoError(t, x.Close()) })
				return x
			}
			a := GatedDeltaArgs{
				Query: f(1, c.tokens, c.hk, c.k), Key: f(1, c.tokens, c.hk, c.k), Value: f(1, c.tokens, c.hv, c.v), Decay: f(1, c.tokens, c.hv),
				Beta: f(1, c.tokens, c.hv), Scale: 1, Normalize: true, Out: f(1, c.tokens, c.hv, c.v),
			}
			flops := func(forward func(*deltaSequence, *steps)) (n int64) {
				require.NoError(t, a.eachSequence(st, func(d *deltaSequence, s *steps) {
					forward(d, s)
					n += s.flops
				}))
				return n / (c.tokens * c.hv)
			}
			states := 6 * c.k * c.v
			formula := 2*deltaChunk*(3*c.k+2*c.v) + states
			chunks := flops((*deltaSequence).forward)
			t.Logf("%d for a token and head, %.2f of the formula", chunks, float64(chunks)/float64(formula))
			require.LessOrEqual(t, chunks, 2*formula)
			require.GreaterOrEqual(t, chunks, formula/3, "are products counted?")
			require.Equal(t, states, flops((*deltaSequence).recur))
		})
	}
}
