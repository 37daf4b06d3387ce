package nn

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

// groupNorms normalise groups of channels; some apply swish or quantise after.
var groupNorms = table{
	"GroupNorm": groupNorm, "GroupNormSilu": groupNorm, "GroupNormSiluV2": groupNorm, "GroupNormSwish": groupNorm,
	"InstanceNorm": instanceNorm, "GroupNormSiluQuant": groupNorm, "GroupNormBackward": groupNormGrad, "GroupNormSwishGrad": groupNormGrad,
}

// groups reads what the family shares. x is [N, C, …], unless N, C and HxW say so of the
// elements. The description lacks gamma and beta, which are for Run.
func (c *Call) groups(x *Tensor, floor int) kernel.GroupNorm {
	g := kernel.GroupNorm{Groups: c.Int(c.either("group", "numGroups")), Factor: 1}
	c.plain(x)
	c.DType(x, transformerTypes...)
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
		g.Swish = c.op.name == "GroupNormSilu"
	}
	if c.Has("dataFormatOptional") {
		if f := c.Text("dataFormatOptional"); f != "" && f != "NCHW" {
			c.Invalid("dataFormatOptional %q is not supported; use NCHW", f)
		}
	}
	return g
}

// counted checks a tensor that may be absent: its number of elements, and its dtype, that
// of x or float32.
func (c *Call) counted(t, x *Tensor, n int64, what string) {
	if t == nil || c.Err() != nil {
		return
	}
	c.plain(t)
	c.DType(t, x.DType, dtype.Float32)
	if t.Len() != n {
		c.Invalid("%v must have %d elements, %s", t, n, what)
	}
}

func groupNorm(c *Call) (Run, error) {
	x, y := c.Tensor(c.either("self", "x")), c.Tensor(c.either("out", "yOut"))
	gamma, beta, mean, rstd := c.Optional("gamma"), c.Optional("beta"), c.Tensor("meanOut"), c.Tensor("rstdOut")
	g := c.groups(x, 2)
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
			factor = c.perAxis(c.Tensor("quantScale"), x, 1)
		}
	} else {
		c.SameDType(x, y)
	}
	for _, t := range []*Tensor{gamma, beta} {
		c.counted(t, x, g.Channels, "one for each channel")
	}
	for _, t := range []*Tensor{mean, rstd} {
		c.counted(t, x, g.Batch*g.Groups, "one for each group")
		c.Rank(t, 2, 2)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return noGroups(mean, rstd)
		}
		run := g
		run.Gamma, run.Beta = optionalView(gamma), optionalView(beta)
		if factor == nil {
			return run.Forward(y.View(), mean.View(), rstd.View(), x.View(), eps)
		}
		t, release := kernel.Temporary(x.Shape...)
		defer release()
		if err := run.Forward(t, mean.View(), rstd.View(), x.View(), eps); err != nil {
			return err
		}
		return kernel.Quantizer{Factor: factor(), Divide: true, Round: kernel.Round}.Quantize(y.View(), t)
	}, nil
}

// noGroups writes the statistics of groups without elements, as the device does.
func noGroups(mean, rstd *Tensor) error {
	if mean.Len() == 0 {
		return nil
	}
	if err := kernel.Zero(mean.View()); err != nil {
		return err
	}
	return kernel.Map(kernel.Div, dtype.Float32, rstd.View(), []kernel.Input{kernel.Const(kernel.Real(0)), kernel.Const(kernel.Real(0))})
}

func groupNormGrad(c *Call) (Run, error) {
	dy, x := c.Tensor(c.either("gradOut", "dy")), c.Tensor(c.either("input", "x"))
	mean, rstd, gamma := c.Tensor("mean"), c.Tensor("rstd"), c.Optional("gamma")
	g := c.groups(x, 0)
	var beta *Tensor
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
	outs := make([]*Tensor, 3)
	for i, name := range []string{c.either("gradInput", "dxOut"), c.either("gradGammaOut", "dgammaOut"), c.either("gradBetaOut", "dbetaOut")} {
		if wanted[i] {
			outs[i] = c.Tensor(name)
		}
	}
	c.SameDType(x, dy)
	c.counted(dy, x, x.Len(), "as the input has")
	for _, t := range []*Tensor{mean, rstd} {
		c.counted(t, x, g.Batch*g.Groups, "one for each group")
	}
	if outs[0] != nil {
		c.Same(x, outs[0])
	}
	for _, t := range []*Tensor{gamma, beta, outs[1], outs[2]} {
		c.counted(t, x, g.Channels, "one for each channel")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return zeroAll(outs[1:]...)
		}
		run := g
		run.Gamma, run.Beta = optionalView(gamma), optionalView(beta)
		return run.Backward(optionalView(outs[0]), optionalView(outs[1]), optionalView(outs[2]), dy.View(), x.View(), mean.View(), rstd.View())
	}, nil
}

// instanceNorm is a group norm of one channel a group, which gives the variance in place of
// the inverse deviation. The channels may be the last dimension.
func instanceNorm(c *Call) (Run, error) {
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
	c.plain(x, y, gamma, beta, mean, variance)
	c.DType(x, dtype.Float32, dtype.Float16)
	c.Rank(x, 4, 4)
	c.Same(x, y)
	c.SameDType(x, gamma, beta, mean, variance)
	if c.Err() != nil {
		return nil, c.Err()
	}
	batch, channels := x.Shape[0], x.Shape[order[1]]
	moments := []int64{batch, 1, 1, 1}
	moments[order[1]] = channels
	for _, t := range []*Tensor{gamma, beta} {
		c.Shape(t, []int64{channels}, "one for each channel")
	}
	for _, t := range []*Tensor{mean, variance} {
		c.Shape(t, moments, "one for each channel of each image")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if x.Len() == 0 {
			return zeroAll(mean, variance)
		}
		each := func(t *Tensor) kernel.View { return permuted(t.View(), order).Leading(2) }
		in := permuted(x.View(), order)
		rstd, release := kernel.Temporary(batch, channels)
		defer release()
		g := kernel.GroupNorm{Batch: batch, Channels: channels, Groups: channels, Factor: 1, Gamma: gamma.View(), Beta: beta.View()}
		if err := g.Forward(permuted(y.View(), order), each(mean), rstd, in, eps); err != nil {
			return err
		}
		return kernel.Reduce(kernel.ReduceVar, each(variance), in, []int{2, 3}, 0)
	}, nil
}
