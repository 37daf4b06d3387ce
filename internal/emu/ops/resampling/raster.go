package resampling

import (
	"fmt"
	"math"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// rasters lists operators that draw triangles.
var rasters = op.Table{"Rasterizer": rasterizer}.Selects()

// depthUnit is the number of steps of depth between 0 and 1 that the kernel tells apart: of two faces within a step, the first is drawn.
const depthUnit = 1 << 18

// rasterizer finds the face that is nearest in each pixel of a screen, and the pixel's barycentric coordinates in that face. As the
// kernel does, it numbers faces from 1, and 0 and zeros are results of a pixel without a face.
func rasterizer(c *op.Call) (op.Run, error) {
	vertices, faces, depth := c.Tensor("v"), c.Tensor("f"), c.Optional("dOptional")
	width, height := c.Int("width"), c.Int("height")
	index, weights := c.Tensor("findicesOut"), c.Tensor("barycentricOut")
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Plain(vertices, faces, index, weights)
	c.DType(vertices, dtype.Float32)
	c.DType(faces, dtype.Int32)
	c.DType(index, dtype.Int32)
	c.DType(weights, dtype.Float32)
	if depth != nil {
		c.Plain(depth)
		c.DType(depth, dtype.Float32)
	}
	if n := c.Int("useDepthPrior"); n != 0 {
		c.Unfit("useDepthPrior is %d; the kernel has no depth prior yet, so it must be 0", n)
	}
	for i, n := range []int64{width, height} {
		if n < 1 || n > 4096 {
			c.Unfit("%s is %d; a screen has 1 to 4096 pixels in each direction", []string{"width", "height"}[i], n)
		}
	}
	for _, t := range []struct {
		*op.Tensor
		row  int64
		text string
	}{{vertices, 4, "x, y, z and w of at least one vertex"}, {faces, 3, "three vertices of at least one face"}} {
		if t.Rank() != 2 || t.Dim(1) != t.row || t.Dim(0) < 1 {
			c.Unfit("%v must be [n,%d]: %s", t.Tensor, t.row, t.text)
		}
	}
	c.Fits(index, []int64{height, width}, "a face for each pixel")
	c.Fits(weights, []int64{height, width, 3}, "three coordinates for each pixel")
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		corners, err := elementwise.Indices(faces.View())
		if err != nil {
			return err
		}
		for _, i := range corners {
			if i < 0 || i >= vertices.Dim(0) {
				return fmt.Errorf("aclnnRasterizer: f has %d, and there are %d vertices", i, vertices.Dim(0))
			}
		}
		values, err := elementwise.Doubles(vertices.View())
		if err != nil {
			return err
		}
		points := make([]screenPoint, vertices.Dim(0))
		for i := range points {
			points[i] = onScreen(values[4*i:], float32(width), float32(height))
		}
		s := &screen{width: width, height: height, nearest: slices.Repeat([]float32{math.MaxFloat32}, int(width*height)), face: make([]float64, width*height), weights: make([]float64, 3*width*height)}
		for i := 0; i < len(corners); i += 3 {
			s.draw(i/3+1, points[corners[i]], points[corners[i+1]], points[corners[i+2]])
		}
		if err := elementwise.SetFloats(index.View(), s.face); err != nil {
			return err
		}
		return elementwise.SetFloats(weights.View(), s.weights)
	}, nil
}

// screenPoint is a vertex in pixels, with its depth from 0 to 1.
type screenPoint struct{ x, y, z, w float32 }

func (p screenPoint) finite() bool {
	return !math.IsNaN(float64(p.x-p.x)) && !math.IsNaN(float64(p.y-p.y)) && !math.IsNaN(float64(p.z-p.z))
}

// onScreen projects a vertex. Conversions keep the compiler from fusing a product and a sum, which the vector unit rounds apart.
func onScreen(v []float64, width, height float32) screenPoint {
	x, y, z, w := float32(v[0]), float32(v[1]), float32(v[2]), float32(v[3])
	return screenPoint{
		float32((float32(x/w*.5)+.5)*(width-1)) + .5,
		float32((y*.5/w+.5)*(height-1)) + .5,
		float32(z/w*.49999) + .5,
		w,
	}
}

// screen is the buffer of depths, with the face that each pixel has so far.
type screen struct {
	width, height int64
	nearest       []float32
	face, weights []float64
}

// draw draws a face on the pixels that have their centre in it, edges included, and have nothing as near. A face on a line, or with a
// vertex at infinity, covers no pixel.
func (s *screen) draw(face int, a, b, c screenPoint) {
	ab, ac := [2]float32{b.x - a.x, b.y - a.y}, [2]float32{c.x - a.x, c.y - a.y}
	area := crossProduct(ac, ab)
	if area == 0 || !a.finite() || !b.finite() || !c.finite() {
		return
	}
	// span returns the pixels from a least to a largest coordinate that are on the screen.
	span := func(least, largest float32, n int64) (first, end int64) {
		return int64(min(max(least, 0), float32(n))), int64(min(max(largest, -1), float32(n-1))) + 1
	}
	left, right := span(min(a.x, b.x, c.x), max(a.x, b.x, c.x), s.width)
	top, bottom := span(min(a.y, b.y, c.y), max(a.y, b.y, c.y), s.height)
	for y := top; y < bottom; y++ {
		for x := left; x < right; x++ {
			ap := [2]float32{float32(x) + .5 - a.x, float32(y) + .5 - a.y}
			beta, gamma := crossProduct(ac, ap)/area, crossProduct(ap, ab)/area
			alpha := 1 - beta - gamma
			if !within(alpha) || !within(beta) || !within(gamma) {
				continue
			}
			depth := float32(float32(alpha*a.z)+float32(beta*b.z)) + float32(gamma*c.z)
			depth = float32(math.Trunc(float64(depth * depthUnit)))
			pixel := y*s.width + x
			if depth >= s.nearest[pixel] {
				continue
			}
			s.nearest[pixel], s.face[pixel] = depth, float64(face)
			parts := [3]float32{alpha / a.w, beta / b.w, gamma / c.w}
			whole := parts[0] + parts[1] + parts[2]
			for i, part := range parts {
				s.weights[3*pixel+int64(i)] = float64(part / whole)
			}
		}
	}
}

func within(x float32) bool { return x >= 0 && x <= 1 }

// crossProduct returns twice the signed area between two vectors, with two roundings of products.
func crossProduct(p, q [2]float32) float32 { return float32(p[0]*q[1]) - float32(q[0]*p[1]) }
