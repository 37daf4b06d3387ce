package interpolate

import (
	"fmt"
	"math"

	"github.com/goascend/cann/internal/emu/kernel"
)

// Mode is the interpolation between the elements of an image.
type Mode int

// Interpolation modes: linear, nearest neighbour, and cubic convolution.
const (
	Linear Mode = iota
	Nearest
	Cubic
)

// Padding says which values are read outside an image.
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
		turns := math.Floor(d / span)
		d -= turns * span
		if math.Mod(turns, 2) != 0 {
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
	g.grid, err = kernel.Doubles(grid)
	return g, err
}

// reads calls f for every element that contributes to a point, with its position in the plane,
// its weight, and the derivatives of the weight along every axis of the grid.
func (g *images) reads(s Grid, point []float64, f func(place int, share float64, slopes []float64)) {
	axes := len(g.sizes)
	taps := make([][]tap, axes)
	for i, n := range g.sizes {
		taps[i] = s.taps(nil, point[axes-1-i], n)
	}
	at, slopes := make([]int, axes), make([]float64, axes)
	for {
		place, share := 0, 1.0
		for i := range slopes {
			slopes[i] = 1
		}
		for i, k := range at {
			t := taps[i][k]
			if t.at < 0 || place < 0 {
				place = -1
			} else {
				place = place*g.sizes[i] + t.at
			}
			share *= t.share
			for j := range slopes {
				if j == axes-1-i {
					slopes[j] *= t.slope
				} else {
					slopes[j] *= t.share
				}
			}
		}
		if place >= 0 {
			f(place, share, slopes)
		}
		i := axes - 1
		for ; i >= 0; i-- {
			if at[i]++; at[i] < len(taps[i]) {
				break
			}
			at[i] = 0
		}
		if i < 0 {
			return
		}
	}
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
	x, err := kernel.Doubles(image)
	if err != nil {
		return err
	}
	y := make([]float64, out.Len())
	axes := len(g.sizes)
	kernel.Parallel(int64(g.batch*g.points), 64, func(lo, hi int64) {
		for k := int(lo); k < int(hi); k++ {
			n, p := k/g.points, k%g.points
			g.reads(s, g.grid[k*axes:][:axes], func(place int, share float64, _ []float64) {
				for c := range g.channels {
					row := n*g.channels + c
					y[row*g.points+p] += share * x[row*g.plane+place]
				}
			})
		}
	})
	return kernel.SetFloats(out, y)
}

// Backward computes the gradients of image and grid from dout, the gradient of the result.
// dimage and dgrid may have no data.
func (s Grid) Backward(dimage, dgrid, dout, image, grid kernel.View) error {
	g, err := newImages(image, grid)
	if err != nil {
		return err
	}
	x, err := kernel.Doubles(image)
	if err != nil {
		return err
	}
	dy, err := kernel.Doubles(dout)
	if err != nil {
		return err
	}
	dx, dg := make([]float64, len(x)), make([]float64, len(g.grid))
	axes := len(g.sizes)
	kernel.Parallel(int64(g.batch), 1, func(lo, hi int64) {
		for k := int(lo) * g.points; k < int(hi)*g.points; k++ {
			n, p := k/g.points, k%g.points
			g.reads(s, g.grid[k*axes:][:axes], func(place int, share float64, slopes []float64) {
				for c := range g.channels {
					row := n*g.channels + c
					d := dy[row*g.points+p]
					dx[row*g.plane+place] += share * d
					for j, slope := range slopes {
						dg[k*axes+j] += slope * d * x[row*g.plane+place]
					}
				}
			})
		}
	})
	if dimage.Data != nil {
		if err := kernel.SetFloats(dimage, dx); err != nil {
			return err
		}
	}
	if dgrid.Data != nil {
		return kernel.SetFloats(dgrid, dg)
	}
	return nil
}
