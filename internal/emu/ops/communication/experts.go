package communication

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/ops/matmul"
)

// fusedExperts multiply the tokens of experts that are divided among the ranks of one group (ep).
// The weight of each expert is divided among the ranks of a second group (tp).
var fusedExperts = op.Table{"AlltoAllAllGatherBatchMatMul": gatherExperts, "BatchMatMulReduceScatterAlltoAll": scatterExperts}.Selects()

// expertActivations lists the activations in the order of actType.
var expertActivations = []elementwise.Op{elementwise.Identity, elementwise.Gelu, elementwise.Swish, elementwise.Relu, elementwise.FastGelu}

// expertGrid describes how experts and their weights are divided among ranks.
type expertGrid struct {
	ep, tp  op.Communicator
	byWidth bool // tp divides the last dimension, otherwise the tokens
}

func newExpertGrid(c *op.Call, shardType string) expertGrid {
	g := expertGrid{ep: c.Communicator("groupEp"), tp: c.Communicator("groupTp")}
	for _, x := range []struct {
		name string
		comm op.Communicator
	}{{"epWorldSize", g.ep}, {"tpWorldSize", g.tp}} {
		if n := c.Int(x.name); n != int64(x.comm.Size) {
			c.Invalid("%s is %d, but the group has %d ranks", x.name, n, x.comm.Size)
		}
	}
	if c.Err() == nil && c.Text("groupEp") == c.Text("groupTp") {
		c.Invalid("groupEp and groupTp are both %q; give two groups", c.Text("groupEp"))
	}
	switch kind := c.Int(shardType); kind {
	case 0, 1:
		g.byWidth = kind == 0
	default:
		c.Invalid("%s %d is unknown; 0 divides the last dimension, 1 the tokens", shardType, kind)
	}
	return g
}

// layout views the elements of the contiguous tensor t with the given sizes, and then permutes the
// dimensions to the order of axes.
func layout(t *op.Tensor, sizes []int64, axes ...int) kernel.View {
	strides := op.ContiguousStrides(sizes)
	v := t.As(make([]int64, len(axes)), make([]int64, len(axes)))
	for i, a := range axes {
		v.Shape[i], v.Strides[i] = sizes[a], strides[a]
	}
	return v
}

// expertBias returns the bias of each expert's product as [experts, 1, width].
func expertBias(c *op.Call, d dtype.Type, experts, width int64) *op.Tensor {
	bias := c.Optional("biasOptional")
	if bias == nil {
		return nil
	}
	c.Plain(bias)
	want := dtype.Float16
	if d == dtype.BFloat16 {
		want = dtype.Float32
	}
	c.DType(bias, want)
	if !slices.Equal(bias.Shape, []int64{experts, width}) && !slices.Equal(bias.Shape, []int64{experts, 1, width}) {
		c.Invalid("%v must be [%d,%d] or [%d,1,%d]", bias, experts, width, experts, width)
		return nil
	}
	if bias.Rank() == 3 {
		return bias
	}
	v := *bias
	v.Shape, v.Strides = []int64{experts, 1, width}, []int64{bias.Strides[0], 0, bias.Strides[1]}
	return c.Alias(v, bias)
}

// expertFactors checks the factors of a batched product.
func expertFactors(c *op.Call, x, weight, out *op.Tensor) {
	c.Plain(x, weight, out)
	c.DType(x, op.HalfTypes...)
	c.SameDType(x, weight, out)
	for _, t := range []*op.Tensor{x, weight, out} {
		c.Rank(t, 3, 3)
		if t.Len() == 0 {
			c.Invalid("%v is empty", t)
		}
	}
	if c.Err() != nil {
		return
	}
	if max(x.Dim(2), weight.Dim(2)) > mostColumns {
		c.Invalid("%v and %v: at most %d columns are possible", x, weight, mostColumns)
	}
	if n := weight.Dim(0) * c.Int("epWorldSize"); n > mostExperts {
		c.Invalid("%v on %d ranks makes %d experts; at most %d are possible", weight, c.Int("epWorldSize"), n, mostExperts)
	}
}

// What CANN takes of the operators over two groups.
const mostColumns, mostExperts = 65535, 2048

// gatherExperts sends the tokens of each expert to its rank, gathers their parts within tp, and
// multiplies them by the expert's part of the weight.
func gatherExperts(c *op.Call) (op.Run, error) {
	g := newExpertGrid(c, "xShardType")
	x, weight, out := c.Tensor("x"), c.Tensor("weight"), c.Tensor("y1Out")
	gathered, product3 := c.Optional("y2OutOptional"), c.Optional("y3OutOptional")
	activation := c.Int("actType")
	if activation < 0 || activation >= int64(len(expertActivations)) {
		c.Invalid("actType %d is unknown; 0 is none, 1 gelu, 2 silu, 3 relu, 4 fast gelu", activation)
	} else if product3 != nil && activation == 0 {
		c.Invalid("%v is given; without an activation it must be null", product3)
	}
	expertFactors(c, x, weight, out)
	if c.Err() != nil {
		return nil, c.Err()
	}
	ep, tp, experts := int64(g.ep.Size), int64(g.tp.Size), weight.Dim(0)
	if x.Dim(0) != ep*experts {
		c.Invalid("%v has %d experts; %d ranks with %d each have %d", x, x.Dim(0), ep, experts, ep*experts)
	}
	// The received parts are ordered by tp rank, ep rank, expert, token and column.
	sizes := []int64{tp, ep, experts, x.Dim(1), x.Dim(2)}
	axes, tokens, width := []int{2, 1, 0, 3, 4}, ep*tp*x.Dim(1), x.Dim(2)
	if g.byWidth {
		axes, tokens, width = []int{2, 1, 3, 0, 4}, ep*x.Dim(1), tp*x.Dim(2)
	}
	bias := expertBias(c, x.DType, experts, weight.Dim(2))
	full := c.Scratch(x.DType, experts, tokens, width)
	if gathered != nil {
		c.Plain(gathered)
		c.Same(full, gathered)
	}
	mine, parts := c.Scratch(x.DType, x.Shape...), c.Scratch(x.DType, sizes...)
	c.AllToAll(g.ep, mine, c.Contiguous(x))
	c.AllGather(g.tp, parts, mine)
	product, err := matmul.Multiply(c, expertProduct(out, full, weight, bias))
	if err != nil {
		return nil, err
	}
	if product3 != nil {
		c.Plain(product3)
		c.Same(out, product3)
	}
	return func(e *op.Exec) error {
		ordered := layout(parts, sizes, axes...)
		whole := layout(full, ordered.Shape, 0, 1, 2, 3, 4)
		if err := elementwise.Copy(whole, ordered); err != nil {
			return err
		}
		if gathered != nil {
			if err := elementwise.Copy(gathered.View(), full.View()); err != nil {
				return err
			}
		}
		if err := product(e); err != nil || activation == 0 {
			return err
		}
		if product3 != nil {
			if err := elementwise.Copy(product3.View(), out.View()); err != nil {
				return err
			}
		}
		return elementwise.Map(expertActivations[activation], dtype.Float32, out.View(), []elementwise.Input{elementwise.Of(out.View())}, elementwise.Real(1))
	}, c.Err()
}

// expertProduct returns a batched product. The bias may be nil.
func expertProduct(out, x, weight, bias *op.Tensor) matmul.Product {
	p := matmul.Product{Out: out, A: matmul.Left(x), B: matmul.Right(weight), Alpha: 1, Types: op.FloatTypes}
	if bias != nil {
		p.Add, p.Beta = bias, 1
	}
	return p
}

// scatterExperts multiplies the tokens of each expert, sums over the parts of the weight, adds the
// bias, and sends the tokens back to the ranks that they came from.
func scatterExperts(c *op.Call) (op.Run, error) {
	g := newExpertGrid(c, "yShardType")
	x, weight, out := c.Tensor("x"), c.Tensor("weight"), c.Tensor("out")
	expertFactors(c, x, weight, out)
	if c.Err() != nil {
		return nil, c.Err()
	}
	ep, tp, experts, width := int64(g.ep.Size), int64(g.tp.Size), x.Dim(0), weight.Dim(2)
	unit := ep * tp
	if g.byWidth {
		unit = ep
	}
	if x.Dim(1)%unit != 0 || g.byWidth && width%tp != 0 {
		c.Invalid("%v and %v cannot be divided among %d times %d ranks", x, weight, ep, tp)
		return nil, c.Err()
	}
	// The product is ordered by expert, ep rank and tp rank, then by tokens and columns.
	sizes, axes := []int64{experts, ep, tp, x.Dim(1) / unit, width}, []int{2, 0, 1, 3, 4}
	if g.byWidth {
		sizes, axes = []int64{experts, ep, x.Dim(1) / unit, tp, width / tp}, []int{3, 0, 1, 2, 4}
	}
	d := x.DType
	product := c.Scratch(d, experts, x.Dim(1), width)
	run, err := matmul.Multiply(c, expertProduct(product, x, weight, nil))
	if err != nil {
		return nil, err
	}
	tokens, columns := sizes[axes[3]], sizes[axes[4]]
	bias := expertBias(c, d, experts, columns)
	c.Shape(out, []int64{ep * experts, tokens, columns}, "the tokens of all experts")
	parts, sum := c.Scratch(d, tp, experts, ep, tokens, columns), c.Scratch(d, experts, ep*tokens, columns)
	sent, received := c.Scratch(d, ep, experts, tokens, columns), c.Scratch(d, ep*experts, tokens, columns)
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Compute(func(e *op.Exec) error {
		if err := run(e); err != nil {
			return err
		}
		return elementwise.Copy(parts.View(), layout(product, sizes, axes...))
	})
	c.ReduceScatter(g.tp, sum, parts)
	c.Compute(func(*op.Exec) error {
		if bias != nil {
			in := []elementwise.Input{elementwise.Of(sum.View()), elementwise.Of(bias.View())}
			if err := elementwise.Map(elementwise.Add, dtype.Float32, sum.View(), in, elementwise.Real(1)); err != nil {
				return err
			}
		}
		return elementwise.Copy(sent.View(), layout(sum, []int64{experts, ep, tokens, columns}, 1, 0, 2, 3))
	})
	c.AllToAll(g.ep, received, sent)
	return c.CopyRun(out.View, received.View)
}
