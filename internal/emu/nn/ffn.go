package nn

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// feedForwards are two linear layers with an activation between them, of one expert or of
// several that have rows of their own. Quantised weights and gated activations are not
// supported.
var feedForwards = table{"FFN": feedForward, "FFNV2": feedForward, "FFNV3": feedForward}

// feedForwardOps are the activations by name.
var feedForwardOps = map[string]kernel.Op{"relu": kernel.Relu, "gelu": kernel.Gelu, "fastgelu": kernel.FastGelu, "silu": kernel.Swish}

func feedForward(c *Call) (Run, error) {
	x, w1, w2, y := c.Tensor("x"), c.Tensor("weight1"), c.Tensor("weight2"), c.Tensor("y")
	b1, b2 := c.Optional(c.either("bias1", "bias1Optional")), c.Optional(c.either("bias2", "bias2Optional"))
	for _, name := range []string{"scale", "offset", "deqScale1", "deqScale2", "antiquantScale1", "antiquantScale2", "antiquantOffset1", "antiquantOffset2"} {
		if t := c.Optional(c.either(name, name+"Optional")); t != nil && t.Len() > 0 {
			c.Invalid("%v is given; quantised layers are not supported", t)
		}
	}
	activation, known := feedForwardOps[c.RequiredText("activation")]
	if !known {
		c.Invalid("activation %q is not supported; use fastgelu, gelu, relu or silu", c.Text("activation"))
	}
	c.plain(x, w1, w2, y)
	c.DType(x, transformerTypes...)
	c.SameDType(x, w1, w2, y)
	c.Rank(x, 2, kernel.MaxRank)
	c.Rank(w1, 2, 3)
	if c.Err() != nil {
		return nil, c.Err()
	}
	tokens, total := c.tokensPerExpert()
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
	for i, b := range []*Tensor{b1, b2} {
		if b != nil {
			c.plain(b)
			c.DType(b, x.DType, dtype.Float32)
			c.Shape(b, append(slices.Clone(lead), []int64{hidden, out}[i]), "one for each column, of each expert")
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	rows := count(x.Shape[:x.Rank()-1])
	flat := func(t *Tensor) kernel.View {
		if t.Rank() == 2 {
			return t.View()
		}
		return t.As([]int64{rows, t.Dim(-1)}, []int64{t.Dim(-1), 1})
	}
	return func(*Exec) error {
		if y.Len() == 0 {
			return nil
		}
		ends := []int64{rows}
		if tokens != nil {
			var err error
			if ends, err = tokens(rows); err != nil {
				return err
			}
			if err := zero(y); err != nil { // rows after those of the last expert
				return err
			}
		}
		return eachGroup(ends, func(g int, first, n int64) error {
			if n == 0 {
				return nil
			}
			part := func(t *Tensor) kernel.View {
				if t == nil || len(lead) == 0 {
					return optionalView(t)
				}
				return t.View().Select(0, int64(g))
			}
			h, release := kernel.Temporary(n, hidden)
			defer release()
			if err := layer(h, flat(x).Narrow(0, first, n), part(w1), part(b1)); err != nil {
				return err
			}
			if err := kernel.Map(activation, dtype.Float32, h, []kernel.Input{kernel.Of(h)}, kernel.Real(1)); err != nil {
				return err
			}
			return layer(flat(y).Narrow(0, first, n), h, part(w2), part(b2))
		})
	}, nil
}

// layer is out = x · weight + bias; bias, of one row, may lack data.
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

// tokensPerExpert reads how many rows each expert has, or where they end: as an array, or as a
// tensor that is read in Run. Without either it is nil.
func (c *Call) tokensPerExpert() (ends func(rows int64) ([]int64, error), experts int64) {
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
	c.plain(t)
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
