package optimizer

import (
	"math"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// lossScalings lists the operators that keep gradients of small types in range by scaling the
// loss.
var lossScalings = op.Table{"AmpUpdateScale": updateScale, "ForeachNonFiniteCheckAndUnscale": unscale}

// updateScale decreases the scale after a gradient that was not finite, and increases it after
// growthInterval consecutive finite ones.
func updateScale(c *op.Call) (op.Run, error) {
	scale, tracker, found := c.Tensor("currentScale"), c.Tensor("growthTracker"), c.Tensor("foundInf")
	newScale, newTracker := c.Tensor("updatedScale"), c.Tensor("updatedGrowthTracker")
	growth, backoff, interval := c.Float("growthFactor"), c.Float("backoffFactor"), c.Int("growthInterval")
	c.DType(scale, op.FloatTypes...)
	c.SameDType(scale, found, newScale)
	c.DType(tracker, dtype.Int32)
	c.SameDType(tracker, newTracker)
	for _, t := range []*op.Tensor{scale, tracker, found, newScale, newTracker} {
		c.Plain(t)
		if t.Len() != 1 {
			c.Unfit("%v must have one element", t)
		}
	}
	if interval < 1 || interval > math.MaxInt32 {
		c.Unfit("growthInterval is %d; it must be 1 to %d", interval, math.MaxInt32)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		now, err := numbersOf([]*op.Tensor{scale, tracker, found})
		if err != nil {
			return err
		}
		next, steps := now[0], int64(now[1])+1
		_, most := scale.DType.Range()
		switch {
		case now[2] != 0:
			next, steps = next*backoff, 0
		case steps == interval:
			if grown := next * growth; grown <= most {
				next = grown
			}
			steps = 0
		}
		if err := elementwise.Fill(newScale.View(), elementwise.Real(next)); err != nil {
			return err
		}
		return elementwise.Fill(newTracker.View(), elementwise.Whole(steps))
	}, nil
}

// maxUnscaled is the longest list of gradients.
const maxUnscaled = 256

// unscale multiplies gradients in place and reports whether one was not finite.
func unscale(c *op.Call) (op.Run, error) {
	grads, found, inverse := c.Tensors("scaledGrads"), c.Tensor("foundInf"), c.Tensor("invScale")
	if grads == nil {
		c.Fail(op.NullPointer, "scaledGrads is null")
	}
	if len(grads) == 0 || len(grads) > maxUnscaled {
		c.Unfit("scaledGrads has %d tensors; it must have 1 to %d", len(grads), maxUnscaled)
	}
	for _, t := range []*op.Tensor{found, inverse} {
		c.Plain(t)
		c.DType(t, dtype.Float32)
		if t.Len() != 1 {
			c.Unfit("%v must have one element", t)
		}
	}
	for _, g := range grads {
		c.Plain(g)
		c.DType(g, op.FloatTypes...)
		if g.DType != grads[0].DType {
			c.Unfit("dtypes differ: %v and %v; they must be equal", grads[0], g)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		factor, err := numbersOf([]*op.Tensor{inverse})
		if err != nil {
			return err
		}
		finite, release := kernel.Temporary(1)
		defer release()
		for _, g := range grads {
			if g.Len() == 0 {
				continue
			}
			each, releaseEach := kernel.Temporary(g.Shape...)
			err := elementwise.Map(elementwise.IsFinite, dtype.Float32, each, []elementwise.Input{elementwise.Of(g.View())})
			if err == nil {
				each.Shape, each.Strides = []int64{g.Len()}, []int64{1}
				least := kernel.View{Data: finite.Data, DType: finite.DType, Shape: []int64{}, Strides: []int64{}}
				err = rowwise.Reduce(rowwise.ReduceMin, least, each, []int{0}, 0)
			}
			releaseEach()
			if err != nil {
				return err
			}
			every, err := elementwise.Floats(finite)
			if err != nil {
				return err
			}
			if every[0] == 0 {
				if err := elementwise.Fill(found.View(), elementwise.Real(1)); err != nil {
					return err
				}
			}
			if err := elementwise.Map(elementwise.Mul, dtype.Float32, g.View(), []elementwise.Input{elementwise.Of(g.View()), elementwise.Const(elementwise.Real(factor[0]))}); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
