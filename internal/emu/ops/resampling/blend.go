package resampling

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// blends lists the operators of the Ascend310P that mix images [height, width, channels] by a mask for
// each place. They compute in float16, step by step.
var blends = op.Table{"BackgroundReplace": backgroundReplace, "BlendImagesCustom": blendImages, "MrgbaCustom": fadeImage}

// opaque is 1/255, by which an alpha of uint8 becomes a share, in float16.
const opaque = 0x1.01p-8

// blended checks images of a shape and their mask, and returns the run that computes out from float16
// copies of the images and of the mask, of which compute may overwrite all.
func blended(c *op.Call, images []*op.Tensor, mask, out *op.Tensor, compute func(h halves) error) (op.Run, error) {
	c.Plain(append(images, mask, out)...)
	for _, t := range images {
		c.Same(images[0], t)
	}
	c.Same(images[0], out)
	if c.Err() != nil {
		return nil, c.Err()
	}
	want := slices.Clone(images[0].Shape)
	if n := len(want); n > 0 && want[n-1] == 3 {
		want[n-1] = 1
	}
	c.Shape(mask, want, "one for each place of the images")
	return func(*op.Exec) error {
		h := halves{out: out.View()}
		for _, t := range append(slices.Clone(images), mask) {
			v, release := kernel.TemporaryOf(dtype.Float16, out.Shape...)
			defer release()
			if h.err == nil {
				h.err = elementwise.Map(elementwise.Identity, dtype.Float32, v, []elementwise.Input{elementwise.Of(t.View())})
			}
			h.views = append(h.views, v)
		}
		return compute(h)
	}, c.Err()
}

// halves are float16 images and their mask, as large as they. err is the first error.
type halves struct {
	out   kernel.View
	views []kernel.View
	err   error
}

// set computes to = f(a, b), rounded to float16. Additions multiply b by a factor.
func (h *halves) set(to kernel.View, f elementwise.Op, a kernel.View, b elementwise.Input, factor ...elementwise.Number) {
	if h.err == nil {
		h.err = elementwise.Map(f, dtype.Float32, to, []elementwise.Input{elementwise.Of(a), b}, factor...)
	}
}

// round stores an image in out, as the cast f rounds it.
func (h *halves) round(f elementwise.Op, v kernel.View) error {
	if h.err != nil || h.out.DType == dtype.Float16 {
		f = elementwise.Identity
	}
	if h.err == nil {
		h.err = elementwise.Map(f, dtype.Float32, h.out, []elementwise.Input{elementwise.Of(v)})
	}
	return h.err
}

// mix is back·(1 − mask) + front·mask.
func mix(h halves, front, back, mask kernel.View) error {
	h.set(front, elementwise.Mul, front, elementwise.Of(mask))
	h.set(mask, elementwise.Mul, back, elementwise.Of(mask))
	h.set(back, elementwise.Add, back, elementwise.Of(mask), elementwise.Real(-1))
	h.set(back, elementwise.Add, back, elementwise.Of(front), elementwise.Real(1))
	return h.round(elementwise.Round, back)
}

func backgroundReplace(c *op.Call) (op.Run, error) {
	back, front, mask, out := c.Tensor("bkg"), c.Tensor("src"), c.Tensor("mask"), c.Tensor("out")
	c.DType(back, dtype.Float16, dtype.Uint8)
	c.DType(mask, dtype.Float16)
	return blended(c, []*op.Tensor{back, front}, mask, out, func(h halves) error { return mix(h, h.views[1], h.views[0], h.views[2]) })
}

func blendImages(c *op.Call) (op.Run, error) {
	front, alpha, back, out := c.Tensor("rgb"), c.Tensor("alpha"), c.Tensor("frame"), c.Tensor("out")
	c.DType(front, dtype.Uint8)
	c.DType(alpha, dtype.Uint8)
	return blended(c, []*op.Tensor{front, back}, alpha, out, func(h halves) error {
		h.set(h.views[2], elementwise.Mul, h.views[2], elementwise.Const(elementwise.Real(opaque)))
		return mix(h, h.views[0], h.views[1], h.views[2])
	})
}

// fadeImage multiplies an image by its alpha and rounds down.
func fadeImage(c *op.Call) (op.Run, error) {
	image, alpha, out := c.Tensor("rgb"), c.Tensor("alpha"), c.Tensor("out")
	c.DType(image, dtype.Uint8)
	c.DType(alpha, dtype.Uint8)
	return blended(c, []*op.Tensor{image}, alpha, out, func(h halves) error {
		h.set(h.views[1], elementwise.Mul, h.views[1], elementwise.Const(elementwise.Real(opaque)))
		h.set(h.views[0], elementwise.Mul, h.views[0], elementwise.Of(h.views[1]))
		return h.round(elementwise.Floor, h.views[0])
	})
}
