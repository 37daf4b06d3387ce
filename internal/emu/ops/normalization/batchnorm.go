package normalization

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

var batchNorms = op.Table{
	"SyncBatchNormGatherStats": batchTotals, "BatchNormReduce": batchNormReduce,
	"BatchNorm": batchNorm, "BatchNormBackward": batchNormBackward, "FastBatchNormBackward": batchNormBackward,
	"BatchNormStats": batchStats, "BatchNormElemt": batchElements, "BatchNormElemtBackward": batchElementsBackward,
	"BatchNormReduceBackward": batchSums, "BatchNormGatherStatsWithCounts": batchGather,
}.Omits()

// images checks that tensors [N, C, …] have the same shape.
func images(c *op.Call, first *op.Tensor, others ...*op.Tensor) {
	c.Plain(append(others, first)...)
	c.DType(first, op.FloatTypes...)
	c.Rank(first, 2, kernel.MaxRank)
	c.Same(first, others...)
}

// perChannel checks tensors with one number for each channel of x. Nil tensors are skipped.
func perChannel(c *op.Call, x *op.Tensor, tensors ...*op.Tensor) {
	for _, t := range tensors {
		if t != nil && c.Err() == nil {
			c.DType(t, op.FloatTypes...)
			c.Shape(t, x.Shape[1:2], "one number for each channel of "+x.String())
		}
	}
}

// perChannelCount returns the number of elements of each channel.
func perChannelCount(x *op.Tensor) float64 { return float64(x.Len() / max(x.Shape[1], 1)) }

func batchNorm(c *op.Call) (op.Run, error) {
	x, out := c.Tensor("input"), c.Tensor("output")
	weight, bias, mean, variance := c.Optional("weight"), c.Optional("bias"), c.Optional("runningMean"), c.Optional("runningVar")
	saveMean, saveRstd := c.Optional("saveMean"), c.Optional("saveInvstd")
	training, momentum, eps := c.Bool("training"), c.Float("momentum"), c.Float("eps")
	images(c, x, out)
	perChannel(c, x, weight, bias, mean, variance)
	if training {
		perChannel(c, x, c.Tensor("saveMean"), c.Tensor("saveInvstd"))
	} else {
		c.Tensor("runningMean")
		c.Tensor("runningVar")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		m, releaseMean := kernel.Temporary(x.Shape[1])
		defer releaseMean()
		v, releaseVariance := kernel.Temporary(x.Shape[1])
		defer releaseVariance()
		if !training {
			if err := rowwise.InverseDeviation(v, variance.View(), eps); err != nil {
				return err
			}
			return rowwise.BatchNorm(out.View(), x.View(), mean.View(), v, op.OptionalView(weight), op.OptionalView(bias))
		}
		if err := rowwise.BatchMoments(m, v, x.View(), 1); err != nil {
			return err
		}
		if err := blend(mean, m, momentum); err != nil {
			return err
		}
		if err := blend(variance, v, momentum); err != nil {
			return err
		}
		if err := rowwise.BatchMoments(m, v, x.View(), 0); err != nil {
			return err
		}
		if err := rowwise.InverseDeviation(v, v, eps); err != nil {
			return err
		}
		if err := elementwise.Copy(saveMean.View(), m); err != nil {
			return err
		}
		if err := elementwise.Copy(saveRstd.View(), v); err != nil {
			return err
		}
		return rowwise.BatchNorm(out.View(), x.View(), m, v, op.OptionalView(weight), op.OptionalView(bias))
	}, nil
}

// blend updates running statistics, which may be nil.
func blend(running *op.Tensor, value kernel.View, momentum float64) error {
	if running == nil {
		return nil
	}
	return rowwise.Blend(running.View(), value, momentum)
}

func batchNormBackward(c *op.Call) (op.Run, error) {
	dy, x, weight := c.Tensor("gradOut"), c.Tensor("input"), c.Optional("weight")
	mean, variance, saveMean, saveRstd := c.Optional("runningMean"), c.Optional("runningVar"), c.Optional("saveMean"), c.Optional("saveInvstd")
	training, eps := c.Bool("training"), c.Float("eps")
	gradInput, gradWeight, gradBias := c.Gradients()
	images(c, x, dy)
	if gradInput != nil {
		images(c, x, gradInput)
	}
	perChannel(c, x, weight, mean, variance, saveMean, saveRstd, gradWeight, gradBias)
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
	return func(*op.Exec) error {
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
			if err := elementwise.Copy(rstd, saveRstd.View()); err != nil {
				return err
			}
		} else if err := rowwise.InverseDeviation(rstd, variance.View(), eps); err != nil {
			return err
		}
		if x.Len() == 0 {
			return op.ZeroAll(gradWeight, gradBias)
		}
		if training || gradBias != nil || gradWeight != nil {
			if err := channelSums(sum, product, gradBias, gradWeight, dy, x, m, rstd); err != nil {
				return err
			}
		}
		if gradInput == nil {
			return nil
		}
		if !training { // in evaluation the statistics do not depend on x
			for _, v := range []kernel.View{sum, product} {
				if err := elementwise.Zero(v); err != nil {
					return err
				}
			}
		}
		return rowwise.BatchNormGrad(gradInput.View(), dy.View(), x.View(), m.View(), rstd, op.OptionalView(weight), sum, product, perChannelCount(x))
	}, nil
}

func batchStats(c *op.Call) (op.Run, error) {
	x, mean, rstd, eps := c.Tensor("input"), c.Tensor("mean"), c.Tensor("invstd"), c.Float("eps")
	images(c, x)
	perChannel(c, x, mean, rstd)
	c.DType(mean, dtype.Float32)
	c.DType(rstd, dtype.Float32)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if mean.Len() == 0 {
			return nil
		}
		if err := rowwise.BatchMoments(mean.View(), rstd.View(), x.View(), 0); err != nil {
			return err
		}
		return rowwise.InverseDeviation(rstd.View(), rstd.View(), eps)
	}, nil
}

func batchElements(c *op.Call) (op.Run, error) {
	x, weight, bias, mean, rstd, out := c.Tensor("input"), c.Optional("weight"), c.Optional("bias"), c.Tensor("mean"), c.Tensor("invstd"), c.Tensor("output")
	images(c, x, out)
	perChannel(c, x, weight, bias, mean, rstd)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		return rowwise.BatchNorm(out.View(), x.View(), mean.View(), rstd.View(), op.OptionalView(weight), op.OptionalView(bias))
	}, nil
}

// batchElementsBackward divides the sums by the number of elements of all ranks, given by
// counter.
func batchElementsBackward(c *op.Call) (op.Run, error) {
	dy, x, mean, rstd, weight := c.Tensor("gradOut"), c.Tensor("input"), c.Tensor("mean"), c.Tensor("invstd"), c.Optional("weight")
	sum, product, counter, dx := c.Tensor("sumDy"), c.Tensor("sumDyXmu"), c.Tensor("counter"), c.Tensor("gradInput")
	images(c, x, dy, dx)
	perChannel(c, x, mean, rstd, weight, sum, product)
	c.Countable(counter)
	c.Rank(counter, 1, 1)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		counts, err := elementwise.Floats(counter.View())
		if err != nil {
			return err
		}
		n := 0.0
		for _, k := range counts {
			n += float64(k)
		}
		return rowwise.BatchNormGrad(dx.View(), dy.View(), x.View(), mean.View(), rstd.View(), op.OptionalView(weight), sum.View(), product.View(), n)
	}, nil
}

func batchSums(c *op.Call) (op.Run, error) {
	dy, x, mean, rstd := c.Tensor("gradOut"), c.Tensor("input"), c.Tensor("mean"), c.Tensor("invstd")
	wanted := func(flag, name string) *op.Tensor {
		if c.Bool(flag) {
			return c.Tensor(name)
		}
		return nil
	}
	sum, product := wanted("inputG", "sumDy"), wanted("inputG", "sumDyXmu")
	dweight, dbias := wanted("weightG", "gradWeight"), wanted("biasG", "gradBias")
	images(c, x, dy)
	perChannel(c, x, mean, rstd, c.Optional("weight"), sum, product, dweight, dbias)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return op.ZeroAll(sum, product, dweight, dbias)
		}
		s, release := kernel.Temporary(x.Shape[1])
		defer release()
		p, release := kernel.Temporary(x.Shape[1])
		defer release()
		if err := channelSums(s, p, dbias, dweight, dy, x, mean, rstd.View()); err != nil {
			return err
		}
		for i, t := range []*op.Tensor{sum, product} {
			if t != nil {
				if err := elementwise.Copy(t.View(), []kernel.View{s, p}[i]); err != nil {
					return err
				}
			}
		}
		return nil
	}, nil
}

// channelSums writes for each channel sum = Σ dy and product = Σ dy·(x − mean), and the gradients that follow from
// them: dbias, which is sum, and dweight = product·rstd, unless they are nil.
func channelSums(sum, product kernel.View, dbias, dweight, dy, x, mean *op.Tensor, rstd kernel.View) error {
	if err := rowwise.BatchSums(sum, product, dy.View(), x.View(), mean.View()); err != nil {
		return err
	}
	if dbias != nil {
		if err := elementwise.Copy(dbias.View(), sum); err != nil {
			return err
		}
	}
	if dweight == nil {
		return nil
	}
	return elementwise.Map(elementwise.Mul, dtype.Float32, dweight.View(), []elementwise.Input{elementwise.Of(product), elementwise.Of(rstd)})
}

func batchGather(c *op.Call) (op.Run, error) {
	x, mean, rstd, counts := c.Tensor("input"), c.Tensor("mean"), c.Tensor("invstd"), c.Tensor("counts")
	runningMean, runningVar := c.Optional("runningMean"), c.Optional("runningVar")
	meanAll, rstdAll, momentum, eps := c.Tensor("meanAll"), c.Tensor("invstdAll"), c.Float("momentum"), c.Float("eps")
	images(c, x)
	perChannel(c, x, meanAll, rstdAll, runningMean, runningVar)
	if c.Err() == nil {
		c.DType(mean, op.FloatTypes...)
		c.Rank(mean, 2, 2)
		c.SameShape(mean, rstd)
		if mean.Rank() == 2 {
			c.Shape(mean, []int64{counts.Len(), x.Shape[1]}, "a row of one number per channel for each of counts")
		}
		c.Countable(rstd, counts)
		c.Rank(counts, 1, 1)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if meanAll.Len() == 0 || counts.Len() == 0 {
			return op.ZeroAll(meanAll, rstdAll)
		}
		m, releaseMean := kernel.Temporary(x.Shape[1])
		defer releaseMean()
		v, releaseVariance := kernel.Temporary(x.Shape[1])
		defer releaseVariance()
		for _, correction := range []float64{1, 0} {
			if err := rowwise.BatchGather(m, v, mean.View(), rstd.View(), counts.View(), eps, correction); err != nil {
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
		if err := elementwise.Copy(meanAll.View(), m); err != nil {
			return err
		}
		return rowwise.InverseDeviation(rstdAll.View(), v, eps)
	}, nil
}

// batchTotals merges the statistics that the ranks computed from their images.
func batchTotals(c *op.Call) (op.Run, error) {
	sums, squares, counts := c.Tensor("totalSum"), c.Tensor("totalSquareSum"), c.Tensor("sampleCount")
	runningMean, runningVar, mean, rstd := c.Tensor("mean"), c.Tensor("variance"), c.Tensor("batchMean"), c.Tensor("batchInvstd")
	momentum, eps := c.Float("momentum"), c.Float("eps")
	c.Plain(sums, squares, counts, runningMean, runningVar, mean, rstd)
	c.DType(sums, op.FloatTypes...)
	c.Rank(sums, 2, 2)
	c.Same(sums, squares)
	c.DType(counts, dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int32)
	c.DType(mean, op.FloatTypes...)
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
	for _, t := range []*op.Tensor{runningMean, runningVar, mean, rstd} {
		c.Shape(t, []int64{channels}, "one number for each channel")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if channels == 0 {
			return nil
		}
		samples, err := elementwise.Doubles(counts.View())
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
		if err := rowwise.BatchTotals(m, v, sums.View(), squares.View(), n); err != nil {
			return err
		}
		if err := elementwise.Copy(mean.View(), m); err != nil {
			return err
		}
		if err := rowwise.InverseDeviation(rstd.View(), v, eps); err != nil {
			return err
		}
		if err := blend(runningMean, m, momentum); err != nil {
			return err
		}
		// The running variance estimates the variance of the population, not of this batch.
		if err := elementwise.Map(elementwise.Mul, dtype.Float32, v, []elementwise.Input{elementwise.Of(v), elementwise.Const(elementwise.Real(n / (n - 1)))}); err != nil {
			return err
		}
		return blend(runningVar, v, momentum)
	}, nil
}

// batchNormReduce computes the sum and the sum of squares of each channel of [N, C, H, W].
func batchNormReduce(c *op.Call) (op.Run, error) {
	x, sum, squares := c.Tensor("x"), c.Tensor("sum"), c.Tensor("squareSum")
	c.Plain(x, sum, squares)
	c.DType(x, op.FloatTypes...)
	c.Rank(x, 4, 4)
	for _, t := range []*op.Tensor{sum, squares} {
		c.DType(t, dtype.Float32)
		if c.Err() == nil {
			c.Shape(t, x.Shape[1:2], "one for each channel")
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return op.ZeroAll(sum, squares)
		}
		t, release := kernel.Temporary(x.Shape...)
		defer release()
		if err := elementwise.Map(elementwise.Square, dtype.Float32, t, []elementwise.Input{elementwise.Of(x.View())}); err != nil {
			return err
		}
		if err := rowwise.Reduce(rowwise.ReduceSum, squares.View(), t, []int{0, 2, 3}, 0); err != nil {
			return err
		}
		return rowwise.Reduce(rowwise.ReduceSum, sum.View(), x.View(), []int{0, 2, 3}, 0)
	}, nil
}
