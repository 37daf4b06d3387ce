package interpolate

// #cgo CFLAGS: -std=gnu11 -Wall -Wextra
// #include "grid.h"
import "C"

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// Mode is the interpolation between the elements of an image.
type Mode int

// Interpolation modes: linear, nearest neighbour, and cubic convolution.
const (
	Linear Mode = iota
	Nearest
	Cubic
)

// Padding determines which values are read outside an image.
type Padding int

// Padding modes: zeros, the nearest border element, or the reflected image.
const (
	Zeros Padding = iota
	Border
	Reflection
)

// Grid samples images at coordinates in [-1, 1]. The ends are the centres of the outer
// elements with Corners, else their outer edges.
type Grid struct {
	Mode    Mode
	Padding Padding
	Corners bool
}

// tap is one element of a dimension that contributes to a sample: its index (negative if
// outside), its interpolation weight, and the derivative of the weight.
type tap struct {
	at           int
	share, slope float64
}

// inside applies the padding mode to a coordinate of a dimension of n elements. slope is the
// derivative of the result.
func (s Grid) inside(x float64, n int) (at, slope float64) {
	slope = 1
	last := float64(n - 1)
	if s.Padding == Reflection {
		lo, span := -0.5, float64(n)
		if s.Corners {
			lo, span = 0, last
		}
		if span <= 0 {
			return 0, 0
		}
		d := x - lo
		if d < 0 {
			d, slope = -d, -slope
		}
		periods := math.Floor(d / span)
		d -= periods * span
		if math.Mod(periods, 2) != 0 {
			d, slope = span-d, -slope
		}
		x = d + lo
	}
	if s.Padding != Zeros {
		switch {
		case x <= 0:
			return 0, 0
		case x >= last:
			return last, 0
		}
	}
	return x, slope
}

// element returns an integral coordinate as an index, or -1 if it is outside.
func element(x float64, n int) int {
	if x >= 0 && x < float64(n) {
		return int(x)
	}
	return -1
}

// taps appends the taps of a coordinate in [-1, 1] along a dimension of n elements.
func (s Grid) taps(taps []tap, place float64, n int) []tap {
	scale := float64(n) / 2
	x := (place+1)*scale - 0.5
	if s.Corners {
		scale = float64(n-1) / 2
		x = (place + 1) * scale
	}
	if s.Mode == Cubic {
		first := math.Floor(x)
		for i, w := range cubicShares(x - first) {
			at, _ := s.inside(first-1+float64(i), n)
			taps = append(taps, tap{element(at, n), w[0], w[1] * scale})
		}
		return taps
	}
	x, slope := s.inside(x, n)
	if s.Mode == Nearest {
		return append(taps, tap{element(math.RoundToEven(x), n), 1, 0})
	}
	first := math.Floor(x)
	r, slope := x-first, slope*scale
	return append(taps, tap{element(first, n), 1 - r, -slope}, tap{element(first+1, n), r, slope})
}

// cubicShares returns the weights of four neighbouring elements, and their derivatives, for a
// point at distance r after the second one, by Keys' cubic convolution with a = -0.75.
func cubicShares(r float64) [4][2]float64 {
	const a = -0.75
	near := func(x float64) (y, slope float64) { return ((a+2)*x-(a+3))*x*x + 1, (3*(a+2)*x - 2*(a+3)) * x }
	far := func(x float64) (y, slope float64) { return ((a*x-5*a)*x+8*a)*x - 4*a, (3*a*x-10*a)*x + 8*a }
	var w [4][2]float64
	w[0][0], w[0][1] = far(1 + r)
	w[1][0], w[1][1] = near(r)
	y, slope := near(1 - r)
	w[2] = [2]float64{y, -slope}
	y, slope = far(2 - r)
	w[3] = [2]float64{y, -slope}
	return w
}

// images holds contiguous copies of images [batch, channels, plane] and grids [batch,
// points, axes]. A grid point starts with the coordinate of the last image axis.
type images struct {
	batch, channels, plane, points int
	sizes                          []int // of the image, first axis first
	grid                           []float64
}

func newImages(image, grid kernel.View) (g images, err error) {
	axes := len(image.Shape) - 2
	if axes < 1 || len(grid.Shape) != len(image.Shape) || grid.Shape[axes+1] != int64(axes) || grid.Shape[0] != image.Shape[0] {
		return g, fmt.Errorf("kernel: a grid of shape %v does not address images of shape %v", grid.Shape, image.Shape)
	}
	g.batch, g.channels, g.plane = int(image.Shape[0]), int(image.Shape[1]), 1
	for _, n := range image.Shape[2:] {
		g.sizes = append(g.sizes, int(n))
		g.plane *= int(n)
	}
	g.points = int(kernel.View{Shape: grid.Shape[1 : axes+1]}.Len())
	g.grid, err = elementwise.Doubles(grid)
	return g, err
}

// read is one element that contributes to a point.
type read = C.struct_read

// reads lists the elements that contribute to the points of image n, equally many for each, and for each element the
// derivatives of its weight along every axis of the grid, if they are wanted.
func (g *images) reads(s Grid, n int, wanted bool) (list []read, slopes []float64) {
	axes, each := len(g.sizes), 1
	for range axes {
		each *= [...]int{Linear: 2, Nearest: 1, Cubic: 4}[s.Mode]
	}
	list = make([]read, g.points*each)
	if wanted {
		slopes = make([]float64, len(list)*axes)
	}
	thread.Parallel(int64(g.points), 64, func(lo, hi int64) {
		taps, at := make([][]tap, axes), make([]int, axes)
		for p := int(lo); p < int(hi); p++ {
			for i, size := range g.sizes {
				taps[i] = s.taps(taps[i][:0], g.grid[(n*g.points+p)*axes+axes-1-i], size)
			}
			for k := p * each; k < (p+1)*each; k++ {
				list[k] = product(taps, at, g.sizes, slopes[min(k*axes, len(slopes)):min((k+1)*axes, len(slopes))])
				for i := axes - 1; i >= 0; i-- {
					if at[i]++; at[i] < len(taps[i]) {
						break
					}
					at[i] = 0
				}
			}
		}
	})
	return list, slopes
}

// product is the read of one tap at of each axis. It sets the derivatives of the weight.
func product(taps [][]tap, at, sizes []int, slopes []float64) read {
	r := read{share: 1}
	for i := range slopes {
		slopes[i] = 1
	}
	for i, k := range at {
		t := taps[i][k]
		if t.at < 0 || r.place < 0 {
			r.place = -1
		} else {
			r.place = r.place*C.int64_t(sizes[i]) + C.int64_t(t.at)
		}
		r.share *= C.double(t.share)
		for j := range slopes {
			if j == len(slopes)-1-i {
				slopes[j] *= t.slope
			} else {
				slopes[j] *= t.share
			}
		}
	}
	return r
}

// Forward sets out [batch, channels, points…] to samples of image [batch, channels, size…] at
// the points of grid [batch, points…, axes]. A point starts with the coordinate of the last axis.
func (s Grid) Forward(out, image, grid kernel.View) error {
	if out.Len() == 0 {
		return nil
	}
	g, err := newImages(image, grid)
	if err != nil {
		return err
	}
	if image.DType == dtype.Float64 {
		return sample[float64](s, &g, out, image)
	}
	return sample[float32](s, &g, out, image)
}

func sample[T float32 | float64](s Grid, g *images, out, image kernel.View) error {
	x, release, err := elementwise.Borrow[T](image)
	defer release()
	if err != nil {
		return err
	}
	return elementwise.SetBy(out, func(y []T) {
		for n := range g.batch {
			list, _ := g.reads(s, n, false)
			each := C.int64_t(len(list) / g.points)
			thread.Parallel(int64(g.channels), 1+1<<12/int64(len(list)), func(lo, hi int64) {
				for row := n*g.channels + int(lo); row < n*g.channels+int(hi); row++ {
					plane, to := unsafe.Pointer(&x[row*g.plane]), unsafe.Pointer(&y[row*g.points])
					if unsafe.Sizeof(x[0]) == 4 {
						C.sample_float((*C.float)(to), (*C.float)(plane), &list[0], C.int64_t(g.points), each)
					} else {
						C.sample_double((*C.double)(to), (*C.double)(plane), &list[0], C.int64_t(g.points), each)
					}
				}
			})
		}
	})
}

// Backward computes the gradients of image and grid from dout, the gradient of the result.
// dimage and dgrid may have no data.
func (s Grid) Backward(dimage, dgrid, dout, image, grid kernel.View) error {
	if image.DType == dtype.Float64 {
		return gradients[float64](s, dimage, dgrid, dout, image, grid)
	}
	return gradients[float32](s, dimage, dgrid, dout, image, grid)
}

func gradients[T float32 | float64](s Grid, dimage, dgrid, dout, image, grid kernel.View) error {
	g, err := newImages(image, grid)
	if err != nil {
		return err
	}
	x, release, err := elementwise.Borrow[T](image)
	defer release()
	if err != nil {
		return err
	}
	dy, release, err := elementwise.Borrow[T](dout)
	defer release()
	if err != nil {
		return err
	}
	dx, dg := make([]float64, len(x)), make([]float64, len(g.grid))
	axes, short := len(g.sizes), unsafe.Sizeof(T(0)) == 4
	for n := range g.batch {
		if g.points*g.channels == 0 {
			break
		}
		list, slopes := g.reads(s, n, true)
		each := len(list) / g.points
		thread.Parallel(int64(g.channels), 1+1<<12/int64(len(list)), func(lo, hi int64) {
			for row := n*g.channels + int(lo); row < n*g.channels+int(hi); row++ {
				to, grad := (*C.double)(&dx[row*g.plane]), unsafe.Pointer(&dy[row*g.points])
				if short {
					C.scatter_float(to, (*C.float)(grad), &list[0], C.int64_t(g.points), C.int64_t(each))
				} else {
					C.scatter_double(to, (*C.double)(grad), &list[0], C.int64_t(g.points), C.int64_t(each))
				}
			}
		})
		thread.Parallel(int64(g.points), 1+1<<12/int64(g.channels*each), func(lo, hi int64) {
			first, points := int(lo)*each, C.int64_t(hi-lo)
			dots := make([]float64, int(hi-lo)*each) // of the elements and the gradients of all channels
			for row := n * g.channels; row < (n+1)*g.channels; row++ {
				to, grad, plane := (*C.double)(&dots[0]), unsafe.Pointer(&dy[row*g.points+int(lo)]), unsafe.Pointer(&x[row*g.plane])
				if short {
					C.dots_float(to, (*C.float)(grad), (*C.float)(plane), &list[first], points, C.int64_t(each))
				} else {
					C.dots_double(to, (*C.double)(grad), (*C.double)(plane), &list[first], points, C.int64_t(each))
				}
			}
			for k, dot := range dots {
				for j, slope := range slopes[(first+k)*axes:][:axes] {
					dg[(n*g.points+int(lo)+k/each)*axes+j] += slope * dot
				}
			}
		})
	}
	if dimage.Data != nil {
		if err := elementwise.SetFloats(dimage, dx); err != nil {
			return err
		}
	}
	if dgrid.Data != nil {
		return elementwise.SetFloats(dgrid, dg)
	}
	return nil
}
