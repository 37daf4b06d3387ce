package decode_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/decode"
)

// TestReplays: a captured step over a paged cache, whose lengths Graph.Update changes and whose tokens,
// slots and blocks the device reads anew, gives the bits of the same step launched operator by
// operator.
func TestReplays(t *testing.T) {
	b := newBench(t)
	const batch, heads, keyHeads, dim, block, columns = 2, 4, 2, 16, 16, 4
	const width, blocks, steps = keyHeads * dim, batch*columns + 1, 40
	rng := rand.New(rand.NewPCG(5, 6))
	zero := func() *aclnn.Tensor {
		return b.floats(aclnn.BFloat16, make([]float32, blocks*block*width), blocks, block, width)
	}
	table := make([]int32, batch*columns)
	for i, p := range rng.Perm(batch * columns) {
		table[i] = int32(p) + 1
	}
	a := decode.AttentionArgs{
		Query: b.empty(aclnn.BFloat16, batch, 1, heads, dim), Layout: ops.BSND, Blocks: put(b, aclnn.Int32, table, batch, columns),
		Scale: .25, Out: b.empty(aclnn.BFloat16, batch, 1, heads, dim),
	}
	w := decode.WriteArgs{Keys: b.empty(aclnn.BFloat16, batch, keyHeads, dim), Values: b.empty(aclnn.BFloat16, batch, keyHeads, dim), Slots: b.empty(aclnn.Int64, batch)}
	into := func(keys, values *aclnn.Tensor, lengths []int64) (*decode.AttentionArgs, *decode.WriteArgs) {
		attention, write := a, w
		attention.Keys, attention.Values, attention.Lengths = keys, values, lengths
		write.KeyCache, write.ValueCache = keys, values
		return &attention, &write
	}
	eagerKeys, eagerValues, keys, values := zero(), zero(), zero(), zero()
	// longest are the lengths of the capture: its workspace must do for all replays.
	longest := []int64{block * columns, block * columns}
	attend, write := into(keys, values, longest)
	require.NoError(t, b.Attention().Run(t.Context(), b.st, attend))
	require.Equal(t, "FusedInferAttentionScoreV4", b.Attention().Explain(attend).Kernel)
	var part *acl.GraphPart
	g, err := b.st.Capture(t.Context(), acl.CaptureThreadLocal, func() error {
		err := b.Write().Run(t.Context(), b.st, write)
		var e error
		part, e = b.st.Part(func() error { return b.Attention().Run(t.Context(), b.st, attend) })
		return errors.Join(err, e)
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, g.Close()) }()
	other, err := b.st.Device().NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	fill := func(x *aclnn.Tensor) {
		values := b.floats(aclnn.BFloat16, eighths(rng, x.Len()), x.Shape()...)
		require.NoError(t, aclnn.Copy(b.st, x, values))
	}
	for at := range int64(steps) {
		lengths, slots := []int64{at + 1, at + 3}, make([]int64, batch)
		for i := range slots {
			place := lengths[i] - 1
			slots[i] = int64(table[int64(i)*columns+place/block])*block + place%block
		}
		fill(a.Query)
		fill(w.Keys)
		fill(w.Values)
		require.NoError(t, aclnn.CopyToDevice(t.Context(), b.st, w.Slots, slots))
		eagerAttend, eagerWrite := into(eagerKeys, eagerValues, lengths)
		require.NoError(t, b.Write().Run(t.Context(), b.st, eagerWrite))
		require.NoError(t, b.Attention().Run(t.Context(), b.st, eagerAttend))
		want := b.read(a.Out)
		require.NoError(t, b.st.Memset(a.Out.Buffer(), 0xff, a.Out.Bytes()))
		attend.Lengths = lengths
		require.NoError(t, g.Update(t.Context(), other, part, func() error { return b.Attention().Run(t.Context(), other, attend) }))
		require.NoError(t, g.Replay(b.st))
		require.Equal(t, want, b.read(a.Out), "step %d", at)
	}
	require.Equal(t, b.read(eagerKeys), b.read(keys))
	require.Equal(t, b.read(eagerValues), b.read(values))
}
