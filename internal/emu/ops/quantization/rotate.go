package quantization

import (
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/gemm"
	"github.com/goascend/cann/internal/emu/op"
)

// rotations lists the operators that multiply by small matrices, which spreads outliers, and
// then quantise rows dynamically.
var rotations = op.Table{"RotateQuant": rotateQuant, "FlatQuant": flatQuant, "FlatQuantV2": flatQuant, "FlatQuantV3": flatQuant}.Selects("FlatQuantV3")

// quantRows is an output of rows quantised dynamically to int8 or int4. An int32 output has
// eight int4 elements per element.
type quantRows struct {
	out, scale *op.Tensor
	rows, size int64 // size is the number of elements per row
	most       float64
}

// newQuantRows checks scale and out, which has the shape of x or one int32 for every eight
// elements.
func newQuantRows(c *op.Call, x, out, scale *op.Tensor, types ...dtype.Type) quantRows {
	q := quantRows{out: out, scale: scale, rows: x.Shape[0], size: op.Count(x.Shape[1:])}
	c.Plain(out, scale)
	c.DType(out, types...)
	c.DType(scale, dtype.Float32)
	if out.DType == dtype.Int8 {
		c.SameShape(x, out)
	} else {
		q.most = gemm.MostInt4
		c.FourBits(out, x.Shape)
	}
	c.Shape(scale, []int64{q.rows}, "one for each row")
	return q
}

// write quantises the first n rows of t [rows, size].
func (q quantRows) write(t kernel.View, n int64) error {
	d, scale := gemm.DynamicQuantizer{Most: q.most}, q.scale.View().Narrow(0, 0, n)
	return op.WithInt8(q.out, []int64{n, q.size}, func(into kernel.View) error { return d.Quantize(into.Narrow(0, 0, n), scale, t) })
}

// rotateQuant multiplies every K consecutive elements of a row by the same matrix [K, K].
func rotateQuant(c *op.Call) (op.Run, error) {
	x, rotation := c.Tensor("x"), c.Tensor("rotation")
	if t := c.Optional("alpha"); t != nil {
		c.Invalid("%v: clamping before the quantisation is not supported; pass null", t)
	}
	if c.Bool("trans") || c.Int("scaleAlg") != 0 || c.Float("dstTypeMax") != 0 {
		c.Invalid("trans is %v, scaleAlg %d and dstTypeMax %g; only false, 0 and 0 are supported", c.Bool("trans"), c.Int("scaleAlg"), c.Float("dstTypeMax"))
	}
	if mode := c.Text("roundMode"); mode != "" && mode != "rint" {
		c.Invalid("roundMode is %q; only rint is supported", mode)
	}
	c.Plain(x, rotation)
	c.DType(x, dtype.Float16, dtype.BFloat16)
	c.SameDType(x, rotation)
	c.Rank(x, 2, 2)
	c.Rank(rotation, 2, 2)
	if c.Err() != nil {
		return nil, c.Err()
	}
	if c.Axis(x, c.Int("axis")) != 1 {
		c.Invalid("axis is %d; only the last dimension is supported", c.Int("axis"))
	}
	n, k := x.Shape[1], rotation.Shape[0]
	c.Shape(rotation, []int64{k, k}, "a square")
	if k < 16 || k > 1024 || n < 128 || n > 16000 || n%max(k, 1) != 0 || n%8 != 0 {
		c.Invalid("%v and %v: rows must have 128 to 16000 elements, a multiple of 8 and of the 16 to 1024 of the rotation", x, rotation)
	}
	q := newQuantRows(c, x, c.Tensor("yOut"), c.Tensor("scaleOut"), dtype.Int8, dtype.Int32)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		if x.Len() == 0 {
			return nil
		}
		t, release := kernel.Temporary(x.Shape...)
		defer release()
		parts, rotated := op.Divided(x.View(), 1, n/k), op.Divided(t, 1, n/k)
		matrix, err := rotation.View().Broadcast([]int64{x.Shape[0], k, k})
		if err == nil {
			err = gemm.Gemm(gemm.Product{Out: rotated, A: parts, B: matrix, Alpha: 1})
		}
		if err != nil {
			return err
		}
		return q.write(t, x.Shape[0])
	}, nil
}

// flatQuant multiplies every matrix of x [M, N1, N2] by one matrix from each side, and quantises
// the result to int4 by its largest magnitude. The groups only determine how many matrices are
// processed.
func flatQuant(c *op.Call) (op.Run, error) {
	x, left, right, groups, clip := c.Tensor("x"), c.Tensor("kroneckerP1"), c.Tensor("kroneckerP2"), c.OptionalOf("groupListOptional"), c.Float("clipRatio")
	c.Plain(x, left, right)
	c.DType(x, dtype.Float16, dtype.BFloat16)
	c.SameDType(x, left, right)
	c.Rank(x, 3, 3)
	if !(clip > 0 && clip <= 1) {
		c.Invalid("clipRatio is %g; it must be above 0 and at most 1", clip)
	}
	if c.Has("dstTypeMax") && c.Float("dstTypeMax") != 0 {
		c.Invalid("dstTypeMax is %g; it is for 4-bit floats, which are not supported: use 0", c.Float("dstTypeMax"))
	}
	each := false
	if groups != nil {
		c.Plain(groups)
		c.DType(groups, dtype.Int64)
		c.Rank(groups, 1, 1)
		switch kind := c.Int("groupListType"); kind {
		case 0, 1:
			each = kind == 1
		default:
			c.Invalid("groupListType is %d; 0 is where groups end, 1 how many rows they have", kind)
		}
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	m, n1, n2 := x.Shape[0], x.Shape[1], x.Shape[2]
	if x.Len() == 0 || m > 262144 || n1 > 256 || n2 > 256 {
		c.Invalid("%v must not be empty, and have at most 262144 matrices of 256 x 256", x)
	}
	c.Shape(left, []int64{n1, n1}, "as many as x has rows")
	c.Shape(right, []int64{n2, n2}, "as many as x has columns")
	q := newQuantRows(c, x, c.Tensor("out"), c.Tensor("quantScale"), dtype.Int4, dtype.Int32)
	q.most /= clip
	if err := c.Err(); err != nil {
		return nil, err
	}
	return func(*op.Exec) error {
		ends, err := op.GroupEnds(groups, m, each)
		if err != nil {
			return err
		}
		used := ends[len(ends)-1]
		if used == 0 {
			return nil
		}
		half, release := kernel.Temporary(used, n1, n2)
		defer release()
		t, releaseT := kernel.Temporary(used, n1, n2)
		defer releaseT()
		p1, err := left.View().Broadcast([]int64{used, n1, n1})
		if err != nil {
			return err
		}
		p2, err := right.View().Broadcast([]int64{used, n2, n2})
		if err != nil {
			return err
		}
		if err := gemm.Gemm(gemm.Product{Out: half, A: x.View().Narrow(0, 0, used), B: p2, Alpha: 1}); err != nil {
			return err
		}
		if err := gemm.Gemm(gemm.Product{Out: t, A: p1, B: half, Alpha: 1}); err != nil {
			return err
		}
		t.Shape, t.Strides = []int64{used, q.size}, []int64{q.size, 1}
		return q.write(t, used)
	}, nil
}
