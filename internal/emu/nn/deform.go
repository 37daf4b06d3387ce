package nn

import (
	"fmt"

	"github.com/goascend/cann/internal/emu/kernel"
)

// deformables read maps at places that queries choose.
var deformables = table{"MultiScaleDeformableAttnFunction": deformable, "MultiScaleDeformableAttentionGrad": deformableGrad}

// deformation is what the family shares: value [batch, keys, heads, channels], places [batch,
// queries, heads, levels, points, 2] (x first), and weights without the last.
type deformation struct {
	value, sizes, starts, places, weights *Tensor
	kernel.DeformableAttention
}

// deformation reads and checks the arguments; result is [batch, queries, heads·channels].
func (c *Call) deformation(result *Tensor) *deformation {
	d := &deformation{value: c.Tensor("value"), sizes: c.Tensor("spatialShape"), starts: c.Tensor("levelStartIndex"), places: c.Tensor("location"), weights: c.Tensor("attnWeight")}
	c.plain(d.value, d.sizes, d.starts, d.places, d.weights, result)
	c.DType(d.value, transformerTypes...)
	c.SameDType(d.value, d.places, d.weights, result)
	c.DType(d.sizes, indexTypes...)
	c.DType(d.starts, indexTypes...)
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

// levels reads where the levels lie among the keys: for Run.
func (d *deformation) levels() error {
	sizes, err := kernel.Indices(d.sizes.View())
	if err != nil {
		return err
	}
	if d.Starts, err = kernel.Indices(d.starts.View()); err != nil {
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

func deformable(c *Call) (Run, error) {
	out := c.Tensor("output")
	d := c.deformation(out)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if err := d.levels(); err != nil || out.Len() == 0 {
			return err
		}
		return d.Forward(out.View(), d.value.View(), d.places.View(), d.weights.View())
	}, nil
}

func deformableGrad(c *Call) (Run, error) {
	dout, dvalue, dplaces, dweights := c.Tensor("gradOutput"), c.Tensor("gradValue"), c.Tensor("gradLocation"), c.Tensor("gradAttnWeight")
	d := c.deformation(dout)
	c.plain(dvalue, dplaces, dweights)
	c.Same(d.value, dvalue)
	c.Same(d.places, dplaces)
	c.Same(d.weights, dweights)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if err := d.levels(); err != nil {
			return err
		}
		if dout.Len() == 0 {
			return zeroAll(dvalue, dplaces, dweights)
		}
		return d.Backward(dvalue.View(), dplaces.View(), dweights.View(), dout.View(), d.value.View(), d.places.View(), d.weights.View())
	}, nil
}
