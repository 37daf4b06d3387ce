package resampling

import (
	"fmt"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// points lists interpolation among the points of a cloud.
var points = op.Table{"ThreeInterpolateBackward": threeInterpolateBackward}

// threeInterpolateBackward adds the gradient of each point, times its three weights, to the three points that it was interpolated
// from. Gradients are [b, c, n, 1] in NCHW, and [b, c, n] on the Ascend950; places and weights are [b, n, 3].
func threeInterpolateBackward(c *op.Call) (op.Run, error) {
	dy, index, weight, m, dx := c.Tensor("grad_x"), c.Tensor("idx"), c.Tensor("weight"), c.Int("m"), c.Tensor("grad_y")
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Plain(dy, index, weight, dx)
	c.DType(dy, dtype.Float32, dtype.Float16)
	c.DType(index, op.IndexTypes...)
	c.DType(weight, dtype.Float32, dtype.Float16)
	if dy.Len() == 0 || index.Len() == 0 || weight.Len() == 0 {
		return op.Nothing, c.Err()
	}
	c.SameDType(dy, weight, dx)
	rank := 4
	if c.Chip() == acceptance.Ascend950 {
		rank = 3
	}
	for _, t := range []*op.Tensor{dy, dx} {
		c.Rank(t, rank, rank)
		if rank == 4 && c.Err() == nil && (t.Format != dtype.NCHW || t.Dim(3) != 1) {
			c.Invalid("%v must be [b,c,n,1] in format NCHW on this chip", t)
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	batch, channels, n := dy.Dim(0), dy.Dim(1), dy.Dim(2)
	c.Shape(index, []int64{batch, n, 3}, "three places for each point")
	c.Shape(weight, index.Shape, "one for each place")
	want := append([]int64{batch, channels, m}, dy.Shape[3:]...)
	c.Shape(dx, want, "m points for each channel")
	return func(*op.Exec) error {
		places, err := elementwise.Indices(index.View())
		if err != nil {
			return err
		}
		grads, err := elementwise.Doubles(dy.View())
		if err != nil {
			return err
		}
		weights, err := elementwise.Doubles(weight.View())
		if err != nil {
			return err
		}
		sums := make([]float64, batch*channels*m)
		for i, place := range places {
			if place < 0 || place >= m {
				return fmt.Errorf("aclnnThreeInterpolateBackward: idx has %d, and there are %d points", place, m)
			}
			b, at := int64(i)/(3*n), int64(i)/3%n
			for ch := b * channels; ch < (b+1)*channels; ch++ {
				sums[ch*m+place] += float64(grads[ch*n+at] * weights[i])
			}
		}
		return elementwise.SetFloats(dx.View(), sums)
	}, c.Err()
}
