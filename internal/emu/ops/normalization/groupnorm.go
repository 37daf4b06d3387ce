package normalization

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
)

// groupNorms lists the norms over groups of channels; some apply swish or quantise afterwards.
var groupNorms = op.Table{
	"GroupNorm": groupNorm, "GroupNormSilu": groupNorm, "GroupNormSiluV2": groupNorm, "GroupNormSwish": groupNorm,
	"InstanceNorm": instanceNorm, "GroupNormSiluQuant": groupNorm, "GroupNormBackward": groupNormGrad, "GroupNormSwishGrad": groupNormGrad,
}

// groups reads the arguments that the family shares. x is [N, C, …], unless the attributes N, C
// and HxW define the sizes. The caller adds gamma and beta to the description inside Run.
func groups(c *op.Call, x *op.Tensor, floor int) rowwise.GroupNorm {
	g := rowwise.GroupNorm{Groups: c.Int(c.Either("group", "numGroups")), Factor: 1}
	c.Plain(x)
	c.DType(x, op.FloatTypes...)
	c.Rank(x, floor, kernel.MaxRank)
	if c.Err() != nil {
		return g
	}
	if c.Has("N") {
		g.Batch, g.Channels = c.Int("N"), c.Int("C")
		if rest := c.Int("HxW"); g.Batch < 0 || g.Channels < 0 || rest < 0 || g.Batch*g.Channels*rest != x.Len() {
			c.Invalid("%v does not have N·C·HxW = %d·%d·%d elements", x, g.Batch, g.Channels, rest)
		}
	} else {
		g.Batch, g.Channels = x.Shape[0], x.Shape[1]
	}
	if g.Groups <= 0 || g.Channels%max(g.Groups, 1) != 0 {
		c.Invalid("%d channels of %v cannot be divided into %d groups", g.Channels, x, g.Groups)
	}
	switch {
	case c.Has("activateSwish"):
		g.Swish, g.Factor = c.Bool("activateSwish"), c.Float("swishScale")
	case c.Has("swishScale"):
		g.Swish, g.Factor = true, c.Float("swishScale")
	case c.Has("activateSilu"):
		g.Swish = c.Bool("activateSilu")
	default:
		g.Swish = c.Op.Name == "GroupNormSilu"
	}
	if c.Has("dataFormatOptional") {
		if f := c.Text("dataFormatOptional"); f != "" && f != "NCHW" {
			c.Invalid("dataFormatOptional %q is not supported; use NCHW", f)
		}
	}
	return g
}

// counted checks an optional tensor: its number of elements, and its dtype, which is that of x
// or float32.
func counted(c *op.Call, t, x *op.Tensor, n int64, what string) {
	if t == nil || c.Err() != nil {
		return
	}
	c.Plain(t)
	c.DType(t, x.DType, dtype.Float32)
	if t.Len() != n {
		c.Invalid("%v must have %d elements, %s", t, n, what)
	}
}

func groupNorm(c *op.Call) (op.Run, error) {
	x, y := c.Tensor(c.Either("self", "x")), c.Tensor(c.Either("out", "yOut"))
	gamma, beta, mean, rstd := c.Optional("gamma"), c.Optional("beta"), c.Tensor("meanOut"), c.Tensor("rstdOut")
	g := groups(c, x, 2)
	if c.Has("N") && c.Err() == nil && (x.Shape[0] != g.Batch || x.Shape[1] != g.Channels) {
		c.Invalid("%v does not begin with N and C, which are %d and %d", x, g.Batch, g.Channels)
	}
	eps := c.Float("eps")
	if eps <= 0 {
		c.Invalid("eps is %g; it must be above 0", eps)
	}
	c.SameShape(x, y)
	var factor func() kernel.View
	if c.Has("quantScale") {
		c.DType(y, dtype.Int8)
		if c.Err() == nil {
			factor = c.PerAxis(c.Tensor("quantScale"), x, 1)
		}
	} else {
		c.SameDType(x, y)
	}
	for _, t := range []*op.Tensor{gamma, beta} {
		counted(c, t, x, g.Channels, "one for each channel")
	}
	for _, t := range []*op.Tensor{mean, rstd} {
		counted(c, t, x, g.Batch*g.Groups, "one for each group")
		c.Rank(t, 2, 2)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return noGroups(mean, rstd)
		}
		run := g
		run.Gamma, run.Beta = op.OptionalView(gamma), op.OptionalView(beta)
		if factor == nil {
			return run.Forward(y.View(), mean.View(), rstd.View(), x.View(), eps)
		}
		t, release := kernel.Temporary(x.Shape...)
		defer release()
		if err := run.Forward(t, mean.View(), rstd.View(), x.View(), eps); err != nil {
			return err
		}
		return gemm.Quantizer{Factor: factor(), Divide: true, Round: elementwise.Round}.Quantize(y.View(), t)
	}, nil
}

// noGroups writes the statistics of empty groups, as the device does.
func noGroups(mean, rstd *op.Tensor) error {
	if mean.Len() == 0 {
		return nil
	}
	if err := elementwise.Zero(mean.View()); err != nil {
		return err
	}
	return elementwise.Map(elementwise.Div, dtype.Float32, rstd.View(), []elementwise.Input{elementwise.Const(elementwise.Real(0)), elementwise.Const(elementwise.Real(0))})
}

func groupNormGrad(c *op.Call) (op.Run, error) {
	dy, x := c.Tensor(c.Either("gradOut", "dy")), c.Tensor(c.Either("input", "x"))
	mean, rstd, gamma := c.Tensor("mean"), c.Tensor("rstd"), c.Optional("gamma")
	floor := 2
	if c.Has("N") {
		floor = 0
	}
	g := groups(c, x, floor)
	var beta *op.Tensor
	if c.Has("beta") {
		beta = c.Tensor("beta")
	}
	var wanted []bool
	if c.Has("outputMask") {
		if wanted = c.Bools("outputMask"); len(wanted) != 3 {
			c.Invalid("outputMask has %d elements; it has one for the input, gamma and beta", len(wanted))
			return nil, c.Err()
		}
	} else {
		wanted = []bool{true, c.Bool("dgammaIsRequire"), c.Bool("dbetaIsRequire")}
	}
	outs := make([]*op.Tensor, 3)
	for i, name := range []string{c.Either("gradInput", "dxOut"), c.Either("gradGammaOut", "dgammaOut"), c.Either("gradBetaOut", "dbetaOut")} {
		if wanted[i] {
			outs[i] = c.Tensor(name)
		}
	}
	c.SameDType(x, dy)
	counted(c, dy, x, x.Len(), "as the input has")
	for _, t := range []*op.Tensor{mean, rstd} {
		counted(c, t, x, g.Batch*g.Groups, "one for each group")
	}
	if outs[0] != nil {
		c.Same(x, outs[0])
	}
	for _, t := range []*op.Tensor{gamma, beta, outs[1], outs[2]} {
		counted(c, t, x, g.Channels, "one for each channel")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return op.ZeroAll(outs[1:]...)
		}
		run := g
		run.Gamma, run.Beta = op.OptionalView(gamma), op.OptionalView(beta)
		return run.Backward(op.OptionalView(outs[0]), op.OptionalView(outs[1]), op.OptionalView(outs[2]), dy.View(), x.View(), mean.View(), rstd.View())
	}, nil
}

// instanceNorm is a group norm with one channel per group. It outputs the variance instead of
// the inverse deviation. The channels may be the last dimension.
func instanceNorm(c *op.Call) (op.Run, error) {
	x, y, gamma, beta := c.Tensor("x"), c.Tensor("y"), c.Tensor("gamma"), c.Tensor("beta")
	mean, variance, eps := c.Tensor("mean"), c.Tensor("variance"), c.Float("eps")
	order := []int64{0, 1, 2, 3}
	switch f := c.RequiredText("dataFormat"); f {
	case "NCHW":
	case "NHWC":
		order = []int64{0, 3, 1, 2}
	default:
		c.Invalid("dataFormat is %q; use NCHW or NHWC", f)
	}
	c.Plain(x, y, gamma, beta, mean, variance)
	c.DType(x, dtype.Float32, dtype.Float16)
	c.Rank(x, 4, 4)
	if x.Len() != 0 && (y.Len() == 0 || mean.Len() == 0 || variance.Len() == 0) {
		c.Vacuous("y %v, mean %v or variance %v is empty, and x %v is not", y, mean, variance, x)
	}
	c.Same(x, y)
	c.SameDType(x, gamma, beta, mean, variance)
	if c.Err() != nil {
		return nil, c.Err()
	}
	batch, channels := x.Shape[0], x.Shape[order[1]]
	moments := []int64{batch, 1, 1, 1}
	moments[order[1]] = channels
	for _, t := range []*op.Tensor{gamma, beta} {
		c.Shape(t, []int64{channels}, "one for each channel")
	}
	for _, t := range []*op.Tensor{mean, variance} {
		c.Shape(t, moments, "one for each channel of each image")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return op.ZeroAll(mean, variance)
		}
		each := func(t *op.Tensor) kernel.View { return op.Permuted(t.View(), order).Leading(2) }
		in := op.Permuted(x.View(), order)
		rstd, release := kernel.Temporary(batch, channels)
		defer release()
		g := rowwise.GroupNorm{Batch: batch, Channels: channels, Groups: channels, Factor: 1, Gamma: gamma.View(), Beta: beta.View()}
		if err := g.Forward(op.Permuted(y.View(), order), each(mean), rstd, in, eps); err != nil {
			return err
		}
		return rowwise.Reduce(rowwise.ReduceVar, each(variance), in, []int{2, 3}, 0)
	}, nil
}
