package parallel

import (
	"context"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/internal/check"
	"github.com/goascend/cann/ops/key"
)

// ExpertLayerArgs describes the forward pass of a layer whose experts are spread over ranks as ExpertParallel
// spreads them: Out[t] = Σ_j Weights[t, j]·expert_{Experts[t, j]}(X[t]), where an expert computes what
// MoEExperts does. All floats have one dtype, float32, float16 or bfloat16, but for Weights. For
// training, use ExpertParallel, which keeps what the gradients need.
type ExpertLayerArgs struct {
	X       *aclnn.Tensor // [tokens, width], contiguous
	Experts *aclnn.Tensor // [tokens, k], int32, of MoERouting: numbers among the experts of all ranks
	Weights *aclnn.Tensor // [tokens, k], float32
	GateUp  *aclnn.Tensor // [experts of this rank, width, 2·inner]; stored as for GroupedMatmul
	Down    *aclnn.Tensor // [experts of this rank, inner, width]
	Out     *aclnn.Tensor // [tokens, width], contiguous

	// MostTokens is the largest number of tokens of a rank in this call, and the same on all ranks,
	// which choose the kernel by it. 0 says that all ranks have as many as this one.
	MostTokens int64
}

func (a *ExpertLayerArgs) validate() error {
	var c check.Args
	c.Tensor("X", a.X, check.Floats...)
	c.Tensor("Experts", a.Experts, aclnn.Int32)
	c.Tensor("Weights", a.Weights, aclnn.Float32)
	if !c.OK() {
		return c.Err
	}
	if a.X.Rank() != 2 || a.Experts.Rank() != 2 || a.X.Dim(0) != a.Experts.Dim(0) || a.Experts.Dim(1) < 1 {
		c.Fail("X is %v and Experts %v; they must be [tokens, width] and [tokens, k]", a.X, a.Experts)
	}
	c.Like("Weights", a.Weights, "Experts", a.Experts)
	c.Contiguous("X", a.X)
	c.Same("Out", a.Out, "X", a.X)
	c.Contiguous("Out", a.Out)
	for _, w := range []named{{"GateUp", a.GateUp}, {"Down", a.Down}} {
		switch {
		case !c.OK():
		case w.tensor == nil || w.tensor.Err() != nil:
			c.Fail("%s is missing: %v", w.name, w.tensor)
		case w.tensor.DType() != a.X.DType() || w.tensor.Rank() != 3 || w.tensor.Dim(0) < 1:
			c.Fail("%s is %v; it must be [experts, in, out] of X's dtype", w.name, w.tensor)
		}
	}
	if c.OK() && (a.Down.Dim(0) != a.GateUp.Dim(0) || a.GateUp.Dim(2) != 2*a.Down.Dim(1)) {
		c.Fail("GateUp is %v and Down %v; they must be [experts, width, 2·inner] and [experts, inner, width]", a.GateUp, a.Down)
	}
	if c.OK() && (a.MostTokens < 0 || a.MostTokens > 0 && a.MostTokens < a.X.Dim(0)) {
		c.Fail("MostTokens is %d, and X has %d tokens", a.MostTokens, a.X.Dim(0))
	}
	return c.Err
}

// most returns the largest number of tokens of a rank.
func (a *ExpertLayerArgs) most() int64 { return max(a.MostTokens, a.X.Dim(0)) }

func (a *ExpertLayerArgs) key() key.ExpertLayer {
	return key.ExpertLayer{DType: a.X.DType(), Width: a.X.Dim(1), Experts: a.GateUp.Dim(0), K: a.Experts.Dim(1), Tokens: a.most()}
}

// ExchangeCommunicator is a communicator that CANN's operators find by its name; *hccl.Comm implements
// it.
type ExchangeCommunicator interface {
	Rank() int
	Size() int
	Name() (string, error)
}

// NewExpertLayer makes the operator "expert_layer" of one rank, which sends tokens to the ranks of their
// experts and the results back. comm may be nil for a group of one.
//
// With exchange, a second communicator of the same ranks, which must serve nothing else, each way is one
// launch of MoeDistributeDispatch and MoeDistributeCombine, where the chip takes the sizes: on Atlas A2 in
// CANN 8.1 for 16, 32 or 64 ranks, and later up to 256, with up to 256 tokens each; on Atlas A3 after CANN
// 8.1, for up to 512 tokens of 1024 to 8192 features. The host then does not wait, and a graph can capture
// the layer. Otherwise, and without exchange, the rows travel by ExpertParallel, and the host reads their numbers.
func NewExpertLayer(reg *ops.Registry, comm Communicator, exchange ExchangeCommunicator) (*ops.Op[ExpertLayerArgs, key.ExpertLayer], error) {
	experts, err := NewExpertParallel(comm, 1)
	if err != nil {
		return nil, err
	}
	l := expertLayer{reg: reg, experts: experts}
	if exchange != nil {
		if any(exchange) == any(comm) {
			return nil, check.Invalid("exchange is comm; CANN's exchange of experts needs a communicator of its own")
		}
		if int64(exchange.Size()) != l.experts.Size() || comm != nil && exchange.Rank() != comm.Rank() {
			return nil, check.Invalid("exchange is rank %d of %d, which differs from comm", exchange.Rank(), exchange.Size())
		}
		name, err := exchange.Name()
		if err != nil {
			return nil, fmt.Errorf("expert layer: %w", err)
		}
		l.rank, l.ranks, l.group = int64(exchange.Rank()), int64(exchange.Size()), name
	}
	return ops.NewOp(reg, "expert_layer", (*ExpertLayerArgs).validate, (*ExpertLayerArgs).key,
		ops.Kernel[ExpertLayerArgs, key.ExpertLayer]{
			Name: "MoeDistributeDispatchV2", Run: l.distributed(distributeV2),
			Supports: func(env *ops.Env, k key.ExpertLayer) error {
				return l.fits(env, k, &aclnn.MoeDistributeDispatchV2Params{}, &aclnn.MoeDistributeCombineV2Params{})
			},
		},
		ops.Kernel[ExpertLayerArgs, key.ExpertLayer]{
			Name: "MoeDistributeDispatch", Run: l.distributed(distribute),
			Supports: func(env *ops.Env, k key.ExpertLayer) error {
				return l.fits(env, k, &aclnn.MoeDistributeDispatchParams{}, &aclnn.MoeDistributeCombineParams{})
			},
		},
		ops.Kernel[ExpertLayerArgs, key.ExpertLayer]{Name: "all-to-all", Run: l.allToAll})
}

// expertLayer holds what the kernels of an expert layer share.
type expertLayer struct {
	reg         *ops.Registry
	experts     *ExpertParallel
	rank, ranks int64
	group       string // name of the communicator of the exchange, "" for none
}

// allToAll sorts the tokens by expert and exchanges them with collectives.
func (l *expertLayer) allToAll(ctx context.Context, st *acl.Stream, a *ExpertLayerArgs) error {
	return aclnn.Compose(st, func(s *aclnn.Scope) {
		dt, rows, width := a.X.DType(), a.Experts.Len(), a.X.Dim(1)
		sorted, results := s.Tensor(dt, rows, width), s.Tensor(dt, rows, width)
		places, sums := s.Tensor(aclnn.Int32, rows), s.Tensor(aclnn.Int32, a.GateUp.Dim(0)*l.experts.Size())
		ops.Queue(ctx, s, l.reg.MoEPermute(), &ops.MoEPermuteArgs{X: a.X, Experts: a.Experts, Rows: sorted, Places: places, Sums: sums})
		var plan *ExpertPlan
		s.Do(func() (err error) {
			plan, err = l.experts.Plan(ctx, st, sums)
			return err
		})
		if s.Err() != nil {
			return
		}
		s.Own(plan)
		mine, back := s.Tensor(dt, plan.Rows(), width), s.Tensor(dt, plan.Rows(), width)
		s.Do(func() error { return plan.Dispatch(st, sorted, mine) })
		l.compute(ctx, s, a, mine, plan.Groups(), back)
		s.Do(func() error { return plan.Combine(st, back, results) })
		ops.Queue(ctx, s, l.reg.MoEUnpermute(), &ops.MoEUnpermuteArgs{Rows: results, Places: places, Weights: a.Weights, Out: a.Out})
	})
}

// compute runs this rank's experts on rows.
func (l *expertLayer) compute(ctx context.Context, s *aclnn.Scope, a *ExpertLayerArgs, rows *aclnn.Tensor, groups ops.Groups, out *aclnn.Tensor) {
	n, inner := rows.Dim(0), a.Down.Dim(1)
	hidden, active := s.Tensor(rows.DType(), n, 2*inner), s.Tensor(rows.DType(), n, inner)
	if groups.Device != nil { // the products leave rows that did not come as they are
		s.Zero(hidden)
	}
	ops.Queue(ctx, s, l.reg.MoEExperts(), &ops.MoEExpertsArgs{Rows: rows, GateUp: a.GateUp, Down: a.Down, Groups: groups, Hidden: hidden, Active: active, Out: out})
}
