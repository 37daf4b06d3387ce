package communication

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/ops/matmul"
	"github.com/goascend/cann/internal/emu/rt"
)

// fusedExchanges multiply tokens by the weights of experts that are spread over several ranks. They
// may compute an additional product of local matrices.
var fusedExchanges = op.Table{"AlltoAllvGroupedMatMul": exchangeThenMultiply, "GroupedMatMulAlltoAllv": multiplyThenExchange, "AlltoAllvGroupedMatMulV2": exchangeThenMultiply, "GroupedMatMulAlltoAllvV2": multiplyThenExchange}.Selects()

// tokenExchange has the arguments that both operators share. Counts are numbers of tokens; the
// count of expert i of rank r is at index r·experts + i.
type tokenExchange struct {
	comm          op.Communicator
	x, weight     *op.Tensor
	experts       int64
	send, receive []int64
	own           op.Run // the additional local product, or nil
}

// newTokenExchange reads the arguments in CANN's order: null pointers, the name of the group, counts, the communicator.
func newTokenExchange(c *op.Call) tokenExchange {
	g := tokenExchange{x: c.Tensor("gmmX")}
	weight := c.Tensor("gmmWeight")
	c.Tensor(c.Either("gmmY", "y"))
	for _, name := range []string{"sendCountsTensorOptional", "recvCountsTensorOptional"} {
		if t := c.Optional(name); t != nil {
			c.Fail(op.NullPointer, "%v is given; counts are taken from the array, pass null", t)
		}
	}
	c.GroupName("group")
	engine(c, "ai_cpu", "ai_cpu")
	x, w, y := c.Optional("mmXOptional"), c.Optional("mmWeightOptional"), c.Optional("mmYOptional")
	if none := x == nil; none != (w == nil) || none != (y == nil) {
		c.Fail(op.NullPointer, "of mmXOptional, mmWeightOptional and mmYOptional give all or none")
	}
	if c.Has("permuteOutFlag") && c.Bool("permuteOutFlag") == (c.Optional("permuteOutOptional") == nil) {
		c.Fail(op.NullPointer, "permuteOutFlag is %v; give permuteOutOptional if it is true, and else null", c.Bool("permuteOutFlag"))
	}
	for _, name := range []string{"sendCounts", "recvCounts"} {
		if counts := c.RequiredInts(name); counts != nil && len(counts) == 0 {
			c.Invalid("%s is empty; it has one count for each expert of each rank", name)
		}
	}
	g.comm = c.Communicator("group")
	if n := c.Int("epWorldSize"); c.Err() == nil && n != int64(g.comm.Size) {
		c.Invalid("epWorldSize is %d, but the group has %d ranks", n, g.comm.Size)
	}
	c.Plain(g.x, weight)
	c.Rank(g.x, 2, 2)
	c.Rank(weight, 3, 3)
	c.DType(g.x, op.HalfTypes...)
	c.SameDType(g.x, weight)
	if x != nil && c.Err() == nil {
		g.own = ownProduct(c, x, w, y, g.x.DType)
	}
	if c.Err() != nil {
		return g
	}
	g.weight, g.experts = c.Transposed(weight, c.Bool("transGmmWeight")), weight.Dim(0)
	if g.x.Dim(1) != g.weight.Dim(1) {
		c.Invalid("%v and %v cannot be multiplied: the inner dimensions are %d and %d", g.x, g.weight, g.x.Dim(1), g.weight.Dim(1))
	}
	g.send, g.receive = tokenCounts(c, "sendCounts", g.experts), tokenCounts(c, "recvCounts", g.experts)
	if c.Err() == nil && !slices.Equal(g.of(g.send, g.comm.Rank), g.of(g.receive, g.comm.Rank)) {
		c.Invalid("rank %d sends its experts %v tokens of its own and expects %v", g.comm.Rank, g.of(g.send, g.comm.Rank), g.of(g.receive, g.comm.Rank))
	}
	return g
}

// of returns the counts of one rank's experts.
func (g tokenExchange) of(counts []int64, rank int) []int64 {
	return counts[int64(rank)*g.experts:][:g.experts]
}

// tokenCounts reads an array with one count for each expert of each rank.
func tokenCounts(c *op.Call, name string, experts int64) []int64 {
	counts := c.Ints(name)
	n := c.Int("epWorldSize") * experts
	switch {
	case int64(len(counts)) != n:
		c.Invalid("%s has %d counts; %d ranks of %d experts need %d", name, len(counts), c.Int("epWorldSize"), experts, n)
	case slices.Min(append(slices.Clone(counts), 0)) < 0:
		c.Invalid("%s holds %v; counts must not be negative", name, counts)
	}
	return counts
}

// ownProduct returns the local product y = x · weight.
func ownProduct(c *op.Call, x, weight, y *op.Tensor, d dtype.Type) op.Run {
	for _, t := range []*op.Tensor{x, weight, y} {
		c.Plain(t)
		c.Rank(t, 2, 2)
		c.DType(t, d)
	}
	if c.Err() != nil {
		return nil
	}
	run, _ := matmul.Multiply(c, matmul.Product{Out: y, A: matmul.Left(x), B: matmul.Right(c.Transposed(weight, c.Bool("transMmWeight"))), Alpha: 1, Types: op.HalfTypes})
	return run // the call records the error
}

// exchange sends tokens of the given width, ordered by rank and expert, according to the counts.
func (g tokenExchange) exchange(c *op.Call, into, t *op.Tensor) {
	// Counts and offsets of the sent tokens, then those of the received ones. HCCL reads them from
	// memory.
	blocks := make([]uint64, 4*g.comm.Size)
	for k, counts := range [][]int64{g.send, g.receive} {
		n, at := blocks[2*k*g.comm.Size:], blocks[(2*k+1)*g.comm.Size:]
		first := int64(0)
		for r := range g.comm.Size {
			tokens := op.Total(g.of(counts, r))
			n[r], at[r] = uint64(tokens*t.Dim(1)), uint64(first*t.Dim(1))
			first += tokens
		}
	}
	list := func(i int) rt.In[uint64] { return rt.In[uint64](uintptr(unsafe.Pointer(&blocks[i*g.comm.Size]))) }
	c.Collect(g.comm, func(h op.HCCL, l op.Launch) error {
		d := op.HCCLTypes[t.DType]
		return h.HcclAlltoAllV(l.Thread, t.Address(l.Workspace), list(0), list(1), d, into.Address(l.Workspace), list(2), list(3), d, g.comm.Handle, l.Stream)
	})
}

// byExpert reorders tokens from rank and expert to expert and rank, or the other way if back is
// set. counts has the number of tokens of each expert of each rank.
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
				if err := elementwise.Copy(dst, src); err != nil {
					return err
				}
				to += n
			}
			from += n
		}
	}
	return nil
}

// multiply multiplies the tokens, ordered by expert, by the weight of their expert.
func (g tokenExchange) multiply(counts []int64, out, x kernel.View) error {
	first := int64(0)
	for i := range g.experts {
		n := int64(0)
		for r := range g.comm.Size {
			n += g.of(counts, r)[i]
		}
		if n > 0 {
			err := gemm.Gemm(gemm.Product{Out: out.Narrow(0, first, n), A: x.Narrow(0, first, n), B: g.weight.View().Select(0, i), Alpha: 1})
			if err != nil {
				return err
			}
		}
		first += n
	}
	return nil
}

// alone computes the additional local product, if there is one.
func (g tokenExchange) alone(x *op.Exec) error {
	if g.own == nil {
		return nil
	}
	return g.own(x)
}

// exchangeThenMultiply sends the tokens to the ranks of their experts, orders them by expert, and
// multiplies them by the weights.
func exchangeThenMultiply(c *op.Call) (op.Run, error) {
	g := newTokenExchange(c)
	out, ordered := c.Tensor("gmmY"), c.Optional("permuteOutOptional")
	if c.Err() != nil {
		return nil, c.Err()
	}
	width, tokens := g.x.Dim(1), op.Total(g.receive)
	c.Plain(out)
	c.SameDType(g.x, out)
	c.Shape(out, []int64{tokens, g.weight.Dim(2)}, "the tokens of recvCounts and the columns of gmmWeight")
	c.Shape(g.x, []int64{op.Total(g.send), width}, "the tokens of sendCounts")
	if ordered == nil {
		ordered = c.Scratch(g.x.DType, tokens, width)
	} else {
		c.Plain(ordered)
		c.SameDType(g.x, ordered)
		c.Shape(ordered, []int64{tokens, width}, "the tokens that arrive")
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	arrived := c.Scratch(g.x.DType, tokens, width)
	g.exchange(c, arrived, c.Contiguous(g.x))
	return func(x *op.Exec) error {
		if err := g.byExpert(g.receive, ordered.View(), arrived.View(), false); err != nil {
			return err
		}
		if err := g.multiply(g.receive, out.View(), ordered.View()); err != nil {
			return err
		}
		return g.alone(x)
	}, nil
}

// multiplyThenExchange multiplies tokens, which are ordered by expert, and sends the products back
// to the ranks that the tokens came from.
func multiplyThenExchange(c *op.Call) (op.Run, error) {
	g := newTokenExchange(c)
	out := c.Tensor("y")
	if c.Err() != nil {
		return nil, c.Err()
	}
	width, tokens := g.weight.Dim(2), op.Total(g.send)
	c.Plain(out)
	c.SameDType(g.x, out)
	c.Shape(out, []int64{op.Total(g.receive), width}, "the tokens of recvCounts and the columns of gmmWeight")
	c.Shape(g.x, []int64{tokens, g.x.Dim(1)}, "the tokens of sendCounts")
	if c.Err() != nil {
		return nil, c.Err()
	}
	d := g.x.DType
	products, sent, arrived := c.Scratch(d, tokens, width), c.Scratch(d, tokens, width), c.Scratch(d, out.Shape...)
	c.Compute(func(x *op.Exec) error {
		if err := g.multiply(g.send, products.View(), g.x.View()); err != nil {
			return err
		}
		if err := g.byExpert(g.send, products.View(), sent.View(), true); err != nil {
			return err
		}
		return g.alone(x)
	})
	g.exchange(c, arrived, sent)
	return c.CopyRun(out.View, arrived.View)
}
