package nn

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// fusedExperts multiply the tokens of experts that are divided among ranks (ep), each of
// whose weights is divided again (tp).
var fusedExperts = table{"AlltoAllAllGatherBatchMatMul": gatherExperts, "BatchMatMulReduceScatterAlltoAll": scatterExperts}

// expertActivations are what actType names.
var expertActivations = []kernel.Op{kernel.Identity, kernel.Gelu, kernel.Swish, kernel.Relu, kernel.FastGelu}

// expertGrid is how experts and their weights are divided.
type expertGrid struct {
	ep, tp  Communicator
	byWidth bool // tp divides the last dimension, otherwise the tokens
}

func (c *Call) expertGrid(shardType string) expertGrid {
	g := expertGrid{ep: c.communicator("groupEp"), tp: c.communicator("groupTp")}
	for _, x := range []struct {
		name string
		comm Communicator
	}{{"epWorldSize", g.ep}, {"tpWorldSize", g.tp}} {
		if n := c.Int(x.name); n != int64(x.comm.Size) {
			c.Invalid("%s is %d, but the group has %d ranks", x.name, n, x.comm.Size)
		}
	}
	if c.err == nil && c.Text("groupEp") == c.Text("groupTp") {
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

// layout is a dense tensor of the elements of t, which has no gaps either, seen with the
// given sizes and then with these axes in this order.
func (t *Tensor) layout(sizes []int64, axes ...int) kernel.View {
	strides := ContiguousStrides(sizes)
	v := t.As(make([]int64, len(axes)), make([]int64, len(axes)))
	for i, a := range axes {
		v.Shape[i], v.Strides[i] = sizes[a], strides[a]
	}
	return v
}

// expertBias is the bias of a product for each expert as [experts, 1, width].
func (c *Call) expertBias(d dtype.Type, experts, width int64) *Tensor {
	bias := c.Optional("biasOptional")
	if bias == nil {
		return nil
	}
	c.plain(bias)
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
	c.views = append(c.views, view{t: &v, of: bias})
	return &v
}

// expertFactors checks the factors of a batched product.
func (c *Call) expertFactors(x, weight, out *Tensor) {
	c.plain(x, weight, out)
	c.DType(x, pairTypes...)
	c.SameDType(x, weight, out)
	for _, t := range []*Tensor{x, weight, out} {
		c.Rank(t, 3, 3)
		if t.Len() == 0 {
			c.Invalid("%v is empty", t)
		}
	}
}

// gatherExperts brings the tokens of each expert to its rank, completes them, and multiplies
// them by the expert's part of the weight.
func gatherExperts(c *Call) (Run, error) {
	g := c.expertGrid("xShardType")
	x, weight, out := c.Tensor("x"), c.Tensor("weight"), c.Tensor("y1Out")
	gathered, product3 := c.Optional("y2OutOptional"), c.Optional("y3OutOptional")
	activation := c.Int("actType")
	if activation < 0 || activation >= int64(len(expertActivations)) {
		c.Invalid("actType %d is unknown; 0 is none, 1 gelu, 2 silu, 3 relu, 4 fast gelu", activation)
	} else if product3 != nil && activation == 0 {
		c.Invalid("%v is given; without an activation it must be null", product3)
	}
	c.expertFactors(x, weight, out)
	if c.err != nil {
		return nil, c.err
	}
	ep, tp, experts := int64(g.ep.Size), int64(g.tp.Size), weight.Dim(0)
	if x.Dim(0) != ep*experts {
		c.Invalid("%v has %d experts; %d ranks with %d each have %d", x, x.Dim(0), ep, experts, ep*experts)
	}
	// Parts as they come: by rank of tp, rank of ep, expert, token, column.
	sizes := []int64{tp, ep, experts, x.Dim(1), x.Dim(2)}
	axes, tokens, width := []int{2, 1, 0, 3, 4}, ep*tp*x.Dim(1), x.Dim(2)
	if g.byWidth {
		axes, tokens, width = []int{2, 1, 3, 0, 4}, ep*x.Dim(1), tp*x.Dim(2)
	}
	bias := c.expertBias(x.DType, experts, weight.Dim(2))
	full := c.scratch(x.DType, experts, tokens, width)
	if gathered != nil {
		c.plain(gathered)
		c.Same(full, gathered)
	}
	mine, parts := c.scratch(x.DType, x.Shape...), c.scratch(x.DType, sizes...)
	c.allToAll(g.ep, mine, c.contiguous(x))
	c.allGather(g.tp, parts, mine)
	product, err := c.product(expertProduct(out, full, weight, bias))
	if err != nil {
		return nil, err
	}
	if product3 != nil {
		c.plain(product3)
		c.Same(out, product3)
	}
	return func(e *Exec) error {
		ordered := parts.layout(sizes, axes...)
		whole := full.layout(ordered.Shape, 0, 1, 2, 3, 4)
		if err := kernel.Copy(whole, ordered); err != nil {
			return err
		}
		if gathered != nil {
			if err := kernel.Copy(gathered.View(), full.View()); err != nil {
				return err
			}
		}
		if err := product(e); err != nil || activation == 0 {
			return err
		}
		if product3 != nil {
			if err := kernel.Copy(product3.View(), out.View()); err != nil {
				return err
			}
		}
		return kernel.Map(expertActivations[activation], dtype.Float32, out.View(), []kernel.Input{kernel.Of(out.View())}, kernel.Real(1))
	}, c.err
}

// expertProduct is a batched product with a bias that may be null.
func expertProduct(out, x, weight, bias *Tensor) product {
	p := product{out: out, a: left(x), b: right(weight), alpha: 1, types: cubeTypes}
	if bias != nil {
		p.add, p.beta = bias, 1
	}
	return p
}

// scatterExperts multiplies the tokens of each expert, sums the parts of the weight, adds the
// bias, and brings the tokens back to the ranks that they came from.
func scatterExperts(c *Call) (Run, error) {
	g := c.expertGrid("yShardType")
	x, weight, out := c.Tensor("x"), c.Tensor("weight"), c.Tensor("out")
	c.expertFactors(x, weight, out)
	if c.err != nil {
		return nil, c.err
	}
	ep, tp, experts, width := int64(g.ep.Size), int64(g.tp.Size), x.Dim(0), weight.Dim(2)
	unit := ep * tp
	if g.byWidth {
		unit = ep
	}
	if x.Dim(1)%unit != 0 || g.byWidth && width%tp != 0 {
		c.Invalid("%v and %v cannot be divided among %d times %d ranks", x, weight, ep, tp)
		return nil, c.err
	}
	// The product by expert, rank of ep, and then rank of tp before the tokens or the columns.
	sizes, axes := []int64{experts, ep, tp, x.Dim(1) / unit, width}, []int{2, 0, 1, 3, 4}
	if g.byWidth {
		sizes, axes = []int64{experts, ep, x.Dim(1) / unit, tp, width / tp}, []int{3, 0, 1, 2, 4}
	}
	d := x.DType
	product := c.scratch(d, experts, x.Dim(1), width)
	run, err := c.product(expertProduct(product, x, weight, nil))
	if err != nil {
		return nil, err
	}
	tokens, columns := sizes[axes[3]], sizes[axes[4]]
	bias := c.expertBias(d, experts, columns)
	c.Shape(out, []int64{ep * experts, tokens, columns}, "the tokens of all experts")
	parts, sum := c.scratch(d, tp, experts, ep, tokens, columns), c.scratch(d, experts, ep*tokens, columns)
	sent, received := c.scratch(d, ep, experts, tokens, columns), c.scratch(d, ep*experts, tokens, columns)
	if c.err != nil {
		return nil, c.err
	}
	c.compute(func(e *Exec) error {
		if err := run(e); err != nil {
			return err
		}
		return kernel.Copy(parts.View(), product.layout(sizes, axes...))
	})
	c.reduceScatter(g.tp, sum, parts)
	c.compute(func(*Exec) error {
		if bias != nil {
			in := []kernel.Input{kernel.Of(sum.View()), kernel.Of(bias.View())}
			if err := kernel.Map(kernel.Add, dtype.Float32, sum.View(), in, kernel.Real(1)); err != nil {
				return err
			}
		}
		return kernel.Copy(sent.View(), sum.layout([]int64{experts, ep, tokens, columns}, 1, 0, 2, 3))
	})
	c.allToAll(g.ep, received, sent)
	return c.copyRun(out.View, received.View)
}
