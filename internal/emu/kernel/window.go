package kernel

import (
	"slices"
	"unsafe"
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
func (w Window) overlap(frame, image View) (inFrame, inImage View) {
	lead := len(image.Shape) - len(w.Size)
	for i, pad := range w.Pad {
		n := max(0, min(image.Shape[lead+i], frame.Shape[lead+i]-pad))
		frame = frame.Part(lead+i, pad, n, 1)
		image = image.Part(lead+i, 0, n, 1)
	}
	return frame, image
}

// framed returns the image padded with fill and cropped to the elements that the window covers.
func (w Window) framed(image View, positions []int64, fill Number) (View, func(), error) {
	lead := len(image.Shape) - len(w.Size)
	shape := w.frame(image.Shape[:lead], positions)
	inside := true
	for i, n := range shape {
		inside = inside && n <= image.Shape[i] && (i < lead || w.Pad[i-lead] == 0)
	}
	if inside {
		return image, func() {}, nil
	}
	frame, release := temporary(image.DType, shape)
	if err := Fill(frame, fill); err != nil {
		release()
		return View{}, nil, err
	}
	part, source := w.overlap(frame, image)
	if err := Copy(part, source); err != nil {
		release()
		return View{}, nil, err
	}
	return frame, release, nil
}

// positions returns a view of a frame as [lead…, size…, positions…]: the element under each
// filter element at each position. Elements may occur several times.
func (w Window) positions(frame View, positions []int64) View {
	lead := len(frame.Shape) - len(w.Size)
	v := View{Data: frame.Data, DType: frame.DType, Shape: slices.Concat(frame.Shape[:lead], w.Size, positions)}
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
	for range (View{Shape: w.Size}).Len() {
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

// at returns the view at the given indices of the dimensions that follow the first lead ones.
func (v View) at(lead int, indices []int64) View {
	n := len(indices)
	for i, k := range indices {
		v.Data = unsafe.Add(v.Data, k*v.Strides[lead+i]*int64(v.DType.Size()))
	}
	v.Shape = slices.Delete(slices.Clone(v.Shape), lead, lead+n)
	v.Strides = slices.Delete(slices.Clone(v.Strides), lead, lead+n)
	return v
}

// reshaped returns a contiguous view in another shape with the same number of elements.
func (v View) reshaped(shape ...int64) View {
	v.Shape, v.Strides = shape, contiguous(shape)
	return v
}

// Unfold copies the elements of an image [lead…, spatial…] under the window to columns
// [lead…, size…, positions…] (im2col). Padding is zero.
func (w Window) Unfold(columns, image View) error {
	positions := columns.Shape[len(columns.Shape)-len(w.Size):]
	if columns.Len() == 0 {
		return nil
	}
	frame, release, err := w.framed(image, positions, Real(0))
	if err != nil {
		return err
	}
	defer release()
	return Copy(columns, w.positions(frame, positions))
}

// Fold is the transpose of Unfold (col2im): it adds up the elements of columns [lead…, size…,
// positions…] that belong to the same element of the image, in float32 or float64. bias
// broadcasts to the image and is added if it has data.
func (w Window) Fold(image, columns, bias View) error {
	if image.Len() == 0 {
		return nil
	}
	lead := len(image.Shape) - len(w.Size)
	c := newChain(image, columns)
	sum := c.temp(image.Shape)
	start := Const(Real(0))
	if bias.Data != nil {
		start = Of(bias)
	}
	c.set(sum, Identity, nil, start)
	if columns.Len() > 0 {
		positions := columns.Shape[len(columns.Shape)-len(w.Size):]
		frame := c.temp(w.frame(image.Shape[:lead], positions))
		c.set(frame, Identity, nil, Const(Real(0)))
		into := w.positions(frame, positions)
		c.err = w.elements(func(k []int64) error {
			part := into.at(lead, k)
			c.set(part, Add, []Number{Real(1)}, Of(part), Of(columns.at(lead, k)))
			return c.err
		})
		from, to := w.overlap(frame, sum)
		c.set(to, Add, []Number{Real(1)}, Of(to), Of(from))
	}
	c.set(image, Identity, nil, Of(sum))
	return c.end()
}
