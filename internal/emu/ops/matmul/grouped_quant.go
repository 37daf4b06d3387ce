package matmul

import (
	"unsafe"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/fractal"
	gemmkernel "github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/op"
)

// groupedActivations maps actType to its kernel.
var groupedActivations = map[int64]elementwise.Op{
	0: elementwise.Identity, 1: elementwise.Relu, 2: elementwise.GeluTanh, 4: elementwise.FastGelu, 5: elementwise.Swish,
}

// quantised computes y = act((x·w + bias)·scale·perToken) for an int32 bias, and
// act(x·w·scale·perToken + bias) for a bfloat16 bias.
func (g *grouped) quantised() func(*op.Exec, group) error {
	if g.y[0].DType == dtype.Int32 {
		return g.plain
	}
	largest := int64(0)
	for _, y := range g.y {
		largest = max(largest, y.Len())
	}
	sums, scaled := g.buffer(dtype.Int32, largest), g.buffer(dtype.Float32, largest)
	return func(x *op.Exec, p group) error {
		sum, out := sums.view(x, p.y.Shape...), scaled.view(x, p.y.Shape...)
		bias, err := g.biasOf(p)
		if err != nil {
			return err
		}
		before, after := bias, bias
		if bias != nil && bias.DType == dtype.Int32 {
			after = nil
		} else {
			before = nil
		}
		q := p
		q.y = sum
		if err := g.multiply(q, before); err != nil {
			return err
		}
		if err := g.combine(elementwise.Mul, out, sum, scaleView(g.rowOf(g.scale, p.index))); err != nil {
			return err
		}
		return g.finish(p, out, after)
	}
}

// finish multiplies by the per-token scales, adds bias, applies the activation and rounds to the
// output type.
func (g *grouped) finish(p group, scaled kernel.View, bias *kernel.View) error {
	if len(g.perToken) > 0 {
		t := g.perToken[0].View().Narrow(0, p.first, p.y.Shape[0])
		t.Shape, t.Strides = []int64{p.y.Shape[0], 1}, []int64{t.Strides[0], 0}
		if err := g.combine(elementwise.Mul, scaled, scaled, t); err != nil {
			return err
		}
	}
	if bias != nil {
		if err := g.combine(elementwise.Add, scaled, scaled, *bias); err != nil {
			return err
		}
	}
	op := groupedActivations[g.actType]
	if p.y.DType == dtype.Int8 {
		op = elementwise.Round // conversion to the output type saturates
	}
	return elementwise.Map(op, dtype.Float32, p.y, []elementwise.Input{elementwise.Of(scaled)}, elementwise.Real(1))
}

// combine computes out = op(a, b) in float32.
func (g *grouped) combine(op elementwise.Op, out, a, b kernel.View) error {
	return elementwise.Map(op, dtype.Float32, out, []elementwise.Input{elementwise.Of(a), elementwise.Of(b)}, elementwise.Real(1))
}

// scaleView views the float32 scales in the low halves of 64-bit integers.
func scaleView(v kernel.View) kernel.View {
	if v.DType != dtype.Uint64 && v.DType != dtype.Int64 {
		return v
	}
	strides := make([]int64, len(v.Strides))
	for i, s := range v.Strides {
		strides[i] = 2 * s
	}
	return kernel.View{Data: v.Data, DType: dtype.Float32, Shape: v.Shape, Strides: strides}
}

// quantisedInt4 sums blocks of K that have scales of their own: A4W4 is
// y = Σ(x·w·scale)·perToken, A8W4 is y = (Σ((x−8)·w·scale) + Σx·offset + bias)·perToken, where the bias
// corrects for the 8, and the offset may be missing.
func (g *grouped) quantisedInt4() func(*op.Exec, group) error {
	xs, w, y := g.x[0], g.weight[0], g.y[0]
	k, n := w.Dim(1), w.Dim(2)
	sums, part, scaled := g.buffer(dtype.Int32, y.Len()), g.buffer(dtype.Float32, y.Len()), g.buffer(dtype.Float32, y.Len())
	weights := g.unpacked()
	wide := dtype.Int8
	if g.mode == quantisedA8W4 {
		wide = dtype.Int16
	}
	tokens := g.buffer(wide, xs.Len())
	return func(x *op.Exec, p group) error {
		rows := p.y.Shape[0]
		left := tokens.view(x, rows, k)
		var err error
		if g.mode == quantisedA8W4 {
			err = elementwise.Map(elementwise.Add, dtype.Int16, left, []elementwise.Input{elementwise.Of(p.x), elementwise.Const(elementwise.Whole(-8))}, elementwise.Whole(1))
		} else {
			err = gemmkernel.UnpackInt4(left, unsafe.Add(xs.Data, p.first*k/2))
		}
		if err != nil {
			return err
		}
		right, err := weights(x, p.index)
		if err != nil {
			return err
		}
		scale := scaleView(g.rowOf(g.scale, p.index))
		blocks := g.blocks(g.scale[0])
		sum, one, out := sums.view(x, rows, n), part.view(x, rows, n), scaled.view(x, rows, n)
		for b := range blocks {
			size := k / blocks
			row := scale
			if len(scale.Shape) == 2 {
				row = scale.Select(0, b)
			}
			if err := gemmkernel.Gemm(gemmkernel.Product{Out: sum, A: left.Narrow(1, b*size, size), B: right.Narrow(0, b*size, size), Alpha: 1}); err != nil {
				return err
			}
			into := one
			if b == 0 {
				into = out
			}
			if err := g.combine(elementwise.Mul, into, sum, row); err != nil {
				return err
			}
			if b > 0 {
				if err := g.combine(elementwise.Add, out, out, one); err != nil {
					return err
				}
			}
		}
		if len(g.offset) > 0 {
			if err := addOffsets(out, p.x, g.rowOf(g.offset, p.index)); err != nil {
				return err
			}
		}
		bias, err := g.biasOf(p)
		if err != nil {
			return err
		}
		if bias != nil {
			if err := g.combine(elementwise.Add, out, out, *bias); err != nil {
				return err
			}
		}
		return g.finish(p, out, nil)
	}
}

// largestWeight returns the number of elements of the largest weight of a group.
func (g *grouped) largestWeight() (largest int64) {
	for _, w := range g.weight {
		largest = max(largest, w.Dim(-2)*w.Dim(-1))
	}
	return largest
}

// unpacked reserves workspace for the weight of one group as int8 and returns a function that
// fills it.
func (g *grouped) unpacked() func(x *op.Exec, group int64) (kernel.View, error) {
	largest := g.largestWeight()
	wide := g.buffer(dtype.Int8, largest)
	var rowMajor buffer
	if g.nz {
		rowMajor = g.buffer(dtype.Int4, largest)
	}
	return func(x *op.Exec, i int64) (kernel.View, error) {
		w := g.weight[0]
		if len(g.weight) > 1 {
			w, i = g.weight[i], 0
		}
		rows, cols := w.Dim(-2), w.Dim(-1)
		if g.transposedWeight {
			rows, cols = cols, rows
		}
		src := unsafe.Add(w.Data, i*rows*cols/2)
		if g.nz {
			plain := rowMajor.view(x, rows, cols)
			if err := fractal.Unpack(plain, src, w.NZColumns()); err != nil {
				return kernel.View{}, err
			}
			src = plain.Data
		}
		v := wide.view(x, rows, cols)
		if err := gemmkernel.UnpackInt4(v, src); err != nil {
			return v, err
		}
		if g.transposedWeight {
			v.Shape, v.Strides = []int64{cols, rows}, []int64{1, cols}
		}
		return v, nil
	}
}

// antiquant computes y = x·((w + offset)·scale) + bias; the offset may be missing. The weight of a group is dequantised to
// the type of x before the product.
func (g *grouped) antiquant() func(*op.Exec, group) error {
	largest := g.largestWeight()
	shifted, restored := g.buffer(dtype.Float32, largest), g.buffer(g.x[0].DType, largest)
	weights := func(_ *op.Exec, i int64) (kernel.View, error) { return g.weightOf(i), nil }
	if g.weight[0].DType == dtype.Int4 {
		weights = g.unpacked()
	}
	return func(x *op.Exec, p group) error {
		w, err := weights(x, p.index)
		if err != nil {
			return err
		}
		k, n := w.Shape[0], w.Shape[1]
		rowOf := func(list []*op.Tensor, block int64) kernel.View {
			v := g.rowOf(list, p.index)
			if len(v.Shape) == 2 {
				v = v.Select(0, block)
			}
			return v
		}
		wide, narrow := shifted.view(x, k, n), restored.view(x, k, n)
		blocks := int64(1)
		if scale := g.rowOf(g.antiquantScale, p.index); len(scale.Shape) == 2 {
			blocks = scale.Shape[0]
		}
		for b := range blocks {
			size := k / blocks
			part, into := w.Narrow(0, b*size, size), wide.Narrow(0, b*size, size)
			if len(g.antiquantOffset) > 0 {
				if err := g.combine(elementwise.Add, into, part, rowOf(g.antiquantOffset, b)); err != nil {
					return err
				}
				part = into
			}
			if err := g.combine(elementwise.Mul, narrow.Narrow(0, b*size, size), part, rowOf(g.antiquantScale, b)); err != nil {
				return err
			}
		}
		p.weights = narrow
		return g.plain(x, p)
	}
}
