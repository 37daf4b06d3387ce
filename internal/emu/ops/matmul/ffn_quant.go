package matmul

import (
	"slices"
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	gemmkernel "github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/op"
)

// checkQuantised checks the arguments of layers of int8 with int8 weights. scale and offset have one element per
// expert, and scale may have one per column.
func (f *layers) checkQuantised() {
	f.DType(f.weight[0], dtype.Int8)
	f.DType(f.y, dtype.Float16, dtype.BFloat16)
	f.absent("layers of int8", f.antiScale[0], f.antiScale[1], f.antiOffset[0], f.antiOffset[1])
	for i, t := range []*op.Tensor{f.scale, f.offset, f.deqScale[0], f.deqScale[1]} {
		if t == nil {
			f.Invalid("%s is null; layers of int8 need it", []string{"scale", "offset", "deqScale1", "deqScale2"}[i])
		}
	}
	if f.Err() != nil {
		return
	}
	f.Plain(f.scale, f.offset, f.deqScale[0], f.deqScale[1])
	f.DType(f.scale, dtype.Float32)
	f.DType(f.offset, dtype.Float32)
	f.SameDType(f.deqScale[0], f.deqScale[1])
	perColumn := slices.Equal(f.scale.Shape, f.each(f.hidden)) && !slices.Equal(f.scale.Shape, f.perExpert())
	switch {
	case f.y.DType == dtype.BFloat16:
		f.DType(f.deqScale[0], dtype.BFloat16)
	case perColumn:
		f.DType(f.deqScale[0], dtype.Uint64, dtype.Int64)
	default:
		f.DType(f.deqScale[0], dtype.Uint64, dtype.Int64, dtype.Float32)
	}
	if !perColumn {
		f.Shape(f.scale, f.perExpert(), "one for each expert, or for each column as well")
	}
	f.Shape(f.offset, f.perExpert(), "one for each expert")
	for i := range f.weight {
		f.Shape(f.deqScale[i], f.each(f.columns(i)), "one for each column, of each expert")
		if f.bias[i] != nil {
			f.DType(f.bias[i], dtype.Int32)
		}
	}
}

// perExpert returns the shape of a tensor with a number for each expert.
func (f *layers) perExpert() []int64 {
	if len(f.lead) == 0 {
		return []int64{1}
	}
	return f.lead
}

// quantised computes y = (q·w2 + b2)·deqScale2 for q = round(activation((x·w1 + b1)·deqScale1)·scale + offset), of int8.
// As in CANN's kernel, sums for a float16 result are float16, and all steps from the activation to q.
func (f *layers) quantised(expert int64, out, in kernel.View) error {
	var held []func()
	defer func() {
		for _, free := range held {
			free()
		}
	}()
	temporary := func(d dtype.Type, shape ...int64) kernel.View {
		v, free := kernel.TemporaryOf(d, shape...)
		held = append(held, free)
		return v
	}
	layer := func(i int, out, in kernel.View) error {
		return gemmkernel.QuantProduct{
			Out: out, A: in, B: f.of(f.weight[i], expert), Bias: f.of(f.bias[i], expert),
			Scale: scaleView(f.of(f.deqScale[i], expert)),
		}.Run()
	}
	first := dtype.Float32
	if f.y.DType == dtype.Float16 {
		first = dtype.Float16
	}
	sums, h, q := temporary(first, in.Shape[0], f.hidden), temporary(dtype.Float16, in.Shape[0], f.hidden), temporary(dtype.Int8, in.Shape[0], f.hidden)
	if err := layer(0, sums, in); err != nil {
		return err
	}
	if err := f.activate(h, sums); err != nil {
		return err
	}
	for _, step := range []struct {
		op elementwise.Op
		by *op.Tensor
	}{{elementwise.Mul, f.scale}, {elementwise.Add, f.offset}} {
		by := asMatrix(f.of(step.by, expert))
		half := temporary(dtype.Float16, by.Shape...)
		if err := elementwise.Copy(half, by); err != nil {
			return err
		}
		if err := elementwise.Map(step.op, dtype.Float32, h, []elementwise.Input{elementwise.Of(h), elementwise.Of(half)}, elementwise.Real(1)); err != nil {
			return err
		}
	}
	if err := elementwise.Map(elementwise.Round, dtype.Float32, q, []elementwise.Input{elementwise.Of(h)}); err != nil {
		return err
	}
	return layer(1, out, q)
}

// checkWeightQuant checks the arguments of layers of floats with int8 or int4 weights. Scales and offsets are one for
// each column, or for int4 one for each group of rows and column.
func (f *layers) checkWeightQuant() {
	f.DType(f.x, dtype.Float16, dtype.BFloat16)
	f.SameDType(f.x, f.y)
	f.absent("layers with integer weights alone", f.scale, f.offset, f.deqScale[0], f.deqScale[1])
	f.checkBias()
	for i, n := range []string{"1", "2"} {
		scale, offset := f.antiScale[i], f.antiOffset[i]
		if scale == nil || offset == nil {
			f.Invalid("antiquantScale%s or antiquantOffset%s is null; %v needs both", n, n, f.weight[i])
			return
		}
		f.Plain(scale, offset)
		f.SameDType(f.x, scale, offset)
		k, groups := f.weight[i].Dim(-2), int64(1)
		shape := f.each(f.columns(i))
		if f.weight[i].DType == dtype.Int4 {
			if !denseMatrices(f.weight[i]) {
				f.Invalid("%v must be dense: int4 elements share bytes", f.weight[i])
			}
			f.packed[i] = packedOrder(f.Call, f.weight[i], k, f.columns(i))
			if scale.Rank() == len(shape)+1 {
				groups = scale.Dim(-2)
				shape = f.each(groups, f.columns(i))
			}
		}
		f.Shape(scale, shape, "one for each column, or for each group of rows of an int4 weight as well")
		f.Shape(offset, shape, "as antiquantScale"+n)
		if groups < 1 || k%groups != 0 {
			f.Invalid("%v cuts the %d rows of %v into %d groups; they must be equal", scale, k, f.weight[i], groups)
		}
	}
	if f.antiScale[0].Rank() != f.antiScale[1].Rank() {
		f.Invalid("%v and %v must have as many dimensions as each other", f.antiScale[0], f.antiScale[1])
	}
}

// weightQuant computes two layers with the weights (w + antiquantOffset)·antiquantScale.
func (f *layers) weightQuant(expert int64, out, in kernel.View) error {
	first := dtype.Float32
	if f.x.DType == dtype.Float16 {
		first = dtype.Float16
	}
	return f.through(first, out, in, func(i int, out, in kernel.View) error {
		k, n := f.weight[i].Dim(-2), f.columns(i)
		scale, offset := asMatrix(f.of(f.antiScale[i], expert)), asMatrix(f.of(f.antiOffset[i], expert))
		w := gemmkernel.QuantWeight{Scale: scale, Offset: offset, Group: max(k/scale.Shape[0], 1)}
		if f.weight[i].DType == dtype.Int4 {
			w.Packed = unsafe.Add(f.weight[i].Data, expert*k*n/2)
			w.Weight = kernel.View{DType: dtype.Int8, Shape: []int64{k, n}, Strides: f.packed[i]}
		} else {
			w.Weight = f.of(f.weight[i], expert)
		}
		return w.Product(out, in, f.of(f.bias[i], expert))
	})
}
