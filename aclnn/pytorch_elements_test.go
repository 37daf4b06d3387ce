package aclnn_test

import "github.com/goascend/cann/aclnn"

func (f *pytorch) making() []translation {
	return []translation{
		{
			torch: "torch.zeros(2, 2)", remark: "`aclnn.Zeros`, `Ones`, `Full` and `FromSlice` make the tensor, too",
			run:   func() error { return aclnn.InplaceZero(f.st, aclnn.InplaceZeroParams{Self: f.out}) },
			shape: []int64{2, 2}, want: []float64{0, 0, 0, 0},
		},
		{
			torch: "torch.full((2, 2), 7.)",
			run: func() error {
				return aclnn.InplaceFillScalar(f.st, aclnn.InplaceFillScalarParams{Self: f.out, Value: aclnn.Float(7)})
			},
			shape: []int64{2, 2}, want: []float64{7, 7, 7, 7},
		},
		{
			torch: "torch.arange(0, 6, 2)",
			run: func() error {
				return aclnn.Arange(f.st, aclnn.ArangeParams{Start: aclnn.Int(0), End: aclnn.Int(6), Step: aclnn.Int(2), Out: f.out})
			},
			shape: []int64{3}, want: []float64{0, 2, 4},
		},
		{
			torch: "torch.linspace(0, 1, 3)",
			run: func() error {
				return aclnn.Linspace(f.st, aclnn.LinspaceParams{Start: aclnn.Float(0), End: aclnn.Float(1), Steps: 3, Out: f.out})
			},
			shape: []int64{3}, want: []float64{0, 0.5, 1},
		},
		{
			torch: "torch.eye(2, 3)",
			run:   func() error { return aclnn.Eye(f.st, aclnn.EyeParams{N: 2, M: 3, Out: f.out}) },
			shape: []int64{2, 3}, want: []float64{1, 0, 0, 0, 1, 0},
		},
		{
			torch: "out.uniform_(0, 1)", remark: "the caller advances `Offset`: equal seeds and offsets give equal numbers",
			run: func() error {
				return aclnn.InplaceUniform(f.st, aclnn.InplaceUniformParams{Self: f.out, From: 0, To: 1, Seed: 1, Offset: 0})
			},
			shape: []int64{2, 3},
		},
		{
			torch: "out.normal_(0, 1)",
			run: func() error {
				return aclnn.InplaceNormal(f.st, aclnn.InplaceNormalParams{Self: f.out, Mean: 0, Std: 1, Seed: 1, Offset: 0})
			},
			shape: []int64{2, 3},
		},
		{
			torch: "out.copy_(x)", remark: "also between dtypes, and from views",
			run:   func() error { return aclnn.InplaceCopy(f.st, aclnn.InplaceCopyParams{Self: f.out, Src: f.x}) },
			shape: []int64{2, 3}, want: []float64{1, 2, 3, 4, 5, 6},
		},
		{
			torch: "x.to(torch.bfloat16)", remark: "`halves` is a bfloat16 tensor",
			run: func() error {
				return aclnn.Cast(f.st, aclnn.CastParams{Self: f.x, Dtype: aclnn.BFloat16, Out: f.halves})
			},
			shape: []int64{2, 3}, got: &f.halves, want: []float64{1, 2, 3, 4, 5, 6},
		},
	}
}

func (f *pytorch) pointwise() []translation {
	return []translation{
		{
			torch: "torch.add(x, y, alpha=2)", remark: "shapes are broadcast, dtypes promoted, as in PyTorch",
			run: func() error {
				return aclnn.Add(f.st, aclnn.AddParams{Self: f.x, Other: f.y, Alpha: aclnn.Float(2), Out: f.out})
			},
			shape: []int64{2, 3}, want: []float64{13, 12, 11, 10, 9, 8},
		},
		{
			torch: "x + 2", remark: "`Alpha` must be given: a zero `Scalar` is an absent one",
			run: func() error {
				return aclnn.Adds(f.st, aclnn.AddsParams{Self: f.x, Other: aclnn.Float(2), Alpha: aclnn.Float(1), Out: f.out})
			},
			shape: []int64{2, 3}, want: []float64{3, 4, 5, 6, 7, 8},
		},
		{
			torch: "x.add_(y)", remark: "what PyTorch writes with an underscore is `Inplace…`",
			run: func() error {
				return aclnn.InplaceAdd(f.st, aclnn.InplaceAddParams{Self: f.x, Other: f.y, Alpha: aclnn.Float(1)})
			},
			shape: []int64{2, 3}, got: &f.x, want: []float64{7, 7, 7, 7, 7, 7},
		},
		{
			torch: "x - y",
			run: func() error {
				return aclnn.Sub(f.st, aclnn.SubParams{Self: f.x, Other: f.y, Alpha: aclnn.Float(1), Out: f.out})
			},
			shape: []int64{2, 3}, want: []float64{-5, -3, -1, 1, 3, 5},
		},
		{
			torch: "x * y",
			run:   func() error { return aclnn.Mul(f.st, aclnn.MulParams{Self: f.x, Other: f.y, Out: f.out}) },
			shape: []int64{2, 3}, want: []float64{6, 10, 12, 12, 10, 6},
		},
		{
			torch: "x * 3",
			run:   func() error { return aclnn.Muls(f.st, aclnn.MulsParams{Self: f.x, Other: aclnn.Float(3), Out: f.out}) },
			shape: []int64{2, 3}, want: []float64{3, 6, 9, 12, 15, 18},
		},
		{
			torch: "x / y",
			run:   func() error { return aclnn.Div(f.st, aclnn.DivParams{Self: f.x, Other: f.y, Out: f.out}) },
			shape: []int64{2, 3}, want: []float64{0.166667, 0.4, 0.75, 1.33333, 2.5, 6},
		},
		{
			torch: "x ** 2",
			run: func() error {
				return aclnn.PowTensorScalar(f.st, aclnn.PowTensorScalarParams{Self: f.x, Exponent: aclnn.Float(2), Out: f.out})
			},
			shape: []int64{2, 3}, want: []float64{1, 4, 9, 16, 25, 36},
		},
		{
			torch: "torch.exp(x)",
			run:   func() error { return aclnn.Exp(f.st, aclnn.ExpParams{Self: f.x, Out: f.out}) },
			shape: []int64{2, 3}, want: []float64{2.71828, 7.38906, 20.0855, 54.5982, 148.413, 403.429},
		},
		{
			torch: "torch.log(x)",
			run:   func() error { return aclnn.Log(f.st, aclnn.LogParams{Self: f.x, Out: f.out}) },
			shape: []int64{2, 3}, want: []float64{0, 0.693147, 1.09861, 1.38629, 1.60944, 1.79176},
		},
		{
			torch: "torch.sqrt(x)",
			run:   func() error { return aclnn.Sqrt(f.st, aclnn.SqrtParams{Self: f.x, Out: f.out}) },
			shape: []int64{2, 3}, want: []float64{1, 1.41421, 1.73205, 2, 2.23607, 2.44949},
		},
		{
			torch: "torch.rsqrt(x)",
			run:   func() error { return aclnn.Rsqrt(f.st, aclnn.RsqrtParams{Self: f.x, Out: f.out}) },
			shape: []int64{2, 3}, want: []float64{1, 0.707107, 0.57735, 0.5, 0.447214, 0.408248},
		},
		{
			torch: "torch.abs(x)",
			run:   func() error { return aclnn.Abs(f.st, aclnn.AbsParams{Self: f.x, Out: f.out}) },
			shape: []int64{2, 3}, want: []float64{1, 2, 3, 4, 5, 6},
		},
		{
			torch: "-x",
			run:   func() error { return aclnn.Neg(f.st, aclnn.NegParams{Self: f.x, Out: f.out}) },
			shape: []int64{2, 3}, want: []float64{-1, -2, -3, -4, -5, -6},
		},
		{
			torch: "torch.sin(x)",
			run:   func() error { return aclnn.Sin(f.st, aclnn.SinParams{Self: f.x, Out: f.out}) },
			shape: []int64{2, 3}, want: []float64{0.841471, 0.909297, 0.14112, -0.756802, -0.958924, -0.279415},
		},
		{
			torch: "torch.clamp(x, 2, 5)", remark: "a bound may be the zero `Scalar`, for none",
			run: func() error {
				return aclnn.Clamp(f.st, aclnn.ClampParams{Self: f.x, ClipValueMin: aclnn.Float(2), ClipValueMax: aclnn.Float(5), Out: f.out})
			},
			shape: []int64{2, 3}, want: []float64{2, 2, 3, 4, 5, 5},
		},
		{
			torch: "torch.maximum(x, y)",
			run:   func() error { return aclnn.Maximum(f.st, aclnn.MaximumParams{Self: f.x, Other: f.y, Out: f.out}) },
			shape: []int64{2, 3}, want: []float64{6, 5, 4, 4, 5, 6},
		},
		{
			torch: "torch.lerp(x, y, 0.5)",
			run: func() error {
				return aclnn.Lerps(f.st, aclnn.LerpsParams{Self: f.x, End: f.y, Weight: aclnn.Float(0.5), Out: f.out})
			},
			shape: []int64{2, 3}, want: []float64{3.5, 3.5, 3.5, 3.5, 3.5, 3.5},
		},
		{
			torch: "torch.addcmul(x, x, y, value=2)",
			run: func() error {
				return aclnn.Addcmul(f.st, aclnn.AddcmulParams{Self: f.x, Tensor1: f.x, Tensor2: f.y, Value: aclnn.Float(2), Out: f.out})
			},
			shape: []int64{2, 3}, want: []float64{13, 22, 27, 28, 25, 18},
		},
		{
			torch: "x > y", remark: "`bools` is a bool tensor",
			run:   func() error { return aclnn.GtTensor(f.st, aclnn.GtTensorParams{Self: f.x, Other: f.y, Out: f.bools}) },
			shape: []int64{2, 3}, got: &f.bools, want: []float64{0, 0, 0, 1, 1, 1},
		},
		{
			torch: "x == 2",
			run: func() error {
				return aclnn.EqScalar(f.st, aclnn.EqScalarParams{Self: f.x, Other: aclnn.Float(2), Out: f.bools})
			},
			shape: []int64{2, 3}, got: &f.bools, want: []float64{0, 1, 0, 0, 0, 0},
		},
		{
			torch: "torch.logical_not(mask)",
			run:   func() error { return aclnn.LogicalNot(f.st, aclnn.LogicalNotParams{Self: f.mask, Out: f.bools}) },
			shape: []int64{2, 3}, got: &f.bools, want: []float64{0, 1, 0, 1, 0, 1},
		},
		{
			torch: "torch.where(mask, x, y)",
			run: func() error {
				return aclnn.SWhere(f.st, aclnn.SWhereParams{Condition: f.mask, Self: f.x, Other: f.y, Out: f.out})
			},
			shape: []int64{2, 3}, want: []float64{1, 5, 3, 3, 5, 1},
		},
		{
			torch: "x.masked_fill_(mask, 0)",
			run: func() error {
				return aclnn.InplaceMaskedFillScalar(f.st, aclnn.InplaceMaskedFillScalarParams{Self: f.x, Mask: f.mask, Value: aclnn.Float(0)})
			},
			shape: []int64{2, 3}, got: &f.x, want: []float64{0, 2, 0, 4, 0, 6},
		},
	}
}

func (f *pytorch) activations() []translation {
	return []translation{
		{
			torch: "F.relu(x)",
			run:   func() error { return aclnn.Relu(f.st, aclnn.ReluParams{Self: f.x, Out: f.out}) },
			shape: []int64{2, 3}, want: []float64{1, 2, 3, 4, 5, 6},
		},
		{
			torch: "F.gelu(x)",
			run:   func() error { return aclnn.Gelu(f.st, aclnn.GeluParams{Self: f.x, Out: f.out}) },
			shape: []int64{2, 3}, want: []float64{0.841345, 1.9545, 2.99595, 3.99987, 5, 6},
		},
		{
			torch: "F.gelu(x, approximate=\"tanh\")",
			run: func() error {
				return aclnn.GeluV2(f.st, aclnn.GeluV2Params{X: f.x, Approximate: aclnn.GeluTanh, Y: f.out})
			},
			shape: []int64{2, 3}, want: []float64{0.841192, 1.9546, 2.99636, 3.99993, 5, 6},
		},
		{
			torch: "F.silu(x)", remark: "silu of one half times the other is `ops.SwiGLU`",
			run:   func() error { return aclnn.Silu(f.st, aclnn.SiluParams{Self: f.x, Out: f.out}) },
			shape: []int64{2, 3}, want: []float64{0.731059, 1.76159, 2.85772, 3.92806, 4.96654, 5.98516},
		},
		{
			torch: "torch.sigmoid(x)",
			run:   func() error { return aclnn.Sigmoid(f.st, aclnn.SigmoidParams{Self: f.x, Out: f.out}) },
			shape: []int64{2, 3}, want: []float64{0.731059, 0.880797, 0.952574, 0.982014, 0.993307, 0.997527},
		},
		{
			torch: "torch.tanh(x)",
			run:   func() error { return aclnn.Tanh(f.st, aclnn.TanhParams{Self: f.x, Out: f.out}) },
			shape: []int64{2, 3}, want: []float64{0.761594, 0.964028, 0.995055, 0.999329, 0.999909, 0.999988},
		},
		{
			torch: "F.softplus(x)",
			run: func() error {
				return aclnn.Softplus(f.st, aclnn.SoftplusParams{Self: f.x, Beta: aclnn.Float(1), Threshold: aclnn.Float(20), Out: f.out})
			},
			shape: []int64{2, 3}, want: []float64{1.31326, 2.12693, 3.04859, 4.01815, 5.00672, 6.00248},
		},
		{
			torch: "F.leaky_relu(-x, 0.1)", remark: "`minus` is -x",
			run: func() error {
				return aclnn.LeakyRelu(f.st, aclnn.LeakyReluParams{Self: f.minus, NegativeSlope: aclnn.Float(0.1), Out: f.out})
			},
			shape: []int64{2, 3}, want: []float64{-0.1, -0.2, -0.3, -0.4, -0.5, -0.6},
		},
		{
			torch: "F.elu(-x)",
			run: func() error {
				return aclnn.Elu(f.st, aclnn.EluParams{Self: f.minus, Alpha: aclnn.Float(1), Scale: aclnn.Float(1), InputScale: aclnn.Float(1), Out: f.out})
			},
			shape: []int64{2, 3}, want: []float64{-0.632121, -0.864665, -0.950213, -0.981684, -0.993262, -0.997521},
		},
		{
			torch: "torch.softmax(x, -1)",
			run:   func() error { return aclnn.Softmax(f.st, aclnn.SoftmaxParams{Self: f.x, Dim: -1, Out: f.out}) },
			shape: []int64{2, 3}, want: []float64{0.0900306, 0.244728, 0.665241, 0.0900306, 0.244728, 0.665241},
		},
		{
			torch: "torch.log_softmax(x, -1)",
			run:   func() error { return aclnn.LogSoftmax(f.st, aclnn.LogSoftmaxParams{Self: f.x, Dim: -1, Out: f.out}) },
			shape: []int64{2, 3}, want: []float64{-2.40761, -1.40761, -0.407606, -2.40761, -1.40761, -0.407606},
		},
		{
			torch: "F.dropout(x, 0.)", remark: "`bits` is a uint8 tensor with a bit for each element, in multiples of 16 bytes",
			run: func() error {
				return aclnn.Dropout(f.st, aclnn.DropoutParams{Input: f.x, P: 0, Train: true, Seed: 1, Offset: 0, Out: f.out, MaskOut: f.bits})
			},
			shape: []int64{2, 3}, want: []float64{1, 2, 3, 4, 5, 6},
		},
	}
}

func (f *pytorch) reductions() []translation {
	return []translation{
		{
			torch: "x.sum(1)", remark: "no dimensions at all sums everything into a tensor of rank 0",
			run: func() error {
				return aclnn.ReduceSum(f.st, aclnn.ReduceSumParams{Self: f.x, Dims: []int64{1}, KeepDims: false, Dtype: aclnn.Float32, Out: f.out})
			},
			shape: []int64{2}, want: []float64{6, 15},
		},
		{
			torch: "x.mean(1, keepdim=True)",
			run: func() error {
				return aclnn.Mean(f.st, aclnn.MeanParams{Self: f.x, Dim: []int64{1}, KeepDim: true, Dtype: aclnn.Float32, Out: f.out})
			},
			shape: []int64{2, 1}, want: []float64{2, 5},
		},
		{
			torch: "x.amax(1)",
			run: func() error {
				return aclnn.Amax(f.st, aclnn.AmaxParams{Self: f.x, Dim: []int64{1}, KeepDim: false, Out: f.out})
			},
			shape: []int64{2}, want: []float64{3, 6},
		},
		{
			torch: "x.argmax(1)", remark: "`ints` is an int64 tensor",
			run: func() error {
				return aclnn.ArgMax(f.st, aclnn.ArgMaxParams{Self: f.x, Dim: 1, Keepdim: false, Out: f.ints})
			},
			shape: []int64{2}, got: &f.ints, want: []float64{2, 2},
		},
		{
			torch: "x.var(1)",
			run: func() error {
				return aclnn.Var(f.st, aclnn.VarParams{Self: f.x, Dim: []int64{1}, Unbiased: true, Keepdim: false, Out: f.out})
			},
			shape: []int64{2}, want: []float64{1, 1},
		},
		{
			torch: "x.std(1)",
			run: func() error {
				return aclnn.Std(f.st, aclnn.StdParams{Self: f.x, Dim: []int64{1}, Correction: 1, Keepdim: false, Out: f.out})
			},
			shape: []int64{2}, want: []float64{1, 1},
		},
		{
			torch: "x.norm(2, 1)",
			run: func() error {
				return aclnn.Norm(f.st, aclnn.NormParams{Self: f.x, PScalar: aclnn.Float(2), Dim: []int64{1}, Keepdim: false, Out: f.out})
			},
			shape: []int64{2}, want: []float64{3.74166, 8.77496},
		},
		{
			torch: "x.logsumexp(1)",
			run: func() error {
				return aclnn.LogSumExp(f.st, aclnn.LogSumExpParams{Self: f.x, Dim: []int64{1}, KeepDim: false, Out: f.out})
			},
			shape: []int64{2}, want: []float64{3.40761, 6.40761},
		},
		{
			torch: "x.prod()",
			run:   func() error { return aclnn.Prod(f.st, aclnn.ProdParams{Self: f.x, Dtype: aclnn.Float32, Out: f.out}) },
			shape: []int64{}, want: []float64{720},
		},
		{
			torch: "mask.any(1)",
			run: func() error {
				return aclnn.Any(f.st, aclnn.AnyParams{Self: f.mask, Dim: []int64{1}, Keepdim: false, Out: f.bools})
			},
			shape: []int64{2}, got: &f.bools, want: []float64{1, 1},
		},
		{
			torch: "mask.all(1)",
			run: func() error {
				return aclnn.All(f.st, aclnn.AllParams{Self: f.mask, Dim: []int64{1}, Keepdim: false, Out: f.bools})
			},
			shape: []int64{2}, got: &f.bools, want: []float64{0, 0},
		},
		{
			torch: "x.cumsum(1)",
			run: func() error {
				return aclnn.Cumsum(f.st, aclnn.CumsumParams{Self: f.x, Dim: 1, Dtype: aclnn.Float32, Out: f.out})
			},
			shape: []int64{2, 3}, want: []float64{1, 3, 6, 4, 9, 15},
		},
		{
			torch: "x.topk(2, 1)",
			run: func() error {
				return aclnn.Topk(f.st, aclnn.TopkParams{Self: f.x, K: 2, Dim: 1, Largest: true, Sorted: true, ValuesOut: f.out, IndicesOut: f.ints})
			},
			shape: []int64{2, 2}, want: []float64{3, 2, 6, 5},
		},
		{
			torch: "x.sort(1, descending=True)",
			run: func() error {
				return aclnn.Sort(f.st, aclnn.SortParams{Self: f.x, Stable: false, Dim: 1, Descending: true, ValuesOut: f.out, IndicesOut: f.ints})
			},
			shape: []int64{2, 3}, want: []float64{3, 2, 1, 6, 5, 4},
		},
	}
}
