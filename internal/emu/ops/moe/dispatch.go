package moe

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/op"
)

// Indices of the numbers that accompany a token.
const (
	noteExpert = iota // expert on the receiving rank; -1 for no token
	noteToken
	noteChoice
	notes
)

// assistance is the count of numbers that the second version stores per received row.
const assistance = 128

// serverRanks is the number of chips of a server with Atlas A2.
const serverRanks = 8

// dispatch is a call that sends tokens to the ranks of their experts.
type dispatch struct {
	*op.Call
	distribution

	x, ids, mask, smooth, weights *op.Tensor

	out, scales, assist, tokenNums, ends, tpCounts, outWeights *op.Tensor

	capacity int64 // rows of out per rank of tp
	quant    bool
	prefix   bool // tokenNums holds running sums
	history  bool // assist holds the origin of rows; otherwise it counts each expert's tokens
	waits    *waits
}

func moeDispatch(c *op.Call) (op.Run, error) {
	x, ids := c.Tensor("x"), c.Tensor("expertIds")
	c.Needs("expandX", "expandXOut", "expandIdx", "assistInfoForCombineOut", "expertTokenNums", "expertTokenNumsOut", "epRecvCounts", "epRecvCountsOut", "tpRecvCounts", "tpRecvCountsOut")
	if c.Int("quantMode") == 2 {
		c.Needs("dynamicScales", "dynamicScalesOut")
	}
	c.Plain(x)
	c.Rank(x, 2, 2)
	c.DType(x, op.HalfTypes...)
	p := &dispatch{Call: c, distribution: newDistribution(c, ids), x: x, ids: ids}
	if c.Err() == nil {
		p.checkLimits(c, x.Dim(1))
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	if x.Dim(0) != p.tokens {
		c.Unfit("%v and %v differ in the number of tokens", x, ids)
	}
	c.NoneOf("elasticInfoOptional")
	p.waits = newWaits(c, p.distribution)
	p.mask, p.smooth, p.weights = activeMask(c, p.distribution), c.OptionalOf("scales", "scalesOptional"), c.OptionalOf("expertScales", "expertScalesOptional")
	p.history = c.Has("assistInfoForCombineOut")
	p.out, p.assist = c.Tensor(c.Either("expandX", "expandXOut")), c.Tensor(c.Either("expandIdx", "assistInfoForCombineOut"))
	p.tokenNums, p.ends = c.Tensor(c.Either("expertTokenNums", "expertTokenNumsOut")), c.Tensor(c.Either("epRecvCounts", "epRecvCountsOut"))
	p.tpCounts = c.Tensor(c.Either("tpRecvCounts", "tpRecvCountsOut"))
	p.scales, p.outWeights = c.OptionalOf("dynamicScales", "dynamicScalesOut"), c.OptionalOf("expandScales", "expandScalesOut")
	if c.Err() != nil {
		return nil, c.Err()
	}
	if p.checkOutputs(); c.Err() != nil {
		return nil, c.Err()
	}
	return p.prepare(), nil
}

func (p *dispatch) checkOutputs() {
	ranks, tp := int64(p.ep.Size), int64(p.tp.Size)
	switch mode := p.Int("quantMode"); mode {
	case 0:
		p.SameDType(p.x, p.out)
		p.smooth, p.scales = nil, nil
	case 2:
		p.quant = true
		p.DType(p.out, dtype.Int8)
	default:
		p.Unfit("quantMode is %d; 0 is none, 2 dynamic", mode)
	}
	switch kind := p.Int("expertTokenNumsType"); kind {
	case 0, 1:
		p.prefix = kind == 0
	default:
		p.Unfit("expertTokenNumsType is %d; 0 adds up, 1 counts", kind)
	}
	p.Plain(p.out, p.assist, p.tokenNums, p.ends)
	p.Rank(p.out, 2, 2)
	if p.Err() != nil {
		return
	}
	p.capacity = p.out.Dim(0) / tp
	if p.out.Dim(1) != p.x.Dim(1) || p.out.Dim(0)%tp != 0 || p.capacity < p.received() {
		p.Unfit("%v must have %d columns and at least %d rows", p.out, p.x.Dim(1), tp*p.received())
	}
	least := func(t *op.Tensor, d dtype.Type, n int64, what string) {
		p.DType(t, d)
		p.Plain(t)
		if t.Rank() != 1 || t.Len() < n {
			p.Unfit("%v must have %d elements (%s)", t, n, what)
		}
	}
	if p.history {
		least(p.assist, dtype.Int32, p.capacity*assistance, "128 for each row")
	} else {
		least(p.assist, dtype.Int32, p.tokens*p.choices, "one for each choice of a token")
	}
	least(p.tokenNums, dtype.Int64, p.local(), "one for each expert here")
	ends := tp * ranks * p.local()
	if p.Tiled() && p.Chip() == acceptance.Ascend910B { // room for sums of the ranks of a server
		ends += 2 * p.most * ranks * p.choices * (ranks / serverRanks)
	}
	least(p.ends, dtype.Int32, ends, "one for each expert and rank, and on an Atlas A2 two for each choice of a token and server")
	if least(p.tpCounts, dtype.Int32, 1, "one for each rank"); tp > 1 {
		least(p.tpCounts, dtype.Int32, tp, "one for each rank")
	}
	if p.quant {
		if p.scales == nil {
			p.Fail(op.NullPointer, "dynamicScales is null; quantMode 2 needs it")
			return
		}
		least(p.scales, dtype.Float32, tp*p.capacity, "one for each row")
	}
	if p.smooth != nil {
		p.Plain(p.smooth)
		p.DType(p.smooth, dtype.Float32)
		if n := p.experts + p.Int("sharedExpertNum"); p.smooth.Rank() != 2 || p.smooth.Dim(1) != p.x.Dim(1) || p.smooth.Dim(0) != n && p.smooth.Dim(0) != p.experts+p.sharedExperts {
			p.Unfit("%v must be [%d,%d], a row for each expert", p.smooth, n, p.x.Dim(1))
		}
	}
	if p.weights == nil {
		p.outWeights = nil
	} else {
		p.Plain(p.weights)
		p.DType(p.weights, dtype.Float32)
		if !slices.Equal(p.weights.Shape, p.ids.Shape) {
			p.Unfit("%v and %v differ in shape", p.weights, p.ids)
		}
		if p.outWeights != nil {
			least(p.outWeights, dtype.Float32, p.capacity, "one for each row")
		}
	}
}

// prepare sets up the stages: pack, exchange, sort the received rows, and share them within tp.
func (p *dispatch) prepare() op.Run {
	width, ranks := p.x.Dim(1), int64(p.ep.Size)
	sent, came := messages(p.Call, p.distribution, p.x.DType, width), messages(p.Call, p.distribution, p.x.DType, width)
	sentNotes, cameNotes := messages(p.Call, p.distribution, dtype.Int32, notes), messages(p.Call, p.distribution, dtype.Int32, notes)
	var sentWeights, cameWeights *op.Tensor
	if p.outWeights != nil {
		sentWeights, cameWeights = messages(p.Call, p.distribution, dtype.Float32), messages(p.Call, p.distribution, dtype.Float32)
	}
	p.Compute(func(*op.Exec) error { return p.pack(sent, sentNotes, sentWeights) })
	p.waits.exchange(p.Call, p.distribution)
	p.AllToAll(p.ep, came, sent)
	p.AllToAll(p.ep, cameNotes, sentNotes)
	if p.outWeights != nil {
		p.AllToAll(p.ep, cameWeights, sentWeights)
	}
	own, ends := p.Scratch(p.out.DType, p.capacity, width), p.Scratch(dtype.Int32, ranks*p.local())
	scales := p.Scratch(dtype.Float32, p.capacity)
	unpack := func() error {
		if err := p.waits.add(p.distribution); err != nil {
			return err
		}
		return p.unpack(own, ends, scales, came, cameNotes, cameWeights)
	}
	if p.tp.Size == 1 {
		return func(*op.Exec) error {
			if err := unpack(); err != nil {
				return err
			}
			return p.share(own, ends, scales)
		}
	}
	tp := int64(p.tp.Size)
	all, allEnds, allScales := p.Scratch(p.out.DType, tp, p.capacity, width), p.Scratch(dtype.Int32, tp, ranks*p.local()), p.Scratch(dtype.Float32, tp, p.capacity)
	p.Compute(func(*op.Exec) error { return unpack() })
	p.AllGather(p.tp, all, own)
	p.AllGather(p.tp, allEnds, ends)
	p.AllGather(p.tp, allScales, scales)
	return func(*op.Exec) error { return p.share(all, allEnds, allScales) }
}

// pack writes the messages to the other ranks.
func (p *dispatch) pack(sent, sentNotes, sentWeights *op.Tensor) error {
	ids, err := elementwise.Indices(p.ids.View())
	if err != nil {
		return err
	}
	limit := p.experts
	for _, kind := range []string{"zeroExpertNum", "copyExpertNum", "constExpertNum"} {
		if p.Has(kind) {
			limit += p.Int(kind)
		}
	}
	if i := slices.IndexFunc(ids, func(id int64) bool { return id < 0 || id >= limit }); i >= 0 {
		return fmt.Errorf("%v holds expert %d at position %d; there are %d", p.ids, ids[i], i, limit)
	}
	active, err := p.activity(p.mask)
	if err != nil {
		return err
	}
	var weights []float32
	if sentWeights != nil {
		if weights, err = elementwise.Floats(p.weights.View()); err != nil {
			return err
		}
	}
	places, note := make([]int64, sent.Dim(0)*sent.Dim(1)), make([]int64, sentNotes.Len())
	for i := range note {
		note[i] = -1
	}
	weight := make([]float64, len(places))
	nth := make([]int64, p.tokens*p.choices)
	for rank, experts := range p.sends(ids, active) {
		at := int64(rank) * p.room()
		for expert, list := range experts {
			for i, a := range list {
				places[at] = a.token
				copy(note[at*notes:], []int64{noteExpert: int64(expert), noteToken: a.token, noteChoice: a.place})
				if a.place < p.choices {
					nth[a.token*p.choices+a.place] = int64(i)
				}
				if weights != nil {
					weight[at] = 1
					if a.place < p.choices {
						weight[at] = float64(weights[a.token*p.choices+a.place])
					}
				}
				at++
			}
		}
	}
	if p.tokens > 0 {
		if err := indexing.Rows(sent.As([]int64{int64(len(places)), sent.Dim(2)}, []int64{sent.Dim(2), 1}), p.x.View(), places); err != nil {
			return err
		}
	}
	if err := indexing.SetInts(sentNotes.View(), note); err != nil {
		return err
	}
	if sentWeights != nil {
		if err := elementwise.SetFloats(sentWeights.View(), weight); err != nil {
			return err
		}
	}
	if p.history {
		return nil
	}
	return indexing.SetInts(p.assist.View().Narrow(0, 0, int64(len(nth))), nth)
}

// unpack sorts the received tokens by expert, then by rank, and quantises them.
func (p *dispatch) unpack(own, ends, scales, came, cameNotes, cameWeights *op.Tensor) error {
	note, err := elementwise.Indices(cameNotes.View())
	if err != nil {
		return err
	}
	ranks, room := int64(p.ep.Size), p.room()
	var places, sums, history []int64
	for expert := range p.local() {
		for rank := range ranks {
			for i := rank * room; i < (rank+1)*room; i++ {
				if note[i*notes+noteExpert] != expert {
					continue
				}
				places = append(places, i)
				if p.history {
					row := make([]int64, assistance)
					row[0], row[1], row[2] = rank, note[i*notes+noteToken], note[i*notes+noteChoice]
					history = append(history, row...)
				}
			}
			sums = append(sums, int64(len(places)))
		}
	}
	n, width := int64(len(places)), p.x.Dim(1)
	if n > p.capacity {
		return fmt.Errorf("%d tokens came; %v has room for %d", n, p.out, p.capacity)
	}
	if err := indexing.SetInts(ends.View(), sums); err != nil {
		return err
	}
	if p.history {
		if err := indexing.SetInts(p.assist.View().Narrow(0, 0, n*assistance), history); err != nil {
			return err
		}
	}
	flat := came.As([]int64{ranks * room, width}, []int64{width, 1})
	if p.outWeights != nil {
		weights, err := elementwise.Doubles(cameWeights.View())
		if err != nil {
			return err
		}
		of := make([]float64, n)
		for i, k := range places {
			of[i] = weights[k]
		}
		if err := elementwise.SetFloats(p.outWeights.View().Narrow(0, 0, n), of); err != nil {
			return err
		}
	}
	if n == 0 {
		return nil
	}
	into := own.View().Narrow(0, 0, n)
	if !p.quant {
		return indexing.Rows(into, flat, places)
	}
	ordered, release, err := op.RowsOf(flat, places)
	defer release()
	if err != nil {
		return err
	}
	q := gemm.DynamicQuantizer{}
	if p.smooth != nil {
		q.Smooth = p.smooth.View().Narrow(0, p.firstExpert(), p.local())
		for expert := range p.local() {
			q.Ends = append(q.Ends, sums[(expert+1)*ranks-1])
		}
	}
	return q.Quantize(into, scales.View().Narrow(0, 0, n), ordered)
}

// firstExpert returns the row of smooth for the first expert of this rank. Shared experts come
// first in smooth.
func (p *dispatch) firstExpert() int64 {
	rank := int64(p.ep.Rank)
	if rank < p.sharedRanks {
		return rank / p.turns()
	}
	return p.smooth.Dim(0) - p.experts + (rank-p.sharedRanks)*p.perRank()
}

// share concatenates what the ranks of tp received.
func (p *dispatch) share(rows, ends, scales *op.Tensor) error {
	sums, err := elementwise.Indices(ends.View())
	if err != nil {
		return err
	}
	ranks, tp := int64(p.ep.Size), int64(p.tp.Size)
	each, width := ranks*p.local(), p.x.Dim(1)
	numbers, counts, at := make([]int64, p.local()), make([]int64, tp), int64(0)
	from := rows.As([]int64{tp, p.capacity, width}, []int64{p.capacity * width, width, 1})
	for t := range tp {
		k := arrivals{sums[t*each : (t+1)*each], ranks}
		n := k.rows()
		counts[t] = n
		for expert := range numbers {
			first, _ := k.of(int64(expert), 0)
			last, more := k.of(int64(expert), ranks-1)
			numbers[expert] += last + more - first
		}
		if err := elementwise.Copy(p.out.View().Narrow(0, at, n), from.Select(0, t).Narrow(0, 0, n)); err != nil {
			return err
		}
		if p.quant {
			if err := elementwise.Copy(p.scales.View().Narrow(0, at, n), scales.As([]int64{tp, p.capacity}, []int64{p.capacity, 1}).Select(0, t).Narrow(0, 0, n)); err != nil {
				return err
			}
		}
		at += n
	}
	if p.prefix {
		for i := 1; i < len(numbers); i++ {
			numbers[i] += numbers[i-1]
		}
	}
	if tp > 1 {
		if err := indexing.SetInts(p.tpCounts.View().Narrow(0, 0, tp), counts); err != nil {
			return err
		}
	}
	if err := indexing.SetInts(p.tokenNums.View().Narrow(0, 0, p.local()), numbers); err != nil {
		return err
	}
	return indexing.SetInts(p.ends.View().Narrow(0, 0, tp*each), sums)
}
