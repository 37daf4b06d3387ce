package parallel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops"
	"github.com/goascend/cann/ops/key"
)

// expertLimits are the sizes that MoeDistributeDispatch takes on a chip.
type expertLimits struct {
	narrow, unit, wide       int64 // features of a token: the least, what they are a multiple of, the most
	tokens, experts, perRank int64
}

const choiceLimit = 16 // experts of a token

var (
	limitsA2 = expertLimits{narrow: 32, unit: 32, wide: 7168, tokens: 256, experts: 512, perRank: 24}
	limitsA3 = expertLimits{narrow: 1024, unit: 1, wide: 8192, tokens: 512, experts: 1024, perRank: 1024}
)

// fits returns why CANN's exchange cannot take a layer, or nil.
func (l *expertLayer) fits(env *ops.Env, k key.ExpertLayer, dispatch, combine aclnn.Params) error {
	first := dispatch.Operator().Name() == "MoeDistributeDispatch"
	limits, of := limitsA2, "an Atlas A2"
	ranks := []int64{16, 32, 64, 128, 256}
	if first {
		ranks = ranks[:3]
	}
	a3 := strings.HasPrefix(env.SoC, "Ascend910_93")
	if a3 {
		limits, of = limitsA3, "an Atlas A3"
	}
	switch experts := k.Experts * l.ranks; {
	case l.group == "":
		return errors.New("it needs a communicator that serves nothing else")
	case a3 && first:
		return errors.New("on an Atlas A3 it takes 7168 features only; its second version takes more sizes")
	case k.DType == aclnn.Float32:
		return errors.New("it sends 16-bit floats only")
	case a3 && l.ranks < 2, !a3 && !slices.Contains(ranks, l.ranks):
		return fmt.Errorf("%s has no exchange among %d ranks", of, l.ranks)
	case k.Width < limits.narrow || k.Width > limits.wide || k.Width%limits.unit != 0:
		return fmt.Errorf("%d features are not a multiple of %d from %d to %d", k.Width, limits.unit, limits.narrow, limits.wide)
	case k.Tokens == 0 || k.Tokens > limits.tokens:
		return fmt.Errorf("%d tokens of a rank; %s takes 1 to %d", k.Tokens, of, limits.tokens)
	case k.K > choiceLimit:
		return fmt.Errorf("%d experts for a token are more than %d", k.K, choiceLimit)
	case experts > limits.experts || k.Experts > limits.perRank || k.K > experts:
		return fmt.Errorf("%d experts, %d on a rank, are more than %d, or more than %d", experts, k.Experts, limits.experts, limits.perRank)
	}
	if need, have := l.buffer(k, a3), bufferMiB(); need > have {
		return fmt.Errorf("the messages need HCCL_BUFFSIZE=%d on all ranks; it is %d", need, have)
	}
	return errors.Join(env.Has(dispatch), env.Has(combine))
}

// buffer returns the mebibytes that the messages of a layer need in the communicator's buffer.
func (l *expertLayer) buffer(k key.ExpertLayer, a3 bool) int64 {
	const mebibyte = 1 << 20
	n := 2 * (k.Tokens*l.ranks*min(k.Experts, k.K)*k.Width*2 + 2*mebibyte)
	if a3 {
		up := func(n, unit int64) int64 { return (n + unit - 1) / unit * unit }
		n = 2 * (k.Experts*k.Tokens*l.ranks*up(up(2*k.Width, 32)+64, 512) + k.K*k.Tokens*up(2*k.Width, 512))
	}
	return (n + mebibyte - 1) / mebibyte
}

// bufferMiB is the size of a communicator's buffer, from which CANN decides whether the messages fit.
func bufferMiB() int64 {
	if n, err := strconv.ParseInt(os.Getenv("HCCL_BUFFSIZE"), 10, 64); err == nil && n > 0 {
		return n
	}
	return 200
}

// expertTrip holds the arguments of a layer's exchange.
type expertTrip struct {
	group, algorithm          string
	rank, ranks, experts, all int64 // all is the number of tokens of all ranks if each had the most
	x, ids, weights, y        *aclnn.Tensor
	rows, results             *aclnn.Tensor // that come to this rank's experts
	counts, assist, ends, tp  *aclnn.Tensor
	scales                    *aclnn.Tensor
	sent, received            *aclnn.Tensor // weights, which an Atlas A2 sends along
}

// distributed makes the Run of the kernels that launch CANN's exchange.
func (l *expertLayer) distributed(queue func(s *aclnn.Scope, e *expertTrip) (dispatch, combine func())) func(context.Context, *acl.Stream, *ExpertLayerArgs) error {
	return func(ctx context.Context, st *acl.Stream, a *ExpertLayerArgs) error {
		return aclnn.Compose(st, func(s *aclnn.Scope) {
			e := l.trip(s, a)
			dispatch, combine := queue(s, e)
			dispatch()
			l.compute(ctx, s, a, e.rows, ops.Groups{Device: e.counts}, e.results)
			combine()
		})
	}
}

// trip makes the tensors. A rank without tokens takes part with one whose weights are zero, since
// CANN takes none without.
func (l *expertLayer) trip(s *aclnn.Scope, a *ExpertLayerArgs) *expertTrip {
	e := &expertTrip{group: l.group, rank: l.rank, ranks: l.ranks, experts: a.GateUp.Dim(0) * l.ranks, all: a.most() * l.ranks, x: a.X, y: a.Out}
	e.ids, e.weights = s.Contiguous(a.Experts), s.Contiguous(a.Weights)
	if a.X.Dim(0) == 0 {
		e.x, e.y = s.Tensor(a.X.DType(), 1, a.X.Dim(1)), s.Tensor(a.X.DType(), 1, a.X.Dim(1))
		e.ids, e.weights = s.Tensor(aclnn.Int32, 1, a.Experts.Dim(1)), s.Tensor(aclnn.Float32, 1, a.Experts.Dim(1))
		for _, t := range []*aclnn.Tensor{e.x, e.ids, e.weights} {
			s.Zero(t)
		}
	}
	k, dt, width := a.Experts.Dim(1), a.X.DType(), a.X.Dim(1)
	room := e.all * min(a.GateUp.Dim(0), k)
	e.rows, e.results = s.Tensor(dt, room, width), s.Tensor(dt, room, width)
	e.counts, e.tp = s.Tensor(aclnn.Int64, a.GateUp.Dim(0)), s.Tensor(aclnn.Int32, 1)
	e.scales = s.Tensor(aclnn.Float32, room)
	ends := e.experts
	if a2 := !strings.HasPrefix(l.reg.Env().SoC, "Ascend910_93"); a2 {
		const server = 8 // ranks; a server's sums are noted behind
		ends += 2 * e.all * k * (l.ranks / server)
		e.algorithm, e.sent, e.received = "fullmesh", e.weights, s.Tensor(aclnn.Float32, room)
	}
	e.ends = s.Tensor(aclnn.Int32, ends)
	return e
}

// countEach makes the dispatch count the rows of each expert.
const countEach = 1

// distribute queues the first version of the operators.
func distribute(s *aclnn.Scope, e *expertTrip) (dispatch, combine func()) {
	e.assist = s.Tensor(aclnn.Int32, e.ids.Len())
	return func() {
			aclnn.Launch(s, aclnn.MoeDistributeDispatch, aclnn.MoeDistributeDispatchParams{
				X: e.x, ExpertIds: e.ids, ExpertScales: e.sent, GroupEp: e.group, EpWorldSize: e.ranks, EpRankId: e.rank, MoeExpertNum: e.experts,
				GlobalBs: e.all, ExpertTokenNumsType: countEach, ExpandX: e.rows, DynamicScales: e.scales, ExpandIdx: e.assist,
				ExpertTokenNums: e.counts, EpRecvCounts: e.ends, TpRecvCounts: e.tp, ExpandScales: e.received,
			})
		}, func() {
			aclnn.Launch(s, aclnn.MoeDistributeCombine, aclnn.MoeDistributeCombineParams{
				ExpandX: e.results, ExpertIds: e.ids, ExpandIdx: e.assist, EpSendCounts: e.ends, ExpertScales: e.weights, TpSendCounts: e.tp, ExpandScales: e.received,
				GroupEp: e.group, EpWorldSize: e.ranks, EpRankId: e.rank, MoeExpertNum: e.experts, GlobalBs: e.all, X: e.y,
			})
		}
}

// distributeV2 queues the second version of the operators.
func distributeV2(s *aclnn.Scope, e *expertTrip) (dispatch, combine func()) {
	const origin = 128 // numbers for each row that came
	e.assist = s.Tensor(aclnn.Int32, e.rows.Dim(0)*origin)
	return func() {
			aclnn.Launch(s, aclnn.MoeDistributeDispatchV2, aclnn.MoeDistributeDispatchV2Params{
				X: e.x, ExpertIds: e.ids, ExpertScales: e.sent, GroupEp: e.group, EpWorldSize: e.ranks, EpRankId: e.rank, MoeExpertNum: e.experts,
				GlobalBs: e.all, ExpertTokenNumsType: countEach, CommAlg: e.algorithm, ExpandXOut: e.rows, DynamicScalesOut: e.scales, AssistInfoForCombineOut: e.assist,
				ExpertTokenNumsOut: e.counts, EpRecvCountsOut: e.ends, TpRecvCountsOut: e.tp, ExpandScalesOut: e.received,
			})
		}, func() {
			aclnn.Launch(s, aclnn.MoeDistributeCombineV2, aclnn.MoeDistributeCombineV2Params{
				ExpandX: e.results, ExpertIds: e.ids, AssistInfoForCombine: e.assist, EpSendCounts: e.ends, ExpertScales: e.weights, TpSendCounts: e.tp, ExpandScales: e.received,
				GroupEp: e.group, EpWorldSize: e.ranks, EpRankId: e.rank, MoeExpertNum: e.experts, GlobalBs: e.all, CommAlg: e.algorithm, XOut: e.y,
			})
		}
}
