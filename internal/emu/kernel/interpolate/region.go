package interpolate

import (
	"fmt"
	"math"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
)

// Region pools boxes of images to a fixed size (RoiAlign). Each result is the average, or the largest,
// of samples that lie evenly in its part of the box and are read between the elements.
type Region struct {
	Scale   float64 // from the coordinates of the boxes to those of the images
	Samples int     // per dimension of a result; 0 for about one per element
	Half    bool    // elements lie at the centres of unit squares, and boxes may be less than one wide
	Largest bool
}

// corner is one of the four elements around a sample, with its share. at is negative outside.
type corner struct {
	at    int
	share float64
}

// part is the samples of one dimension of a box: first + (i + ½)·step for i < count per result.
type part struct {
	first, step float64
	count       int
}

// newPart divides a box from lo to hi among n results. It computes in float32, as the device does, so
// that both take the same number of samples.
func (r Region) newPart(lo, hi float64, n int64) part {
	a, b := float32(lo)*float32(r.Scale), float32(hi)*float32(r.Scale)
	if r.Half {
		a, b = a-0.5, b-0.5
	}
	length := b - a
	if !r.Half {
		length = max(length, 1)
	}
	p := part{first: float64(a), count: r.Samples}
	if p.count == 0 {
		p.count = max(int(math.Ceil(float64(length/float32(n)))), 1)
	}
	p.step = float64(length) / float64(n) / float64(p.count)
	return p
}

// neighbours returns the two elements around sample i of a result, in a dimension of n elements.
// Samples more than one element outside read nothing.
func (p part) neighbours(result int64, i, n int) (low, high corner) {
	x := p.first + (float64(int(result)*p.count+i)+0.5)*p.step
	if x < -1 || x > float64(n) || math.IsNaN(x) {
		return corner{at: -1}, corner{at: -1}
	}
	x = min(max(x, 0), float64(n-1))
	at := min(int(x), max(n-2, 0))
	share := x - float64(at)
	return corner{at, 1 - share}, corner{min(at+1, n-1), share}
}

// samples calls f for each sample of result (y, x), with its four corners in a plane of h·w elements.
func samples(rows, columns part, y, x int64, h, w int, f func(four [4]corner)) {
	for i := range rows.count {
		top, bottom := rows.neighbours(y, i, h)
		for j := range columns.count {
			left, right := columns.neighbours(x, j, w)
			var four [4]corner
			for k, v := range []corner{top, bottom} {
				for l, u := range []corner{left, right} {
					four[2*k+l] = corner{-1, 0}
					if v.at >= 0 && u.at >= 0 {
						four[2*k+l] = corner{v.at*w + u.at, v.share * u.share}
					}
				}
			}
			f(four)
		}
	}
}

// each calls f for each result of a box, with the parts of the box.
func (r Region) each(box []float64, shape []int64, f func(y, x int64, rows, columns part)) {
	rows, columns := r.newPart(box[2], box[4], shape[2]), r.newPart(box[1], box[3], shape[3])
	for y := range shape[2] {
		for x := range shape[3] {
			f(y, x, rows, columns)
		}
	}
}

// image returns the first element of the image that a box [image, x1, y1, x2, y2] is in.
func image(box []float64, images []int64) (int, error) {
	n := math.Floor(box[0])
	if !(n >= 0 && n < float64(images[0])) {
		return 0, fmt.Errorf("interpolate: a box is in image %g of %d", box[0], images[0])
	}
	return int(n) * int(images[1]*images[2]*images[3]), nil
}

// Forward sets out [boxes, channels, h, w] to what the boxes pool from images [n, channels, height, width].
// A box holds the number of its image, x1, y1, x2 and y2.
func (r Region) Forward(out, images kernel.View, boxes []float64) error {
	in, err := elementwise.Doubles(images)
	if err != nil {
		return err
	}
	h, w, s := int(images.Shape[2]), int(images.Shape[3]), out.Shape
	y := make([]float64, 0, out.Len())
	for k := range s[0] {
		box := boxes[5*k:][:5]
		first, err := image(box, images.Shape)
		if err != nil {
			return err
		}
		for c := range int(s[1]) {
			plane := in[first+c*h*w:][:h*w]
			r.each(box, s, func(i, j int64, rows, columns part) {
				sum, most := 0.0, math.Inf(-1)
				samples(rows, columns, i, j, h, w, func(four [4]corner) {
					v := 0.0
					for _, c := range four {
						if c.at >= 0 {
							v += c.share * plane[c.at]
						}
					}
					sum, most = sum+v, max(most, v)
				})
				if !r.Largest {
					most = sum / float64(rows.count*columns.count)
				}
				y = append(y, most)
			})
		}
	}
	return elementwise.SetFloats(out, y)
}

// Backward sets dimages to the gradient of the average, from dout, the gradient of its results.
func (r Region) Backward(dimages, dout kernel.View, boxes []float64) error {
	dy, err := elementwise.Doubles(dout)
	if err != nil {
		return err
	}
	h, w, s := int(dimages.Shape[2]), int(dimages.Shape[3]), dout.Shape
	dx := make([]float64, dimages.Len())
	for k := range s[0] {
		box := boxes[5*k:][:5]
		first, err := image(box, dimages.Shape)
		if err != nil {
			return err
		}
		for c := range int(s[1]) {
			plane := dx[first+c*h*w:][:h*w]
			r.each(box, s, func(i, j int64, rows, columns part) {
				d := dy[0] / float64(rows.count*columns.count)
				dy = dy[1:]
				samples(rows, columns, i, j, h, w, func(four [4]corner) {
					for _, c := range four {
						if c.at >= 0 {
							plane[c.at] += c.share * d
						}
					}
				})
			})
		}
	}
	return elementwise.SetFloats(dimages, dx)
}
