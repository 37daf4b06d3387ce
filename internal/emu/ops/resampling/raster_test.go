package resampling

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// TestRasterizer compares with homogeneous coordinates in float64: the weights b of a pixel (p, q) solve Σ bᵢ(xᵢ − p·wᵢ) = 0 and
// Σ bᵢ(yᵢ − q·wᵢ) = 0, so they are a vector product, and neither vertices on the screen nor areas are needed. Where the operator
// could round either way, at edges and at equal depths, each of the faces there is right.
func TestRasterizer(t *testing.T) {
	const edge, step = 1e-4, 2.0 / depthUnit
	drawn, empty := 0, 0
	for _, l := range kerneltest.Layouts {
		for _, s := range []struct{ width, height, vertices, faces, behind int64 }{
			{2, 2, 3, 1, 0}, {17, 5, 3, 1, 0}, {31, 33, 9, 7, 0}, {64, 3, 20, 33, 0}, {9, 70, 40, 100, 0}, {45, 41, 12, 9, 1},
		} {
			what := fmt.Sprint(l, s)
			rnd := rand.New(rand.NewPCG(uint64(l), uint64(s.faces)))
			var points, corners []float64
			for i := range s.vertices {
				w := float64(float32(.5 + rnd.Float64()))
				if i < s.behind {
					w = -w
				}
				for range 3 {
					points = append(points, float64(float32((rnd.Float64()*2.6-1.3)*w)))
				}
				points = append(points, w)
			}
			for range s.faces {
				for _, i := range rnd.Perm(int(s.vertices))[:3] {
					corners = append(corners, float64(i))
				}
			}
			index, weights := optest.TensorIn(t, dtype.Int32, l, []int64{s.height, s.width}, 7), optest.TensorIn(t, dtype.Float32, l, []int64{s.height, s.width, 3}, 7)
			optest.Run(t, "Rasterizer", optest.Args{
				"v": optest.TensorIn(t, dtype.Float32, l, []int64{s.vertices, 4}, points...), "f": optest.TensorIn(t, dtype.Int32, l, []int64{s.faces, 3}, corners...),
				"width": s.width, "height": s.height, "occlusionTruncation": 0.5, "useDepthPrior": 0, "findicesOut": index, "barycentricOut": weights,
			})
			got, shares := optest.Values(index), optest.Values(weights)
			for pixel := range s.width * s.height {
				p := scale(float64(pixel%s.width), s.width)
				q := scale(float64(pixel/s.width), s.height)
				nearest := math.Inf(1) // of the faces that certainly have the pixel
				depths, parts := make([]float64, s.faces), make([][3]float64, s.faces)
				for f := range s.faces {
					var a, b, z, w [3]float64
					for i := range 3 {
						v := points[4*int(corners[3*f+int64(i)]):]
						a[i], b[i], z[i], w[i] = v[0]-p*v[3], v[1]-q*v[3], v[2], v[3]
					}
					n := [3]float64{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
					sum, least, depth, whole := 0.0, math.Inf(1), 0.0, n[0]*w[0]+n[1]*w[1]+n[2]*w[2]
					for i := range 3 {
						sum += n[i]
						share := n[i] * w[i] / whole
						least = min(least, share)
						depth += share * (z[i]/w[i]*.49999 + .5)
					}
					for i := range 3 {
						parts[f][i] = n[i] / sum
					}
					if depths[f] = depth; least < -edge {
						depths[f] = math.Inf(1)
					} else if least > edge {
						nearest = min(nearest, depth)
					}
				}
				face := int64(got[pixel])
				if face == 0 {
					empty++
					require.True(t, math.IsInf(nearest, 1), "%s: pixel %d has no face", what, pixel)
					require.Equal(t, []float64{0, 0, 0}, shares[3*pixel:][:3], what)
					continue
				}
				drawn++
				require.False(t, math.IsInf(depths[face-1], 1), "%s: pixel %d is not in face %d", what, pixel, face)
				require.LessOrEqual(t, depths[face-1], nearest+step, "%s: pixel %d has a nearer face than %d", what, pixel, face)
				optest.CloseTo(t, what, parts[face-1][:], shares[3*pixel:][:3], 1e-3)
			}
		}
	}
	require.Greater(t, drawn, 5000)
	require.Greater(t, empty, 500)
}

// scale returns the place from −1 to 1 that a pixel's centre shows.
func scale(pixel float64, n int64) float64 {
	return 2*pixel/float64(n-1) - 1
}

// TestRasterizerEdges draws faces whose coordinates float32 holds exactly: pixels on edges belong to the face, and of equally near
// faces the first is drawn.
func TestRasterizerEdges(t *testing.T) {
	draw := func(faces []float64, points ...float64) []float64 {
		index, weights := optest.Tensor(t, dtype.Int32, []int64{5, 5}), optest.Tensor(t, dtype.Float32, []int64{5, 5, 3})
		optest.Run(t, "Rasterizer", optest.Args{
			"v": optest.Tensor(t, dtype.Float32, []int64{int64(len(points)) / 4, 4}, points...), "f": optest.Tensor(t, dtype.Int32, []int64{int64(len(faces)) / 3, 3}, faces...),
			"dOptional": optest.Tensor(t, dtype.Float32, []int64{5, 5}), "width": 5, "height": 5, "findicesOut": index, "barycentricOut": weights,
		})
		return optest.Values(index)
	}
	square := []float64{-1, -1, 0, 1 /**/, 1, -1, 0, 1 /**/, -1, 1, 0, 1 /**/, 1, 1, 0, 1}
	require.Equal(t, []float64{
		1, 1, 1, 1, 1,
		1, 1, 1, 1, 2,
		1, 1, 1, 2, 2,
		1, 1, 2, 2, 2,
		1, 2, 2, 2, 2,
	}, draw([]float64{0, 1, 2, 3, 2, 1}, square...), "the diagonal is an edge of both")
	require.Equal(t, []float64{
		1, 2, 2, 2, 2,
		1, 2, 2, 2, 2,
		1, 1, 2, 2, 2,
		1, 1, 1, 2, 2,
		1, 1, 1, 1, 2,
	}, draw([]float64{0, 2, 3, 0, 1, 4}, append(square, 1, 1, -1, 1)...), "the second is nearer, except at its first vertex")
	// A screen of one pixel has no extent, so all faces are on a line.
	index, weights := optest.Tensor(t, dtype.Int32, []int64{1, 1}, 7), optest.Tensor(t, dtype.Float32, []int64{1, 1, 3}, 7)
	optest.Run(t, "Rasterizer", optest.Args{
		"v": optest.Tensor(t, dtype.Float32, []int64{4, 4}, square...), "f": optest.Tensor(t, dtype.Int32, []int64{1, 3}, 0, 1, 2), "width": 1, "height": 1, "findicesOut": index, "barycentricOut": weights,
	})
	require.Equal(t, []float64{0, 0, 0, 0}, append(optest.Values(index), optest.Values(weights)...))
	// Faces on a line, and of vertices at infinity, cover nothing; depths that differ by less than a step are equal.
	require.Equal(t, make([]float64, 25), draw([]float64{0, 0, 1, 0, 1, 4}, append(square, 1, 1, 1, 0)...))
	require.Equal(t, 1.0, draw([]float64{0, 1, 2, 3, 1, 2}, -1, -1, 1e-6, 1, 1, -1, 1e-6, 1, -1, 1, 1e-6, 1, -1, -1, 0, 1)[12])
}

func TestRasterizerRefuses(t *testing.T) {
	const name = "Rasterizer"
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	corners := func(last float64) *op.Tensor { return optest.Tensor(t, dtype.Int32, []int64{1, 3}, 0, 1, last) }
	f, i := dtype.Float32, dtype.Int32
	a := optest.Args{"v": x(f, 3, 4), "f": corners(2), "width": 7, "height": 5, "findicesOut": x(i, 5, 7), "barycentricOut": x(f, 5, 7, 3)}
	optest.Run(t, name, a)
	for _, null := range []string{"v", "f", "findicesOut", "barycentricOut"} {
		optest.Refused(t, op.NullPointer, name, a.With(optest.Args{null: nil}), null+" is null")
	}
	for param, d := range map[string]dtype.Type{"v": dtype.Float16, "f": dtype.Int64, "dOptional": i, "findicesOut": dtype.Int64, "barycentricOut": dtype.BFloat16} {
		optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{param: x(d, 3, 4)}), "dtype")
	}
	for text, set := range map[string]optest.Args{
		"must be [n,4]": {"v": x(f, 4, 3)}, "must be [n,3]": {"f": x(i, 3)}, "at least one face": {"f": x(i, 0, 3)}, "at least one vertex": {"v": x(f, 0, 4)},
		"width is 0": {"width": 0}, "height is 4097": {"height": 4097}, "no depth prior": {"useDepthPrior": 1}, "a face for each pixel": {"findicesOut": x(i, 7, 5)}, "three coordinates": {"barycentricOut": x(f, 5, 7, 4)},
	} {
		optest.Refused(t, op.TilingRefused, name, a.With(set), text)
	}
	for _, last := range []float64{-1, 3} {
		require.ErrorContains(t, optest.Execute(t, name, a.With(optest.Args{"f": corners(last)})), "there are 3 vertices")
	}
}
