package communication

import (
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/ops/matmul"
)

// columnExchanges exchange blocks of columns for blocks of rows, before a product or after it.
var columnExchanges = op.Table{
	"AlltoAllMatmul": exchangeThenProduct, "AlltoAllMatmulV2": exchangeThenProduct,
	"AlltoAllQuantMatmul": exchangeThenProduct, "AlltoAllQuantMatmulV2": exchangeThenProduct,
	"MatmulAlltoAll": productThenExchange, "MatmulAlltoAllV2": productThenExchange,
	"QuantMatmulAlltoAll": productThenExchange, "QuantMatmulAlltoAllV2": productThenExchange,
}

// Ways in which a factor is quantised, x1QuantMode and x2QuantMode.
const (
	quantColumns = 2 // a scale for each column
	quantRows    = 3 // a scale for each row
	quantDynamic = 7 // the operator quantises each row
)

// engine refuses modes of communication that the chip does not have; a2 and a3 list the modes of Atlas A2 and A3.
func engine(c *op.Call, a2, a3 string) {
	if !c.Has("commMode") {
		return
	}
	modes := []string{a2}
	switch c.Chip() {
	case acceptance.Ascend910_93:
		modes = []string{a3}
	case acceptance.Ascend950:
		modes = []string{"ai_cpu", "ccu"}
	}
	if mode := c.RequiredText("commMode"); c.Err() == nil && !slices.Contains(modes, mode) {
		c.Invalid("commMode is %q; this chip has %q", mode, modes)
	}
}

// groupOf returns the communicator of a group of 2, 4 or 8 ranks, or of 16 where the chip allows it.
func groupOf(c *op.Call, sixteen bool) op.Communicator {
	comm := c.Communicator("group")
	if n := comm.Size; c.Err() == nil && n != 2 && n != 4 && n != 8 && (n != 16 || !sixteen) {
		c.Unfit("the group has %d ranks; the kernel takes 2, 4 or 8, and 16 with AlltoAllMatmul and MatmulAlltoAll on an Atlas A3", n)
	}
	return comm
}

// exchanged is a product that exchanges columns for rows: its own columns, or the columns of its factor x1.
type exchanged struct {
	*op.Call
	comm            op.Communicator
	x1, x2, out     *op.Tensor
	bias            *op.Tensor
	quant           bool
	scale, rowScale *op.Tensor
	transposed      bool // x2
	n               int64
}

// newExchanged reads the arguments that all of these operators have. axes lists the values that alltoAllAxesOptional may have.
func newExchanged(c *op.Call, axes ...int64) *exchanged {
	quant := strings.Contains(c.Op.Name, "Quant")
	c.Needs("x1", "x2", "x1Scale", "x2Scale", "output")
	if quant {
		if c.Chip() == acceptance.Ascend950 {
			c.Invalid("the Ascend950 takes factors of float8 and float4 here, which the emulator does not compute")
		}
		if c.Has("x1Scale") { // the kernel of QuantMatmulAlltoAll on an Atlas A2 always adds a bias
			c.Needs("biasOptional")
		}
	}
	p := &exchanged{Call: c, x1: c.Tensor("x1"), x2: c.Tensor("x2"), out: c.Tensor("output"), bias: c.Optional("biasOptional"), quant: quant, transposed: c.Bool("transposeX2")}
	if given := c.Ints("alltoAllAxesOptional"); len(given) != 0 && !slices.Equal(given, axes) {
		c.Invalid("alltoAllAxesOptional holds %v; use %v or null", given, axes)
	}
	if c.Bool("transposeX1") {
		c.Invalid("transposeX1 is true; only false is supported")
	}
	if quant {
		p.scale, p.rowScale = c.Tensor("x2Scale"), c.OptionalOf("x1Scale", "x1ScaleOptional")
		c.NoneOf("commScaleOptional", "x1OffsetOptional", "x2OffsetOptional")
		for _, a := range []struct {
			name string
			only int64
		}{{"x2QuantMode", quantColumns}, {"commQuantMode", 0}, {"commQuantDtype", -1}, {"groupSize", 0}} {
			if v := c.Int(a.name); v != a.only {
				c.Invalid("%s is %d; only %d is supported", a.name, v, a.only)
			}
		}
	}
	a3 := "ai_cpu"
	if quant {
		a3 = "aiv" // Atlas A3 lacks the quantised operators
	}
	engine(c, "aiv", a3)
	p.comm = groupOf(c, !quant && c.Chip() != acceptance.Ascend910B)
	for _, t := range []*op.Tensor{p.x1, p.x2, p.bias, p.scale, p.rowScale, p.out} {
		if t != nil {
			p.dense(t)
		}
	}
	c.Rank(p.x1, 2, 2)
	c.Rank(p.x2, 2, 2)
	c.DType(p.out, op.HalfTypes...)
	if p.scale != nil {
		c.DType(p.scale, dtype.Float32)
	}
	if c.Err() != nil {
		return p
	}
	p.x1.SplitInt32()
	p.x2.SplitInt32()
	p.n = p.x2.Dim(1)
	if p.transposed {
		p.n = p.x2.Dim(0)
	}
	p.checkBias()
	if p.scale != nil {
		c.Shape(p.scale, []int64{p.n}, "one for each column of the product")
	}
	return p
}

// dense refuses tensors that are not contiguous, which A2 and A3 do not take here.
func (p *exchanged) dense(t *op.Tensor) {
	p.Plain(t)
	p.Dense(t)
}

// checkBias checks the bias: of a plain product float16 with float16 and float32 with bfloat16, of a quantised one
// the type of the result or float32.
func (p *exchanged) checkBias() {
	if p.bias == nil {
		return
	}
	types := []dtype.Type{p.out.DType, dtype.Float32}
	switch {
	case !p.quant && p.out.DType == dtype.Float16:
		types = types[:1]
	case !p.quant:
		types = types[1:]
	}
	p.DType(p.bias, types...)
	p.Shape(p.bias, []int64{p.n}, "one for each column of the product")
}

// inner checks that x2 has k rows, and k against the chip's limits.
func (p *exchanged) inner(k, least, most int64) {
	rows := p.x2.Dim(0)
	if p.transposed {
		rows = p.x2.Dim(1)
	}
	switch {
	case rows != k:
		p.Invalid("%v has %d rows, and the first factor %d columns", p.x2, rows, k)
	case k < least || k > most:
		p.Unfit("the product has %d terms; %d to %d are supported", k, least, most)
	}
}

// multiply returns the computation of out = x · x2 · scale · rows + bias, with the scales of a quantised product.
func (p *exchanged) multiply(out, x, rows *op.Tensor) op.Run {
	if p.quant {
		return scaledProduct(p.Call, out, x, p.x2, p.scale, rows, p.bias, p.transposed)
	}
	x2 := p.Transposed(p.x2, p.transposed)
	return func(*op.Exec) error {
		product := gemm.Product{Out: out.View(), A: x.View(), B: x2.View(), Alpha: 1}
		if p.bias == nil {
			return gemm.Gemm(product)
		}
		sum, release := kernel.Temporary(out.Shape...)
		defer release()
		product.Out = sum
		if err := gemm.Gemm(product); err != nil {
			return err
		}
		return elementwise.Map(elementwise.Add, dtype.Float32, out.View(), []elementwise.Input{elementwise.Of(sum), elementwise.Of(p.bias.View())}, elementwise.Real(1))
	}
}

// scaledProduct returns the computation of out = x · x2 · scale of each column · rows of each row + bias, with factors of
// int8 or int4. rows and bias may be nil.
func scaledProduct(c *op.Call, out, x, x2, scale, rows, bias *op.Tensor, transposed bool) op.Run {
	if x2.DType == dtype.Int4 && !x2.Contiguous() { // a transposed view: int4 elements share bytes
		x2, transposed = c.Transposed(x2, true), !transposed
	}
	return c.Operate("QuantMatmulV4", matmul.QuantMatmul, map[string]any{
		"x1": x, "x2": x2, "scale": scale, "pertokenScaleOptional": rows, "bias": bias, "transposeX2": transposed, "out": out,
	})
}

// inBytes views contiguous int4 elements as bytes, since collectives do not know int4.
func inBytes(c *op.Call, t *op.Tensor) *op.Tensor {
	if t.DType != dtype.Int4 {
		return t
	}
	if t.Rank() == 0 || t.Dim(-1)%2 != 0 {
		c.Invalid("%v must have an even number of columns, two of which share a byte", t)
		return t
	}
	v := *t
	v.Shape = slices.Clone(t.Shape)
	v.Shape[len(v.Shape)-1] /= 2
	v.DType, v.Offset, v.Strides = dtype.Int8, t.Offset/2, op.ContiguousStrides(v.Shape)
	return c.Alias(v, t)
}

// exchangeThenProduct gives each rank a block of rows with the columns of all ranks, and multiplies them.
func exchangeThenProduct(c *op.Call) (op.Run, error) {
	p := newExchanged(c, -2, -1)
	all := c.Optional("alltoAllOutOptional")
	if c.Err() != nil {
		return nil, c.Err()
	}
	ranks, rows, h := int64(p.comm.Size), p.x1.Dim(0)/int64(p.comm.Size), p.x1.Dim(1)
	mode := int64(0)
	if p.quant {
		mode = c.Int("x1QuantMode")
	}
	if half := slices.Contains(op.HalfTypes, p.x1.DType); mode == quantRows && half {
		mode = quantDynamic // the kernel goes by the type of x1, and looks at x1ScaleOptional with x1QuantMode 7 only
		if p.rowScale != nil {
			c.DType(p.rowScale, dtype.Float32)
			p.rowScale = nil
		}
	} else if mode == quantRows && p.rowScale == nil {
		c.Fail(op.NullPointer, "x1ScaleOptional is null; %v needs it", p.x1)
		return nil, c.Err()
	}
	switch {
	case !p.quant:
		c.DType(p.x1, op.HalfTypes...)
		c.SameDType(p.x1, p.x2, p.out)
	case mode == quantDynamic:
		c.DType(p.x1, op.HalfTypes...)
		c.DType(p.x2, dtype.Int8, dtype.Int4)
		c.SameDType(p.x1, p.out)
		if h*ranks%16 != 0 {
			c.Unfit("%v of %d ranks gives %d columns; with x1QuantMode 7 they must be a multiple of 16", p.x1, ranks, h*ranks)
		}
		if p.rowScale != nil {
			c.SameDType(p.x1, p.rowScale)
			c.Shape(p.rowScale, []int64{h * ranks}, "a factor for each column, by which it is smoothed")
		}
	case mode == quantRows:
		c.DType(p.x1, dtype.Int4)
		c.DType(p.x2, dtype.Int4)
		c.DType(p.rowScale, dtype.Float32)
		c.Shape(p.rowScale, p.x1.Shape[:1], "one for each row of x1")
	default:
		c.Invalid("x1QuantMode is %d; 3 takes scales of rows, 7 quantises the rows", mode)
	}
	a2 := c.Chip() == acceptance.Ascend910B
	if p.x1.Dim(0)%ranks != 0 || p.x1.Dim(0) == 0 && (a2 || p.quant) || p.n == 0 {
		c.Invalid("%v and %v: the rows must divide among %d ranks, and there must be some", p.x1, p.x2, ranks)
	}
	if most := int64(35000); a2 || p.quant {
		p.inner(h*ranks, 1, most)
	} else {
		p.inner(h*ranks, 2, 65535)
	}
	c.Shape(p.out, []int64{rows, p.n}, "a block of the rows of x1, and the columns of x2")
	if c.Err() != nil {
		return nil, c.Err()
	}
	d := p.x1.DType
	own := c.Scratch(d, rows, ranks*h)
	if all != nil {
		p.dense(all)
		all.SplitInt32()
		c.SameDType(p.x1, all)
		c.Shape(all, own.Shape, "the rows of a rank with the columns of all")
		all = inBytes(c, all)
	}
	x, scales := own, (*op.Tensor)(nil)
	if p.quant {
		scales = c.Scratch(dtype.Float32, rows)
	}
	if mode == quantDynamic {
		x = c.Scratch(dtype.Int8, own.Shape...)
	}
	product := p.multiply(p.out, x, scales)
	if c.Err() != nil {
		return nil, c.Err()
	}
	sent, laid := inBytes(c, p.x1), inBytes(c, own)
	width := sent.Dim(1)
	came := c.Scratch(sent.DType, ranks, rows, width)
	c.AllToAll(p.comm, came, sent)
	return func(e *op.Exec) error {
		if own.Len() == 0 {
			return nil
		}
		if err := elementwise.Copy(layout(laid, []int64{rows, ranks, width}, 1, 0, 2), came.View()); err != nil {
			return err
		}
		if all != nil {
			if err := elementwise.Copy(all.View(), laid.View()); err != nil {
				return err
			}
		}
		if mode == quantDynamic {
			q := gemm.DynamicQuantizer{}
			if p.x2.DType == dtype.Int4 {
				q.Most = 7
			}
			if p.rowScale != nil {
				q.Smooth = p.rowScale.As([]int64{1, ranks * h}, []int64{0, 1})
			}
			if err := q.Quantize(x.View(), scales.View(), own.View()); err != nil {
				return err
			}
		}
		if mode == quantRows { // those of the rows that this rank gets
			if err := elementwise.Copy(scales.View(), p.rowScale.View().Narrow(0, int64(p.comm.Rank)*rows, rows)); err != nil {
				return err
			}
		}
		return product(e)
	}, nil
}

// productThenExchange gives each rank a block of the columns of the products of all ranks, below each other.
func productThenExchange(c *op.Call) (op.Run, error) {
	p := newExchanged(c, -1, -2)
	if c.Err() != nil {
		return nil, c.Err()
	}
	if p.quant {
		if mode := c.Int("x1QuantMode"); mode != quantRows {
			c.Invalid("x1QuantMode is %d; only %d, scales of rows, is supported", mode, quantRows)
		}
		c.DType(p.x1, dtype.Int8)
		c.DType(p.rowScale, dtype.Float32)
		c.Shape(p.rowScale, p.x1.Shape[:1], "one for each row of x1")
	} else {
		c.DType(p.x1, op.HalfTypes...)
		c.SameDType(p.x1, p.out)
	}
	c.SameDType(p.x1, p.x2)
	ranks, rows := int64(p.comm.Size), p.x1.Dim(0)
	if p.n%ranks != 0 || p.n < 2 || rows == 0 {
		c.Invalid("%v and %v: the columns of the product must divide among %d ranks, and there must be rows", p.x1, p.x2, ranks)
	}
	p.inner(p.x1.Dim(1), 1, 65535)
	width := p.n / max(ranks, 1)
	c.Shape(p.out, []int64{ranks * rows, width}, "the rows of all ranks, and a block of the columns")
	if c.Err() != nil {
		return nil, c.Err()
	}
	product, sent, came := c.Scratch(p.out.DType, rows, p.n), c.Scratch(p.out.DType, ranks, rows, width), c.Scratch(p.out.DType, p.out.Shape...)
	run := p.multiply(product, p.x1, p.rowScale)
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Compute(func(e *op.Exec) error {
		if err := run(e); err != nil {
			return err
		}
		return elementwise.Copy(sent.View(), layout(product, []int64{rows, ranks, width}, 1, 0, 2))
	})
	c.AllToAll(p.comm, came, sent)
	return c.CopyRun(p.out.View, came.View)
}
