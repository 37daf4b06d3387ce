package nn

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

var batchNorms = table{
	"SyncBatchNormGatherStats": batchTotals,
	"BatchNorm":                batchNorm, "BatchNormBackward": batchNormBackward, "FastBatchNormBackward": batchNormBackward,
	"BatchNormStats": batchStats, "BatchNormElemt": batchElements, "BatchNormElemtBackward": batchElementsBackward,
	"BatchNormReduceBackward": batchSums, "BatchNormGatherStatsWithCounts": batchGather,
}

// images checks tensors [N, C, …] of one shape.
func (c *Call) images(first *Tensor, others ...*Tensor) {
	c.plain(append(others, first)...)
	c.DType(first, transformerTypes...)
	c.Rank(first, 2, kernel.MaxRank)
	c.Same(first, others...)
}

// perChannel checks tensors with one number for each channel of x; nil ones are absent.
func (c *Call) perChannel(x *Tensor, tensors ...*Tensor) {
	for _, t := range tensors {
		if t != nil && c.Err() == nil {
			c.DType(t, transformerTypes...)
			c.Shape(t, x.Shape[1:2], "one number for each channel of "+x.String())
		}
	}
}

// perChannelCount is the number of elements of each channel.
func perChannelCount(x *Tensor) float64 { return float64(x.Len() / max(x.Shape[1], 1)) }

func batchNorm(c *Call) (Run, error) {
	x, out := c.Tensor("input"), c.Tensor("output")
	weight, bias, mean, variance := c.Optional("weight"), c.Optional("bias"), c.Optional("runningMean"), c.Optional("runningVar")
	saveMean, saveRstd := c.Optional("saveMean"), c.Optional("saveInvstd")
	training, momentum, eps := c.Bool("training"), c.Float("momentum"), c.Float("eps")
	c.images(x, out)
	c.perChannel(x, weight, bias, mean, variance)
	if training {
		c.perChannel(x, c.Tensor("saveMean"), c.Tensor("saveInvstd"))
	} else {
		c.Tensor("runningMean")
		c.Tensor("runningVar")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return nil
		}
		m, releaseMean := kernel.Temporary(x.Shape[1])
		defer releaseMean()
		v, releaseVariance := kernel.Temporary(x.Shape[1])
		defer releaseVariance()
		if !training {
			if err := kernel.InverseDeviation(v, variance.View(), eps); err != nil {
				return err
			}
			return kernel.BatchNorm(out.View(), x.View(), mean.View(), v, optionalView(weight), optionalView(bias))
		}
		if err := kernel.BatchMoments(m, v, x.View(), 1); err != nil {
			return err
		}
		if err := blend(mean, m, momentum); err != nil {
			return err
		}
		if err := blend(variance, v, momentum); err != nil {
			return err
		}
		if err := kernel.BatchMoments(m, v, x.View(), 0); err != nil {
			return err
		}
		if err := kernel.InverseDeviation(v, v, eps); err != nil {
			return err
		}
		if err := kernel.Copy(saveMean.View(), m); err != nil {
			return err
		}
		if err := kernel.Copy(saveRstd.View(), v); err != nil {
			return err
		}
		return kernel.BatchNorm(out.View(), x.View(), m, v, optionalView(weight), optionalView(bias))
	}, nil
}

// blend updates running statistics, which may be absent.
func blend(running *Tensor, value kernel.View, momentum float64) error {
	if running == nil {
		return nil
	}
	return kernel.Blend(running.View(), value, momentum)
}

func batchNormBackward(c *Call) (Run, error) {
	dy, x, weight := c.Tensor("gradOut"), c.Tensor("input"), c.Optional("weight")
	mean, variance, saveMean, saveRstd := c.Optional("runningMean"), c.Optional("runningVar"), c.Optional("saveMean"), c.Optional("saveInvstd")
	training, eps := c.Bool("training"), c.Float("eps")
	g := c.wantedGrads()
	c.images(x, dy)
	if g.input != nil {
		c.images(x, g.input)
	}
	c.perChannel(x, weight, mean, variance, saveMean, saveRstd, g.weight, g.bias)
	if training {
		c.Tensor("saveMean")
		c.Tensor("saveInvstd")
	} else {
		c.Tensor("runningMean")
		c.Tensor("runningVar")
	}
	if c.Has("version") && (c.Int("version") < 0 || c.Int("version") > 1) {
		c.Invalid("version is %d; use 0 (default) or 1 (fast)", c.Int("version"))
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		channels := x.Shape[1]
		rstd, releaseRstd := kernel.Temporary(channels)
		defer releaseRstd()
		sum, releaseSum := kernel.Temporary(channels)
		defer releaseSum()
		product, releaseProduct := kernel.Temporary(channels)
		defer releaseProduct()
		m := mean
		if training {
			m = saveMean
			if err := kernel.Copy(rstd, saveRstd.View()); err != nil {
				return err
			}
		} else if err := kernel.InverseDeviation(rstd, variance.View(), eps); err != nil {
			return err
		}
		if x.Len() == 0 {
			return zeroAll(g.weight, g.bias)
		}
		if err := kernel.BatchCentred(optionalView(g.bias), optionalView(g.weight), dy.View(), x.View(), m.View(), rstd); err != nil {
			return err
		}
		if g.input == nil {
			return nil
		}
		if training {
			if err := kernel.BatchCentred(sum, product, dy.View(), x.View(), m.View(), kernel.View{}); err != nil {
				return err
			}
		} else { // the statistics do not depend on x
			for _, v := range []kernel.View{sum, product} {
				if err := kernel.Zero(v); err != nil {
					return err
				}
			}
		}
		return kernel.BatchNormGrad(g.input.View(), dy.View(), x.View(), m.View(), rstd, optionalView(weight), sum, product, perChannelCount(x))
	}, nil
}

// zeroAll clears outputs; nil ones are absent.
func zeroAll(tensors ...*Tensor) error {
	for _, t := range tensors {
		if t != nil {
			if err := zero(t); err != nil {
				return err
			}
		}
	}
	return nil
}

func batchStats(c *Call) (Run, error) {
	x, mean, rstd, eps := c.Tensor("input"), c.Tensor("mean"), c.Tensor("invstd"), c.Float("eps")
	c.images(x)
	c.perChannel(x, mean, rstd)
	c.DType(mean, dtype.Float32)
	c.DType(rstd, dtype.Float32)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if mean.Len() == 0 {
			return nil
		}
		if err := kernel.BatchMoments(mean.View(), rstd.View(), x.View(), 0); err != nil {
			return err
		}
		return kernel.InverseDeviation(rstd.View(), rstd.View(), eps)
	}, nil
}

func batchElements(c *Call) (Run, error) {
	x, weight, bias, mean, rstd, out := c.Tensor("input"), c.Optional("weight"), c.Optional("bias"), c.Tensor("mean"), c.Tensor("invstd"), c.Tensor("output")
	c.images(x, out)
	c.perChannel(x, weight, bias, mean, rstd)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return nil
		}
		return kernel.BatchNorm(out.View(), x.View(), mean.View(), rstd.View(), optionalView(weight), optionalView(bias))
	}, nil
}

// batchElementsBackward divides the sums by the elements of all parts, which counter counts.
func batchElementsBackward(c *Call) (Run, error) {
	dy, x, mean, rstd, weight := c.Tensor("gradOut"), c.Tensor("input"), c.Tensor("mean"), c.Tensor("invstd"), c.Optional("weight")
	sum, product, counter, dx := c.Tensor("sumDy"), c.Tensor("sumDyXmu"), c.Tensor("counter"), c.Tensor("gradInput")
	c.images(x, dy, dx)
	c.perChannel(x, mean, rstd, weight, sum, product)
	c.Rank(counter, 1, 1)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return nil
		}
		counts, err := kernel.Floats(counter.View())
		if err != nil {
			return err
		}
		n := 0.0
		for _, k := range counts {
			n += float64(k)
		}
		return kernel.BatchNormGrad(dx.View(), dy.View(), x.View(), mean.View(), rstd.View(), optionalView(weight), sum.View(), product.View(), n)
	}, nil
}

func batchSums(c *Call) (Run, error) {
	dy, x, mean, rstd := c.Tensor("gradOut"), c.Tensor("input"), c.Tensor("mean"), c.Tensor("invstd")
	wanted := func(flag, name string) *Tensor {
		if c.Bool(flag) {
			return c.Tensor(name)
		}
		return nil
	}
	sum, product := wanted("inputG", "sumDy"), wanted("inputG", "sumDyXmu")
	dweight, dbias := wanted("weightG", "gradWeight"), wanted("biasG", "gradBias")
	c.images(x, dy)
	c.perChannel(x, mean, rstd, c.Optional("weight"), sum, product, dweight, dbias)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return zeroAll(sum, product, dweight, dbias)
		}
		if err := kernel.BatchCentred(optionalView(sum), optionalView(product), dy.View(), x.View(), mean.View(), kernel.View{}); err != nil {
			return err
		}
		return kernel.BatchCentred(optionalView(dbias), optionalView(dweight), dy.View(), x.View(), mean.View(), rstd.View())
	}, nil
}

func batchGather(c *Call) (Run, error) {
	x, mean, rstd, counts := c.Tensor("input"), c.Tensor("mean"), c.Tensor("invstd"), c.Tensor("counts")
	runningMean, runningVar := c.Optional("runningMean"), c.Optional("runningVar")
	meanAll, rstdAll, momentum, eps := c.Tensor("meanAll"), c.Tensor("invstdAll"), c.Float("momentum"), c.Float("eps")
	c.images(x)
	c.perChannel(x, meanAll, rstdAll, runningMean, runningVar)
	if c.Err() == nil {
		c.DType(mean, transformerTypes...)
		c.Rank(mean, 2, 2)
		c.SameShape(mean, rstd)
		if mean.Rank() == 2 {
			c.Shape(mean, []int64{counts.Len(), x.Shape[1]}, "a row of one number per channel for each of counts")
		}
		c.Rank(counts, 1, 1)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if meanAll.Len() == 0 || counts.Len() == 0 {
			return zeroAll(meanAll, rstdAll)
		}
		m, releaseMean := kernel.Temporary(x.Shape[1])
		defer releaseMean()
		v, releaseVariance := kernel.Temporary(x.Shape[1])
		defer releaseVariance()
		for _, correction := range []float64{1, 0} {
			if err := kernel.BatchGather(m, v, mean.View(), rstd.View(), counts.View(), eps, correction); err != nil {
				return err
			}
			if correction == 1 {
				if err := blend(runningVar, v, momentum); err != nil {
					return err
				}
			}
		}
		if err := blend(runningMean, m, momentum); err != nil {
			return err
		}
		if err := kernel.Copy(meanAll.View(), m); err != nil {
			return err
		}
		return kernel.InverseDeviation(rstdAll.View(), v, eps)
	}, nil
}

// batchTotals joins the sums that ranks have of their images.
func batchTotals(c *Call) (Run, error) {
	sums, squares, counts := c.Tensor("totalSum"), c.Tensor("totalSquareSum"), c.Tensor("sampleCount")
	runningMean, runningVar, mean, rstd := c.Tensor("mean"), c.Tensor("variance"), c.Tensor("batchMean"), c.Tensor("batchInvstd")
	momentum, eps := c.Float("momentum"), c.Float("eps")
	c.plain(sums, squares, counts, runningMean, runningVar, mean, rstd)
	c.DType(sums, transformerTypes...)
	c.Rank(sums, 2, 2)
	c.Same(sums, squares)
	c.DType(counts, dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int32)
	c.DType(mean, transformerTypes...)
	c.SameDType(mean, rstd)
	c.SameDType(sums, runningMean, runningVar)
	if c.Err() != nil {
		return nil, c.Err()
	}
	parts, channels := sums.Shape[0], sums.Shape[1]
	if parts == 0 {
		c.Invalid("%v has no rows; there must be one for each rank", sums)
	}
	c.Shape(counts, []int64{parts}, "the number of samples of each row of totalSum")
	for _, t := range []*Tensor{runningMean, runningVar, mean, rstd} {
		c.Shape(t, []int64{channels}, "one number for each channel")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if channels == 0 {
			return nil
		}
		samples, err := kernel.Doubles(counts.View())
		if err != nil {
			return err
		}
		n := 0.0
		for _, k := range samples {
			n += k
		}
		m, releaseMean := kernel.Temporary(channels)
		defer releaseMean()
		v, releaseVariance := kernel.Temporary(channels)
		defer releaseVariance()
		if err := kernel.BatchTotals(m, v, sums.View(), squares.View(), n); err != nil {
			return err
		}
		if err := kernel.Copy(mean.View(), m); err != nil {
			return err
		}
		if err := kernel.InverseDeviation(rstd.View(), v, eps); err != nil {
			return err
		}
		if err := blend(runningMean, m, momentum); err != nil {
			return err
		}
		// What is kept estimates the variance of all images, not of these.
		if err := kernel.Map(kernel.Mul, dtype.Float32, v, []kernel.Input{kernel.Of(v), kernel.Const(kernel.Real(n / (n - 1)))}); err != nil {
			return err
		}
		return blend(runningVar, v, momentum)
	}, nil
}
