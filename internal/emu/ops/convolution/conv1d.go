package convolution

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	convolutionkernel "github.com/goascend/cann/internal/emu/kernel/convolution"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/op"
)

// causalConvolutions are depthwise convolutions of the custom package for linear attention. The
// taps are [W,D]; the last one applies to the newest token.
var causalConvolutions = op.Table{"CausalConv1d": causalConv, "CausalConv1dBwd": causalConvGrad}.Selects()

// tokenRuns holds the sequences of x, which is [B,S,D] or packed as [T,D].
type tokenRuns struct {
	x        *op.Tensor
	channels int64
	bounds   [][2]int64 // start and end of each sequence among all tokens
}

func newTokenRuns(c *op.Call, x *op.Tensor, taps *op.Tensor) tokenRuns {
	r := tokenRuns{x: x}
	c.Plain(x, taps)
	c.Rank(x, 2, 3)
	c.Rank(taps, 2, 2)
	if c.Err() != nil {
		return r
	}
	r.channels = x.Dim(-1)
	if w := taps.Shape[0]; w < 2 || w > 4 || taps.Shape[1] != r.channels {
		c.Invalid("%v must be 2 to 4 taps for each of the %d channels of %v", taps, r.channels, x)
	}
	if r.channels%16 != 0 {
		c.Invalid("%v has %d channels; their number must be a multiple of 16", x, r.channels)
	}
	starts := c.Ints("queryStartLocOptional")
	if x.Rank() == 3 {
		if starts != nil {
			c.Invalid("queryStartLocOptional is given for %v; packed sequences have 2 dimensions", x)
		}
		for b := range x.Shape[0] {
			r.bounds = append(r.bounds, [2]int64{b * x.Shape[1], (b + 1) * x.Shape[1]})
		}
		return r
	}
	if len(starts) < 2 || starts[0] != 0 || starts[len(starts)-1] != x.Shape[0] || !slices.IsSorted(starts) {
		c.Invalid("queryStartLocOptional %s must go from 0 to the %d tokens of %v", op.Dims(starts), x.Shape[0], x)
		return r
	}
	for i := range len(starts) - 1 {
		r.bounds = append(r.bounds, [2]int64{starts[i], starts[i+1]})
	}
	return r
}

// of returns the tokens of a sequence in a tensor with the shape of x.
func (r tokenRuns) of(t *op.Tensor, bound [2]int64) kernel.View {
	v := t.View()
	if len(v.Shape) == 3 {
		per := v.Shape[1]
		v = v.Select(0, bound[0]/per)
		bound = [2]int64{0, per}
	}
	return v.Narrow(0, bound[0], bound[1]-bound[0])
}

// byHead returns the tokens of a sequence in [B,N,S,D/N] or [N,T,D/N] as [tokens,N,D/N].
func (r tokenRuns) byHead(t *op.Tensor, bound [2]int64) kernel.View {
	v := t.View()
	if len(v.Shape) == 4 {
		per := v.Shape[2]
		v = v.Select(0, bound[0]/per)
		bound = [2]int64{0, per}
	}
	v.Shape, v.Strides = []int64{v.Shape[1], v.Shape[0], v.Shape[2]}, []int64{v.Strides[1], v.Strides[0], v.Strides[2]}
	return v.Narrow(0, bound[0], bound[1]-bound[0])
}

// split views [tokens,D] as [tokens,N,D/N].
func split(v kernel.View, heads int64) kernel.View {
	d := v.Shape[1] / heads
	v.Shape, v.Strides = []int64{v.Shape[0], heads, d}, []int64{v.Strides[0], d * v.Strides[1], v.Strides[1]}
	return v
}

// causalConv continues every sequence from its line of convStates, whose first W−1 rows hold the
// previous inputs, and stores the last W−1 inputs there.
func causalConv(c *op.Call) (op.Run, error) {
	x, taps, bias, states, out := c.Tensor("x"), c.Tensor("weight"), c.Optional("biasOptional"), c.Tensor("convStates"), c.Tensor("out")
	lines, modes, heads := c.Ints("cacheIndicesOptional"), c.Ints("initialStateModeOptional"), c.Int("headNum")
	activation, update := c.Int("activationMode"), c.Int("runMode")
	c.DType(x, op.HalfTypes...)
	r := newTokenRuns(c, x, taps)
	c.SameDType(x, taps, states, out)
	c.Rank(states, 3, 3)
	if err := c.Err(); err != nil {
		return nil, err
	}
	width := taps.Shape[0]
	if states.Shape[1] < width-1 || states.Shape[2] != r.channels {
		c.Invalid("%v must be lines of at least %d inputs of %d channels", states, width-1, r.channels)
	}
	if bias != nil {
		c.SameDType(x, bias)
		c.Shape(bias, []int64{r.channels}, "one for each channel")
	}
	if activation != 0 && activation != 1 || update != 0 && update != 1 {
		c.Invalid("activationMode is %d and runMode %d; both are 0 or 1", activation, update)
	}
	if c.Ints("numAcceptedTokensOptional") != nil {
		c.Invalid("numAcceptedTokensOptional is not supported; leave it null")
	}
	checkHeads(c, x, out, heads, r.channels)
	n := len(r.bounds)
	for _, list := range []op.Named[[]int64]{{Name: "cacheIndicesOptional", Value: lines}, {Name: "initialStateModeOptional", Value: modes}} {
		if list.Value != nil && len(list.Value) != n {
			c.Invalid("%s has %d entries for %d sequences", list.Name, len(list.Value), n)
		}
	}
	skip := c.Int("padSlotId")
	if c.Err() != nil {
		return nil, c.Err()
	}
	for i := range n {
		if line := lineOf(lines, i); (line != skip || lines == nil) && (line < 0 || line >= states.Shape[0]) {
			c.Invalid("sequence %d has line %d of %v", i, line, states)
		}
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		for i, bound := range r.bounds {
			line := lineOf(lines, i)
			if lines != nil && line == skip || bound[0] == bound[1] || r.channels == 0 {
				continue
			}
			keep := states.View().Select(0, line).Narrow(0, 0, width-1)
			var past kernel.View
			if update == 1 || modes != nil && modes[i] != 0 {
				past = keep
			}
			if heads == 0 {
				if err := convolutionkernel.CausalConv(r.of(out, bound), r.of(x, bound), taps.View(), op.OptionalView(bias), past, keep, activation == 1); err != nil {
					return err
				}
				continue
			}
			to, in := r.byHead(out, bound), r.of(x, bound)
			for h := range heads {
				part := func(v kernel.View, axis int) kernel.View {
					if v.Data == nil {
						return v
					}
					return v.Narrow(axis, h*r.channels/heads, r.channels/heads)
				}
				if err := convolutionkernel.CausalConv(to.Select(1, h), part(in, 1), part(taps.View(), 1), part(op.OptionalView(bias), 0), part(past, 1), part(keep, 1), activation == 1); err != nil {
					return err
				}
			}
		}
		return nil
	}, nil
}

// checkHeads checks an output. With heads, the heads come before the tokens; without heads, its
// shape is that of x.
func checkHeads(c *op.Call, x, out *op.Tensor, heads, channels int64) {
	if heads < 0 || heads > 0 && channels%heads != 0 {
		c.Invalid("headNum is %d; it must divide the %d channels", heads, channels)
		return
	}
	if heads == 0 {
		c.SameShape(x, out)
		return
	}
	want := []int64{heads, x.Shape[0], channels / heads}
	if x.Rank() == 3 {
		want = []int64{x.Shape[0], heads, x.Shape[1], channels / heads}
	}
	c.Shape(out, want, "heads before tokens, headNum of them")
}

// lineOf returns the line of a sequence in the states: lines[i], or i if there is no list.
func lineOf(lines []int64, i int) int64 {
	if lines == nil {
		return int64(i)
	}
	return lines[i]
}

// causalConvGrad is the gradient of causalConv. If there is an activation, yOptional must hold the
// convolution before the activation. inputLayoutOptional is the layout of yOptional and dy; x and
// dxOut are [B,S,D] or [T,D].
func causalConvGrad(c *op.Call) (op.Run, error) {
	x, y, taps, dy := c.Tensor("x"), c.Optional("yOptional"), c.Tensor("weight"), c.Tensor("dy")
	initial, dfinal := c.Optional("initialStateOptional"), c.Optional("dhtOptional")
	dx, dw, db, dinitial := c.Tensor("dxOut"), c.Optional("dwOutOptional"), c.Optional("dbOutOptional"), c.Optional("dh0OutOptional")
	activation, layout := c.Int("activation"), c.Text("inputLayoutOptional")
	c.DType(x, op.FloatTypes...)
	r := newTokenRuns(c, x, taps)
	c.SameDType(x, taps, dy)
	c.Same(x, dx)
	if err := c.Err(); err != nil {
		return nil, err
	}
	if activation < 0 || activation > 2 {
		c.Invalid("activation is %d; use 0 for none, 1 for SiLU or 2 for Swish", activation)
	}
	if activation > 0 && y == nil {
		c.Invalid("yOptional is null; with an activation it holds the convolution before it")
	}
	gradLayout(c, r, layout, dy)
	if y != nil {
		c.Same(dy, y)
	}
	width := taps.Shape[0]
	for _, t := range []*op.Tensor{initial, dfinal, dinitial} {
		if t != nil {
			c.SameDType(x, t)
			c.Shape(t, []int64{int64(len(r.bounds)), width, r.channels}, "the last inputs of each sequence")
		}
	}
	if dw != nil {
		c.Same(taps, dw)
	}
	if db != nil {
		c.SameDType(taps, db)
		c.Shape(db, []int64{r.channels}, "one for each channel")
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	sums := (width + 1) * r.channels
	c.Workspace(4 * sums)
	return func(e *op.Exec) error {
		if r.channels == 0 {
			return nil
		}
		whole := kernel.View{Data: e.Workspace(), DType: dtype.Float32, Shape: []int64{width + 1, r.channels}, Strides: []int64{r.channels, 1}}
		if err := elementwise.Zero(whole); err != nil {
			return err
		}
		g := causalGrad{r, x, y, taps, dy, initial, dfinal, dx, dinitial, layout, activation > 0}
		for i, bound := range r.bounds {
			if bound[0] == bound[1] {
				continue
			}
			if err := g.sequence(int64(i), bound, whole); err != nil {
				return err
			}
		}
		if dw != nil {
			if err := elementwise.Copy(dw.View(), whole.Narrow(0, 0, width)); err != nil {
				return err
			}
		}
		if db != nil {
			return elementwise.Copy(db.View(), whole.Select(0, width))
		}
		return nil
	}, nil
}

// causalGrad is the gradient of the causal convolution of sequences.
type causalGrad struct {
	runs                                          tokenRuns
	x, y, taps, dy, initial, dfinal, dx, dinitial *op.Tensor
	layout                                        string // of y and dy
	activated                                     bool
}

// sequence computes the gradients for sequence i and adds its share of the gradients of the taps
// and the bias to sums.
func (g causalGrad) sequence(i int64, bound [2]int64, sums kernel.View) error {
	width := g.taps.Shape[0]
	state := func(t *op.Tensor, rows int64) kernel.View {
		if t == nil {
			return kernel.View{}
		}
		return t.View().Select(0, i).Narrow(0, width-rows, rows)
	}
	gradient, before := g.byHead(g.dy, bound), g.byHead(g.y, bound)
	n := gradient.Shape[1]
	count := g.runs.channels / n
	for h := range n {
		part := func(v kernel.View, axis int) kernel.View {
			if v.Data == nil {
				return v
			}
			return v.Narrow(axis, h*count, count)
		}
		u := before
		if u.Data != nil {
			u = u.Select(1, h)
		}
		if err := convolutionkernel.CausalConvGrad(part(g.runs.of(g.dx, bound), 1), part(sums.Narrow(0, 0, width), 1), part(sums.Select(0, width), 0), part(state(g.dinitial, width), 1),
			gradient.Select(1, h), u, part(g.runs.of(g.x, bound), 1), part(g.taps.View(), 1), part(state(g.initial, width-1), 1), part(state(g.dfinal, width), 1), g.activated); err != nil {
			return err
		}
	}
	return nil
}

// byHead returns the tokens of a sequence of t as [tokens, heads, channels of a head]. t may be
// nil.
func (g causalGrad) byHead(t *op.Tensor, bound [2]int64) kernel.View {
	switch {
	case t == nil:
		return kernel.View{}
	case g.layout == "BNSD" || g.layout == "NTD":
		return g.runs.byHead(t, bound)
	case g.layout == "BSND" || g.layout == "TND":
		return split(g.runs.of(flat(t, g.x), bound), 1)
	}
	return split(g.runs.of(t, bound), 1)
}

// flat views t, whose channels may be split into heads, with the shape of x.
func flat(t, x *op.Tensor) *op.Tensor {
	if t.Rank() == x.Rank() {
		return t
	}
	f := *t
	f.Shape = slices.Clone(x.Shape)
	f.Strides = append(slices.Clone(t.Strides[:x.Rank()-1]), t.Strides[t.Rank()-1])
	return &f
}

// gradLayout checks the shape of dy for the layout.
func gradLayout(c *op.Call, r tokenRuns, layout string, dy *op.Tensor) {
	packed := r.x.Rank() == 2
	switch layout {
	case "BSH":
		c.SameShape(r.x, dy)
	case "BSND", "TND":
		n := r.x.Rank()
		joined := dy.Rank() == n || dy.Rank() == n+1 && dy.Strides[n-1] == dy.Shape[n]*dy.Strides[n]
		if packed != (layout == "TND") || !joined || dy.Len() != r.x.Len() || !slices.Equal(dy.Shape[:n-1], r.x.Shape[:n-1]) {
			c.Invalid("%v does not lie as %s of %v", dy, layout, r.x)
		}
	case "BNSD", "NTD":
		if packed != (layout == "NTD") || dy.Rank() != r.x.Rank()+1 {
			c.Invalid("%v does not lie as %s of %v", dy, layout, r.x)
			return
		}
		at := r.x.Rank() - 2 // dimension of the heads
		heads := dy.Shape[at]
		if want := append(slices.Clone(r.x.Shape[:at]), heads, r.x.Shape[at], r.channels/max(heads, 1)); !slices.Equal(dy.Shape, want) || heads == 0 || r.channels%heads != 0 {
			c.Invalid("%v does not lie as %s of %v", dy, layout, r.x)
		}
	default:
		c.Invalid("inputLayoutOptional is %q; use BSND, BSH, TND, BNSD or NTD", layout)
	}
}
