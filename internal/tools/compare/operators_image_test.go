package compare_test

import (
	"slices"

	"github.com/goascend/cann/aclnn"
)

// windows are pooling, convolution and resampling of images [16,64,32,32], one of them a million elements.
var windows = slices.Concat(resizes(), []operator{
	{"max_pool2d.float32", func(d *data) arguments {
		return fill(&aclnn.MaxPool2dWithIndicesParams{}, image(d), two(2), two(2), two(0), two(1), false, d.out(f32, 16, 64, 16, 16), d.out(i32, 16, 64, 16, 16))
	}},
	{"max_pool2d_3x3.float32", func(d *data) arguments {
		return fill(&aclnn.MaxPool2dWithIndicesParams{}, image(d), two(3), two(1), two(1), two(1), false, d.out(f32, 16, 64, 32, 32), d.out(i32, 16, 64, 32, 32))
	}},
	{"max_pool2d_backward.float32", func(d *data) arguments {
		at := d.ints(i32, side, 16, 64, 16, 16)
		return fill(&aclnn.MaxPool2dWithIndicesBackwardParams{}, d.normal(f32, 16, 64, 16, 16), image(d), at, two(2), two(2), two(0), two(1), false, d.out(f32, 16, 64, 32, 32))
	}},
	{"avg_pool2d.float32", func(d *data) arguments {
		return fill(&aclnn.AvgPool2dParams{}, image(d), two(2), two(2), two(0), false, true, 0, aclnn.CubeKeepDType, d.out(f32, 16, 64, 16, 16))
	}},
	{"avg_pool2d_3x3.float32", func(d *data) arguments {
		return fill(&aclnn.AvgPool2dParams{}, image(d), two(3), two(1), two(1), false, true, 0, aclnn.CubeKeepDType, d.out(f32, 16, 64, 32, 32))
	}},
	{"avg_pool2d_backward.float32", func(d *data) arguments {
		return fill(&aclnn.AvgPool2dBackwardParams{}, d.normal(f32, 16, 64, 16, 16), image(d), two(2), two(2), two(0), false, true, 0, aclnn.CubeKeepDType, d.out(f32, 16, 64, 32, 32))
	}},
	{"avg_pool3d.float32", func(d *data) arguments {
		return fill(&aclnn.AvgPool3dParams{}, d.normal(f32, 4, 8, 32, 32, 32), three(2), three(2), three(0), false, true, 0, d.out(f32, 4, 8, 16, 16, 16))
	}},
	{"max_pool3d.float32", func(d *data) arguments {
		return fill(&aclnn.MaxPool3dWithArgmaxParams{}, d.normal(f32, 4, 8, 32, 32, 32), three(2), three(2), three(0), three(1), false, d.out(f32, 4, 8, 16, 16, 16), d.out(i32, 4, 8, 16, 16, 16))
	}},
	{"adaptive_avg_pool2d.float32", func(d *data) arguments {
		return fill(&aclnn.AdaptiveAvgPool2dParams{}, image(d), two(7), d.out(f32, 16, 64, 7, 7))
	}},
	{"adaptive_avg_pool2d_backward.float32", func(d *data) arguments {
		return fill(&aclnn.AdaptiveAvgPool2dBackwardParams{}, d.normal(f32, 16, 64, 7, 7), image(d), d.out(f32, 16, 64, 32, 32))
	}},
	{"adaptive_max_pool2d.float32", func(d *data) arguments {
		return fill(&aclnn.AdaptiveMaxPool2dParams{}, image(d), two(7), d.out(f32, 16, 64, 7, 7), d.out(i64, 16, 64, 7, 7))
	}},
	{"max_unpool2d.float32", func(d *data) arguments {
		at := d.tensor(i64, ints(16, 64, 16, 16), func() func() float64 { i := -1; return func() float64 { i++; return float64(i % 256 * 4) } }())
		return fill(&aclnn.MaxUnpool2dParams{}, d.normal(f32, 16, 64, 16, 16), at, two(32), d.out(f32, 16, 64, 32, 32))
	}},
	{"conv2d_3x3.float32", func(d *data) arguments {
		return fill(&aclnn.ConvolutionParams{}, image(d), d.normal(f32, 64, 64, 3, 3), d.normal(f32, 64), two(1), two(1), two(1), false, two(0), 1, d.out(f32, 16, 64, 32, 32), aclnn.CubeKeepDType)
	}},
	{"conv2d_1x1.float32", func(d *data) arguments {
		return fill(&aclnn.ConvolutionParams{}, image(d), d.normal(f32, 64, 64, 1, 1), d.normal(f32, 64), two(1), two(0), two(1), false, two(0), 1, d.out(f32, 16, 64, 32, 32), aclnn.CubeKeepDType)
	}},
	{"conv2d_depthwise.float32", func(d *data) arguments {
		return fill(&aclnn.ConvolutionParams{}, image(d), d.normal(f32, 64, 1, 3, 3), d.normal(f32, 64), two(1), two(1), two(1), false, two(0), 64, d.out(f32, 16, 64, 32, 32), aclnn.CubeKeepDType)
	}},
	{"conv2d_transposed.float32", func(d *data) arguments {
		return fill(&aclnn.ConvolutionParams{}, d.normal(f32, 16, 64, 16, 16), d.normal(f32, 64, 16, 2, 2), d.normal(f32, 16), two(2), two(0), two(1), true, two(0), 1, d.out(f32, 16, 16, 32, 32), aclnn.CubeKeepDType)
	}},
	{"conv2d_backward.float32", func(d *data) arguments {
		return fill(&aclnn.ConvolutionBackwardParams{}, image(d), image(d), d.normal(f32, 64, 64, 3, 3), ints(64), two(1), two(1), two(1), false, two(0), 1, all, aclnn.CubeKeepDType,
			d.out(f32, 16, 64, 32, 32), d.out(f32, 64, 64, 3, 3), d.out(f32, 64))
	}},
	{"conv1d.float32", func(d *data) arguments {
		return fill(&aclnn.ConvolutionParams{}, d.normal(f32, 16, 64, side), d.normal(f32, 64, 64, 3), d.normal(f32, 64), ints(1), ints(1), ints(1), false, ints(0), 1, d.out(f32, 16, 64, side), aclnn.CubeKeepDType)
	}},
	{"im2col.float32", func(d *data) arguments {
		return fill(&aclnn.Im2colParams{}, d.normal(f32, 16, 8, 32, 32), two(3), two(1), two(1), two(1), d.out(f32, 16, 72, side))
	}},
	{"grid_sample_bilinear.float32", func(d *data) arguments { return gridSample(d, aclnn.InterpolationBilinear) }},
	{"grid_sample_nearest.float32", func(d *data) arguments { return gridSample(d, aclnn.InterpolationNearest) }},
	{"grid_sample_bicubic.float32", func(d *data) arguments { return gridSample(d, aclnn.InterpolationBicubic) }},
	{"grid_sample_backward.float32", func(d *data) arguments {
		return fill(&aclnn.GridSampler2DBackwardParams{}, image(d), image(d), d.uniform(f32, -1, 1, 16, 32, 32, 2), aclnn.InterpolationBilinear, aclnn.PaddingZeros, false, all[:2],
			d.out(f32, 16, 64, 32, 32), d.out(f32, 16, 32, 32, 2))
	}},
	{"affine_grid.float32", func(d *data) arguments {
		return fill(&aclnn.AffineGridParams{}, d.normal(f32, 16, 2, 3), ints(16, 3, 180, 180), false, d.out(f32, 16, 180, 180, 2))
	}},
})

func two(n int64) []int64   { return ints(n, n) }
func three(n int64) []int64 { return ints(n, n, n) }

func gridSample(d *data, mode aclnn.Interpolation) arguments {
	return fill(&aclnn.GridSampler2DParams{}, image(d), d.uniform(f32, -1, 1, 16, 32, 32, 2), mode, aclnn.PaddingZeros, false, d.out(f32, 16, 64, 32, 32))
}

// resizes double the sides of [16,16,32,32], whose results have a million elements, and the gradients.
func resizes() []operator {
	small := func(d *data) *aclnn.Tensor { return d.normal(f32, 16, 64, 16, 16) }
	out := func(d *data) *aclnn.Tensor { return d.out(f32, 16, 64, 32, 32) }
	in := ints(16, 64, 16, 16)
	return []operator{
		{"upsample_nearest2d.float32", func(d *data) arguments {
			return fill(&aclnn.UpsampleNearest2dParams{}, small(d), two(32), out(d))
		}},
		{"upsample_nearest2d_backward.float32", func(d *data) arguments {
			return fill(&aclnn.UpsampleNearest2dBackwardParams{}, image(d), two(32), in, 2., 2., d.out(f32, in...))
		}},
		{"upsample_bilinear2d.float32", func(d *data) arguments {
			return fill(&aclnn.UpsampleBilinear2dParams{}, small(d), two(32), false, 2., 2., out(d))
		}},
		{"upsample_bilinear2d_backward.float32", func(d *data) arguments {
			return fill(&aclnn.UpsampleBilinear2dBackwardParams{}, image(d), two(32), in, false, 2., 2., d.out(f32, in...))
		}},
		{"upsample_bicubic2d.float32", func(d *data) arguments {
			return fill(&aclnn.UpsampleBicubic2dParams{}, small(d), two(32), false, 2., 2., out(d))
		}},
		{"upsample_bicubic2d_backward.float32", func(d *data) arguments {
			return fill(&aclnn.UpsampleBicubic2dBackwardParams{}, image(d), two(32), in, false, 2., 2., d.out(f32, in...))
		}},
		{"upsample_bilinear2d_aa.float32", func(d *data) arguments {
			return fill(&aclnn.UpsampleBilinear2dAAParams{}, image(d), two(16), false, .5, .5, d.out(f32, in...))
		}},
		{"upsample_linear1d.float32", func(d *data) arguments {
			return fill(&aclnn.UpsampleLinear1dParams{}, d.normal(f32, 16, 64, side/2), ints(side), false, 2., d.out(f32, 16, 64, side))
		}},
		{"upsample_trilinear3d.float32", func(d *data) arguments {
			return fill(&aclnn.UpsampleTrilinear3dParams{}, d.normal(f32, 4, 8, 16, 16, 16), three(32), false, 2., 2., 2., d.out(f32, 4, 8, 32, 32, 32))
		}},
	}
}
