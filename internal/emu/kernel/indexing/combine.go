package indexing

// #include "combine.h"
import "C"

import (
	"fmt"
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/thread"
)

// Combination describes sums of rows. Row r of the result is the sum of row r of each addend and
// of Scale[r, j] · (X[Index[r, j]] + Bias[Group[r, j]]) over j. Sums are computed in fp32.
type Combination struct {
	X       kernel.View   // [rows of X, width], float32, float16 or bfloat16
	Choices int64         // terms per row
	Index   []int64       // [rows, Choices]; a negative index leaves its term out
	Scale   []float32     // [rows, Choices]; nil for ones
	Bias    kernel.View   // [groups, width]; may have no data
	Group   []int64       // [rows, Choices], with Bias
	Addends []kernel.View // at most two, shaped like the result; either may have no data
}

// rows is the number of rows of the result.
func (c *Combination) rows() int64 { return int64(len(c.Index)) / max(c.Choices, 1) }

// Into computes the sums.
func (c *Combination) Into(out kernel.View) error {
	p, err := c.plan(out)
	if err != nil {
		return err
	}
	defer p.end()
	if out.Len() == 0 {
		return nil
	}
	p.c.out = p.row(out)
	for i, a := range c.Addends {
		if p.c.addend[i], err = p.input(a); err != nil {
			return err
		}
	}
	p.run(func(lo, hi C.int64_t) { C.combine_rows(&p.c, lo, hi) })
	return p.finish(out)
}

// ScaleGrad computes the gradient of Scale from that of the result: out[r, j] is the product
// of grad's row r and the j-th term's row, 0 where the term is left out.
func (c *Combination) ScaleGrad(out, grad kernel.View) error {
	p, err := c.plan(grad)
	if err != nil {
		return err
	}
	defer p.end()
	if out.Len() == 0 {
		return nil
	}
	if p.c.grad, err = p.input(grad); err != nil {
		return err
	}
	sums := p.temporary(dtype.Float32, []int64{c.rows(), c.Choices})
	p.c.scale_grad = (*C.float)(sums.Data)
	p.run(func(lo, hi C.int64_t) { C.combine_scale_grad(&p.c, lo, hi) })
	return elementwise.Copy(out, sums)
}

// combinePlan is a combination in C form, with the temporaries it uses.
type combinePlan struct {
	c       C.struct_combine
	rows    int64
	work    int64       // elements per row of the result
	out     kernel.View // packed rows to be copied to the result
	release []func()
}

func (c *Combination) plan(result kernel.View) (*combinePlan, error) {
	width := c.X.Shape[len(c.X.Shape)-1]
	if n := len(result.Shape); n < 2 || result.Shape[n-1] != width || result.Len() != c.rows()*width {
		return nil, fmt.Errorf("kernel: %d rows of %d terms of %v have no result of shape %v", c.rows(), c.Choices, c.X.Shape, result.Shape)
	}
	rows := c.X.Len() / max(width, 1)
	for i, k := range c.Index {
		if k >= rows {
			return nil, fmt.Errorf("row index %d at position %d is out of range for %d rows", k, i, rows)
		}
	}
	p := &combinePlan{rows: c.rows(), work: max(c.Choices*width, 1)}
	p.c.choices, p.c.width = C.int64_t(c.Choices), C.int64_t(width)
	p.c.index = (*C.int64_t)(p.integers(c.Index).Data)
	var err error
	if p.c.x, err = p.input(c.X); err == nil && c.Bias.Data != nil {
		p.c.bias, err = p.input(c.Bias)
		p.c.group = (*C.int64_t)(p.integers(c.Group).Data)
		for i, g := range c.Group {
			if g < 0 || g >= c.Bias.Shape[0] {
				err = fmt.Errorf("group %d at position %d is out of range for %d", g, i, c.Bias.Shape[0])
			}
		}
	}
	if c.Scale != nil {
		scale := p.temporary(dtype.Float32, []int64{int64(len(c.Scale))})
		copy(scale.Floats(), c.Scale)
		p.c.scale = (*C.float)(scale.Data)
	}
	if err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

func (p *combinePlan) temporary(d dtype.Type, shape []int64) kernel.View {
	v, release := kernel.TemporaryOf(d, shape...)
	p.release = append(p.release, release)
	return v
}

func (p *combinePlan) integers(x []int64) kernel.View {
	v := p.temporary(dtype.Int64, []int64{int64(len(x))})
	copy(v.Ints(), x)
	return v
}

// input returns v as packed rows of a type that the kernel reads. A view without data stays
// empty.
func (p *combinePlan) input(v kernel.View) (C.struct_operand, error) {
	if v.Data == nil {
		return C.struct_operand{}, nil
	}
	if !slices.Contains([]dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16}, v.DType) {
		return C.struct_operand{}, fmt.Errorf("kernel: rows of %v cannot be combined", v.DType)
	}
	if step, ok := v.RowStep(); ok {
		return operand(v.Data, v.DType, []int64{step}), nil
	}
	whole := p.temporary(v.DType, v.Shape)
	return operand(whole.Data, whole.DType, []int64{v.Shape[len(v.Shape)-1]}), elementwise.Copy(whole, v)
}

// row returns packed rows for the result: its own memory, or a temporary that finish copies.
func (p *combinePlan) row(out kernel.View) C.struct_operand {
	p.out = out
	step, ok := out.RowStep()
	if !ok {
		p.out, step = p.temporary(out.DType, out.Shape), out.Shape[len(out.Shape)-1]
	}
	return operand(p.out.Data, p.out.DType, []int64{step})
}

func (p *combinePlan) run(f func(lo, hi C.int64_t)) {
	thread.Parallel(p.rows, max(thread.Grain/p.work, 1), func(lo, hi int64) { f(C.int64_t(lo), C.int64_t(hi)) })
}

func (p *combinePlan) finish(out kernel.View) error {
	if p.out.Data == out.Data {
		return nil
	}
	return elementwise.Copy(out, p.out)
}

func (p *combinePlan) end() {
	for _, f := range p.release {
		f()
	}
}

// Rows sets row i of out to row places[i] of x, for any element type.
func Rows(out, x kernel.View, places []int64) error {
	at, release := kernel.TemporaryOf(dtype.Int64, int64(len(places)), 1)
	defer release()
	copy(at.Ints(), places)
	return Gather(out, x, 0, at)
}
