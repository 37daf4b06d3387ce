package quantization

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/indexing"
	"github.com/goascend/cann/internal/emu/op"
)

// quantParams lists the operators that pack scales into the 64-bit format of quantised products.
var quantParams = op.Table{"TransQuantParamV2": transQuantParam, "TransQuantParamV3": transQuantParam}

func transQuantParam(c *op.Call) (op.Run, error) {
	scale, offset, out := c.Tensor("scale"), c.Optional("offset"), c.Tensor("out")
	rounding := false
	if c.Has("roundMode") {
		mode := c.Int("roundMode")
		if mode != 0 && mode != 1 {
			c.Invalid("roundMode %d is unknown; 0 cuts, 1 rounds", mode)
		}
		rounding = mode == 1
	}
	c.Plain(scale, out)
	c.DType(scale, dtype.Float32)
	c.DType(out, dtype.Uint64, dtype.Int64)
	c.Rank(scale, 1, 2)
	want := scale.Shape
	if offset != nil {
		c.Plain(offset)
		c.DType(offset, dtype.Float32)
		c.Rank(offset, 1, 2)
		joined, ok := op.BroadcastShape(scale.Shape, offset.Shape)
		if want = joined; !ok || scale.Rank() == 2 && !slices.Equal(joined, scale.Shape) {
			c.Invalid("%v and %v do not go together; an offset has one element or as many as there are scales", scale, offset)
		}
	}
	c.Shape(out, want, "that of scale and offset")
	if scale.Len() == 0 {
		c.Invalid("%v is empty", scale)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		scales, err := spread(scale, want)
		if err != nil {
			return err
		}
		var offsets []float32
		if offset != nil {
			if offsets, err = spread(offset, want); err != nil {
				return err
			}
		}
		packed := make([]int64, len(scales))
		for i, s := range scales {
			var o *float32
			if offset != nil {
				o = &offsets[i]
			}
			packed[i] = int64(op.PackScale(s, o, rounding))
		}
		return indexing.SetInts(out.View(), packed)
	}, nil
}

// spread reads a tensor broadcast to a shape.
func spread(t *op.Tensor, shape []int64) ([]float32, error) {
	v, err := t.View().Broadcast(shape)
	if err != nil {
		return nil, err
	}
	return elementwise.Floats(v)
}
