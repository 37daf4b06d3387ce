package convolution

import (
	"slices"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
)

// Window describes how a filter moves over the trailing, spatial dimensions of an image. Each
// field has one number per spatial dimension.
type Window struct {
	Size     []int64
	Stride   []int64 // from one position to the next
	Dilation []int64 // from one element of the filter to the next
	Pad      []int64 // elements before the image; those after it follow from the positions
}

// reach returns the number of elements along spatial dimension i that n positions cover.
func (w Window) reach(i int, n int64) int64 {
	return (n-1)*w.Stride[i] + (w.Size[i]-1)*w.Dilation[i] + 1
}

// frame returns the shape of the area that the window covers, padding included, with the given
// leading dimensions.
func (w Window) frame(lead, positions []int64) []int64 {
	shape := slices.Clone(lead)
	for i, n := range positions {
		shape = append(shape, w.reach(i, n))
	}
	return shape
}

// overlap returns the views of a frame and of its image that cover the same elements. They may
// be empty.
func (w Window) overlap(frame, image kernel.View) (inFrame, inImage kernel.View) {
	lead := len(image.Shape) - len(w.Size)
	for i, pad := range w.Pad {
		n := max(0, min(image.Shape[lead+i], frame.Shape[lead+i]-pad))
		frame = frame.Part(lead+i, pad, n, 1)
		image = image.Part(lead+i, 0, n, 1)
	}
	return frame, image
}

// framed returns the image padded with fill and cropped to the elements that the window covers.
func (w Window) framed(image kernel.View, positions []int64, fill elementwise.Number) (kernel.View, func(), error) {
	lead := len(image.Shape) - len(w.Size)
	shape := w.frame(image.Shape[:lead], positions)
	inside := true
	for i, n := range shape {
		inside = inside && n <= image.Shape[i] && (i < lead || w.Pad[i-lead] == 0)
	}
	if inside {
		return image, func() {}, nil
	}
	frame, release := kernel.TemporaryOf(image.DType, shape...)
	if err := elementwise.Fill(frame, fill); err != nil {
		release()
		return kernel.View{}, nil, err
	}
	part, source := w.overlap(frame, image)
	if err := elementwise.Copy(part, source); err != nil {
		release()
		return kernel.View{}, nil, err
	}
	return frame, release, nil
}

// positions returns a view of a frame as [lead…, size…, positions…]: the element under each
// filter element at each position. Elements may occur several times.
func (w Window) positions(frame kernel.View, positions []int64) kernel.View {
	lead := len(frame.Shape) - len(w.Size)
	v := kernel.View{Data: frame.Data, DType: frame.DType, Shape: slices.Concat(frame.Shape[:lead], w.Size, positions)}
	v.Strides = slices.Clone(frame.Strides[:lead])
	for i, d := range w.Dilation {
		v.Strides = append(v.Strides, d*frame.Strides[lead+i])
	}
	for i, s := range w.Stride {
		v.Strides = append(v.Strides, s*frame.Strides[lead+i])
	}
	return v
}

// elements calls f with the coordinates of every element of the filter.
func (w Window) elements(f func(at []int64) error) error {
	at := make([]int64, len(w.Size))
	for range (kernel.View{Shape: w.Size}).Len() {
		if err := f(at); err != nil {
			return err
		}
		for i := len(at) - 1; i >= 0; i-- {
			at[i]++
			if at[i] < w.Size[i] {
				break
			}
			at[i] = 0
		}
	}
	return nil
}

// Unfold copies the elements of an image [lead…, spatial…] under the window to columns
// [lead…, size…, positions…] (im2col). Padding is zero.
func (w Window) Unfold(columns, image kernel.View) error {
	positions := columns.Shape[len(columns.Shape)-len(w.Size):]
	if columns.Len() == 0 {
		return nil
	}
	frame, release, err := w.framed(image, positions, elementwise.Real(0))
	if err != nil {
		return err
	}
	defer release()
	return elementwise.Copy(columns, w.positions(frame, positions))
}

// Fold is the transpose of Unfold (col2im): it adds up the elements of columns [lead…, size…,
// positions…] that belong to the same element of the image, in float32 or float64. bias
// broadcasts to the image and is added if it has data.
func (w Window) Fold(image, columns, bias kernel.View) error {
	if image.Len() == 0 {
		return nil
	}
	lead := len(image.Shape) - len(w.Size)
	c := rowwise.NewChain(image, columns)
	sum := c.Temp(image.Shape)
	start := elementwise.Const(elementwise.Real(0))
	if bias.Data != nil {
		start = elementwise.Of(bias)
	}
	c.Set(sum, elementwise.Identity, nil, start)
	if columns.Len() > 0 {
		positions := columns.Shape[len(columns.Shape)-len(w.Size):]
		frame := c.Temp(w.frame(image.Shape[:lead], positions))
		c.Set(frame, elementwise.Identity, nil, elementwise.Const(elementwise.Real(0)))
		into := w.positions(frame, positions)
		c.Err = w.elements(func(k []int64) error {
			part := into.At(lead, k)
			c.Set(part, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(part), elementwise.Of(columns.At(lead, k)))
			return c.Err
		})
		from, to := w.overlap(frame, sum)
		c.Set(to, elementwise.Add, []elementwise.Number{elementwise.Real(1)}, elementwise.Of(to), elementwise.Of(from))
	}
	c.Set(image, elementwise.Identity, nil, elementwise.Of(sum))
	return c.End()
}
