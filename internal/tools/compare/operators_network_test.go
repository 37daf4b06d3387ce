package compare_test

import (
	"slices"

	"github.com/goascend/cann/aclnn"
)

var activations = slices.Concat(gradients(), softmaxes(), []operator{
	{"elu.float32", func(d *data) arguments {
		return fill(&aclnn.EluParams{}, d.normal(f32), 1., 1., 1., d.out(f32))
	}},
	{"elu_backward.float32", func(d *data) arguments {
		return fill(&aclnn.EluBackwardParams{}, d.normal(f32), 1., 1., 1., false, d.normal(f32), d.out(f32))
	}},
	{"hardtanh.float32", func(d *data) arguments {
		return fill(&aclnn.HardtanhParams{}, d.normal(f32), -1., 1., d.out(f32))
	}},
	{"hardtanh_backward.float32", func(d *data) arguments {
		return fill(&aclnn.HardtanhBackwardParams{}, d.normal(f32), d.normal(f32), -1., 1., d.out(f32))
	}},
	{"threshold.float32", func(d *data) arguments {
		return fill(&aclnn.ThresholdParams{}, d.normal(f32), .5, 2., d.out(f32))
	}},
	{"threshold_backward.float32", func(d *data) arguments {
		return fill(&aclnn.ThresholdBackwardParams{}, d.normal(f32), d.normal(f32), 0., d.out(f32))
	}},
	{"softplus.float32", func(d *data) arguments {
		return fill(&aclnn.SoftplusParams{}, d.normal(f32), 1., 20., d.out(f32))
	}},
	{"softplus_backward.float32", func(d *data) arguments {
		return fill(&aclnn.SoftplusBackwardParams{}, d.normal(f32), d.normal(f32), 1., 20., d.out(f32))
	}},
	{"leaky_relu_backward.float32", func(d *data) arguments {
		return fill(&aclnn.LeakyReluBackwardParams{}, d.normal(f32), d.normal(f32), .1, false, d.out(f32))
	}},
	{"hardshrink_backward.float32", func(d *data) arguments {
		return fill(&aclnn.HardshrinkBackwardParams{}, d.normal(f32), d.normal(f32), .5, d.out(f32))
	}},
	{"softshrink_backward.float32", func(d *data) arguments {
		return fill(&aclnn.SoftshrinkBackwardParams{}, d.normal(f32), d.normal(f32), .5, d.out(f32))
	}},
	{"logit_backward.float32", func(d *data) arguments {
		return fill(&aclnn.LogitGradParams{}, d.uniform(f32, .1, .9), d.normal(f32), 1e-3, d.out(f32))
	}},
	{"gelu_tanh.float32", func(d *data) arguments {
		return fill(&aclnn.GeluV2Params{}, d.normal(f32), aclnn.GeluTanh, d.out(f32))
	}},
	{"gelu_tanh_backward.float32", func(d *data) arguments {
		return fill(&aclnn.GeluBackwardV2Params{}, d.normal(f32), d.normal(f32), "tanh", d.out(f32))
	}},
	{"glu.float32", func(d *data) arguments {
		return fill(&aclnn.GluParams{}, d.normal(f32, side, 2*side), -1, d.out(f32))
	}},
	{"glu_backward.float32", func(d *data) arguments {
		return fill(&aclnn.GluBackwardParams{}, d.normal(f32), d.normal(f32, side, 2*side), -1, d.out(f32, side, 2*side))
	}},
	{"prelu.float32", func(d *data) arguments {
		return fill(&aclnn.PreluParams{}, d.normal(f32), d.normal(f32, side), d.out(f32))
	}},
	{"prelu_backward.float32", func(d *data) arguments {
		return fill(&aclnn.PreluBackwardParams{}, d.normal(f32), d.normal(f32), d.normal(f32, side), d.out(f32), d.out(f32, side))
	}},
	{"log_sigmoid_backward.float32", func(d *data) arguments {
		return fill(&aclnn.LogSigmoidBackwardParams{}, d.normal(f32), d.normal(f32), d.out(f32), d.out(f32))
	}},
})

// gradients have the output's gradient and the input, or the output.
func gradients() (list []operator) {
	for _, o := range []struct {
		name   string
		args   arguments
		dtypes []aclnn.DType
	}{
		{"sigmoid_backward", &aclnn.SigmoidBackwardParams{}, floats},
		{"tanh_backward", &aclnn.TanhBackwardParams{}, floats},
		{"gelu_backward", &aclnn.GeluBackwardParams{}, floats},
		{"silu_backward", &aclnn.SiluBackwardParams{}, floats},
		{"mish_backward", &aclnn.MishBackwardParams{}, single},
		{"hardswish_backward", &aclnn.HardswishBackwardParams{}, single},
		{"hardsigmoid_backward", &aclnn.HardsigmoidBackwardParams{}, single},
	} {
		for _, dt := range o.dtypes {
			list = append(list, operator{named(o.name, dt), func(d *data) arguments {
				return fill(o.args, d.normal(dt), d.normal(dt), d.out(dt))
			}})
		}
	}
	return list
}

func softmaxes() (list []operator) {
	for axis, way := range ways[1:] {
		for _, dt := range floats[:2] {
			list = append(list,
				operator{named("softmax_"+way.name, dt), func(d *data) arguments {
					return fill(&aclnn.SoftmaxParams{}, d.normal(dt), axis, d.out(dt))
				}},
				operator{named("log_softmax_"+way.name, dt), func(d *data) arguments {
					return fill(&aclnn.LogSoftmaxParams{}, d.normal(dt), axis, d.out(dt))
				}},
				operator{named("softmax_backward_"+way.name, dt), func(d *data) arguments {
					return fill(&aclnn.SoftmaxBackwardParams{}, d.normal(dt), d.uniform(dt, 0, 1), axis, d.out(dt))
				}},
				operator{named("log_softmax_backward_"+way.name, dt), func(d *data) arguments {
					return fill(&aclnn.LogSoftmaxBackwardParams{}, d.normal(dt), d.uniform(dt, -1, 0), axis, d.out(dt))
				}})
		}
	}
	return list
}

var losses = slices.Concat(pointwise(), []operator{
	{"nll_loss.float32", func(d *data) arguments {
		return fill(&aclnn.NLLLossParams{}, d.normal(f32), d.ints(i64, side, side), d.full(f32, 1, side), aclnn.ReductionMean, -100, d.out(f32, 1).Squeeze(0), d.out(f32, 1).Squeeze(0))
	}},
	{"nll_loss_backward.float32", func(d *data) arguments {
		one := func() *aclnn.Tensor { return d.full(f32, 1, 1).Squeeze(0) }
		return fill(&aclnn.NLLLossBackwardParams{}, one(), d.normal(f32), d.ints(i64, side, side), d.full(f32, 1, side), aclnn.ReductionMean, -100, one(), d.out(f32))
	}},
	{"nll_loss2d.float32", func(d *data) arguments {
		return fill(&aclnn.NLLLoss2dParams{}, d.normal(f32, 4, 16, 128, 128), d.ints(i64, 16, 4, 128, 128), d.full(f32, 1, 16), aclnn.ReductionMean, -100,
			d.out(f32, 1).Squeeze(0), d.out(f32, 1).Squeeze(0))
	}},
	{"cross_entropy.float32", func(d *data) arguments {
		return fill(&aclnn.CrossEntropyLossParams{}, d.normal(f32), d.ints(i64, side, side), nil, "mean", -100, 0., 0., false, d.out(f32, 1), d.out(f32), nil, nil)
	}},
	{"ctc_loss.float32", func(d *data) arguments {
		lengths, targets := slices.Repeat(ints(128), 64), slices.Repeat(ints(30), 64)
		return fill(&aclnn.CtcLossParams{}, d.uniform(f32, -3, -1, 128, 64, 128), d.tensor(i64, ints(64, 30), func() float64 { return float64(1 + d.rand.IntN(127)) }),
			lengths, targets, 0, false, d.out(f32, 64), d.out(f32, 64, 128, 64))
	}},
	{"bce_with_logits.float32", func(d *data) arguments {
		return fill(&aclnn.BinaryCrossEntropyWithLogitsParams{}, d.normal(f32), d.uniform(f32, 0, 1), nil, nil, aclnn.ReductionNone, d.out(f32))
	}},
	{"bce.float32", func(d *data) arguments {
		return fill(&aclnn.BinaryCrossEntropyParams{}, d.uniform(f32, .1, .9), d.uniform(f32, 0, 1), nil, aclnn.ReductionMean, d.out(f32, 1).Squeeze(0))
	}},
	{"bce_backward.float32", func(d *data) arguments {
		return fill(&aclnn.BinaryCrossEntropyBackwardParams{}, d.normal(f32), d.uniform(f32, .1, .9), d.uniform(f32, 0, 1), nil, aclnn.ReductionNone, d.out(f32))
	}},
	{"kl_div.float32", func(d *data) arguments {
		return fill(&aclnn.KlDivParams{}, d.normal(f32), d.uniform(f32, .1, 1), aclnn.ReductionNone, false, d.out(f32))
	}},
	{"smooth_l1_loss.float32", func(d *data) arguments {
		return fill(&aclnn.SmoothL1LossParams{}, d.normal(f32), d.normal(f32), aclnn.ReductionMean, 1., d.out(f32, 1).Squeeze(0))
	}},
	{"smooth_l1_loss_backward.float32", func(d *data) arguments {
		return fill(&aclnn.SmoothL1LossBackwardParams{}, d.normal(f32), d.normal(f32), d.normal(f32), aclnn.ReductionNone, 1., d.out(f32))
	}},
	{"mse_loss_backward.float32", func(d *data) arguments {
		return fill(&aclnn.MseLossBackwardParams{}, d.normal(f32), d.normal(f32), d.normal(f32), aclnn.ReductionNone, d.out(f32))
	}},
	{"soft_margin_loss_backward.float32", func(d *data) arguments {
		return fill(&aclnn.SoftMarginLossBackwardParams{}, d.normal(f32), d.normal(f32), d.normal(f32), aclnn.ReductionNone, d.out(f32))
	}},
})

func pointwise() (list []operator) {
	for _, o := range []struct {
		name string
		args arguments
	}{{"mse_loss", &aclnn.MseLossParams{}}, {"l1_loss", &aclnn.L1LossParams{}}, {"soft_margin_loss", &aclnn.SoftMarginLossParams{}}} {
		list = append(list,
			operator{o.name + "_mean.float32", func(d *data) arguments {
				return fill(o.args, d.normal(f32), d.normal(f32), aclnn.ReductionMean, d.out(f32, 1).Squeeze(0))
			}},
			operator{o.name + "_none.float32", func(d *data) arguments {
				return fill(o.args, d.normal(f32), d.normal(f32), aclnn.ReductionNone, d.out(f32))
			}})
	}
	return list
}

var all = []bool{true, true, true}

// norms of rows of 1024 elements, and of images [16,64,32,32].
var norms = slices.Concat(rowNorms(f32), rowNorms(bf16), []operator{
	{"group_norm.float32", func(d *data) arguments {
		return fill(&aclnn.GroupNormParams{}, image(d), d.normal(f32, 64), d.normal(f32, 64), 16, 64, side, 8, 1e-5, d.out(f32, 16, 64, 32, 32), d.out(f32, 16, 8), d.out(f32, 16, 8))
	}},
	{"group_norm_backward.float32", func(d *data) arguments {
		return fill(&aclnn.GroupNormBackwardParams{}, image(d), image(d), d.normal(f32, 16, 8), d.uniform(f32, 1, 2, 16, 8), d.normal(f32, 64), 16, 64, side, 8, all,
			d.out(f32, 16, 64, 32, 32), d.out(f32, 64), d.out(f32, 64))
	}},
	{"batch_norm.float32", func(d *data) arguments {
		return fill(&aclnn.BatchNormParams{}, image(d), d.normal(f32, 64), d.normal(f32, 64), d.out(f32, 64), d.full(f32, 1, 64), true, .1, 1e-5,
			d.out(f32, 16, 64, 32, 32), d.out(f32, 64), d.out(f32, 64))
	}},
	{"batch_norm_inference.float32", func(d *data) arguments {
		return fill(&aclnn.BatchNormParams{}, image(d), d.normal(f32, 64), d.normal(f32, 64), d.out(f32, 64), d.full(f32, 1, 64), false, .1, 1e-5,
			d.out(f32, 16, 64, 32, 32), d.out(f32, 64), d.out(f32, 64))
	}},
	{"batch_norm_backward.float32", func(d *data) arguments {
		return fill(&aclnn.BatchNormBackwardParams{}, image(d), image(d), d.normal(f32, 64), d.out(f32, 64), d.full(f32, 1, 64), d.normal(f32, 64), d.uniform(f32, 1, 2, 64), true, 1e-5, all,
			d.out(f32, 16, 64, 32, 32), d.out(f32, 64), d.out(f32, 64))
	}},
})

func image(d *data) *aclnn.Tensor { return d.normal(f32, 16, 64, 32, 32) }

func rowNorms(dt aclnn.DType) []operator {
	row := ints(side)
	return []operator{
		{named("layer_norm", dt), func(d *data) arguments {
			return fill(&aclnn.LayerNormParams{}, d.normal(dt), row, d.normal(dt, side), d.normal(dt, side), 1e-5, d.out(dt), d.out(f32, side, 1), d.out(f32, side, 1))
		}},
		{named("layer_norm_backward", dt), func(d *data) arguments {
			return fill(&aclnn.LayerNormBackwardParams{}, d.normal(dt), d.normal(dt), row, d.normal(f32, side, 1), d.uniform(f32, 1, 2, side, 1), d.normal(dt, side), d.normal(dt, side), all,
				d.out(dt), d.out(dt, side), d.out(dt, side))
		}},
		{named("rms_norm", dt), func(d *data) arguments {
			return fill(&aclnn.RmsNormParams{}, d.normal(dt), d.normal(dt, side), 1e-6, d.out(dt), d.out(f32, side, 1))
		}},
	}
}
