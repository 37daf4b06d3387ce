package parallel_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/parallel"
)

var expertRules = []parallel.ShardRule{{Module: "mlp.experts", Weight: "*_proj", Role: parallel.GroupedWeight}}

// layerParameters are those of a mixture-of-experts layer; one of them does not fill whole tiles
// and one is smaller than the number of ranks.
var layerParameters = []parallel.ShardedParameter{
	{Name: "layers.0.self_attn.q_proj", Shape: []int64{7, 5}},
	{Name: "layers.0.mlp.experts.gate_up_proj", Shape: []int64{3, 16, 32}},
	{Name: "layers.0.norm", Shape: []int64{2}},
	{Name: "layers.0.mlp.experts.odd_proj", Shape: []int64{2, 5, 16}},
	{Name: "layers.0.mlp.experts.down_proj", Shape: []int64{3, 32, 16}},
}

// TestSharded checks that weights are restored for any number of ranks and any alignment, in the
// format of their roles, and that gradients are averaged into shards.
func TestSharded(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 4} {
		for _, align := range []int64{0, 16, parallel.ShardAlignment} {
			t.Run(fmt.Sprint(ranks, " ranks, alignment ", align), func(t *testing.T) {
				onRanks(t, ranks, func(r *rank) { testSharded(r, align) })
			})
		}
	}
}

func testSharded(r *rank, align int64) {
	ctx, dt := r.T.Context(), aclnn.BFloat16
	p, err := parallel.NewSharded(r.Stream, r.Registry, r.comm, dt, layerParameters, parallel.ShardConfig{Rules: expertRules, Align: align})
	require.NoError(r.T, err)
	defer func() { require.NoError(r.T, p.Close()) }()
	var values [][]float32
	for i, q := range layerParameters {
		w, v := r.Input(dt, uint64(i), q.Shape...)
		values = append(values, v)
		if len(q.Shape) == 3 { // as a checkpoint has it, transposed
			w = r.Copied(w.Transpose(1, 2)).Transpose(1, 2)
		}
		require.NoError(r.T, p.Load(r.Stream, i, w))
	}
	require.Nil(r.T, p.Weight(1))
	require.NoError(r.T, p.Gather(ctx, r.Stream))
	for i, q := range layerParameters {
		w := p.Weight(i)
		require.Equal(r.T, q.Shape, w.Shape())
		require.Equal(r.T, i == 1 || i == 4, w.Format() == aclnn.FractalNZ, q.Name)
		if w.Format() == aclnn.FractalNZ {
			nd := r.Empty(dt, q.Shape...)
			require.NoError(r.T, aclnn.NpuFormatCast(r.Stream, aclnn.NpuFormatCastParams{SrcTensor: w, DstTensor: nd}))
			w = nd
		}
		require.Equal(r.T, values[i], r.Read(w), q.Name)
	}
	require.NoError(r.T, p.GatherND(ctx, r.Stream))
	for i := range layerParameters {
		require.Equal(r.T, aclnn.ND, p.Weight(i).Format())
		require.Equal(r.T, values[i], r.Read(p.Weight(i)))
	}

	// Gradients in float32: rank k contributes k+1 times the values, so the mean is (ranks+1)/2
	// times.
	var grads []*aclnn.Tensor
	for i, q := range layerParameters {
		grads = append(grads, r.Floats(aclnn.Float32, opstest.Convert(values[i], func(x float32) float32 { return x * float32(r.comm.Rank()+1) }), q.Shape...))
	}
	grad := r.Empty(aclnn.Float32, p.Layout().Total)
	require.NoError(r.T, p.Reduce(r.Stream, grads, grad))
	got, factor := r.Read(grad), float32(r.comm.Size()+1)/2
	for i := range p.Layout().Parts {
		part := &p.Layout().Parts[i]
		lo, hi := part.Owned(int64(r.comm.Rank()))
		for k := range part.End - part.Start {
			want := float32(0)
			if lo+k < hi {
				want = factor * values[i][lo+k]
			}
			require.InDelta(r.T, want, got[part.Start+k], 1e-5)
		}
	}
}

// TestShardedAlone checks that a nil communicator stands for one rank, and that a gathered weight
// can be read by a grouped product and its gradient.
func TestShardedAlone(t *testing.T) {
	b := opstest.New(t)
	p, err := parallel.NewSharded(b.Stream, b.Registry, nil, aclnn.BFloat16, layerParameters[1:2], parallel.ShardConfig{Rules: expertRules})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	c := opstest.NewGroupedCase(aclnn.BFloat16, 16, 32, 4, 0, 5)
	require.NoError(t, p.Load(b.Stream, 0, b.Floats(c.DType, c.W, 3, 16, 32)))
	require.NoError(t, p.Gather(t.Context(), b.Stream))
	require.Equal(t, 2*3*16*32*2, p.Traffic())
	require.True(t, c.Check(b, func(*opstest.Bench, *aclnn.Tensor) *aclnn.Tensor { return p.Weight(0) }, ops.Groups{Host: c.Sizes}))

	f := func(shape ...int64) *aclnn.Tensor { return b.Empty(aclnn.BFloat16, shape...) }
	for text, err := range map[string]error{
		"there is no parameter 1 of 1":           p.Load(b.Stream, 1, f(1)),
		"its shape must be [3 16 32]":            p.Load(b.Stream, 0, f(3, 32, 16)),
		"0 gradients for 1 parameters":           p.Reduce(b.Stream, nil, f(p.Layout().Total)),
		"grad is bfloat16[3]ND":                  p.Reduce(b.Stream, nil, f(3)),
		"gate_up_proj is bfloat16[3]ND":          p.Reduce(b.Stream, []*aclnn.Tensor{f(3)}, f(p.Layout().Total)),
		"gate_up_proj is nil":                    p.Load(b.Stream, 0, nil),
		"its dtype must be one of [float32 floa": p.Load(b.Stream, 0, b.Empty(aclnn.Int32, 3, 16, 32)),
	} {
		require.ErrorIs(t, err, ops.ErrInvalid, text)
		require.ErrorContains(t, err, text)
	}
}

// TestShardLayout: every element has one owner, parts are aligned and do not overlap.
func TestShardLayout(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		ranks, align := rapid.IntRange(1, 20).Draw(r, "ranks"), rapid.Int64Range(0, 40).Draw(r, "align")
		var parameters []parallel.ShardedParameter
		for i := range rapid.IntRange(0, 6).Draw(r, "parameters") {
			parameters = append(parameters, parallel.ShardedParameter{Name: fmt.Sprint(i), Shape: rapid.SliceOfN(rapid.Int64Range(0, 9), 0, 4).Draw(r, "shape")})
		}
		own := rapid.Int64Range(0, 40).Draw(r, "alignment of the third")
		l, err := parallel.NewShardLayout(ranks, parameters, parallel.ShardConfig{Align: align, Rules: []parallel.ShardRule{{Weight: "2", Align: own}}})
		require.NoError(r, err)
		at := int64(0)
		for i := range l.Parts {
			p, unit := &l.Parts[i], max(align, 1)
			if i == 2 && own > 0 {
				unit = own
			}
			require.Equal(r, (at+unit-1)/unit*unit, p.Start)
			at = p.End
			require.Zero(r, (p.End-p.Start)%unit)
			next := int64(0)
			for rank := range int64(ranks) {
				lo, hi := p.Owned(rank)
				require.Equal(r, next, lo)
				require.LessOrEqual(r, hi-lo, p.End-p.Start)
				next = hi
			}
			require.Equal(r, p.Len(), next)
		}
		require.Equal(r, at, l.Total)
	})
}

func TestShardRules(t *testing.T) {
	rules := []parallel.ShardRule{
		{Module: "mlp.experts", Weight: "bias", Role: parallel.PlainWeight},
		{Module: "mlp.experts", Weight: "*", Role: parallel.GroupedWeight},
		{Module: "*.shared", Weight: "w[12]", Role: parallel.GroupedWeight},
	}
	for name, want := range map[string]parallel.WeightRole{
		"mlp.experts.w": parallel.GroupedWeight, "model.layers.7.mlp.experts.down_proj": parallel.GroupedWeight, "a.mlp.experts.bias": parallel.PlainWeight,
		"a.mlp.w": parallel.PlainWeight, "experts.w": parallel.PlainWeight, "notmlp.experts.w": parallel.PlainWeight, "w": parallel.PlainWeight,
		"layers.0.shared.w1": parallel.GroupedWeight, "layers.0.shared.w3": parallel.PlainWeight,
	} {
		l, err := parallel.NewShardLayout(2, []parallel.ShardedParameter{{Name: name, Shape: []int64{1, 16, 16}}}, parallel.ShardConfig{Rules: rules})
		require.NoError(t, err)
		require.Equal(t, want, l.Parts[0].Role, name)
		require.Equal(t, want == parallel.GroupedWeight, l.Parts[0].NZ(aclnn.Float16), name)
		require.False(t, l.Parts[0].NZ(aclnn.Float32))
	}
	one := func(name string, shape ...int64) []parallel.ShardedParameter {
		return []parallel.ShardedParameter{{Name: name, Shape: shape}}
	}
	for text, c := range map[string]struct {
		ranks      int
		parameters []parallel.ShardedParameter
		config     parallel.ShardConfig
	}{
		"shards for 0 ranks":     {0, nil, parallel.ShardConfig{}},
		"alignment -1":           {1, nil, parallel.ShardConfig{Align: -1}},
		"has alignment -2":       {1, nil, parallel.ShardConfig{Rules: []parallel.ShardRule{{Align: -2}}}},
		"[groups, in, out]":      {1, one("mlp.experts.w", 3, 4), parallel.ShardConfig{Rules: rules}},
		"must not be negative":   {1, one("w", -3), parallel.ShardConfig{}},
		"two parameters":         {1, append(one("w"), one("w")...), parallel.ShardConfig{}},
		"syntax error in patter": {1, one("w"), parallel.ShardConfig{Rules: []parallel.ShardRule{{Weight: "["}}}},
	} {
		_, err := parallel.NewShardLayout(c.ranks, c.parameters, c.config)
		require.ErrorIs(t, err, ops.ErrInvalid, text)
		require.ErrorContains(t, err, text)
	}
}

// TestShardStream: what is exchanged beside the kernels has the bits of what one stream exchanges, whether it was prefetched, prefetched in vain, or neither; and the
// memory of a prefetch is that of one layer, however many layers follow each other.
func TestShardStream(t *testing.T) {
	for _, ranks := range []int{1, 3} {
		onRanks(t, ranks, func(r *rank) {
			ctx, dt := r.T.Context(), aclnn.Float32
			x, err := parallel.NewShardStream(r.Stream)
			require.NoError(r.T, err)
			var layers []*parallel.Sharded
			var values [][]float32
			for range 6 {
				p, err := parallel.NewSharded(r.Stream, r.Registry, r.comm, dt, layerParameters, parallel.ShardConfig{Rules: expertRules})
				require.NoError(r.T, err)
				for i, q := range layerParameters {
					w, v := r.Input(dt, uint64(len(values)), q.Shape...)
					values = append(values, v)
					require.NoError(r.T, p.Load(r.Stream, i, w))
				}
				layers = append(layers, p)
			}
			n, total := len(layerParameters), layers[0].Layout().Total
			for l, p := range layers {
				require.NoError(r.T, x.Gather(ctx, true, p))
				if next := (l + 1 + l/4) % len(layers); l != 2 { // sometimes not what follows, and once nothing
					require.NoError(r.T, x.Prefetch(layers[next]))
				}
				var grads []*aclnn.Tensor
				for i, q := range layerParameters {
					require.Equal(r.T, values[l*n+i], r.Read(p.Weight(i)))
					grads = append(grads, r.Floats(aclnn.Float32, opstest.Convert(values[l*n+i], func(x float32) float32 { return x * float32(r.comm.Rank()+l) }), q.Shape...))
				}
				require.NoError(r.T, p.Release())
				want, got := r.Empty(dt, total), r.Empty(dt, total)
				require.NoError(r.T, x.Reduce(parallel.ShardGradients{Shards: p, Gradients: grads, Grad: got}))
				if l%2 == 0 {
					require.NoError(r.T, x.Join())
					require.NoError(r.T, p.Reduce(r.Stream, grads, want))
					require.Equal(r.T, r.Read(want), r.Read(got))
					require.NoError(r.T, x.Reduce(parallel.ShardGradients{Shards: p, Gradients: grads, Grad: got, Accumulate: true}))
					require.NoError(r.T, x.Join())
					require.Equal(r.T, opstest.Convert(r.Read(want), func(x float32) float32 { return 2 * x }), r.Read(got))
				}
			}
			require.NoError(r.T, x.Join())

			// Without host waits, the memory in use does not grow with the number of layers.
			memory := func(n int) int {
				require.NoError(r.T, r.Stream.Synchronize(ctx))
				dev := r.Stream.Device().Allocator()
				before := dev.Stats()
				dev.ResetPeaks()
				for i := range n {
					p := layers[i%len(layers)]
					require.NoError(r.T, x.Gather(ctx, true, p))
					require.NoError(r.T, x.Prefetch(layers[(i+1)%len(layers)]))
					require.NoError(r.T, p.Release())
				}
				after := dev.Stats()
				require.NoError(r.T, x.Join())
				return after.PeakInUse - before.InUse + after.Waiting - before.Waiting
			}
			few := memory(2)
			require.Equal(r.T, few, memory(20))

			require.ErrorIs(r.T, new(parallel.ShardStream).Join(), ops.ErrInvalid)
			require.ErrorContains(r.T, x.Reduce(parallel.ShardGradients{Shards: layers[0], Grad: r.Empty(dt, total)}), "0 gradients for 5 parameters")
			require.NoError(r.T, x.Close())
			for _, p := range layers {
				require.NoError(r.T, p.Close())
			}
		})
	}
}
