package nn

import (
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
)

func deltaLocalGrad(c *Call) (Run, error) {
	query, k, dOut, g, dv := c.Tensor("q"), c.Tensor("k"), c.Tensor("dO"), c.Tensor("g"), c.Tensor("out")
	scale := c.Float("scale")
	c.unsupported("gGammaOptional", "aOptional")
	d := c.deltaForm(k, dOut, chunkList, 64, 128)
	c.has(d.ofKeys(), query)
	c.has(d.ofValues(), dOut, dv)
	c.has(d.ofGates(), g)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		return d.eachChunk(func(q tokenSpan) error {
			return d.heads(func(key, h int64) error {
				return kernel.DeltaLocalGrad(q.of(dv, h), q.of(query, key), q.of(k, key), q.of(dOut, h), q.of(g, h), scale)
			})
		})
	}, nil
}

// deltaStatesGrad takes h0Optional and dhtOptional and looks at neither, and its dh0Out is
// zero: so the package's kernel does, whatever its description says.
func deltaStatesGrad(c *Call) (Run, error) {
	query, k, w, dOut, local, g := c.Tensor("q"), c.Tensor("k"), c.Tensor("w"), c.Tensor("dO"), c.Tensor("dv"), c.Tensor("gOptional")
	dh, dh0, dv := c.Tensor("dhOut"), c.Optional("dh0Out"), c.Tensor("dv2Out")
	scale := c.Float("scale")
	c.unsupported("gkOptional")
	if c.Bool("useExp2") {
		c.Invalid("useExp2 is set; only natural exponents are supported")
	}
	d := c.deltaForm(k, dOut, chunkList, 64, 128)
	c.has(d.ofKeys(), query)
	c.has(d.ofW(), w)
	c.has(d.ofValues(), dOut, local, dv)
	c.has(d.ofGates(), g)
	c.has(d.ofStates(), dh)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if dh0 != nil {
			if err := zero(dh0); err != nil {
				return err
			}
		}
		return d.sequences(func(q tokenSpan) error {
			return d.heads(func(key, h int64) error {
				return kernel.DeltaStatesGrad(q.states(dh, h, false), q.of(dv, h), q.of(local, h), q.of(query, key), q.of(k, key), q.of(w, h), q.of(dOut, h), q.of(g, h), scale, d.length)
			})
		})
	}, nil
}

// eachGroup calls f with every chunk and key head, and the value heads that share it.
func (d *deltaForm) eachGroup(f func(q tokenSpan, key int64, heads []int64) error) error {
	group := d.hv / d.hk
	return d.eachChunk(func(q tokenSpan) error {
		for key := range d.hk {
			heads := make([]int64, group)
			for i := range heads {
				heads[i] = key*group + int64(i)
			}
			if err := f(q, key, heads); err != nil {
				return err
			}
		}
		return nil
	})
}

func deltaInputGrad(c *Call) (Run, error) {
	query, k, v, g, h := c.Tensor("q"), c.Tensor("k"), c.Tensor("v"), c.Tensor("g"), c.Tensor("h")
	dOut, dh, dv := c.Tensor("dox"), c.Tensor("dh"), c.Tensor("dv")
	dq, dk, dw, dg := c.Tensor("dqOut"), c.Tensor("dkOut"), c.Tensor("dwOut"), c.Tensor("dgOut")
	scale := c.Float("scale")
	c.unsupported("w", "gGamma")
	if c.Bool("use_exp2") || c.Bool("transpose_state_layout") {
		c.Invalid("use_exp2 and transpose_state_layout are not supported")
	}
	d := c.deltaForm(k, v, chunkList, 64, 128)
	c.has(d.ofKeys(), query, dq, dk)
	c.has(d.ofW(), dw)
	c.has(d.ofValues(), v, dOut, dv)
	c.has(d.ofGates(), g, dg)
	c.has(d.ofStates(), h, dh)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		return d.eachGroup(func(q tokenSpan, key int64, heads []int64) error {
			var group []kernel.DeltaHead
			for _, x := range heads {
				group = append(group, kernel.DeltaHead{
					Gamma: q.of(g, x), V: q.of(v, x), H: q.states(h, x, false).Select(0, 0), DH: q.states(dh, x, false).Select(0, 0),
					DOut: q.of(dOut, x), DV: q.of(dv, x), DW: q.of(dw, x), DGamma: q.of(dg, x),
				})
			}
			return kernel.DeltaInputGrad(q.of(dq, key), q.of(dk, key), q.of(query, key), q.of(k, key), group, scale)
		})
	}, nil
}

// solveArgs are what the gradients through w and u share.
type solveArgs struct {
	*deltaForm
	k, v, beta, a, dw, du, g *Tensor
}

func (c *Call) solveArgs() solveArgs {
	s := solveArgs{
		k: c.Tensor("k"), v: c.Tensor("v"), beta: c.Tensor("beta"), a: c.Tensor("a"), dw: c.Tensor("dw"), du: c.Tensor("du"), g: c.Tensor("g"),
	}
	s.deltaForm = c.deltaForm(s.k, s.v, chunkList, 64, 128)
	c.has(s.ofValues(), s.v, s.du)
	c.has(s.ofW(), s.dw)
	c.has(s.ofGates(), s.beta, s.g)
	c.has(s.ofSystem(), s.a)
	return s
}

func deltaSystemGrad(c *Call) (Run, error) {
	s, da := c.solveArgs(), c.Tensor("dAOut")
	c.has(s.ofSystem(), da)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*Exec) error {
		if err := zero(da); err != nil {
			return err
		}
		return s.eachChunk(func(q tokenSpan) error {
			return s.heads(func(key, h int64) error { return s.systemGrad(q.square(da, h), q, key, h) })
		})
	}, nil
}

func (s solveArgs) systemGrad(da kernel.View, q tokenSpan, key, h int64) error {
	return kernel.DeltaSystemGrad(da, q.of(s.k, key), q.of(s.v, h), q.of(s.beta, h), q.square(s.a, h), q.of(s.dw, h), q.of(s.du, h), q.of(s.g, h))
}

// wuGrad is the gradient through w and u with the gradient of the system at hand.
func (c *Call) wuGrad(s solveArgs, da func(x *Exec, q tokenSpan, key, head int64) (kernel.View, error)) (Run, error) {
	dk, dv, dBeta, dg := c.Tensor("dkOut"), c.Tensor("dvOut"), c.Tensor("dbetaOut"), c.Tensor("dgOut")
	c.has(s.ofKeys(), dk)
	c.has(s.ofValues(), dv)
	c.has(s.ofGates(), dBeta, dg)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(x *Exec) error {
		return s.eachGroup(func(q tokenSpan, key int64, heads []int64) error {
			var group []kernel.DeltaHead
			var values []kernel.View
			for _, h := range heads {
				system, err := da(x, q, key, h)
				if err != nil {
					return err
				}
				group = append(group, kernel.DeltaHead{
					Gamma: q.of(s.g, h), Beta: q.of(s.beta, h), V: q.of(s.v, h), A: q.square(s.a, h), DA: system,
					DW: q.of(s.dw, h), DU: q.of(s.du, h), DGamma: q.of(dg, h), DBeta: q.of(dBeta, h),
				})
				values = append(values, q.of(dv, h))
			}
			return kernel.DeltaWUGrad(q.of(dk, key), values, q.of(s.k, key), group)
		})
	}, nil
}

func deltaWUGrad(c *Call) (Run, error) {
	s, da := c.solveArgs(), c.Tensor("dA")
	c.has(s.ofSystem(), da)
	return c.wuGrad(s, func(_ *Exec, q tokenSpan, _, h int64) (kernel.View, error) { return q.square(da, h), nil })
}

// deltaSolveGrad is both steps in one; the gradient of the system stays in the workspace.
func deltaSolveGrad(c *Call) (Run, error) {
	s := c.solveArgs()
	chunk := s.length * s.length * 4
	group := int64(1)
	if c.Err() == nil {
		group = s.hv / s.hk
	}
	c.Workspace(group * chunk)
	return c.wuGrad(s, func(x *Exec, q tokenSpan, key, h int64) (kernel.View, error) {
		da := kernel.View{
			Data: unsafe.Add(x.Workspace(), h%group*chunk), DType: dtype.Float32,
			Shape: []int64{q.tokens, q.tokens}, Strides: []int64{s.length, 1},
		}
		return da, s.systemGrad(da, q, key, h)
	})
}
