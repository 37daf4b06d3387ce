package activation

import (
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// boundedGates are gated units that limit the values of both halves.
var boundedGates = op.Table{
	"ClippedSwiglu": clippedGate, "ClippedSwigluV2": clippedGate, "ClippedSwigluGrad": clippedGateGrad,
	"SwigluGroup": clippedGate, "SwigluGroupGrad": clippedGateGrad,
	"SituGlu": situ, "SituGluGrad": situGrad,
}.Selects("ClippedSwiglu", "ClippedSwigluV2", "ClippedSwigluGrad", "SwigluGroup", "SwigluGroupGrad")

// clipped is one call. It computes only the leading rows that groupIndexOptional counts.
type clipped struct {
	*op.Call
	gate         rowwise.ClippedGate
	x, half      *op.Tensor // half is the result or its gradient
	counts       *op.Tensor // number of rows of each group; nil for all rows
	weight       *op.Tensor // one for each row; may be nil
	rows, joined int64      // joined is the length of a row: the product of the halved dimension and those after it
}

// clippedCall reads and checks the arguments that all operators of the family have.
func clippedCall(c *op.Call, x, half *op.Tensor) *clipped {
	g := &clipped{Call: c, x: x, half: half, counts: c.Optional("groupIndexOptional"), weight: c.OptionalOf("weightOptional")}
	if c.Has("alpha") {
		g.gate = rowwise.ClippedGate{Alpha: c.Float("alpha"), Limit: c.Float("limit"), Bias: c.Float("bias"), Interleaved: c.Bool("interleaved")}
		if g.gate.Limit <= 0 || math.IsNaN(g.gate.Limit) {
			c.Invalid("limit is %g; it must be above 0", g.gate.Limit)
		}
	} else {
		g.gate = rowwise.ClippedGate{Alpha: 1, Limit: c.Float("clampLimit")}
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
	c.Plain(x, half)
	c.DType(x, op.FloatTypes...)
	c.SameDType(x, half)
	axis := c.Axis(x, dim)
	c.Shape(half, op.Halved(c, x, axis), "half of x along dim")
	c.Dense(x, half)
	if c.Err() != nil {
		return g
	}
	g.rows, g.joined = op.Count(x.Shape[:axis]), op.Count(x.Shape[axis:])
	if g.counts != nil {
		c.DType(g.counts, dtype.Int64)
		c.Rank(g.counts, 1, 1)
	}
	if g.weight != nil {
		c.Plain(g.weight)
		c.DType(g.weight, dtype.Float32)
		if g.weight.Len() != g.rows || !g.weight.Contiguous() {
			c.Invalid("%v must be contiguous, with an element for each of %d rows of x", g.weight, g.rows)
		}
	}
	return g
}

// firstRows returns the first rows of a contiguous tensor as [n, width].
func firstRows(t *op.Tensor, n, width int64) kernel.View {
	return t.As([]int64{n, width}, []int64{width, 1})
}

// used returns the total number of rows of all groups.
func (g *clipped) used() (int64, error) {
	if g.counts == nil {
		return g.rows, nil
	}
	counts, err := elementwise.Indices(g.counts.View())
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

// rowWeight returns the weights of the first n rows.
func (g *clipped) rowWeight(n int64) kernel.View {
	if g.weight == nil {
		return kernel.View{}
	}
	return firstRows(g.weight, n, 1)
}

func clippedGate(c *op.Call) (op.Run, error) {
	g := clippedCall(c, c.Tensor("x"), c.Tensor("out"))
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		n, err := g.used()
		if err != nil || n*g.joined == 0 {
			return err
		}
		return g.gate.Forward(firstRows(g.half, n, g.joined/2), firstRows(g.x, n, g.joined), g.rowWeight(n))
	}, nil
}

// clippedGateGrad computes the gradients of x and of the weights. Rows that belong to no group get
// zero.
func clippedGateGrad(c *op.Call) (op.Run, error) {
	x, dy, dx := c.Tensor("x"), c.Tensor("gradY"), c.Tensor("gradXOut")
	g := clippedCall(c, x, dy)
	c.Same(x, dx)
	c.Plain(dx)
	if !dx.Contiguous() {
		c.Invalid("%v must be contiguous", dx)
	}
	y, dweight := c.OptionalOf("yOriginOptional"), c.OptionalOf("gradWeightOutOptional")
	if c.Has("clampLimit") && math.IsNaN(c.Float("clampLimit")) {
		c.Invalid("clampLimit is not a number")
	}
	if (g.weight == nil) != (y == nil) {
		c.Invalid("one of weightOptional and yOriginOptional is null; give both or none")
	}
	if y != nil && c.Err() == nil {
		c.Plain(y)
		c.Same(dy, y)
		if dweight == nil {
			c.Fail(op.NullPointer, "gradWeightOutOptional is null; weightOptional asks for it")
			return nil, c.Err()
		}
		c.DType(dweight, dtype.Float32)
		rows := x.Shape[:x.Rank()-1]
		if dweight.Rank() == x.Rank() {
			rows = append(slices.Clone(rows), 1)
		}
		c.Shape(dweight, rows, "one for each row of x")
		c.SameShape(g.weight, dweight)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		n, err := g.used()
		if err != nil || dx.Len() == 0 {
			return err
		}
		if n < g.rows {
			if err := elementwise.Zero(dx.View()); err != nil {
				return err
			}
		}
		if n > 0 {
			if err := g.gate.Backward(firstRows(dx, n, g.joined), firstRows(dy, n, g.joined/2), firstRows(x, n, g.joined), g.rowWeight(n)); err != nil {
				return err
			}
		}
		if y == nil {
			return nil
		}
		product, release := kernel.Temporary(y.Shape...)
		defer release()
		if err := elementwise.Map(elementwise.Mul, dtype.Float32, product, []elementwise.Input{elementwise.Of(dy.View()), elementwise.Of(y.View())}); err != nil {
			return err
		}
		sums := dweight.View()
		if dweight.Rank() == y.Rank() {
			sums = sums.Select(y.Rank()-1, 0)
		}
		return rowwise.Reduce(rowwise.ReduceSum, sums, product, []int{y.Rank() - 1}, 0)
	}, nil
}

// situCall reads the arguments that SituGlu and its gradient share.
func situCall(c *op.Call, x, half *op.Tensor) (g rowwise.TanhBoundGate, axis int) {
	g = rowwise.TanhBoundGate{Beta: c.Float("beta"), Linear: c.Float("linearBeta"), Left: c.Bool("activateLeft")}
	axis = c.Axis(x, c.Int("dim"))
	c.Plain(x, half)
	c.DType(x, op.FloatTypes...)
	c.SameDType(x, half)
	c.Shape(half, op.Halved(c, x, axis), "half of x along dim")
	return g, axis
}

func situ(c *op.Call) (op.Run, error) {
	x, out := c.Tensor("x"), c.Tensor("out")
	g, axis := situCall(c, x, out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return g.Forward(out.View(), x.View(), axis)
	}, nil
}

func situGrad(c *op.Call) (op.Run, error) {
	x, dy, dx := c.Tensor("x"), c.Tensor("gradY"), c.Tensor("out")
	g, axis := situCall(c, x, dy)
	c.Plain(dx)
	c.Same(x, dx)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		return g.Backward(dx.View(), dy.View(), x.View(), axis)
	}, nil
}
