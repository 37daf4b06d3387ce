package loss

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

var losses = op.Table{"CrossEntropyLoss": crossEntropyLoss, "CrossEntropyLossGrad": crossEntropyLossGrad}

var averagings = map[string]rowwise.Averaging{
	"": rowwise.MeanAveraging, "mean": rowwise.MeanAveraging, "sum": rowwise.SumAveraging, "none": rowwise.NoAveraging,
}

// crossEntropy reads the arguments that forward and backward share; x is the [rows,
// classes] tensor of the call.
func crossEntropy(c *op.Call, x *op.Tensor) (describe func() (*rowwise.CrossEntropy, error), averaging rowwise.Averaging) {
	target, weight := c.Tensor("target"), c.Optional("weightOptional")
	ignore, smoothing := c.Int("ignoreIndex"), c.Float("labelSmoothing")
	averaging, known := averagings[c.Text("reductionOptional")]
	c.DType(x, op.FloatTypes...)
	c.DType(target, dtype.Int32, dtype.Int64)
	c.Rank(x, 2, 2)
	if c.Err() == nil {
		c.Shape(target, x.Shape[:1], "one class index for each row")
	}
	if weight != nil && c.Err() == nil {
		c.DType(weight, dtype.Float32)
		c.Shape(weight, x.Shape[1:], "one weight for each class")
	}
	switch {
	case !known:
		c.Invalid("reduction %q is unknown; use mean, sum or none", c.Text("reductionOptional"))
	case smoothing < 0 || smoothing > 1:
		c.Invalid("labelSmoothing %g is not between 0 and 1", smoothing)
	case c.Float("lseSquareScaleForZloss") != 0:
		c.Invalid("lseSquareScaleForZloss %g: the z-loss is not supported; use 0", c.Float("lseSquareScaleForZloss"))
	}
	return func() (*rowwise.CrossEntropy, error) {
		targets, err := elementwise.Indices(target.View())
		if err != nil {
			return nil, err
		}
		e := &rowwise.CrossEntropy{Targets: targets, Ignore: ignore, Smoothing: smoothing, Averaging: averaging}
		if weight != nil {
			e.Weights, err = elementwise.Floats(weight.View())
		}
		return e, err
	}, averaging
}

func crossEntropyLoss(c *op.Call) (op.Run, error) {
	x, loss, logProb := c.Tensor("input"), c.Tensor("lossOut"), c.Tensor("logProbOut")
	describe, averaging := crossEntropy(c, x)
	c.Same(x, logProb)
	if c.Bool("returnZloss") {
		c.Invalid("returnZloss: the z-loss is not supported")
	}
	rowLoss(c, loss, x, averaging)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 && averaging == rowwise.NoAveraging {
			return nil
		}
		e, err := describe()
		if err != nil {
			return err
		}
		return e.Forward(loss.View(), logProb.View(), x.View())
	}, nil
}

func crossEntropyLossGrad(c *op.Call) (op.Run, error) {
	grad, logProb, out := c.Tensor("gradLoss"), c.Tensor("logProb"), c.Tensor("out")
	describe, averaging := crossEntropy(c, logProb)
	c.Same(logProb, out)
	if c.Optional("gradZlossOptional") != nil || c.Optional("lseForZlossOptional") != nil {
		c.Invalid("gradZloss and lseForZloss: the z-loss is not supported; pass null")
	}
	rowLoss(c, grad, logProb, averaging)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if out.Len() == 0 {
			return nil
		}
		e, err := describe()
		if err != nil {
			return err
		}
		return e.Backward(out.View(), grad.View(), logProb.View())
	}, nil
}

// rowLoss checks a loss or its gradient: it has one element, or one per row without averaging.
func rowLoss(c *op.Call, loss, x *op.Tensor, averaging rowwise.Averaging) {
	c.Countable(loss)
	switch {
	case c.Err() != nil:
	case averaging == rowwise.NoAveraging:
		c.Shape(loss, x.Shape[:1], "one number for each row")
	case loss.Len() != 1:
		c.Invalid("%v must have one element", loss)
	}
}
