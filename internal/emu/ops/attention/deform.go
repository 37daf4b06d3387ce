package attention

import (
	"fmt"

	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/interpolate"
	"github.com/goascend/cann/internal/emu/op"
)

// deformables sample feature maps at locations that the queries choose.
var deformables = op.Table{"MultiScaleDeformableAttnFunction": deformable, "MultiScaleDeformableAttentionGrad": deformableGrad}.Selects("MultiScaleDeformableAttentionGrad")

// deformation is a call of the family: value is [batch, keys, heads, channels], places is [batch,
// queries, heads, levels, points, 2] with x first, and weights has the same shape without the last
// dimension.
type deformation struct {
	value, sizes, starts, places, weights *op.Tensor
	interpolate.Deformable
}

// newDeformation reads and checks the arguments; result is [batch, queries, heads·channels].
func newDeformation(c *op.Call, result *op.Tensor) *deformation {
	d := &deformation{value: c.Tensor("value"), sizes: c.Tensor("spatialShape"), starts: c.Tensor("levelStartIndex"), places: c.Tensor("location"), weights: c.Tensor("attnWeight")}
	c.Plain(d.value, d.sizes, d.starts, d.places, d.weights, result)
	c.DType(d.value, op.FloatTypes...)
	c.SameDType(d.value, d.places, d.weights, result)
	c.DType(d.sizes, op.IndexTypes...)
	c.DType(d.starts, op.IndexTypes...)
	c.Rank(d.value, 4, 4)
	c.Rank(d.places, 6, 6)
	c.Rank(d.sizes, 2, 2)
	if c.Err() != nil {
		return d
	}
	v, p := d.value.Shape, d.places.Shape
	d.Batch, d.Keys, d.Heads, d.Channels, d.Queries, d.Points = v[0], v[1], v[2], v[3], p[1], p[4]
	levels := p[3]
	if d.Channels%8 != 0 || d.Channels > 256 || d.Heads > 16 || levels > 16 || d.Points > 16 {
		c.Invalid("%v with %d levels of %d points: channels must be a multiple of 8 up to 256, and there are at most 16 heads, levels and points", d.value, levels, d.Points)
	}
	c.Shape(d.sizes, []int64{levels, 2}, "height and width of each level")
	c.Shape(d.starts, []int64{levels}, "one for each level")
	c.Shape(d.places, []int64{d.Batch, d.Queries, d.Heads, levels, d.Points, 2}, "two coordinates for each point")
	c.Shape(d.weights, p[:5], "a weight for each place")
	c.Shape(result, []int64{d.Batch, d.Queries, d.Heads * d.Channels}, "the channels of all heads for each query")
	return d
}

// levels reads the sizes of the levels and their first keys. It is called in Run.
func (d *deformation) levels() error {
	sizes, err := elementwise.Indices(d.sizes.View())
	if err != nil {
		return err
	}
	if d.Starts, err = elementwise.Indices(d.starts.View()); err != nil {
		return err
	}
	d.Heights, d.Widths = nil, nil
	for i, first := range d.Starts {
		h, w := sizes[2*i], sizes[2*i+1]
		if h < 0 || w < 0 || first < 0 || w > 0 && h > (d.Keys-first)/w {
			return fmt.Errorf("level %d of %d x %d from key %d on is not within %d keys", i, h, w, first, d.Keys)
		}
		d.Heights, d.Widths = append(d.Heights, h), append(d.Widths, w)
	}
	return nil
}

func deformable(c *op.Call) (op.Run, error) {
	out := c.Tensor("output")
	d := newDeformation(c, out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if err := d.levels(); err != nil || out.Len() == 0 {
			return err
		}
		return d.Forward(out.View(), d.value.View(), d.places.View(), d.weights.View())
	}, nil
}

func deformableGrad(c *op.Call) (op.Run, error) {
	dout, dvalue, dplaces, dweights := c.Tensor("gradOutput"), c.Tensor("gradValue"), c.Tensor("gradLocation"), c.Tensor("gradAttnWeight")
	d := newDeformation(c, dout)
	c.Plain(dvalue, dplaces, dweights)
	c.Same(d.value, dvalue)
	c.Same(d.places, dplaces)
	c.Same(d.weights, dweights)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if err := d.levels(); err != nil {
			return err
		}
		if dout.Len() == 0 {
			return op.ZeroAll(dvalue, dplaces, dweights)
		}
		return d.Backward(dvalue.View(), dplaces.View(), dweights.View(), dout.View(), d.value.View(), d.places.View(), d.weights.View())
	}, nil
}
