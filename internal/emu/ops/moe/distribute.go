package moe

import (
	"slices"
	"time"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/op"
)

// distributions lists the operators that send tokens to the ranks of their experts and back.
var distributions = op.Table{
	"MoeDistributeDispatch": moeDispatch, "MoeDistributeDispatchV2": moeDispatch, "MoeDistributeDispatchV3": moeDispatch, "MoeDistributeDispatchV4": moeDispatch,
	"MoeDistributeCombine": moeCombine, "MoeDistributeCombineV2": moeCombine, "MoeDistributeCombineV3": moeCombine, "MoeDistributeCombineV4": moeCombine,
	"MoeDistributeCombineAddRmsNorm": moeCombine, "MoeDistributeCombineAddRmsNormV2": moeCombine,
}.Selects().Exchanges()

// distribution describes where experts are placed in a group. The first ranks hold the shared
// experts, each replicated on the same number of ranks; the other ranks hold the remaining
// experts in order.
type distribution struct {
	ep, tp                     op.Communicator
	experts                    int64 // routed experts, without the shared ones
	sharedExperts, sharedRanks int64
	tokens, most               int64 // tokens of this rank, and the maximum over all ranks
	choices                    int64 // experts per token
}

// assignment is a token that is sent to an expert.
type assignment struct {
	token int64
	place int64 // index among the token's choices, which the shared experts follow
}

// newDistribution reads the arguments that determine the placement of experts.
func newDistribution(c *op.Call, expertIDs *op.Tensor) distribution {
	d := distribution{
		ep: c.Communicator("groupEp"), tp: op.Communicator{Size: 1}, experts: c.Int("moeExpertNum"),
		sharedExperts: c.Int("sharedExpertNum"), sharedRanks: c.Int("sharedExpertRankNum"),
	}
	if n := c.Int("tpWorldSize"); n == 2 {
		d.tp = c.Communicator("groupTp")
	} else if n != 0 && n != 1 {
		c.Unfit("tpWorldSize is %d; use 0 to 2", n)
	}
	c.DType(expertIDs, dtype.Int32)
	c.Plain(expertIDs)
	c.Rank(expertIDs, 2, 2)
	if c.Err() != nil {
		return d
	}
	for _, x := range []struct {
		what       string
		comm       op.Communicator
		size, rank int64
	}{{"ep", d.ep, c.Int("epWorldSize"), c.Int("epRankId")}, {"tp", d.tp, max(c.Int("tpWorldSize"), 1), c.Int("tpRankId")}} {
		if x.size != int64(x.comm.Size) || x.rank != int64(x.comm.Rank) {
			c.Unfit("%sRankId %d of %sWorldSize %d, but this is rank %d of %d of the group", x.what, x.rank, x.what, x.size, x.comm.Rank, x.comm.Size)
		}
	}
	if kind := c.Int("expertShardType"); kind != 0 {
		c.Unfit("expertShardType is %d; only 0 is supported", kind)
	}
	ranks := int64(d.ep.Size)
	switch {
	case d.sharedRanks < 0 || d.sharedRanks >= ranks || d.sharedExperts < 0 || d.sharedExperts > 4,
		d.sharedRanks == 0 && d.sharedExperts > 1, d.sharedRanks > 0 && (d.sharedExperts == 0 || d.sharedRanks%d.sharedExperts != 0):
		c.Unfit("sharedExpertNum %d and sharedExpertRankNum %d do not fit %d ranks", d.sharedExperts, d.sharedRanks, ranks)
		return d
	case d.experts <= 0 || d.experts%(ranks-d.sharedRanks) != 0:
		c.Unfit("moeExpertNum is %d; the experts must divide among %d ranks", d.experts, ranks-d.sharedRanks)
	case d.tp.Size > 1 && d.local() > 1:
		c.Unfit("%d experts on a rank; with tpWorldSize %d it must be one", d.local(), d.tp.Size)
	}
	if d.sharedRanks == 0 {
		d.sharedExperts = 0
	}
	d.tokens, d.choices = expertIDs.Dim(0), expertIDs.Dim(1)
	d.most = d.tokens
	if all := c.Int("globalBs"); all != 0 {
		if d.most = all / ranks; all%ranks != 0 || d.most < d.tokens {
			c.Unfit("globalBs is %d; it must be the most tokens of a rank, at least %d, times %d ranks", all, d.tokens, ranks)
		}
	}
	return d
}

// perRank returns the number of experts on a rank that holds no shared experts.
func (d distribution) perRank() int64 { return d.experts / (int64(d.ep.Size) - d.sharedRanks) }

// turns returns the number of ranks that hold the same shared expert and divide the tokens.
func (d distribution) turns() int64 { return d.sharedRanks / d.sharedExperts }

// local returns the number of experts on this rank.
func (d distribution) local() int64 {
	if int64(d.ep.Rank) < d.sharedRanks {
		return 1
	}
	return d.perRank()
}

// room returns the maximum number of tokens that one rank sends to another.
func (d distribution) room() int64 { return d.most * max(min(d.perRank(), d.choices), 1) }

// received returns the maximum number of tokens that this rank receives.
func (d distribution) received() int64 {
	if int64(d.ep.Rank) < d.sharedRanks {
		return (d.most*int64(d.ep.Size) + d.turns() - 1) / d.turns()
	}
	return int64(d.ep.Size) * d.most * min(d.perRank(), d.choices)
}

// sends lists what this rank sends, by receiving rank, then by expert on that rank, in token
// order. Sender and receiver derive a token's position in a message from this order.
func (d distribution) sends(ids []int64, active func(token, choice int64) bool) [][][]assignment {
	all := make([][][]assignment, d.ep.Size)
	for r := range all {
		n := d.perRank()
		if int64(r) < d.sharedRanks {
			n = 1
		}
		all[r] = make([][]assignment, n)
	}
	put := func(rank, expert int64, a assignment) { all[rank][expert] = append(all[rank][expert], a) }
	for token := range d.tokens {
		takesPart := false
		for choice := range d.choices {
			if !active(token, choice) {
				continue
			}
			takesPart = true
			if id := ids[token*d.choices+choice]; id >= 0 && id < d.experts {
				put(d.sharedRanks+id/d.perRank(), id%d.perRank(), assignment{token, choice})
			}
		}
		for s := range d.sharedExperts {
			if takesPart {
				put(s*d.turns()+(int64(d.ep.Rank)*d.most+token)%d.turns(), 0, assignment{token, d.choices + s})
			}
		}
	}
	return all
}

// activity returns a function that reports which choices of tokens are active; without a mask
// all are. Call it inside Run.
func (d distribution) activity(mask *op.Tensor) (func(token, choice int64) bool, error) {
	if mask == nil {
		return func(int64, int64) bool { return true }, nil
	}
	on, err := elementwise.Indices(mask.View())
	if mask.Rank() == 1 {
		return func(token, _ int64) bool { return on[token] != 0 }, err
	}
	return func(token, choice int64) bool { return on[token*d.choices+choice] != 0 }, err
}

// activeMask checks the mask of active tokens, or of their choices.
func activeMask(c *op.Call, d distribution) *op.Tensor {
	mask := c.OptionalOf("xActiveMask", "xActiveMaskOptional")
	if mask == nil {
		return nil
	}
	c.Plain(mask)
	c.DType(mask, dtype.Bool)
	if !slices.Equal(mask.Shape, []int64{d.tokens}) && !slices.Equal(mask.Shape, []int64{d.tokens, d.choices}) {
		c.Unfit("%v must be [%d] or [%d,%d]", mask, d.tokens, d.tokens, d.choices)
	}
	return mask
}

// arrivals describes the received rows, sorted by expert and then by sending rank.
type arrivals struct {
	ends  []int64 // end of the rows of each expert and rank
	ranks int64
}

// of returns the first row and the number of rows that an expert received from a rank.
func (k arrivals) of(expert, rank int64) (first, n int64) {
	i := expert*k.ranks + rank
	if i > 0 {
		first = k.ends[i-1]
	}
	return first, k.ends[i] - first
}

// rows returns the total number of received rows.
func (k arrivals) rows() int64 { return k.ends[len(k.ends)-1] }

// waits adds up how long this rank waits for the tokens of each rank of a group.
type waits struct {
	total      *op.Tensor // [ranks], microseconds
	own, ready *op.Tensor // when the message of this rank, and of each, is ready
}

// newWaits reads the tensor for the times, and returns nil without one.
func newWaits(c *op.Call, d distribution) *waits {
	total := c.OptionalOf("performanceInfoOptional")
	if total == nil {
		return nil
	}
	if c.Text("commAlg") == "hierarchy" {
		c.Unfit("performanceInfoOptional is given; with commAlg hierarchy it must be null")
	}
	c.Plain(total)
	c.DType(total, dtype.Int64)
	c.Fits(total, []int64{int64(d.ep.Size)}, "one for each rank")
	return &waits{total: total, own: c.Scratch(dtype.Int64, 1), ready: c.Scratch(dtype.Int64, int64(d.ep.Size))}
}

// exchange lets the ranks report, before they exchange their messages, when these were ready.
func (w *waits) exchange(c *op.Call, d distribution) {
	if w == nil {
		return
	}
	c.Compute(func(*op.Exec) error { return indexing.SetInts(w.own.View(), []int64{time.Now().UnixMicro()}) })
	c.AllGather(d.ep, w.ready, w.own)
}

// add adds to each rank's total how much later than this rank it was ready.
func (w *waits) add(d distribution) error {
	if w == nil {
		return nil
	}
	total, err := elementwise.Indices(w.total.View())
	if err != nil {
		return err
	}
	ready, err := elementwise.Indices(w.ready.View())
	if err != nil {
		return err
	}
	for r := range total {
		total[r] += max(ready[r]-ready[d.ep.Rank], 0)
	}
	return indexing.SetInts(w.total.View(), total)
}

// messages reserves a block of rows for each rank.
func messages(c *op.Call, d distribution, t dtype.Type, width ...int64) *op.Tensor {
	return c.Scratch(t, append([]int64{int64(d.ep.Size), d.room()}, width...)...)
}
