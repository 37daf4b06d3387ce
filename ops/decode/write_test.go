package decode_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/decode"
)

// TestWrite checks that tokens go to their slots and nothing else changes, in every form of a cache.
func TestWrite(t *testing.T) {
	acltest.Need(t)
	const rows, places, dim = 5, 6, 3
	for _, kernel := range newBench(t).Write().Kernels() {
		t.Run(kernel, func(t *testing.T) {
			b := newBench(t)
			require.NoError(t, b.Write().Pin(kernel))
			rng := rand.New(rand.NewPCG(3, 4))
			for _, dt := range []aclnn.DType{aclnn.Float32, aclnn.Float16, aclnn.BFloat16} {
				for _, heads := range []int64{1, 4} {
					for _, slots := range [][]int64{{}, {29}, {0, 7, 6, 11, 23}} {
						for _, headMajor := range []bool{false, true} {
							n := int64(len(slots))
							index := put(b, aclnn.Int64, slots, n)
							if headMajor {
								index = put(b, aclnn.Int32, convert(slots, func(s int64) int32 { return int32(s) }), n)
							}
							shape := []int64{rows, places, heads * dim}
							if headMajor {
								shape = []int64{rows, heads, places, dim}
							}
							a := &decode.WriteArgs{Slots: index}
							var want [2][]float32
							for i, p := range []struct{ fresh, cache **aclnn.Tensor }{{&a.Keys, &a.KeyCache}, {&a.Values, &a.ValueCache}} {
								old, fresh := eighths(rng, rows*heads*places*dim), eighths(rng, n*heads*dim)
								*p.cache = b.floats(dt, old, shape...)
								*p.fresh = b.floats(dt, fresh, n, heads, dim)
								want[i] = old
								for token, slot := range slots {
									for h := range heads {
										at := (slot*heads + h) * dim
										if headMajor {
											at = ((slot/places*heads+h)*places + slot%places) * dim
										}
										copy(old[at:][:dim], fresh[(int64(token)*heads+h)*dim:])
									}
								}
							}
							if kernel == "ScatterPaKvCache" && (headMajor || dt == aclnn.Float32) {
								require.ErrorIs(t, b.Write().Run(t.Context(), b.st, a), ops.ErrNoKernel)
								continue
							}
							require.NoError(t, b.Write().Run(t.Context(), b.st, a))
							require.Equal(t, want[0], b.read(a.KeyCache))
							require.Equal(t, want[1], b.read(a.ValueCache))
						}
					}
				}
			}
		})
	}
}

// choice explains the kernel of a write.
func (b *bench) choice(dt aclnn.DType) string {
	f := func(shape ...int64) *aclnn.Tensor { return b.empty(dt, shape...) }
	return b.Write().Explain(&decode.WriteArgs{Keys: f(3, 2, 4), Values: f(3, 2, 4), KeyCache: f(5, 6, 8), ValueCache: f(5, 6, 8), Slots: b.empty(aclnn.Int32, 3)}).String()
}

func TestWriteChoice(t *testing.T) {
	b := newBench(t)
	require.Equal(t, "cache_write: ScatterPaKvCache; ScatterNdUpdate comes after it; InplaceIndexCopy comes after it", b.choice(aclnn.BFloat16))
	require.Equal(t, "cache_write: ScatterNdUpdate; not ScatterPaKvCache: it writes 16 bits only; InplaceIndexCopy comes after it", b.choice(aclnn.Float32))
}

// TestWriteOfOlderCANN checks that CANN 8.1 writes with the kernel that it has.
func TestWriteOfOlderCANN(t *testing.T) {
	if !cshim.Emulated {
		t.Skip("only the emulator plays an older CANN: go test -tags emu")
	}
	acltest.Rerun(t, func(t *testing.T) {
		e := newBench(t).choice(aclnn.BFloat16)
		require.Contains(t, e, "cache_write: ScatterNdUpdate; not ScatterPaKvCache: this CANN has no aclnnScatterPaKvCache")
	}, "CANN_EMU_API="+abi.V81RC1)
}

func TestWriteRefusals(t *testing.T) {
	b := newBench(t)
	f := func(shape ...int64) *aclnn.Tensor { return b.empty(aclnn.Float16, shape...) }
	for _, c := range []struct {
		change func(a *decode.WriteArgs)
		text   string
	}{
		{func(a *decode.WriteArgs) { a.Keys = nil }, "Keys is nil"},
		{func(a *decode.WriteArgs) { a.Values = b.empty(aclnn.Float32, 3, 2, 4) }, "Values is float32"},
		{func(a *decode.WriteArgs) { a.Keys = f(3, 8) }, "it must be [tokens, heads, features]"},
		{func(a *decode.WriteArgs) { a.Values = f(3, 8) }, "Values is float16[3,8]ND; it must be [tokens, heads, features]"},
		{func(a *decode.WriteArgs) { a.Slots = b.empty(aclnn.Float32, 3) }, "Slots is float32"},
		{func(a *decode.WriteArgs) { a.Slots = b.empty(aclnn.Int32, 4) }, "its shape must be [3]"},
		{func(a *decode.WriteArgs) { a.KeyCache = f(5, 6, 9) }, "it must be [rows, places, 8] or [rows, 2, places, 4]"},
		{func(a *decode.WriteArgs) { a.KeyCache = f(5, 6, 16).Narrow(2, 0, 8) }, "it must be contiguous"},
		{func(a *decode.WriteArgs) { a.ValueCache = f(5, 2, 6, 4) }, "they must have the same places"},
		{func(a *decode.WriteArgs) { a.ValueCache = f(5, 7, 8) }, "they must have the same places"},
		{func(a *decode.WriteArgs) { a.Values, a.ValueCache = f(4, 2, 4), f(5, 6, 8) }, "as many tokens and heads"},
	} {
		a := &decode.WriteArgs{Keys: f(3, 2, 4), Values: f(3, 2, 4), KeyCache: f(5, 6, 8), ValueCache: f(5, 6, 8), Slots: b.empty(aclnn.Int32, 3)}
		c.change(a)
		err := b.Write().Run(t.Context(), b.st, a)
		require.ErrorIs(t, err, ops.ErrInvalid, c.text)
		require.ErrorContains(t, err, c.text)
	}
}
