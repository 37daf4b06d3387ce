package nn

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// pointwise is a loss that compares elements one by one, and its gradient.
type pointwise struct {
	op, grad kernel.Op
	params   func(c *Call) []kernel.Number // of op
	scales   func(c *Call) []kernel.Number // of grad, after its factor
}

var (
	squaredError  = pointwise{op: kernel.SquaredError, grad: kernel.SquaredErrorGrad}
	absoluteError = pointwise{op: kernel.AbsoluteError, grad: kernel.AbsoluteErrorGrad}
	smoothError   = pointwise{op: kernel.SmoothError, grad: kernel.SmoothErrorGrad}
)

var pointwiseLosses = table{
	"MseLoss": squaredError.loss, "MseLossOut": squaredError.loss, "MseLossBackward": squaredError.backward,
	"L1Loss": absoluteError.loss, "L1LossBackward": absoluteError.backward,
	"SmoothL1Loss": smoothL1, "SmoothL1LossBackward": smoothL1,
}

// averagingNumbers are the values of reduction as an integer.
var averagingNumbers = map[int64]kernel.Averaging{0: kernel.NoAveraging, 1: kernel.MeanAveraging, 2: kernel.SumAveraging}

// averaging reads reduction.
func (c *Call) averaging() kernel.Averaging {
	a, known := averagingNumbers[c.Int("reduction")]
	if !known {
		c.Invalid("reduction %d is unknown; 0 is none, 1 mean, 2 sum", c.Int("reduction"))
	}
	return a
}

// either is the first of several names that the declaration has.
func (c *Call) either(names ...string) string {
	for _, n := range names {
		if c.Has(n) {
			return n
		}
	}
	return names[0]
}

// smoothL1 is quadratic for differences below beta; with beta 0 it is the absolute error.
func smoothL1(c *Call) (Run, error) {
	p, beta := smoothError, c.Float("beta")
	switch {
	case beta < 0:
		c.Invalid("beta is %g; it must not be negative", beta)
	case beta == 0:
		p = absoluteError
	default:
		p.params = func(*Call) []kernel.Number { return []kernel.Number{kernel.Real(beta)} }
		p.scales = p.params
	}
	if c.Has("target") && c.Has("gradInput") {
		return p.backward(c)
	}
	return p.loss(c)
}

// broadcastOf checks floating-point tensors and returns the shape they broadcast to.
func (c *Call) broadcastOf(tensors ...*Tensor) []int64 {
	shape := []int64{}
	for _, t := range tensors {
		c.plain(t)
		c.DType(t, transformerTypes...)
		joined, ok := broadcastShape(shape, t.Shape)
		if !ok {
			c.Invalid("shapes do not broadcast: %v and %v", tensors[0], t)
			return shape
		}
		shape = joined
	}
	return shape
}

func (p pointwise) loss(c *Call) (Run, error) {
	self, target, out := c.Tensor("self"), c.Tensor("target"), c.Tensor(c.either("out", "result"))
	averaging := c.averaging()
	shape := c.broadcastOf(self, target)
	c.DType(out, transformerTypes...)
	if averaging != kernel.NoAveraging {
		shape = []int64{}
		if out.Rank() == 1 && out.Shape[0] == 1 {
			shape = out.Shape
		}
	}
	c.Shape(out, shape, "the losses, or their mean or sum")
	if err := c.Err(); err != nil {
		return nil, err
	}
	var params []kernel.Number
	if p.params != nil {
		params = p.params(c)
	}
	return func(*Exec) error {
		if out.Len() == 0 {
			return nil
		}
		return kernel.Pointwise{Op: p.op, Inputs: []kernel.Input{kernel.Of(self.View()), kernel.Of(target.View())}, Params: params}.Loss(out.View(), averaging)
	}, nil
}

func (p pointwise) backward(c *Call) (Run, error) {
	grad, self, target := c.Tensor(c.either("gradOutput", "gradOut")), c.Tensor("self"), c.Tensor("target")
	out := c.Tensor(c.either("out", "gradInput"))
	averaging := c.averaging()
	shape := c.broadcastOf(grad, self, target)
	c.SameDType(self, grad, target)
	c.DType(out, transformerTypes...)
	c.Shape(out, shape, "the broadcast shape of the inputs")
	if err := c.Err(); err != nil {
		return nil, err
	}
	factor := 1.0
	if p.grad == kernel.SquaredErrorGrad {
		factor = 2
	}
	if averaging == kernel.MeanAveraging {
		factor /= float64(self.Len())
	}
	params := []kernel.Number{kernel.Real(factor)}
	if p.scales != nil {
		params = append(params, p.scales(c)...)
	}
	return func(*Exec) error {
		in := []kernel.Input{kernel.Of(grad.View()), kernel.Of(self.View()), kernel.Of(target.View())}
		return kernel.Map(p.grad, dtype.Float32, out.View(), in, params...)
	}, nil
}
