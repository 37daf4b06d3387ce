package recurrent

import (
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	recurrentkernel "github.com/goascend/cann/internal/emu/kernel/recurrent"
	"github.com/goascend/cann/internal/emu/op"
)

func deltaLocalGrad(c *op.Call) (op.Run, error) {
	query, k, dOut, g, dv := c.Tensor("q"), c.Tensor("k"), c.Tensor("dO"), c.Tensor("g"), c.Tensor("out")
	scale := c.Float("scale")
	unsupported(c, "gGammaOptional", "aOptional")
	d := newDeltaForm(c, k, dOut, chunkList, 64, 128)
	has(c, d.ofKeys(), query)
	has(c, d.ofValues(), dOut, dv)
	has(c, d.ofGates(), g)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		return d.eachChunk(func(q tokenSpan) error {
			return d.heads(func(key, h int64) error {
				return recurrentkernel.DeltaLocalGrad(q.of(dv, h), q.of(query, key), q.of(k, key), q.of(dOut, h), q.of(g, h), scale)
			})
		})
	}, nil
}

// deltaStatesGrad ignores h0Optional and dhtOptional, and sets dh0Out to zero. The kernel of the
// custom package does the same, although its description differs.
func deltaStatesGrad(c *op.Call) (op.Run, error) {
	query, k, w, dOut, local, g := c.Tensor("q"), c.Tensor("k"), c.Tensor("w"), c.Tensor("dO"), c.Tensor("dv"), c.Tensor("gOptional")
	dh, dh0, dv := c.Tensor("dhOut"), c.Optional("dh0Out"), c.Tensor("dv2Out")
	scale := c.Float("scale")
	unsupported(c, "gkOptional")
	if c.Bool("useExp2") {
		c.Invalid("useExp2 is set; only natural exponents are supported")
	}
	d := newDeltaForm(c, k, dOut, chunkList, 64, 128)
	has(c, d.ofKeys(), query)
	has(c, d.ofW(), w)
	has(c, d.ofValues(), dOut, local, dv)
	has(c, d.ofGates(), g)
	has(c, d.ofStates(), dh)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if dh0 != nil {
			if err := op.Zero(dh0); err != nil {
				return err
			}
		}
		return d.sequences(func(q tokenSpan) error {
			return d.heads(func(key, h int64) error {
				return recurrentkernel.DeltaStatesGrad(q.states(dh, h, false), q.of(dv, h), q.of(local, h), q.of(query, key), q.of(k, key), q.of(w, h), q.of(dOut, h), q.of(g, h), scale, d.length)
			})
		})
	}, nil
}

// eachGroup calls f with every chunk and key head, and the value heads that share the key head.
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

func deltaInputGrad(c *op.Call) (op.Run, error) {
	query, k, v, g, h := c.Tensor("q"), c.Tensor("k"), c.Tensor("v"), c.Tensor("g"), c.Tensor("h")
	dOut, dh, dv := c.Tensor("dox"), c.Tensor("dh"), c.Tensor("dv")
	dq, dk, dw, dg := c.Tensor("dqOut"), c.Tensor("dkOut"), c.Tensor("dwOut"), c.Tensor("dgOut")
	scale := c.Float("scale")
	unsupported(c, "w", "gGamma")
	if c.Bool("use_exp2") || c.Bool("transpose_state_layout") {
		c.Invalid("use_exp2 and transpose_state_layout are not supported")
	}
	d := newDeltaForm(c, k, v, chunkList, 64, 128)
	has(c, d.ofKeys(), query, dq, dk)
	has(c, d.ofW(), dw)
	has(c, d.ofValues(), v, dOut, dv)
	has(c, d.ofGates(), g, dg)
	has(c, d.ofStates(), h, dh)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		return d.eachGroup(func(q tokenSpan, key int64, heads []int64) error {
			var group []recurrentkernel.DeltaHead
			for _, x := range heads {
				group = append(group, recurrentkernel.DeltaHead{
					Gamma: q.of(g, x), V: q.of(v, x), H: q.states(h, x, false).Select(0, 0), DH: q.states(dh, x, false).Select(0, 0),
					DOut: q.of(dOut, x), DV: q.of(dv, x), DW: q.of(dw, x), DGamma: q.of(dg, x),
				})
			}
			return recurrentkernel.DeltaInputGrad(q.of(dq, key), q.of(dk, key), q.of(query, key), q.of(k, key), group, scale)
		})
	}, nil
}

// solveArgs holds the arguments that the gradients through w and u share.
type solveArgs struct {
	*deltaForm
	k, v, beta, a, dw, du, g *op.Tensor
}

func newSolveArgs(c *op.Call) solveArgs {
	s := solveArgs{
		k: c.Tensor("k"), v: c.Tensor("v"), beta: c.Tensor("beta"), a: c.Tensor("a"), dw: c.Tensor("dw"), du: c.Tensor("du"), g: c.Tensor("g"),
	}
	s.deltaForm = newDeltaForm(c, s.k, s.v, chunkList, 64, 128)
	has(c, s.ofValues(), s.v, s.du)
	has(c, s.ofW(), s.dw)
	has(c, s.ofGates(), s.beta, s.g)
	has(c, s.ofSystem(), s.a)
	return s
}

func deltaSystemGrad(c *op.Call) (op.Run, error) {
	s, da := newSolveArgs(c), c.Tensor("dAOut")
	has(c, s.ofSystem(), da)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if err := op.Zero(da); err != nil {
			return err
		}
		return s.eachChunk(func(q tokenSpan) error {
			return s.heads(func(key, h int64) error { return s.systemGrad(q.square(da, h), q, key, h) })
		})
	}, nil
}

func (s solveArgs) systemGrad(da kernel.View, q tokenSpan, key, h int64) error {
	return recurrentkernel.DeltaSystemGrad(da, q.of(s.k, key), q.of(s.v, h), q.of(s.beta, h), q.square(s.a, h), q.of(s.dw, h), q.of(s.du, h), q.of(s.g, h))
}

// wuGrad is the gradient through w and u; the gradient of the triangular system is given.
func wuGrad(c *op.Call, s solveArgs, da func(x *op.Exec, q tokenSpan, key, head int64) (kernel.View, error)) (op.Run, error) {
	dk, dv, dBeta, dg := c.Tensor("dkOut"), c.Tensor("dvOut"), c.Tensor("dbetaOut"), c.Tensor("dgOut")
	has(c, s.ofKeys(), dk)
	has(c, s.ofValues(), dv)
	has(c, s.ofGates(), dBeta, dg)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(x *op.Exec) error {
		return s.eachGroup(func(q tokenSpan, key int64, heads []int64) error {
			var group []recurrentkernel.DeltaHead
			var values []kernel.View
			for _, h := range heads {
				system, err := da(x, q, key, h)
				if err != nil {
					return err
				}
				group = append(group, recurrentkernel.DeltaHead{
					Gamma: q.of(s.g, h), Beta: q.of(s.beta, h), V: q.of(s.v, h), A: q.square(s.a, h), DA: system,
					DW: q.of(s.dw, h), DU: q.of(s.du, h), DGamma: q.of(dg, h), DBeta: q.of(dBeta, h),
				})
				values = append(values, q.of(dv, h))
			}
			return recurrentkernel.DeltaWUGrad(q.of(dk, key), values, q.of(s.k, key), group)
		})
	}, nil
}

func deltaWUGrad(c *op.Call) (op.Run, error) {
	s, da := newSolveArgs(c), c.Tensor("dA")
	has(c, s.ofSystem(), da)
	return wuGrad(c, s, func(_ *op.Exec, q tokenSpan, _, h int64) (kernel.View, error) { return q.square(da, h), nil })
}

// deltaSolveGrad performs both steps. The gradient of the system stays in the workspace.
func deltaSolveGrad(c *op.Call) (op.Run, error) {
	s := newSolveArgs(c)
	chunk := s.length * s.length * 4
	group := int64(1)
	if c.Err() == nil {
		group = s.hv / s.hk
	}
	c.Workspace(group * chunk)
	return wuGrad(c, s, func(x *op.Exec, q tokenSpan, key, h int64) (kernel.View, error) {
		da := kernel.View{
			Data: unsafe.Add(x.Workspace(), h%group*chunk), DType: dtype.Float32,
			Shape: []int64{q.tokens, q.tokens}, Strides: []int64{s.length, 1},
		}
		return da, s.systemGrad(da, q, key, h)
	})
}
