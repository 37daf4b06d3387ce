package nn

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// fusedExchanges multiply tokens by the weights of experts that live on several ranks, beside
// a product of this rank alone.
var fusedExchanges = table{"AlltoAllvGroupedMatMul": exchangeThenMultiply, "GroupedMatMulAlltoAllv": multiplyThenExchange}

// tokenExchange is what both directions share. Counts are of tokens: of rank r and its expert
// i at r·experts + i.
type tokenExchange struct {
	comm          Communicator
	x, weight     *Tensor
	experts       int64
	send, receive []int64
	own           Run // the product of this rank alone, or nil
}

func (c *Call) tokenExchange() tokenExchange {
	g := tokenExchange{comm: c.communicator("group"), x: c.Tensor("gmmX")}
	weight := c.Tensor("gmmWeight")
	for _, name := range []string{"sendCountsTensorOptional", "recvCountsTensorOptional"} {
		if t := c.Optional(name); t != nil {
			c.Fail(nullPointer, "%v is given; counts are taken from the array, pass null", t)
		}
	}
	if n := c.Int("epWorldSize"); c.err == nil && n != int64(g.comm.Size) {
		c.Invalid("epWorldSize is %d, but the group has %d ranks", n, g.comm.Size)
	}
	c.plain(g.x, weight)
	c.Rank(g.x, 2, 2)
	c.Rank(weight, 3, 3)
	c.DType(g.x, pairTypes...)
	c.SameDType(g.x, weight)
	g.own = c.ownProduct(g.x.DType)
	if c.err != nil {
		return g
	}
	g.weight, g.experts = c.turned(weight, c.Bool("transGmmWeight")), weight.Dim(0)
	if g.x.Dim(1) != g.weight.Dim(1) {
		c.Invalid("%v and %v cannot be multiplied: the inner dimensions are %d and %d", g.x, g.weight, g.x.Dim(1), g.weight.Dim(1))
	}
	g.send, g.receive = c.tokenCounts("sendCounts", g.experts), c.tokenCounts("recvCounts", g.experts)
	if c.err == nil && !slices.Equal(g.of(g.send, g.comm.Rank), g.of(g.receive, g.comm.Rank)) {
		c.Invalid("rank %d sends its experts %v tokens of its own and expects %v", g.comm.Rank, g.of(g.send, g.comm.Rank), g.of(g.receive, g.comm.Rank))
	}
	return g
}

// of are the counts of one rank's experts.
func (g tokenExchange) of(counts []int64, rank int) []int64 {
	return counts[int64(rank)*g.experts:][:g.experts]
}

// tokenCounts is an array of a count for each expert of each rank.
func (c *Call) tokenCounts(name string, experts int64) []int64 {
	counts := c.Ints(name)
	n := c.Int("epWorldSize") * experts
	switch {
	case counts == nil:
		c.Fail(nullPointer, "%s is null", name)
	case int64(len(counts)) != n:
		c.Invalid("%s has %d counts; %d ranks of %d experts need %d", name, len(counts), c.Int("epWorldSize"), experts, n)
	case slices.Min(append(slices.Clone(counts), 0)) < 0:
		c.Invalid("%s holds %v; counts must not be negative", name, counts)
	}
	return counts
}

// ownProduct is mmY = mmX · mmWeight, or nil without them.
func (c *Call) ownProduct(d dtype.Type) Run {
	x, weight, y := c.Optional("mmXOptional"), c.Optional("mmWeightOptional"), c.Optional("mmYOptional")
	if x == nil && weight == nil && y == nil {
		return nil
	}
	if x == nil || weight == nil || y == nil {
		c.Invalid("of mmXOptional, mmWeightOptional and mmYOptional give all or none")
		return nil
	}
	for _, t := range []*Tensor{x, weight, y} {
		c.plain(t)
		c.Rank(t, 2, 2)
		c.DType(t, d)
	}
	if c.err != nil {
		return nil
	}
	run, err := c.product(product{out: y, a: left(x), b: right(c.turned(weight, c.Bool("transMmWeight"))), alpha: 1, types: pairTypes})
	c.err = err
	return run
}

func total(counts []int64) (n int64) {
	for _, k := range counts {
		n += k
	}
	return n
}

// exchange sends tokens of a width, which lie by rank and expert, as the counts say.
func (g tokenExchange) exchange(c *Call, into, t *Tensor) {
	// Counts and offsets of what leaves, then of what comes, which HCCL reads by address.
	blocks := make([]uint64, 4*g.comm.Size)
	for k, counts := range [][]int64{g.send, g.receive} {
		n, at := blocks[2*k*g.comm.Size:], blocks[(2*k+1)*g.comm.Size:]
		first := int64(0)
		for r := range g.comm.Size {
			tokens := total(g.of(counts, r))
			n[r], at[r] = uint64(tokens*t.Dim(1)), uint64(first*t.Dim(1))
			first += tokens
		}
	}
	address := func(i int) uint64 { return uint64(uintptr(unsafe.Pointer(&blocks[i*g.comm.Size]))) }
	c.collect(g.comm, "HcclAlltoAllV", func(workspace uint64) []uint64 {
		d := hcclTypes[t.DType]
		return []uint64{t.address(workspace), address(0), address(1), d, into.address(workspace), address(2), address(3), d}
	})
}

// byExpert copies tokens that lie by rank and expert to where they lie by expert and rank, or
// back. counts say which are there.
func (g tokenExchange) byExpert(counts []int64, expertMajor, rankMajor kernel.View, back bool) error {
	to := int64(0)
	for i := range g.experts {
		from := int64(0)
		for k, n := range counts {
			if int64(k)%g.experts == i && n > 0 {
				dst, src := expertMajor.Narrow(0, to, n), rankMajor.Narrow(0, from, n)
				if back {
					dst, src = src, dst
				}
				if err := kernel.Copy(dst, src); err != nil {
					return err
				}
				to += n
			}
			from += n
		}
	}
	return nil
}

// multiply is the product of each expert's tokens, which lie by expert, with its weight.
func (g tokenExchange) multiply(counts []int64, out, x kernel.View) error {
	first := int64(0)
	for i := range g.experts {
		n := int64(0)
		for r := range g.comm.Size {
			n += g.of(counts, r)[i]
		}
		if n > 0 {
			err := kernel.Gemm(kernel.Product{Out: out.Narrow(0, first, n), A: x.Narrow(0, first, n), B: g.weight.View().Select(0, i), Alpha: 1})
			if err != nil {
				return err
			}
		}
		first += n
	}
	return nil
}

// alone is the product of this rank alone, if there is one.
func (g tokenExchange) alone(x *Exec) error {
	if g.own == nil {
		return nil
	}
	return g.own(x)
}

// exchangeThenMultiply brings the tokens to the ranks of their experts, orders them by expert,
// and multiplies them.
func exchangeThenMultiply(c *Call) (Run, error) {
	g := c.tokenExchange()
	out, ordered := c.Tensor("gmmY"), c.Optional("permuteOutOptional")
	if c.err != nil {
		return nil, c.err
	}
	width, tokens := g.x.Dim(1), total(g.receive)
	c.plain(out)
	c.SameDType(g.x, out)
	c.Shape(out, []int64{tokens, g.weight.Dim(2)}, "the tokens of recvCounts and the columns of gmmWeight")
	c.Shape(g.x, []int64{total(g.send), width}, "the tokens of sendCounts")
	switch wanted := c.Bool("permuteOutFlag"); {
	case wanted && ordered == nil:
		c.Fail(nullPointer, "permuteOutOptional is null, but permuteOutFlag is true")
	case wanted:
		c.plain(ordered)
		c.SameDType(g.x, ordered)
		c.Shape(ordered, []int64{tokens, width}, "the tokens that arrive")
	default:
		ordered = c.scratch(g.x.DType, tokens, width)
	}
	if c.err != nil {
		return nil, c.err
	}
	arrived := c.scratch(g.x.DType, tokens, width)
	g.exchange(c, arrived, c.contiguous(g.x))
	return func(x *Exec) error {
		if err := g.byExpert(g.receive, ordered.View(), arrived.View(), false); err != nil {
			return err
		}
		if err := g.multiply(g.receive, out.View(), ordered.View()); err != nil {
			return err
		}
		return g.alone(x)
	}, nil
}

// multiplyThenExchange multiplies tokens that lie by expert, and brings the products back to
// the ranks that the tokens came from.
func multiplyThenExchange(c *Call) (Run, error) {
	g := c.tokenExchange()
	out := c.Tensor("y")
	if c.err != nil {
		return nil, c.err
	}
	width, tokens := g.weight.Dim(2), total(g.send)
	c.plain(out)
	c.SameDType(g.x, out)
	c.Shape(out, []int64{total(g.receive), width}, "the tokens of recvCounts and the columns of gmmWeight")
	c.Shape(g.x, []int64{tokens, g.x.Dim(1)}, "the tokens of sendCounts")
	if c.err != nil {
		return nil, c.err
	}
	d := g.x.DType
	products, sent, arrived := c.scratch(d, tokens, width), c.scratch(d, tokens, width), c.scratch(d, out.Shape...)
	c.compute(func(x *Exec) error {
		if err := g.multiply(g.send, products.View(), g.x.View()); err != nil {
			return err
		}
		if err := g.byExpert(g.send, products.View(), sent.View(), true); err != nil {
			return err
		}
		return g.alone(x)
	})
	g.exchange(c, arrived, sent)
	return c.copyRun(out.View, arrived.View)
}
