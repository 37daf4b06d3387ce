package nn

import (
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// boundedGates are gated units whose halves are kept within limits.
var boundedGates = table{
	"ClippedSwiglu": clippedGate, "ClippedSwigluV2": clippedGate, "ClippedSwigluGrad": clippedGateGrad,
	"SwigluGroup": clippedGate, "SwigluGroupGrad": clippedGateGrad,
	"SituGlu": situ, "SituGluGrad": situGrad,
}

// clipped is a call of a gate of rows, of which a list of counts may leave some alone.
type clipped struct {
	*Call
	gate         kernel.ClippedGate
	x, half      *Tensor // half is the result, or its gradient
	counts       *Tensor // rows of each group; nil for all rows
	weight       *Tensor // of rows; may be nil
	rows, joined int64   // joined is the length of a row: the halved dimension and those after
}

// clippedCall reads what the family shares.
func (c *Call) clippedCall(x, half *Tensor) *clipped {
	g := &clipped{Call: c, x: x, half: half, counts: c.Optional("groupIndexOptional"), weight: c.optionalOf("weightOptional")}
	if c.Has("alpha") {
		g.gate = kernel.ClippedGate{Alpha: c.Float("alpha"), Limit: c.Float("limit"), Bias: c.Float("bias"), Interleaved: c.Bool("interleaved")}
		if g.gate.Limit <= 0 || math.IsNaN(g.gate.Limit) {
			c.Invalid("limit is %g; it must be above 0", g.gate.Limit)
		}
	} else {
		g.gate = kernel.ClippedGate{Alpha: 1, Limit: c.Float("clampLimit")}
		if g.gate.Limit <= 0 {
			g.gate.Limit = math.Inf(1)
		}
	}
	if c.Has("clampMode") {
		switch mode := c.Int("clampMode"); mode {
		case 0:
		case 1:
			g.gate.After, g.gate.Alpha, g.gate.Bias = true, 1, 0
		default:
			c.Invalid("clampMode is %d; 0 clamps before the activation, 1 after it", mode)
		}
	}
	dim := int64(-1)
	if c.Has("dim") {
		dim = c.Int("dim")
	}
	c.plain(x, half)
	c.DType(x, transformerTypes...)
	c.SameDType(x, half)
	axis := c.Axis(x, dim)
	c.Shape(half, halved(c, x, axis), "half of x along dim")
	for _, t := range []*Tensor{x, half} {
		if !t.Contiguous() {
			c.Invalid("%v must be contiguous", t)
		}
	}
	if c.Err() != nil {
		return g
	}
	g.rows, g.joined = count(x.Shape[:axis]), count(x.Shape[axis:])
	if g.counts != nil {
		c.DType(g.counts, dtype.Int64)
		c.Rank(g.counts, 1, 1)
	}
	if g.weight != nil {
		c.plain(g.weight)
		c.DType(g.weight, dtype.Float32)
		if g.weight.Len() != g.rows || !g.weight.Contiguous() {
			c.Invalid("%v must be contiguous, with an element for each of %d rows of x", g.weight, g.rows)
		}
	}
	return g
}

// firstRows is the first rows of a contiguous tensor as [n, width].
func (t *Tensor) firstRows(n, width int64) kernel.View {
	return t.As([]int64{n, width}, []int64{width, 1})
}

// used are the rows that the groups have.
func (g *clipped) used() (int64, error) {
	if g.counts == nil {
		return g.rows, nil
	}
	counts, err := kernel.Indices(g.counts.View())
	if err != nil {
		return 0, err
	}
	n := int64(0)
	for i, k := range counts {
		if k < 0 {
			return 0, fmt.Errorf("%v holds %d at position %d; numbers of rows are not negative", g.counts, k, i)
		}
		n = min(n+k, g.rows)
	}
	return n, nil
}

// rowWeight are the weights of the first n rows.
func (g *clipped) rowWeight(n int64) kernel.View {
	if g.weight == nil {
		return kernel.View{}
	}
	return g.weight.firstRows(n, 1)
}

func clippedGate(c *Call) (Run, error) {
	g := c.clippedCall(c.Tensor("x"), c.Tensor("out"))
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		n, err := g.used()
		if err != nil || n*g.joined == 0 {
			return err
		}
		return g.gate.Forward(g.half.firstRows(n, g.joined/2), g.x.firstRows(n, g.joined), g.rowWeight(n))
	}, nil
}

// clippedGateGrad is the gradient in x, zero for the rows of no group, and in the weights.
func clippedGateGrad(c *Call) (Run, error) {
	x, dy, dx := c.Tensor("x"), c.Tensor("gradY"), c.Tensor("gradXOut")
	g := c.clippedCall(x, dy)
	c.Same(x, dx)
	c.plain(dx)
	if !dx.Contiguous() {
		c.Invalid("%v must be contiguous", dx)
	}
	y, dweight := c.optionalOf("yOriginOptional"), c.optionalOf("gradWeightOutOptional")
	if (g.weight == nil) != (y == nil) {
		c.Invalid("one of weightOptional and yOriginOptional is null; give both or none")
	}
	if y != nil && c.Err() == nil {
		c.plain(y)
		c.Same(dy, y)
		if dweight == nil {
			c.Fail(nullPointer, "gradWeightOutOptional is null; weightOptional asks for it")
			return nil, c.Err()
		}
		c.DType(dweight, dtype.Float32)
		c.Shape(dweight, append(slices.Clone(x.Shape[:x.Rank()-1]), 1), "one for each row of x")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		n, err := g.used()
		if err != nil || dx.Len() == 0 {
			return err
		}
		if n < g.rows {
			if err := kernel.Zero(dx.View()); err != nil {
				return err
			}
		}
		if n > 0 {
			if err := g.gate.Backward(dx.firstRows(n, g.joined), dy.firstRows(n, g.joined/2), x.firstRows(n, g.joined), g.rowWeight(n)); err != nil {
				return err
			}
		}
		if y == nil {
			return nil
		}
		product, release := kernel.Temporary(y.Shape...)
		defer release()
		if err := kernel.Map(kernel.Mul, dtype.Float32, product, []kernel.Input{kernel.Of(dy.View()), kernel.Of(y.View())}); err != nil {
			return err
		}
		return kernel.Reduce(kernel.ReduceSum, dweight.View().Select(y.Rank()-1, 0), product, []int{y.Rank() - 1}, 0)
	}, nil
}

// situCall reads what SituGlu and its gradient share.
func (c *Call) situCall(x, half *Tensor) (g kernel.TanhBoundGate, axis int) {
	g = kernel.TanhBoundGate{Beta: c.Float("beta"), Linear: c.Float("linearBeta"), Left: c.Bool("activateLeft")}
	axis = c.Axis(x, c.Int("dim"))
	c.plain(x, half)
	c.DType(x, transformerTypes...)
	c.SameDType(x, half)
	c.Shape(half, halved(c, x, axis), "half of x along dim")
	return g, axis
}

func situ(c *Call) (Run, error) {
	x, out := c.Tensor("x"), c.Tensor("out")
	g, axis := c.situCall(x, out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return g.Forward(out.View(), x.View(), axis)
	}, nil
}

func situGrad(c *Call) (Run, error) {
	x, dy, dx := c.Tensor("x"), c.Tensor("gradY"), c.Tensor("out")
	g, axis := c.situCall(x, dy)
	c.plain(dx)
	c.Same(x, dx)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return nil
		}
		return g.Backward(dx.View(), dy.View(), x.View(), axis)
	}, nil
}
