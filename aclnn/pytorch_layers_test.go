package aclnn_test

import "github.com/goascend/cann/aclnn"

func (f *pytorch) products() []translation {
	return []translation{
		{
			torch: "x @ w", remark: "what may be computed in lower precision is a parameter, not a global flag",
			run: func() error {
				return aclnn.Matmul(f.st, aclnn.MatmulParams{Self: f.x, Mat2: f.w, Out: f.out, CubeMathType: aclnn.CubeKeepDType})
			},
			shape: []int64{2, 2}, want: []float64{22, 28, 49, 64},
		},
		{
			torch: "torch.mm(x, w)",
			run: func() error {
				return aclnn.Mm(f.st, aclnn.MmParams{Self: f.x, Mat2: f.w, Out: f.out, CubeMathType: aclnn.CubeKeepDType})
			},
			shape: []int64{2, 2}, want: []float64{22, 28, 49, 64},
		},
		{
			torch: "torch.bmm(x[None], w[None])",
			run: func() error {
				return aclnn.BatchMatMul(f.st, aclnn.BatchMatMulParams{Self: f.x.Unsqueeze(0), Mat2: f.w.Unsqueeze(0), Out: f.out, CubeMathType: aclnn.CubeKeepDType})
			},
			shape: []int64{1, 2, 2}, want: []float64{22, 28, 49, 64},
		},
		{
			torch: "F.linear(x, y, b)", remark: "`Mat2` is a view; `ops.Linear` chooses among kernels and has a gradient",
			run: func() error {
				return aclnn.Addmm(f.st, aclnn.AddmmParams{Self: f.b, Mat1: f.x, Mat2: f.y.Transpose(0, 1), Beta: aclnn.Float(1), Alpha: aclnn.Float(1), Out: f.out, CubeMathType: aclnn.CubeKeepDType})
			},
			shape: []int64{2, 2}, want: []float64{29, 12, 74, 30},
		},
		{
			torch: "torch.mv(x, v)",
			run: func() error {
				return aclnn.Mv(f.st, aclnn.MvParams{Self: f.x, Vec: f.v, Out: f.out, CubeMathType: aclnn.CubeKeepDType})
			},
			shape: []int64{2}, want: []float64{14, 32},
		},
		{
			torch: "torch.dot(v, v)",
			run:   func() error { return aclnn.Dot(f.st, aclnn.DotParams{Self: f.v, Tensor: f.v, Out: f.out}) },
			shape: []int64{}, want: []float64{14},
		},
	}
}

func (f *pytorch) shapes() []translation {
	return []translation{
		{
			torch: "x.view(3, 2)", remark: "views launch nothing; a view that cannot be is an error of the call that uses it",
			view:  func() *aclnn.Tensor { return f.x.Reshape(3, 2) },
			shape: []int64{3, 2}, want: []float64{1, 2, 3, 4, 5, 6},
		},
		{
			torch: "x.t()",
			view:  func() *aclnn.Tensor { return f.x.Transpose(0, 1) },
			shape: []int64{3, 2}, want: []float64{1, 4, 2, 5, 3, 6},
		},
		{
			torch: "x.permute(1, 0)",
			view:  func() *aclnn.Tensor { return f.x.Permute(1, 0) },
			shape: []int64{3, 2}, want: []float64{1, 4, 2, 5, 3, 6},
		},
		{
			torch: "x[:, 0:3:2]",
			view:  func() *aclnn.Tensor { return f.x.Slice(1, 0, 3, 2) },
			shape: []int64{2, 2}, want: []float64{1, 3, 4, 6},
		},
		{
			torch: "x.narrow(1, 1, 2)",
			view:  func() *aclnn.Tensor { return f.x.Narrow(1, 1, 2) },
			shape: []int64{2, 2}, want: []float64{2, 3, 5, 6},
		},
		{
			torch: "x[1]",
			view:  func() *aclnn.Tensor { return f.x.Select(0, 1) },
			shape: []int64{3}, want: []float64{4, 5, 6},
		},
		{
			torch: "v.unsqueeze(0)", remark: "`Squeeze` is the inverse",
			view:  func() *aclnn.Tensor { return f.v.Unsqueeze(0) },
			shape: []int64{1, 3}, want: []float64{1, 2, 3},
		},
		{
			torch: "v.expand(2, 3)",
			view:  func() *aclnn.Tensor { return f.v.Expand(2, 3) },
			shape: []int64{2, 3}, want: []float64{1, 2, 3, 1, 2, 3},
		},
		{
			torch: "x.t().contiguous()", remark: "`aclnn.Contiguous` makes the tensor, too, and `aclnn.Clone` always does",
			run: func() error {
				return aclnn.InplaceCopy(f.st, aclnn.InplaceCopyParams{Self: f.out, Src: f.x.Transpose(0, 1)})
			},
			shape: []int64{3, 2}, want: []float64{1, 4, 2, 5, 3, 6},
		},
		{
			torch: "torch.cat([x, y], 1)",
			run: func() error {
				return aclnn.Cat(f.st, aclnn.CatParams{Tensors: []*aclnn.Tensor{f.x, f.y}, Dim: 1, Out: f.out})
			},
			shape: []int64{2, 6}, want: []float64{1, 2, 3, 6, 5, 4, 4, 5, 6, 3, 2, 1},
		},
		{
			torch: "torch.stack([x, y])",
			run: func() error {
				return aclnn.Stack(f.st, aclnn.StackParams{Tensors: []*aclnn.Tensor{f.x, f.y}, Dim: 0, Out: f.out})
			},
			shape: []int64{2, 2, 3}, want: []float64{1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1},
		},
		{
			torch: "x.split(1)", remark: "copies; `Narrow` gives views",
			run: func() error {
				return aclnn.SplitTensor(f.st, aclnn.SplitTensorParams{Self: f.x, SplitSections: 1, Dim: 0, Out: []*aclnn.Tensor{f.out.Narrow(0, 0, 1), f.out.Narrow(0, 1, 1)}})
			},
			shape: []int64{2, 3}, want: []float64{1, 2, 3, 4, 5, 6},
		},
		{
			torch: "x.repeat(1, 2)",
			run: func() error {
				return aclnn.Repeat(f.st, aclnn.RepeatParams{Self: f.x, Repeats: []int64{1, 2}, Out: f.out})
			},
			shape: []int64{2, 6}, want: []float64{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6},
		},
		{
			torch: "v.repeat_interleave(2)",
			run: func() error {
				return aclnn.RepeatInterleaveInt(f.st, aclnn.RepeatInterleaveIntParams{Self: f.v, Repeats: 2, OutputSize: 6, Out: f.out})
			},
			shape: []int64{6}, want: []float64{1, 1, 2, 2, 3, 3},
		},
		{
			torch: "x.roll(1, 1)",
			run: func() error {
				return aclnn.Roll(f.st, aclnn.RollParams{X: f.x, Shifts: []int64{1}, Dims: []int64{1}, Out: f.out})
			},
			shape: []int64{2, 3}, want: []float64{3, 1, 2, 6, 4, 5},
		},
		{
			torch: "x.flip(1)",
			run:   func() error { return aclnn.Flip(f.st, aclnn.FlipParams{Self: f.x, Dims: []int64{1}, Out: f.out}) },
			shape: []int64{2, 3}, want: []float64{3, 2, 1, 6, 5, 4},
		},
		{
			torch: "F.pad(x, (1, 0), value=9)",
			run: func() error {
				return aclnn.ConstantPadNd(f.st, aclnn.ConstantPadNdParams{Self: f.x, Pad: []int64{1, 0}, Value: aclnn.Float(9), Out: f.out})
			},
			shape: []int64{2, 4}, want: []float64{9, 1, 2, 3, 9, 4, 5, 6},
		},
		{
			torch: "x.tril()",
			run:   func() error { return aclnn.Tril(f.st, aclnn.TrilParams{Self: f.x, Diagonal: 0, Out: f.out}) },
			shape: []int64{2, 3}, want: []float64{1, 0, 0, 4, 5, 0},
		},
	}
}

func (f *pytorch) indexing() []translation {
	return []translation{
		{
			torch: "x.index_select(1, index)", remark: "`index` is int64, [2, 0]",
			run: func() error {
				return aclnn.IndexSelect(f.st, aclnn.IndexSelectParams{Self: f.x, Dim: 1, Index: f.index, Out: f.out})
			},
			shape: []int64{2, 2}, want: []float64{3, 1, 6, 4},
		},
		{
			torch: "x.gather(1, columns)", remark: "`columns` is int64, [[0, 2], [1, 0]]",
			run: func() error {
				return aclnn.Gather(f.st, aclnn.GatherParams{Self: f.x, Dim: 1, Index: f.columns, Out: f.out})
			},
			shape: []int64{2, 2}, want: []float64{1, 3, 5, 4},
		},
		{
			torch: "x.scatter_add(1, columns, u)", remark: "`u` is [[10, 20], [30, 40]]",
			run: func() error {
				return aclnn.ScatterAdd(f.st, aclnn.ScatterAddParams{Self: f.x, Dim: 1, Index: f.columns, Src: f.u, Out: f.out})
			},
			shape: []int64{2, 3}, want: []float64{11, 2, 23, 44, 35, 6},
		},
		{
			torch: "F.embedding(index, w)",
			run: func() error {
				return aclnn.Embedding(f.st, aclnn.EmbeddingParams{Weight: f.w, Indices: f.index, Out: f.out})
			},
			shape: []int64{2, 2}, want: []float64{5, 6, 1, 2},
		},
		{
			torch: "x[:, index]", remark: "`noIndex` is an empty int64 tensor, for a dimension that is not indexed",
			run: func() error {
				return aclnn.Index(f.st, aclnn.IndexParams{Self: f.x, Indices: []*aclnn.Tensor{f.noIndex, f.index}, Out: f.out})
			},
			shape: []int64{2, 2}, want: []float64{3, 1, 6, 4},
		},
	}
}

func (f *pytorch) layers() []translation {
	return []translation{
		{
			torch: "F.layer_norm(x, (3,), eps=1e-5)", remark: "weight, bias and the statistics for the gradient are optional",
			run: func() error {
				return aclnn.LayerNorm(f.st, aclnn.LayerNormParams{Input: f.x, NormalizedShape: []int64{3}, Eps: 1e-5, Out: f.out})
			},
			shape: []int64{2, 3}, want: []float64{-1.22474, 0, 1.22474, -1.22474, 0, 1.22474},
		},
		{
			torch: "F.rms_norm(x, (3,), v, 1e-6)", remark: "`stats` is float32 [2, 1]; `ops.RMSNorm` has a gradient",
			run: func() error {
				return aclnn.RmsNorm(f.st, aclnn.RmsNormParams{X: f.x, Gamma: f.v, Epsilon: 1e-6, YOut: f.out, RstdOut: f.stats})
			},
			shape: []int64{2, 3}, want: []float64{0.46291, 1.85164, 4.16619, 0.789542, 1.97386, 3.55294},
		},
		{
			torch: "F.conv2d(image, kernel)", remark: "`image` is [1, 1, 3, 3], `kernel` the 2 × 2 unit matrix",
			run: func() error {
				return aclnn.Convolution(f.st, aclnn.ConvolutionParams{Input: f.image, Weight: f.kernel, Stride: []int64{1, 1}, Padding: []int64{0, 0}, Dilation: []int64{1, 1}, OutputPadding: []int64{0, 0}, Groups: 1, Output: f.out, CubeMathType: aclnn.CubeKeepDType})
			},
			shape: []int64{1, 1, 2, 2}, want: []float64{6, 8, 12, 14},
		},
		{
			torch: "F.max_pool2d(image, 2, 1)", remark: "`places` is an int32 tensor",
			run: func() error {
				return aclnn.MaxPool2dWithIndices(f.st, aclnn.MaxPool2dWithIndicesParams{Self: f.image, KernelSize: []int64{2, 2}, Stride: []int64{1, 1}, Padding: []int64{0, 0}, Dilation: []int64{1, 1}, CeilMode: false, Out: f.out, Indices: f.places})
			},
			shape: []int64{1, 1, 2, 2}, want: []float64{5, 6, 8, 9},
		},
		{
			torch: "F.avg_pool2d(image, 2, 1)",
			run: func() error {
				return aclnn.AvgPool2d(f.st, aclnn.AvgPool2dParams{Self: f.image, KernelSize: []int64{2, 2}, Strides: []int64{1, 1}, Paddings: []int64{0, 0}, CountIncludePad: true, CubeMathType: aclnn.CubeKeepDType, Out: f.out})
			},
			shape: []int64{1, 1, 2, 2}, want: []float64{3, 4, 6, 7},
		},
		{
			torch: "F.interpolate(image, (6, 6))",
			run: func() error {
				return aclnn.UpsampleNearest2d(f.st, aclnn.UpsampleNearest2dParams{Self: f.image, OutputSize: []int64{6, 6}, Out: f.out})
			},
			shape: []int64{1, 1, 6, 6}, want: []float64{1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 7, 7, 8, 8, 9, 9},
		},
		{
			torch: "F.mse_loss(x, y)",
			run: func() error {
				return aclnn.MseLoss(f.st, aclnn.MseLossParams{Self: f.x, Target: f.y, Reduction: aclnn.ReductionMean, Out: f.out})
			},
			shape: []int64{}, want: []float64{11.6667},
		},
		{
			torch: "F.l1_loss(x, y)",
			run: func() error {
				return aclnn.L1Loss(f.st, aclnn.L1LossParams{Self: f.x, Target: f.y, Reduction: aclnn.ReductionMean, Out: f.out})
			},
			shape: []int64{}, want: []float64{3},
		},
		{
			torch: "F.cross_entropy(x, index)", remark: "`ops.CrossEntropy` has a gradient",
			run: func() error {
				return aclnn.CrossEntropyLoss(f.st, aclnn.CrossEntropyLossParams{Input: f.x, Target: f.index, Reduction: "mean", IgnoreIndex: -100, LossOut: f.out, LogProbOut: f.logProb, ZlossOut: f.none, LseForZlossOut: f.none})
			},
			shape: []int64{1}, want: []float64{1.40761},
		},
		{
			torch: "F.nll_loss(x, index)", remark: "the weights of the classes are needed; `ones` here",
			run: func() error {
				return aclnn.NLLLoss(f.st, aclnn.NLLLossParams{Self: f.x, Target: f.index, Weight: f.ones, Reduction: aclnn.ReductionMean, IgnoreIndex: -100, Out: f.out, TotalWeightOut: f.total})
			},
			shape: []int64{}, want: []float64{-3.5},
		},
		{
			torch: "F.binary_cross_entropy_with_logits(x, y)",
			run: func() error {
				return aclnn.BinaryCrossEntropyWithLogits(f.st, aclnn.BinaryCrossEntropyWithLogitsParams{Self: f.x, Target: f.y, Reduction: aclnn.ReductionMean, Out: f.out})
			},
			shape: []int64{}, want: []float64{-5.74731},
		},
		{
			torch: "torch.optim.AdamW.step", remark: "`step` is a float32 tensor that counts from 0; `ops.AdamW` does this for a list",
			run: func() error {
				return aclnn.ApplyAdamWV2(f.st, aclnn.ApplyAdamWV2Params{Var: f.x, M: f.moment, V: f.square, Grad: f.y, Step: f.step, Lr: 0.1, Beta1: 0.9, Beta2: 0.999, WeightDecay: 0.01, Eps: 1e-8})
			},
			shape: []int64{2, 3}, got: &f.x, want: []float64{0.899, 1.898, 2.897, 3.896, 4.895, 5.894},
		},
	}
}
