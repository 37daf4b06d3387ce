package normalization

import (
	"math"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// quantBatchNorms lists the operators that normalise the channels of quantised images with given
// statistics.
var quantBatchNorms = op.Table{"QuantizedBatchNorm": quantBatchNorm}.Omits()

// quantBatchNorm dequantises NCHW images, normalises each channel and quantises the result with
// its own scale and zero point.
func quantBatchNorm(c *op.Call) (op.Run, error) {
	x, mean, variance, weight, bias, out := c.Tensor("input"), c.Tensor("mean"), c.Tensor("var"), c.Optional("weight"), c.Optional("bias"), c.Tensor("output")
	scales, zeros := []*op.Scalar{c.Scalar("inputScale"), c.Scalar("outputScale")}, []*op.Scalar{c.Scalar("inputZeroPoint"), c.Scalar("outputZeroPoint")}
	eps := c.Float("epsilon")
	c.Plain(x, out)
	c.DType(x, dtype.Int8, dtype.Uint8, dtype.Int32)
	c.Same(x, out)
	c.Rank(x, 4, 4)
	if c.Err() != nil {
		return nil, c.Err()
	}
	for _, t := range []*op.Tensor{mean, variance, weight, bias} {
		if t != nil {
			c.Plain(t)
			c.DType(t, dtype.Float32)
			c.Shape(t, x.Shape[1:2], "one for each channel")
		}
	}
	least, most := x.DType.Range()
	for _, z := range zeros {
		if v := z.Float64(); v < least || v > most {
			c.Invalid("a zero point is %g; %v holds %g to %g", v, x.DType, least, most)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		var read [4][]float64 // one value per channel
		for i, t := range []*op.Tensor{mean, variance, weight, bias} {
			var err error
			if read[i] = []float64{0, 0, 1, 0}[i:][:1:1]; t == nil {
				for range x.Shape[1] - 1 {
					read[i] = append(read[i], read[i][0])
				}
			} else if read[i], err = elementwise.Doubles(t.View()); err != nil {
				return err
			}
		}
		for k := range x.Shape[1] {
			// ((x - z)·s - mean)·r + bias, divided by the output scale, equals x·factor + shift.
			r := read[2][k] / math.Sqrt(read[1][k]+eps)
			factor := scales[0].Float64() * r
			shift := read[3][k] - read[0][k]*r - zeros[0].Float64()*factor
			t, release := kernel.Temporary(x.Shape[0], x.Shape[2], x.Shape[3])
			defer release()
			to := scales[1].Float64()
			for _, step := range []struct {
				op     elementwise.Op
				in     kernel.View
				number float64
				params []elementwise.Number
			}{
				{elementwise.Mul, x.View().Select(1, k), factor / to, nil}, {elementwise.Add, t, shift/to + zeros[1].Float64(), []elementwise.Number{elementwise.Real(1)}},
			} {
				if err := elementwise.Map(step.op, dtype.Float32, t, []elementwise.Input{elementwise.Of(step.in), elementwise.Const(elementwise.Real(step.number))}, step.params...); err != nil {
					return err
				}
			}
			if err := elementwise.Map(elementwise.Round, dtype.Float32, out.View().Select(1, k), []elementwise.Input{elementwise.Of(t)}); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
