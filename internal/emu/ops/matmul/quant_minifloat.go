package matmul

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/elementwise"
	"github.com/goascend/cann/internal/emu/kernel/fractal"
	gemmkernel "github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/kernel/minifloat"
	"github.com/goascend/cann/internal/emu/op"
)

// minifloatProducts lists the products of floats of eight bits, which only the Ascend950 has.
var minifloatProducts = op.Table{"TransposeQuantBatchMatMul": transposedQuantProduct, "TransposeQuantBatchMatMulWeightNz": transposedQuantProduct}

// minifloatFactor is a factor whose elements kernels cannot multiply. Blocks of its inner dimension may have
// scales of their own.
type minifloatFactor struct {
	t      *op.Tensor
	order  []int64 // the dimensions of t that are the batch, the rows and the columns
	inner  int     // the dimension of t that is summed over
	scales *op.Tensor
}

// wide returns the factor, scaled, in float32.
func (f minifloatFactor) wide() (kernel.View, func(), error) {
	stored, release, err := unpackedNZ(f.t)
	if err != nil {
		return kernel.View{}, release, err
	}
	values, err := minifloat.Read(stored)
	release()
	if err != nil {
		return kernel.View{}, release, err
	}
	if f.scales != nil {
		scales, err := minifloat.Read(f.scales.View())
		if err != nil {
			return kernel.View{}, release, err
		}
		outer := op.ContiguousStrides(f.t.Shape)[f.inner]
		length, pairs := f.t.Shape[f.inner], f.scales.Shape[f.inner]
		for i := range values {
			before, k, after := int64(i)/outer/length, int64(i)/outer%length, int64(i)%outer
			pair := (before*pairs+k/(2*minifloat.BlockSize))*outer + after
			values[i] *= scales[2*pair+k/minifloat.BlockSize%2]
		}
	}
	out, release := kernel.Temporary(f.t.Shape...)
	return op.Permuted(out, f.order), release, elementwise.SetFloats(out, values)
}

// unpackedNZ returns a view of a tensor's elements, copied if they are in FRACTAL_NZ storage.
func unpackedNZ(t *op.Tensor) (v kernel.View, release func(), err error) {
	if !op.IsNZ(t.Format) {
		return t.View(), func() {}, nil
	}
	n, shape := t.Rank(), slices.Clone(t.Shape)
	order := op.InOrder(n)
	if t.Swapped() {
		shape[n-2], shape[n-1] = shape[n-1], shape[n-2]
		order[n-2], order[n-1] = order[n-1], order[n-2]
	}
	dense, release := kernel.TemporaryInt8(shape...)
	err = fractal.Unpack(dense, t.Data, t.NZColumns())
	dense.DType = t.DType
	return op.Permuted(dense, order), release, err
}

// transposedQuantProduct multiplies x1 [M, B, K] by x2 [B, K, N] or [B, N, K] to [M, B, N]. The sums are
// scaled by row and column, or blocks of 32 along K are scaled before (MX), or the sums of HiFloat8
// by a packed scale for each column.
func transposedQuantProduct(c *op.Call) (op.Run, error) {
	x1, x2, out := c.Tensor("x1"), c.Tensor("x2"), c.Tensor("out")
	rows, columns := c.Optional("x1Scale"), c.Tensor("x2Scale")
	if bias := c.Optional("bias"); bias != nil {
		c.Invalid("%v is given; the operator has no bias yet, pass null", bias)
	}
	c.Plain(x1, out, columns)
	c.CheckNZ(x2)
	results := []dtype.Type{dtype.Float16, dtype.BFloat16}
	if x1.DType == dtype.HiFloat8 {
		results = append(results, dtype.HiFloat8)
	}
	c.DType(out, results...)
	if d := c.Int("dtype"); d != int64(out.DType) {
		c.Invalid("dtype is %d and %v has type %d; they must be equal", d, out, out.DType)
	}
	if rows != nil {
		c.Plain(rows)
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	order := c.Ints("permX2")
	inner := slices.Index(order, 1)
	batch, m, n := x1.Dim(1), x1.Dim(0), x2.Dim(3-inner)
	c.Shape(out, []int64{m, batch, n}, "[M, B, N]")
	a, b := minifloatFactor{t: x1, order: []int64{1, 0, 2}, inner: 2}, minifloatFactor{t: x2, order: order, inner: inner}
	round := minifloat.Even
	switch {
	case columns.DType == dtype.Float8E8M0:
		if rows == nil || rows.DType != dtype.Float8E8M0 {
			c.Invalid("%v goes with scales of x1 of the same type, not with %v", columns, rows)
		}
		a.scales, b.scales, rows, columns = rows, columns, nil, nil
	case x1.DType == dtype.HiFloat8:
		round = minifloat.Away
		if rows != nil {
			c.Shape(rows, []int64{1}, "a single scale")
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	return func(*op.Exec) error {
		av, releaseA, err := a.wide()
		defer releaseA()
		if err != nil {
			return err
		}
		bv, releaseB, err := b.wide()
		defer releaseB()
		if err != nil {
			return err
		}
		sums, release := kernel.Temporary(batch, m, n)
		defer release()
		if err := gemmkernel.Gemm(gemmkernel.Product{Out: sums, A: av, B: bv, Alpha: 1}); err != nil {
			return err
		}
		for _, s := range []*op.Tensor{columns, rows} {
			if s == nil {
				continue
			}
			by := scaleView(s.View())
			if s == rows {
				by = op.Column(by)
			}
			if err := elementwise.Map(elementwise.Mul, dtype.Float32, sums, []elementwise.Input{elementwise.Of(sums), elementwise.Of(by)}); err != nil {
				return err
			}
		}
		values, err := elementwise.Doubles(op.Permuted(sums, []int64{1, 0, 2}))
		if err != nil {
			return err
		}
		return minifloat.Write(out.View(), values, round)
	}, nil
}
