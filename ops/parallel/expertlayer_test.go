package parallel_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/acl/acltest"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/hccl"
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/testing/opstest"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/key"
	"github.com/goascend/cann/ops/parallel"
)

// expertProblem is a layer of experts on several ranks, of which each has a number of tokens of its own.
type expertProblem struct {
	ranks, perRank, k, width, inner int64
	tokens                          func(rank int64) int64
	most                            int64
	dt                              aclnn.DType
}

func (p expertProblem) weights() (up, down []float32) {
	n := p.ranks * p.perRank
	up, down = opstest.Random(p.dt, 7, n*p.width*2*p.inner), opstest.Random(p.dt, 8, n*p.inner*p.width)
	for i := range up {
		up[i] /= 8
	}
	return up, down
}

// data returns the tokens of a rank, their experts and weights.
func (p expertProblem) data(rank int64) (x []float32, ids []int32, weights []float32) {
	rng := rand.New(rand.NewPCG(uint64(rank), 3))
	n := p.tokens(rank)
	x = opstest.Random(p.dt, uint64(100+rank), n*p.width)
	for range n {
		for _, e := range rng.Perm(int(p.ranks * p.perRank))[:p.k] {
			ids, weights = append(ids, int32(e)), append(weights, float32(rng.IntN(8)+1)/8)
		}
	}
	return x, ids, weights
}

// want computes the results of a rank.
func (p expertProblem) want(rank int64) []float32 {
	up, down := p.weights()
	x, ids, weights := p.data(rank)
	out := make([]float32, len(x))
	for t := range p.tokens(rank) {
		for j := range p.k {
			e := int64(ids[t*p.k+j])
			hidden := make([]float64, 2*p.inner)
			for i := range p.width {
				for h := range hidden {
					hidden[h] += float64(x[t*p.width+i]) * float64(up[(e*p.width+i)*2*p.inner+int64(h)])
				}
			}
			for h := range p.inner {
				active := hidden[h] / (1 + math.Exp(-hidden[h])) * hidden[p.inner+h]
				for i := range p.width {
					out[t*p.width+i] += weights[t*p.k+j] * float32(active*float64(down[(e*p.inner+h)*p.width+i]))
				}
			}
		}
	}
	return out
}

// expertRank is a rank's layer, with its arguments.
type expertRank struct {
	*rank
	layer *ops.Op[parallel.ExpertLayerArgs, key.ExpertLayer]
	args  *parallel.ExpertLayerArgs
	want  []float32
}

// on runs a test with the layer on all ranks. The second communicator is for the exchange.
func (p expertProblem) on(t *testing.T, test func(r *expertRank)) {
	second := make(chan hccl.RootInfo, p.ranks)
	onRanks(t, int(p.ranks), func(r *rank) {
		if r.comm.Rank() == 0 {
			info, err := hccl.NewRootInfo(r.Stream)
			require.NoError(r.T, err)
			for range p.ranks {
				second <- info
			}
		}
		info := <-second
		info.Rank, info.Size = r.comm.Rank(), int(p.ranks)
		exchange, err := hccl.Join(t.Context(), r.Stream, info, hccl.Config{})
		require.NoError(r.T, err)
		defer func() {
			assert.NoError(r.T, r.Stream.Synchronize(context.Background()))
			assert.NoError(r.T, exchange.Close())
		}()
		layer, err := parallel.NewExpertLayer(r.Registry, r.comm, exchange)
		require.NoError(r.T, err)
		me := int64(r.comm.Rank())
		x, ids, weights := p.data(me)
		up, down := p.weights()
		part := func(all []float32) []float32 { n := int64(len(all)) / p.ranks; return all[me*n:][:n] }
		n := p.tokens(me)
		test(&expertRank{r, layer, &parallel.ExpertLayerArgs{
			X: r.Floats(p.dt, x, n, p.width), Experts: opstest.Data(r.Bench, aclnn.Int32, ids, n, p.k), Weights: r.Floats(aclnn.Float32, weights, n, p.k),
			GateUp: r.Floats(p.dt, part(up), p.perRank, p.width, 2*p.inner), Down: r.Floats(p.dt, part(down), p.perRank, p.inner, p.width),
			Out: r.Empty(p.dt, n, p.width), MostTokens: p.most,
		}, p.want(me)})
	})
}

// check runs the layer with the kernel that must be chosen, in a graph if it can be captured, and with
// collectives.
func (r *expertRank) check(kernel string) {
	require.Equal(r.T, kernel, r.layer.Explain(r.args).Kernel, "%v", r.layer.Explain(r.args))
	opstest.Run(r.Bench, r.layer, r.args)
	r.Near(kernel, r.args.Out, r.want, 2*opstest.Tolerance(r.args.X.DType()))
	got := r.Read(r.args.Out)
	g, err := r.Stream.Capture(r.T.Context(), acl.CaptureThreadLocal, func() error { return r.layer.Run(r.T.Context(), r.Stream, r.args) })
	if kernel == "all-to-all" {
		require.ErrorIs(r.T, err, acl.ErrCapture)
		return
	}
	require.NoError(r.T, err)
	for range 3 {
		require.NoError(r.T, r.Stream.Memset(r.args.Out.Buffer(), 0xff, r.args.Out.Buffer().Size()))
		require.NoError(r.T, g.Replay(r.Stream))
		require.Equal(r.T, got, r.Read(r.args.Out), "a replay differs")
	}
	require.NoError(r.T, g.Close())
	require.NoError(r.T, r.layer.Pin("all-to-all"))
	opstest.Run(r.Bench, r.layer, r.args)
	r.Near("all-to-all", r.args.Out, r.want, 2*opstest.Tolerance(r.args.X.DType()))
}

// TestExpertLayer compares the layer with its definition, on the chips and versions that have CANN's
// exchange, and where it is passed over.
func TestExpertLayer(t *testing.T) {
	const older = "CANN_EMU_API=" + abi.V81RC1
	a2 := expertProblem{ranks: 16, perRank: 2, k: 3, width: 32, inner: 16, most: 5, dt: aclnn.BFloat16, tokens: func(r int64) int64 { return r % 6 }}
	a3 := expertProblem{ranks: 2, perRank: 3, k: 2, width: 1024, inner: 8, dt: aclnn.Float16, tokens: func(int64) int64 { return 4 }}
	few := expertProblem{ranks: 2, perRank: 2, k: 2, width: 32, inner: 16, most: 7, dt: aclnn.Float32, tokens: func(r int64) int64 { return 7 * r }}
	alone := few
	alone.ranks, alone.tokens = 1, func(int64) int64 { return 7 }
	for _, c := range []struct {
		name, kernel string
		problem      expertProblem
		variables    []string
	}{
		{"Atlas A2", "MoeDistributeDispatchV2", a2, []string{"CANN_EMU_DEVICES=16", "CANN_EMU_SANITIZE=memory"}},
		{"Atlas A2 with CANN 8.1", "MoeDistributeDispatch", a2, []string{"CANN_EMU_DEVICES=16", older}},
		{"Atlas A3", "MoeDistributeDispatchV2", a3, []string{"CANN_EMU_SOC=Ascend910_9391"}},
		{"Atlas A3 with CANN 8.1", "all-to-all", a3, []string{"CANN_EMU_SOC=Ascend910_9391", older}},
		{"few ranks", "all-to-all", few, nil},
		{"one rank", "all-to-all", alone, nil},
		{"small buffer", "all-to-all", a2, []string{"CANN_EMU_DEVICES=16", "HCCL_BUFFSIZE=4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !cshim.Emulated && slices.Contains(c.variables, older) {
				t.Skip("only the emulator plays an older CANN: go test -tags emu")
			}
			acltest.Rerun(t, func(t *testing.T) { c.problem.on(t, func(r *expertRank) { r.check(c.kernel) }) }, c.variables...)
		})
	}
}

// TestExpertLayerReasons checks why CANN's exchange is passed over, and that the emulator refuses the
// same calls.
func TestExpertLayerReasons(t *testing.T) {
	p := expertProblem{ranks: 2, perRank: 1, k: 1, width: 32, inner: 16, dt: aclnn.Float16, tokens: func(int64) int64 { return 2 }}
	p.on(t, func(r *expertRank) {
		require.Contains(r.T, r.layer.Explain(r.args).String(), "an Atlas A2 has no exchange among 2 ranks")
		plain, err := parallel.NewExpertLayer(r.Registry, r.comm, nil)
		require.NoError(r.T, err)
		require.Contains(r.T, plain.Explain(r.args).String(), "it needs a communicator that serves nothing else")
		_, err = parallel.NewExpertLayer(r.Registry, r.comm, r.comm)
		require.ErrorIs(r.T, err, ops.ErrInvalid)

		name, err := r.comm.Name()
		require.NoError(r.T, err)
		params := aclnn.MoeDistributeDispatchParams{
			X: r.args.X, ExpertIds: r.args.Experts, ExpertScales: r.args.Weights, GroupEp: name, EpWorldSize: 2, EpRankId: int64(r.comm.Rank()), MoeExpertNum: 2,
			ExpandX: r.Empty(aclnn.Float16, 4, 32), DynamicScales: r.Empty(aclnn.Float32, 4), ExpandIdx: r.Empty(aclnn.Int32, 2), ExpertTokenNums: r.Empty(aclnn.Int64, 1),
			EpRecvCounts: r.Empty(aclnn.Int32, 64), TpRecvCounts: r.Empty(aclnn.Int32, 1), ExpandScales: r.Empty(aclnn.Float32, 4),
		}
		var e *acl.Error
		require.ErrorAs(r.T, aclnn.MoeDistributeDispatch(r.Stream, params), &e)
		require.Equal(r.T, acl.Code(abi.ACLNN_ERR_INNER_TILING_ERROR), e.Code)
		require.ErrorContains(r.T, e, "epWorldSize is 2; it must be a multiple of 8 from 8 to 256")

		for what, change := range map[string]func(a *parallel.ExpertLayerArgs){
			"Experts":                func(a *parallel.ExpertLayerArgs) { a.Experts = r.Empty(aclnn.Int32, 3, 1) },
			"MostTokens is 1":        func(a *parallel.ExpertLayerArgs) { a.MostTokens = 1 },
			"GateUp is missing":      func(a *parallel.ExpertLayerArgs) { a.GateUp = nil },
			"[experts, inner, width": func(a *parallel.ExpertLayerArgs) { a.Down = r.Empty(aclnn.Float16, 1, 8, 32) },
			fmt.Sprint(dtype.Int8):   func(a *parallel.ExpertLayerArgs) { a.Out = r.Empty(aclnn.Int8, 2, 32) },
		} {
			a := *r.args
			change(&a)
			require.ErrorContains(r.T, r.layer.Check(&a), what)
			require.ErrorIs(r.T, r.layer.Check(&a), ops.ErrInvalid)
		}
	})
}
