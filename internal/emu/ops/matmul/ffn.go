package matmul

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/op"
)

// feedForwards lists the operators of two linear layers with an activation between them, for one
// expert or for several with their own rows. Quantised weights and gated activations are not
// supported.
var feedForwards = op.Table{"FFN": feedForward, "FFNV2": feedForward, "FFNV3": feedForward}

// feedForwardOps maps the names of activations to kernels.
var feedForwardOps = map[string]kernel.Op{"relu": kernel.Relu, "gelu": kernel.Gelu, "fastgelu": kernel.FastGelu, "silu": kernel.Swish}

func feedForward(c *op.Call) (op.Run, error) {
	x, w1, w2, y := c.Tensor("x"), c.Tensor("weight1"), c.Tensor("weight2"), c.Tensor("y")
	b1, b2 := c.Optional(c.Either("bias1", "bias1Optional")), c.Optional(c.Either("bias2", "bias2Optional"))
	for _, name := range []string{"scale", "offset", "deqScale1", "deqScale2", "antiquantScale1", "antiquantScale2", "antiquantOffset1", "antiquantOffset2"} {
		if t := c.Optional(c.Either(name, name+"Optional")); t != nil && t.Len() > 0 {
			c.Invalid("%v is given; quantised layers are not supported", t)
		}
	}
	activation, known := feedForwardOps[c.RequiredText("activation")]
	if !known {
		c.Invalid("activation %q is not supported; use fastgelu, gelu, relu or silu", c.Text("activation"))
	}
	c.Plain(x, w1, w2, y)
	c.DType(x, op.FloatTypes...)
	c.SameDType(x, w1, w2, y)
	c.Rank(x, 2, kernel.MaxRank)
	c.Rank(w1, 2, 3)
	if c.Err() != nil {
		return nil, c.Err()
	}
	tokens, total := tokensPerExpert(c)
	experts := int64(1)
	if w1.Rank() == 3 {
		experts = w1.Shape[0]
	}
	if (tokens == nil) != (w1.Rank() == 2) || tokens != nil && total != experts {
		c.Invalid("%v holds %d experts and expertTokens has %d; weights of several experts need one number for each", w1, experts, total)
	}
	if x.Rank() > 2 && !(x.Contiguous() && y.Contiguous()) {
		c.Invalid("%v and %v must be contiguous to be seen as rows", x, y)
	}
	in, hidden, out := x.Dim(-1), w1.Dim(-1), y.Dim(-1)
	lead := w1.Shape[:w1.Rank()-2]
	c.Shape(w1, append(slices.Clone(lead), in, hidden), "as many rows as x has columns")
	c.Shape(w2, append(slices.Clone(lead), hidden, out), "the columns of weight1 and those of y")
	c.Shape(y, append(slices.Clone(x.Shape[:x.Rank()-1]), out), "as x but for the last dimension")
	for i, b := range []*op.Tensor{b1, b2} {
		if b != nil {
			c.Plain(b)
			c.DType(b, x.DType, dtype.Float32)
			c.Shape(b, append(slices.Clone(lead), []int64{hidden, out}[i]), "one for each column, of each expert")
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	rows := op.Count(x.Shape[:x.Rank()-1])
	flat := func(t *op.Tensor) kernel.View {
		if t.Rank() == 2 {
			return t.View()
		}
		return t.As([]int64{rows, t.Dim(-1)}, []int64{t.Dim(-1), 1})
	}
	return func(*op.Exec) error {
		if y.Len() == 0 {
			return nil
		}
		ends := []int64{rows}
		if tokens != nil {
			var err error
			if ends, err = tokens(rows); err != nil {
				return err
			}
			if err := op.Zero(y); err != nil { // the rows after the last expert are zero
				return err
			}
		}
		return op.EachGroup(ends, func(g int, first, n int64) error {
			part := func(t *op.Tensor) kernel.View {
				if t == nil || len(lead) == 0 {
					return op.OptionalView(t)
				}
				return t.View().Select(0, int64(g))
			}
			return twoLayers(flat(y).Narrow(0, first, n), flat(x).Narrow(0, first, n), [2]kernel.View{part(w1), part(w2)}, [2]kernel.View{part(b1), part(b2)}, activation)
		})
	}, nil
}

// twoLayers computes two layers with an activation between them.
func twoLayers(out, in kernel.View, weights, biases [2]kernel.View, activation kernel.Op) error {
	h, release := kernel.Temporary(in.Shape[0], weights[0].Shape[1])
	defer release()
	if err := layer(h, in, weights[0], biases[0]); err != nil {
		return err
	}
	if err := kernel.Map(activation, dtype.Float32, h, []kernel.Input{kernel.Of(h)}, kernel.Real(1)); err != nil {
		return err
	}
	return layer(out, h, weights[1], biases[1])
}

// layer computes out = x · weight + bias. bias is one row; its data may be nil.
func layer(out, x, weight, bias kernel.View) error {
	p := kernel.Product{Out: out, A: x, B: weight, Alpha: 1}
	if bias.Data != nil {
		add, err := bias.Broadcast(out.Shape)
		if err != nil {
			return err
		}
		p.Add, p.Beta = &add, 1
	}
	return kernel.Gemm(p)
}

// tokensPerExpert reads how many rows each expert has, or where the rows of each end. The list
// is an array, or a tensor that is read inside Run; the result is nil without a list.
func tokensPerExpert(c *op.Call) (ends func(rows int64) ([]int64, error), experts int64) {
	running := c.Has("tokensIndexFlag") && c.Bool("tokensIndexFlag")
	checked := func(tokens []int64, rows int64) ([]int64, error) {
		tokens = slices.Clone(tokens)
		last := int64(0)
		for i, n := range tokens {
			if !running {
				tokens[i] += last
			}
			if tokens[i] < last || tokens[i] > rows {
				return nil, fmt.Errorf("expertTokens %d of expert %d does not divide %d rows", n, i, rows)
			}
			last = tokens[i]
		}
		return tokens, nil
	}
	if c.Has("expertTokens") {
		list := c.Ints("expertTokens")
		if len(list) == 0 {
			return nil, 0
		}
		return func(rows int64) ([]int64, error) { return checked(list, rows) }, int64(len(list))
	}
	t := c.Optional("expertTokensOptional")
	if t == nil {
		return nil, 0
	}
	c.Plain(t)
	c.DType(t, dtype.Int64)
	c.Rank(t, 1, 1)
	return func(rows int64) ([]int64, error) {
		list, err := kernel.Indices(t.View())
		if err != nil {
			return nil, err
		}
		return checked(list, rows)
	}, t.Len()
}
