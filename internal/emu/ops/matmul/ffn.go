package matmul

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	gemmkernel "github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/op"
)

// feedForwards lists the operators of two linear layers with an activation between them, for one
// expert or for several with their own rows.
var feedForwards = op.Table{"FFN": feedForward, "FFNV2": feedForward, "FFNV3": feedForward}

// feedForwardOps maps the names of activations to kernels, and feedForwardGates those of gated ones: the left half of
// the first layer is multiplied by what the kernel makes of the right half.
var (
	feedForwardOps   = map[string]elementwise.Op{"relu": elementwise.Relu, "gelu": elementwise.GeluTanh, "fastgelu": elementwise.FastGelu, "silu": elementwise.Swish}
	feedForwardGates = map[string]elementwise.Op{"geglu": elementwise.GeluTanh, "swiglu": elementwise.Swish, "reglu": elementwise.Relu}
)

// Limits of the operators.
const (
	layerRows    = 65535 // of a weight
	layerExperts = 256
)

// layers is a call of the operators. The arrays have an element for each layer.
type layers struct {
	*op.Call
	x, y                            *op.Tensor
	weight, bias                    [2]*op.Tensor
	deqScale, antiScale, antiOffset [2]*op.Tensor
	scale, offset                   *op.Tensor // quantise the input of the second layer
	activation                      elementwise.Op
	gated                           bool
	precise                         int64      // innerPrecise: 0 keeps the first layer of float16 in float32
	lead                            []int64    // the number of experts, if weights are stacked
	in, hidden, inner, out          int64      // columns; inner is hidden, or half of it behind a gate
	packed                          [2][]int64 // strides of weights of int4
}

func feedForward(c *op.Call) (op.Run, error) {
	f := &layers{Call: c, x: c.Tensor("x"), y: c.Tensor("y"), scale: given(c, "scale"), offset: given(c, "offset")}
	for i, n := range []string{"1", "2"} {
		f.weight[i], f.bias[i] = c.Tensor("weight"+n), c.Optional(c.Either("bias"+n, "bias"+n+"Optional"))
		f.deqScale[i], f.antiScale[i], f.antiOffset[i] = given(c, "deqScale"+n), given(c, "antiquantScale"+n), given(c, "antiquantOffset"+n)
	}
	name := strings.ToLower(c.RequiredText("activation"))
	if f.activation, f.gated = feedForwardGates[name]; !f.gated {
		known := false
		if f.activation, known = feedForwardOps[name]; !known {
			c.Invalid("activation %q is not supported; use fastgelu, gelu, relu, silu, geglu, reglu or swiglu", c.Text("activation"))
		}
	}
	if f.precise = c.Int("innerPrecise"); f.precise != 0 && f.precise != 1 {
		c.Unfit("Invalid innerPrecise. Attr inner_precise only support 0/1: it is %d", f.precise)
	}
	c.Plain(f.x, f.weight[0], f.weight[1], f.y)
	c.SameDType(f.weight[0], f.weight[1])
	c.Rank(f.x, 2, kernel.MaxRank)
	c.Rank(f.y, 2, kernel.MaxRank)
	c.Rank(f.weight[0], 2, 3)
	if c.Err() != nil {
		return nil, c.Err()
	}
	tokens, total := tokensPerExpert(c)
	if f.checkShapes(tokens != nil, total); c.Err() != nil {
		return nil, c.Err()
	}
	run := f.mode()
	if err := c.Err(); err != nil {
		return nil, err
	}
	rows := op.Count(f.x.Shape[:f.x.Rank()-1])
	flat := func(t *op.Tensor) kernel.View {
		if t.Rank() == 2 {
			return t.View()
		}
		return t.As([]int64{rows, t.Dim(-1)}, []int64{t.Dim(-1), 1})
	}
	return func(*op.Exec) error {
		if f.y.Len() == 0 {
			return nil
		}
		ends := []int64{rows}
		if tokens != nil {
			var err error
			if ends, err = tokens(rows); err != nil {
				return err
			}
			if err := op.Zero(f.y); err != nil { // the rows after the last expert are zero
				return err
			}
		}
		return op.EachGroup(ends, func(g int, first, n int64) error {
			return run(int64(g), flat(f.y).Narrow(0, first, n), flat(f.x).Narrow(0, first, n))
		})
	}, nil
}

// given returns an optional tensor, or nil if it has no elements.
func given(c *op.Call, name string) *op.Tensor {
	if t := c.Optional(c.Either(name, name+"Optional")); t != nil && t.Len() > 0 {
		return t
	}
	return nil
}

// checkShapes checks x, y, the weights and the biases.
func (f *layers) checkShapes(several bool, total int64) {
	experts := int64(1)
	if f.weight[0].Rank() == 3 {
		experts = f.weight[0].Shape[0]
	}
	if several != (f.weight[0].Rank() == 3) || several && total != experts {
		f.Invalid("%v holds %d experts and expertTokens has %d; weights of several experts need one number for each", f.weight[0], experts, total)
	}
	if f.x.Rank() > 2 && !(f.x.Contiguous() && f.y.Contiguous()) {
		f.Invalid("%v and %v must be contiguous to be seen as rows", f.x, f.y)
	}
	f.in, f.hidden, f.out = f.x.Dim(-1), f.weight[0].Dim(-1), f.y.Dim(-1)
	f.lead = f.weight[0].Shape[:f.weight[0].Rank()-2]
	if f.inner = f.hidden; f.gated {
		if f.inner /= 2; f.hidden%2 != 0 {
			f.Invalid("%v must have an even number of columns behind a gate", f.weight[0])
		}
	}
	f.Shape(f.weight[0], f.each(f.in, f.hidden), "as many rows as x has columns")
	f.Shape(f.weight[1], f.each(f.inner, f.out), "the columns of weight1, or behind a gate half of them, and those of y")
	switch {
	case f.in != f.out && !f.gated:
		f.Invalid("%v has %d columns and %v %d; they must be equal", f.x, f.in, f.y, f.out)
	case max(f.in, f.inner) > layerRows:
		f.Invalid("%v and %v may have %d rows", f.weight[0], f.weight[1], layerRows)
	case experts > layerExperts:
		f.Unfit("%v holds %d experts; there may be %d", f.weight[0], experts, layerExperts)
	}
	f.Shape(f.y, append(slices.Clone(f.x.Shape[:f.x.Rank()-1]), f.out), "as x but for the last dimension")
	for i, b := range f.bias {
		if b != nil {
			f.Plain(b)
			f.Shape(b, f.each(f.columns(i)), "one for each column, of each expert")
		}
	}
}

// columns returns the number of columns of a layer.
func (f *layers) columns(i int) int64 { return [2]int64{f.hidden, f.out}[i] }

// each returns a shape for each expert.
func (f *layers) each(shape ...int64) []int64 { return append(slices.Clone(f.lead), shape...) }

// of returns the part of a tensor that belongs to an expert. The tensor may be nil.
func (f *layers) of(t *op.Tensor, expert int64) kernel.View {
	if t == nil || len(f.lead) == 0 {
		return op.OptionalView(t)
	}
	return t.View().Select(0, expert)
}

// mode checks the element types, and returns the function that computes the rows of an expert.
func (f *layers) mode() func(expert int64, out, in kernel.View) error {
	w := f.weight[0]
	if f.Chip() == acceptance.Ascend310P && (f.x.Rank() != 2 || f.x.DType != dtype.Float16 || f.precise != 1 || f.gated || len(f.lead) > 0) {
		f.Invalid("an Ascend310P takes two dimensions of float16, innerPrecise 1, no gate and no experts: %v, %d, %s and %v", f.x, f.precise, f.Text("activation"), w)
	}
	switch {
	case f.gated:
		f.DType(f.x, dtype.Float16)
		if f.precise != 1 || len(f.lead) > 0 {
			f.Invalid("activation %q takes innerPrecise 1 and no experts: it is %d, and %v", f.Text("activation"), f.precise, w)
		}
	case f.x.DType == dtype.Int8:
		f.checkQuantised()
		return f.quantised
	case w.DType == dtype.Int8 || w.DType == dtype.Int4:
		f.checkWeightQuant()
		return f.weightQuant
	}
	f.DType(f.x, op.HalfTypes...)
	f.SameDType(f.x, w, f.y)
	if f.x.DType == dtype.BFloat16 && f.precise != 0 {
		f.Invalid("innerPrecise is %d; it must be 0 with %v", f.precise, f.x)
	}
	f.absent("unquantised layers", f.scale, f.offset, f.deqScale[0], f.deqScale[1], f.antiScale[0], f.antiScale[1], f.antiOffset[0], f.antiOffset[1])
	f.checkBias()
	return f.plain
}

// checkBias checks the type of the biases of floats.
func (f *layers) checkBias() {
	d := dtype.Float32
	if f.x.DType == dtype.Float16 {
		d = dtype.Float16
	}
	for _, b := range f.bias {
		if b != nil {
			f.DType(b, d)
		}
	}
}

// absent refuses tensors that belong to another mode.
func (f *layers) absent(mode string, tensors ...*op.Tensor) {
	for _, t := range tensors {
		if t != nil {
			f.Invalid("%v is given; %s do not have it", t, mode)
		}
	}
}

// plain computes two layers with an activation between them.
func (f *layers) plain(expert int64, out, in kernel.View) error {
	first := dtype.Float32
	if f.precise == 1 {
		first = f.x.DType
	}
	return f.through(first, out, in, func(i int, out, in kernel.View) error {
		return layer(out, in, f.of(f.weight[i], expert), f.of(f.bias[i], expert))
	})
}

// through computes the two layers of floats. CANN's kernels keep the sums of the first one in the given type, and round what
// the activation makes of them to the type of x.
func (f *layers) through(first dtype.Type, out, in kernel.View, layer func(i int, out, in kernel.View) error) error {
	sums, release := kernel.TemporaryOf(first, in.Shape[0], f.hidden)
	defer release()
	if err := layer(0, sums, in); err != nil {
		return err
	}
	h, releaseH := kernel.TemporaryOf(f.x.DType, in.Shape[0], f.inner)
	defer releaseH()
	if err := f.activate(h, sums); err != nil {
		return err
	}
	return layer(1, out, h)
}

// activate sets h to the activated sums of the first layer.
func (f *layers) activate(h, sums kernel.View) error {
	if !f.gated {
		return elementwise.Map(f.activation, dtype.Float32, h, []elementwise.Input{elementwise.Of(sums)}, elementwise.Real(1))
	}
	gate, release := kernel.Temporary(h.Shape...)
	defer release()
	if err := elementwise.Map(f.activation, dtype.Float32, gate, []elementwise.Input{elementwise.Of(sums.Narrow(1, f.inner, f.inner))}, elementwise.Real(1)); err != nil {
		return err
	}
	return elementwise.Map(elementwise.Mul, dtype.Float32, h, []elementwise.Input{elementwise.Of(sums.Narrow(1, 0, f.inner)), elementwise.Of(gate)})
}

// layer computes out = x · weight + bias. bias is one row; its data may be nil.
func layer(out, x, weight, bias kernel.View) error {
	p := gemmkernel.Product{Out: out, A: x, B: weight, Alpha: 1}
	if bias.Data != nil {
		add, err := bias.Broadcast(out.Shape)
		if err != nil {
			return err
		}
		p.Add, p.Beta = &add, 1
	}
	return gemmkernel.Gemm(p)
}

// tokensPerExpert reads how many rows each expert has, or where the rows of each end. The list
// is an array, or a tensor that is read inside Run; the result is nil without a list.
func tokensPerExpert(c *op.Call) (ends func(rows int64) ([]int64, error), experts int64) {
	running := c.Has("tokensIndexFlag") && c.Bool("tokensIndexFlag")
	checked := func(tokens []int64, rows int64) ([]int64, error) {
		tokens = slices.Clone(tokens)
		last := int64(0)
		for i, n := range tokens {
			if !running {
				tokens[i] += last
			}
			if tokens[i] < last || tokens[i] > rows {
				return nil, fmt.Errorf("expertTokens %d of expert %d does not divide %d rows", n, i, rows)
			}
			last = tokens[i]
		}
		return tokens, nil
	}
	if c.Has("expertTokens") {
		list := c.Ints("expertTokens")
		if len(list) == 0 {
			return nil, 0
		}
		return func(rows int64) ([]int64, error) { return checked(list, rows) }, int64(len(list))
	}
	t := c.Optional("expertTokensOptional")
	if t == nil {
		return nil, 0
	}
	c.Plain(t)
	c.DType(t, dtype.Int64)
	c.Rank(t, 1, 1)
	return func(rows int64) ([]int64, error) {
		list, err := elementwise.Indices(t.View())
		if err != nil {
			return nil, err
		}
		return checked(list, rows)
	}, t.Len()
}
