package loss

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// elementLoss is a loss that compares elements one by one, and its gradient.
type elementLoss struct {
	op, grad elementwise.Op
	first    bool                                  // whether sum and mean are along the first dimension
	params   func(c *op.Call) []elementwise.Number // parameters of op
	scales   func(c *op.Call) []elementwise.Number // parameters of grad, after its first factor
}

var (
	squaredError  = elementLoss{op: elementwise.SquaredError, grad: elementwise.SquaredErrorGrad}
	absoluteError = elementLoss{op: elementwise.AbsoluteError, grad: elementwise.AbsoluteErrorGrad}
	smoothError   = elementLoss{op: elementwise.SmoothError, grad: elementwise.SmoothErrorGrad}

	// CANN's MseLossOut averages along the first dimension alone, unlike MseLoss.
	squaredErrorOfFirst = elementLoss{op: elementwise.SquaredError, first: true}
)

var pointwiseLosses = op.Table{
	"MseLoss": squaredError.loss, "MseLossOut": squaredErrorOfFirst.loss, "MseLossBackward": squaredError.backward,
	"L1Loss": absoluteError.loss, "L1LossBackward": absoluteError.backward,
	"SmoothL1Loss": smoothL1, "SmoothL1LossBackward": smoothL1,
}

// averagingNumbers maps the integer values of reduction.
var averagingNumbers = map[int64]rowwise.Averaging{0: rowwise.NoAveraging, 1: rowwise.MeanAveraging, 2: rowwise.SumAveraging}

// averaging reads the attribute reduction.
func averaging(c *op.Call) rowwise.Averaging {
	a, known := averagingNumbers[c.Int("reduction")]
	if !known {
		c.Invalid("reduction %d is unknown; 0 is none, 1 mean, 2 sum", c.Int("reduction"))
	}
	return a
}

// smoothL1 is quadratic for differences below beta. With beta 0 it is the absolute error.
func smoothL1(c *op.Call) (op.Run, error) {
	p, beta := smoothError, c.Float("beta")
	switch {
	case beta < 0:
		c.Invalid("beta is %g; it must not be negative", beta)
	case beta == 0:
		p = absoluteError
	default:
		p.params = func(*op.Call) []elementwise.Number { return []elementwise.Number{elementwise.Real(beta)} }
		p.scales = p.params
	}
	if c.Has("target") && c.Has("gradInput") {
		return p.backward(c)
	}
	return p.loss(c)
}

// broadcastOf checks tensors and returns the shape they broadcast to.
func broadcastOf(c *op.Call, types []dtype.Type, tensors ...*op.Tensor) []int64 {
	shape := []int64{}
	for _, t := range tensors {
		c.Plain(t)
		c.DType(t, types...)
		joined, ok := op.BroadcastShape(shape, t.Shape)
		if !ok {
			c.NoCommonShape("shapes do not broadcast: %v and %v", tensors[0], t)
			return shape
		}
		shape = joined
	}
	return shape
}

func (p elementLoss) loss(c *op.Call) (op.Run, error) {
	self, target, out := c.Tensor("self"), c.Tensor("target"), c.Tensor(c.Either("out", "result"))
	averaging := averaging(c)
	types := op.FloatTypes
	if c.Op.Name == "L1Loss" {
		types = append(slices.Clone(types), dtype.Int64)
	}
	shape := broadcastOf(c, types, self, target)
	whole := self.DType == dtype.Int64 && target.DType == dtype.Int64
	if whole && averaging == rowwise.MeanAveraging {
		c.Fail(op.NoStep, "%v and %v are integers, of which there is no mean", self, target)
	}
	c.DType(out, types...)
	shared := shape
	switch {
	case averaging == rowwise.NoAveraging:
	case p.first:
		shape = shape[min(1, len(shape)):]
	default:
		shape = []int64{}
		if out.Rank() == 1 && out.Shape[0] == 1 {
			shape = out.Shape
		}
	}
	c.Shape(out, shape, "the losses, or their mean or sum")
	if err := c.Err(); err != nil {
		return nil, err
	}
	var params []elementwise.Number
	if p.params != nil {
		params = p.params(c)
	}
	return func(*op.Exec) error {
		switch {
		case out.Len() == 0:
			return nil
		case whole:
			return distances(out, self.View(), target.View(), shared, averaging)
		}
		return rowwise.Pointwise{Op: p.op, Inputs: []elementwise.Input{elementwise.Of(self.View()), elementwise.Of(target.View())}, Params: params, First: p.first}.Loss(out.View(), averaging)
	}, nil
}

// distances sets out to the distances of integers or to their sum.
func distances(out *op.Tensor, self, target kernel.View, shape []int64, averaging rowwise.Averaging) error {
	d, release := kernel.TemporaryOf(dtype.Int64, shape...)
	defer release()
	if err := elementwise.Map(elementwise.Add, dtype.Int64, d, []elementwise.Input{elementwise.Of(self), elementwise.Of(target)}, elementwise.Whole(-1)); err != nil {
		return err
	}
	if err := elementwise.Map(elementwise.Abs, dtype.Int64, d, []elementwise.Input{elementwise.Of(d)}); err != nil {
		return err
	}
	if averaging == rowwise.NoAveraging {
		return elementwise.Copy(out.View(), d)
	}
	axes := make([]int, len(shape))
	for i := range axes {
		axes[i] = i
	}
	return rowwise.Reduce(rowwise.ReduceSum, out.As([]int64{}, []int64{}), d, axes, 0)
}

func (p elementLoss) backward(c *op.Call) (op.Run, error) {
	grad, self, target := c.Tensor(c.Either("gradOutput", "gradOut")), c.Tensor("self"), c.Tensor("target")
	out := c.Tensor(c.Either("out", "gradInput"))
	averaging := averaging(c)
	shape := broadcastOf(c, op.FloatTypes, grad, self, target)
	if c.Op.Name == "MseLossBackward" { // CANN promotes the types of the others
		c.SameDType(self, grad, target)
	}
	c.DType(out, op.FloatTypes...)
	c.Shape(out, shape, "the broadcast shape of the inputs")
	if err := c.Err(); err != nil {
		return nil, err
	}
	factor := 1.0
	if p.grad == elementwise.SquaredErrorGrad {
		factor = 2
	}
	if averaging == rowwise.MeanAveraging {
		factor /= float64(self.Len())
	}
	params := []elementwise.Number{elementwise.Real(factor)}
	if p.scales != nil {
		params = append(params, p.scales(c)...)
	}
	return func(*op.Exec) error {
		in := []elementwise.Input{elementwise.Of(grad.View()), elementwise.Of(self.View()), elementwise.Of(target.View())}
		return elementwise.Map(p.grad, dtype.Float32, out.View(), in, params...)
	}, nil
}
