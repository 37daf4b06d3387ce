package resampling

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/interpolate"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// gridRead returns the weight of each of the n elements of one dimension for a sampling
// position, by definition: the image is extended beyond its border and then sampled with a
// kernel function.
func gridRead(place float64, n int64, mode, padding int, corners bool) []float64 {
	x := ((place+1)*float64(n) - 1) / 2
	if corners {
		x = (place + 1) / 2 * float64(n-1)
	}
	fold := func(x float64) float64 {
		lo, hi := -0.5, float64(n)-0.5
		if corners {
			lo, hi = 0, float64(n-1)
		}
		if padding == 2 {
			if lo == hi {
				return 0
			}
			for x < lo || x > hi {
				if x < lo {
					x = 2*lo - x
				} else {
					x = 2*hi - x
				}
			}
		}
		if padding > 0 {
			x = min(max(x, 0), float64(n-1))
		}
		return x
	}
	shares := make([]float64, n)
	reach := map[int]func(float64) float64{0: optest.Hat, 2: keys}[mode]
	if mode != 2 {
		x = fold(x)
	}
	if mode == 1 {
		if k := math.RoundToEven(x); k >= 0 && k < float64(n) {
			shares[int(k)] = 1
		}
		return shares
	}
	for k := math.Floor(x) - 2; k <= math.Floor(x)+3; k++ {
		at := k
		if mode == 2 {
			at = fold(k)
		}
		if at >= 0 && at < float64(n) {
			shares[int(at)] += reach(x - k)
		}
	}
	return shares
}

func gridDefinition(image, grid []int64, mode, padding int, corners bool, x, g []float64) (y []float64) {
	axes := len(image) - 2
	points, plane := optest.Elements(grid[1:axes+1]), optest.Elements(image[2:])
	for n := range image[0] {
		for c := range image[1] {
			for p := range points {
				place := g[(n*points+p)*int64(axes):][:axes]
				shares := make([][]float64, axes)
				for i := range axes {
					shares[i] = gridRead(place[axes-1-i], image[2+i], mode, padding, corners)
				}
				sum, at := 0.0, int64(0)
				optest.Walk(image[2:], func(k []int64) {
					share := 1.0
					for i, j := range k {
						share *= shares[i][j]
					}
					sum += share * x[(n*image[1]+c)*plane+at]
					at++
				})
				y = append(y, sum)
			}
		}
	}
	return y
}

func TestGridSampler(t *testing.T) {
	for _, s := range []struct{ image, grid []int64 }{
		{[]int64{2, 2, 3, 4}, []int64{2, 2, 3, 2}}, {[]int64{1, 1, 1, 1}, []int64{1, 1, 2, 2}}, {[]int64{1, 3, 5, 2}, []int64{1, 3, 1, 2}},
		{[]int64{2, 1, 2, 3, 2}, []int64{2, 1, 2, 2, 3}},
	} {
		axes := len(s.image) - 2
		name := fmt.Sprintf("GridSampler%dD", axes)
		for mode := range 5 - axes {
			for padding := range 3 {
				for _, corners := range []bool{false, true} {
					for _, d := range op.RealTypes {
						for _, l := range kerneltest.Layouts {
							what := fmt.Sprintf("%s %v mode %d padding %d corners %v %v %v", name, s, mode, padding, corners, d, l)
							x, g, y := optest.Filled(t, 1, d, l, s.image), optest.Filled(t, 2, d, l, s.grid), optest.TensorIn(t, d, l, slices.Concat(s.image[:2], s.grid[1:axes+1]))
							set := optest.Args{"input": x, "grid": g, "interpolationMode": mode, "paddingMode": padding, "alignCorners": corners}
							set["out"] = y
							if axes == 2 && mode == int(interpolate.Cubic) && d == dtype.Float64 {
								optest.Refused(t, op.InvalidParam, name, set, "interpolationMode must not be 2")
							} else {
								optest.Run(t, name, set)
								optest.CloseTo(t, what, gridDefinition(s.image, s.grid, mode, padding, corners, optest.Values(x), optest.Values(g)), optest.Values(y), 2*optest.ResultLimit(d))
							}
							if d == dtype.BFloat16 || d == dtype.Float16 && l != kerneltest.Contiguous {
								continue
							}
							delete(set, "out")
							dy, dx, dg := optest.Filled(t, 3, d, l, y.Shape), optest.TensorIn(t, d, l, s.image), optest.TensorIn(t, d, l, s.grid)
							set["gradOutput"], set["outputMask"], set["inputGrad"], set["gridGrad"] = dy, []bool{true, true}, dx, dg
							optest.Run(t, name+"Backward", set)
							ofImage := func(v []float64) []float64 {
								return gridDefinition(s.image, s.grid, mode, padding, corners, v, optest.Values(g))
							}
							ofGrid := func(v []float64) []float64 {
								return gridDefinition(s.image, s.grid, mode, padding, corners, optest.Values(x), v)
							}
							optest.CloseTo(t, "image of "+what, optest.Gradient(ofImage, optest.Values(dy), optest.Values(x)), optest.Values(dx), 4*optest.ResultLimit(d))
							optest.CloseTo(t, "grid of "+what, optest.Gradient(ofGrid, optest.Values(dy), optest.Values(g)), optest.Values(dg), max(4*optest.ResultLimit(d), 1e-6))
						}
					}
				}
			}
		}
	}
	empty := optest.Args{"input": optest.Tensor(t, dtype.Float32, []int64{0, 1, 2, 2}), "grid": optest.Tensor(t, dtype.Float32, []int64{0, 2, 2, 2}), "out": optest.Tensor(t, dtype.Float32, []int64{0, 1, 2, 2})}
	optest.Run(t, "GridSampler2D", empty)
}

func TestGridSamplerRefuses(t *testing.T) {
	f := dtype.Float32
	for _, c := range []struct {
		set  optest.Args
		code int32
		text string
	}{
		{optest.Args{"interpolationMode": 3}, op.InvalidParam, "interpolationMode is 3"},
		{optest.Args{"paddingMode": -1}, op.InvalidParam, "paddingMode is -1"},
		{optest.Args{"grid": optest.Tensor(t, f, []int64{1, 2, 2, 3}, 1)}, op.InvalidParam, "2 coordinates"},
		{optest.Args{"grid": optest.Tensor(t, dtype.Float16, []int64{1, 2, 2, 2}, 1)}, op.InvalidParam, "dtypes differ"},
		{optest.Args{"input": optest.Tensor(t, f, []int64{1, 2, 3}, 1)}, op.InvalidParam, "dimensions"},
		{optest.Args{"out": optest.Tensor(t, f, []int64{1, 2, 3, 3})}, op.InvalidParam, "for each place"},
		{optest.Args{"out": nil}, op.NullPointer, "out is null"},
	} {
		a := optest.Args{"input": optest.Tensor(t, f, []int64{1, 2, 3, 3}, 1), "grid": optest.Tensor(t, f, []int64{1, 2, 2, 2}, 0), "out": optest.Tensor(t, f, []int64{1, 2, 2, 2})}
		for k, v := range c.set {
			a[k] = v
		}
		optest.Refused(t, c.code, "GridSampler2D", a, c.text)
	}
}

// What GridSampler2D takes differs by chip: the AI CPU does not sample cubically, and it gets float64 on every chip, all calls of
// the 910, and those of the 310P that are not linear. The 310P has no bfloat16.
func TestGridSamplerOfChips(t *testing.T) {
	for _, c := range []struct {
		chip    acceptance.Chip
		d       dtype.Type
		mode    int
		channel int64
		text    string
	}{
		{acceptance.Ascend910B, dtype.BFloat16, 2, 1, ""},
		{acceptance.Ascend950, dtype.BFloat16, 2, 1, ""},
		{acceptance.Ascend950, dtype.Float64, 2, 1, "must not be 2"},
		{acceptance.Ascend910, dtype.Float32, 1, 1, ""},
		{acceptance.Ascend910, dtype.Float32, 2, 1, "must not be 2"},
		{acceptance.Ascend310P, dtype.Float32, 0, 32, ""},
		{acceptance.Ascend310P, dtype.Float64, 1, 32, ""},
		{acceptance.Ascend310P, dtype.Float16, 2, 32, "must not be 2"},
		{acceptance.Ascend310P, dtype.BFloat16, 0, 1, "must not be bfloat16"},
	} {
		tensor := func(shape ...int64) *op.Tensor { return optest.Tensor(t, c.d, shape, 0) }
		_, err := optest.PrepareIn(t, op.Env{Chip: c.chip}, "GridSampler2D", optest.Args{
			"input": tensor(1, c.channel, 2, 2), "grid": tensor(1, 2, 2, 2), "interpolationMode": c.mode, "out": tensor(1, c.channel, 2, 2),
		})
		if c.text == "" {
			assert.NoError(t, err, "%v", c)
			continue
		}
		var refused *op.Error
		require.ErrorAs(t, err, &refused, "%v", c)
		assert.Equal(t, op.InvalidParam, refused.Code)
		assert.ErrorContains(t, err, c.text)
	}
}

func TestAffineGrid(t *testing.T) {
	for _, size := range [][]int64{{1, 1, 1, 1}, {2, 3, 4, 5}, {2, 1, 3, 1}, {1, 2, 2, 3, 4}} {
		axes := int64(len(size) - 2)
		out := slices.Concat(size[:1], size[2:], []int64{axes})
		for _, d := range op.FloatTypes {
			for _, l := range kerneltest.Layouts {
				for _, corners := range []bool{false, true} {
					what := fmt.Sprintf("%v %v %v corners %v", size, d, l, corners)
					theta, y := optest.Filled(t, 1, d, l, []int64{size[0], axes, axes + 1}), optest.TensorIn(t, d, l, out)
					optest.Run(t, "AffineGrid", optest.Args{"theta": theta, "size": size, "alignCorners": corners, "out": y})
					var want []float64
					optest.Walk(slices.Concat(size[:1], size[2:]), func(at []int64) {
						matrix := optest.Values(theta)[at[0]*axes*(axes+1):]
						for r := range axes {
							sum := matrix[r*(axes+1)+axes]
							for i := range axes {
								n, k := float64(size[len(size)-1-int(i)]), float64(at[len(at)-1-int(i)])
								x := (2*k+1)/n - 1
								if corners {
									x = 0
									if n > 1 {
										x = 2*k/(n-1) - 1
									}
								}
								sum += matrix[r*(axes+1)+i] * x
							}
							want = append(want, sum)
						}
					})
					optest.CloseTo(t, what, want, optest.Values(y), 2*optest.ResultLimit(d))
				}
			}
		}
	}
	f := dtype.Float32
	theta := optest.Tensor(t, f, []int64{1, 2, 3}, 1)
	optest.Refused(t, op.NullPointer, "AffineGrid", optest.Args{"theta": theta, "out": theta}, "size is null")
	optest.Refused(t, op.InvalidParam, "AffineGrid", optest.Args{"theta": theta, "size": []int64{1, 1, 2}, "out": theta}, "[N,C,H,W]")
	optest.Refused(t, op.InvalidParam, "AffineGrid", optest.Args{"theta": theta, "size": []int64{1, 1, 2, 0}, "out": theta}, "dimension 3")
	optest.Refused(t, op.InvalidParam, "AffineGrid", optest.Args{"theta": theta, "size": []int64{1, 1, 2, 2}, "out": theta}, "a place for each element")
	assert.NotPanics(t, func() {
		optest.Refused(t, op.InvalidParam, "AffineGrid", optest.Args{"theta": optest.Tensor(t, f, []int64{1, 2}, 1), "size": []int64{1, 1, 2, 2}, "out": theta}, "a matrix for each image")
	})
}
