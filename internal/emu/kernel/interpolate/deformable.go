package interpolate

import (
	"math"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// Deformable samples value maps of several sizes (levels) at given locations and sums
// the samples with weights: aclnnMultiScaleDeformableAttnFunction. A location is in [0, 1] of a
// level's width and height; the map is zero outside.
type Deformable struct {
	Heights, Widths, Starts []int64 // of each level; Starts are the indices of its first key
	Batch, Keys, Heads      int64
	Channels, Queries       int64
	Points                  int64 // of each level
}

// deformTap is one of the four elements around a location: its key, its interpolation weight,
// and the derivatives of the weight with respect to x and y.
type deformTap struct {
	key         int64
	share, x, y float64
}

// taps appends the elements that bilinear interpolation at (x, y) of a level reads.
func (d Deformable) taps(taps []deformTap, level int, x, y float64) []deformTap {
	w, h := float64(d.Widths[level]), float64(d.Heights[level])
	x, y = x*w-0.5, y*h-0.5
	left, top := math.Floor(x), math.Floor(y)
	dx, dy := x-left, y-top
	for i := range 4 {
		column, row := left+float64(i%2), top+float64(i/2)
		if column < 0 || column >= w || row < 0 || row >= h {
			continue
		}
		shareX, slopeX, shareY, slopeY := 1-dx, -1.0, 1-dy, -1.0
		if i%2 == 1 {
			shareX, slopeX = dx, 1
		}
		if i/2 == 1 {
			shareY, slopeY = dy, 1
		}
		key := d.Starts[level] + int64(row)*d.Widths[level] + int64(column)
		taps = append(taps, deformTap{key, shareX * shareY, slopeX * shareY * w, shareX * slopeY * h})
	}
	return taps
}

// each calls f for every sampling location of one head of a batch item, with the index of the
// location, its query and its taps.
func (d Deformable) each(batch, head int64, place []float64, f func(at, query int64, taps []deformTap)) {
	var taps []deformTap
	levels := int64(len(d.Starts))
	for q := range d.Queries {
		for level := range levels {
			for p := range d.Points {
				at := (((batch*d.Queries+q)*d.Heads+head)*levels+level)*d.Points + p
				taps = d.taps(taps[:0], int(level), place[2*at], place[2*at+1])
				f(at, q, taps)
			}
		}
	}
}

// channels returns the channels of one head in a row of [batch, rows, heads, channels].
func (d Deformable) channels(v []float64, rows, batch, row, head int64) []float64 {
	return v[((batch*rows+row)*d.Heads+head)*d.Channels:][:d.Channels]
}

// Forward computes out [batch, queries, heads·channels] from value [batch, keys, heads,
// channels], place [batch, queries, heads, levels, points, 2] and weight [batch, queries, heads,
// levels, points].
func (d Deformable) Forward(out, value, place, weight kernel.View) error {
	v, err := elementwise.Doubles(value)
	if err != nil {
		return err
	}
	at, err := elementwise.Doubles(place)
	if err != nil {
		return err
	}
	w, err := elementwise.Doubles(weight)
	if err != nil {
		return err
	}
	sums := make([]float64, out.Len())
	thread.Parallel(d.Batch*d.Heads, 1, func(lo, hi int64) {
		for k := lo; k < hi; k++ {
			batch, head := k/d.Heads, k%d.Heads
			d.each(batch, head, at, func(at, query int64, taps []deformTap) {
				into := d.channels(sums, d.Queries, batch, query, head)
				for _, t := range taps {
					for i, x := range d.channels(v, d.Keys, batch, t.key, head) {
						into[i] += w[at] * t.share * x
					}
				}
			})
		}
	})
	return elementwise.SetFloats(out, sums)
}

// Backward computes the gradients of value, place and weight.
func (d Deformable) Backward(dvalue, dplace, dweight, dout, value, place, weight kernel.View) error {
	var read [4][]float64
	for i, x := range []kernel.View{dout, value, place, weight} {
		var err error
		if read[i], err = elementwise.Doubles(x); err != nil {
			return err
		}
	}
	dy, v, at, w := read[0], read[1], read[2], read[3]
	dv, da, dw := make([]float64, len(v)), make([]float64, len(at)), make([]float64, len(w))
	thread.Parallel(d.Batch*d.Heads, 1, func(lo, hi int64) {
		for k := lo; k < hi; k++ {
			batch, head := k/d.Heads, k%d.Heads
			d.each(batch, head, at, func(at, query int64, taps []deformTap) {
				grad := d.channels(dy, d.Queries, batch, query, head)
				for _, t := range taps {
					into, dot := d.channels(dv, d.Keys, batch, t.key, head), 0.0
					for i, x := range d.channels(v, d.Keys, batch, t.key, head) {
						dot += grad[i] * x
						into[i] += w[at] * t.share * grad[i]
					}
					dw[at] += t.share * dot
					da[2*at] += w[at] * t.x * dot
					da[2*at+1] += w[at] * t.y * dot
				}
			})
		}
	})
	for i, x := range []kernel.View{dvalue, dplace, dweight} {
		if err := elementwise.SetFloats(x, [][]float64{dv, da, dw}[i]); err != nil {
			return err
		}
	}
	return nil
}
