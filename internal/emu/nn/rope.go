package nn

import (
	"slices"

	"github.com/goascend/cann/internal/emu/kernel"
)

var rotary = table{"RotaryPositionEmbedding": rotaryPositionEmbedding}

// rotaryPositionEmbedding rotates pairs of the last dimension of x, which has four
// dimensions; cos and sin broadcast to it in the others.
func rotaryPositionEmbedding(c *Call) (Run, error) {
	x, cos, sin, out := c.Tensor("x"), c.Tensor("cos"), c.Tensor("sin"), c.Tensor("out")
	mode := c.Int("mode")
	c.Rank(x, 3, 4)
	c.DType(x, transformerTypes...)
	c.Same(x, out)
	c.Same(cos, sin)
	c.SameDType(x, cos)
	if c.Err() == nil {
		if !broadcasts(cos.Shape, x.Shape) || cos.Dim(-1) != x.Dim(-1) {
			c.Invalid("%v must have the head dim of %v and broadcast to it in the other dimensions", cos, x)
		}
		if mode < 0 || mode > int64(kernel.RotaryInterleaveHalf) {
			c.Invalid("mode %d is unknown; 0 is half, 1 interleave, 2 quarter, 3 interleave-half", mode)
		}
		if d := x.Dim(-1); d%2 != 0 || mode == int64(kernel.RotaryQuarter) && d%4 != 0 {
			c.Invalid("the head dim of %v does not fit mode %d, which rotates pairs", x, mode)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return nil
		}
		return kernel.Rotary(out.View(), x.View(), cos.View(), sin.View(), kernel.RotaryMode(mode))
	}, nil
}

// broadcasts reports whether a shape has the rank of another and its sizes, or ones.
func broadcasts(shape, to []int64) bool {
	return len(shape) == len(to) && !slices.ContainsFunc(axes(len(to)), func(i int) bool { return shape[i] != 1 && shape[i] != to[i] })
}

func axes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
