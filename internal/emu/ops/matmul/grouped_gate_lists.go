package matmul

import (
	"slices"
	"strings"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
)

// gateTypes are the element types of x and of a weight with which groupedGateOfLists has kernels on the 910B.
var gateTypes = map[[2]dtype.Type]string{
	{dtype.Int8, dtype.Int8}: "A8W8", {dtype.Int8, dtype.Int4}: "A8W4", {dtype.Int4, dtype.Int4}: "A4W4",
}

// groupedGateOfLists is groupedGate with lists: one weight of all groups, or a weight for each. x may be int4 with int4 weights, whose
// gated rows smoothScale multiplies before they are quantised. groupList may have fewer groups than there are weights.
func groupedGateOfLists(c *op.Call) (op.Run, error) {
	x, rows, groups, smooth := c.Tensor("x"), c.Tensor("xScale"), c.Tensor("groupList"), c.Optional("smoothScale")
	weights, scales, assist := c.Tensors("weight"), c.Tensors("weightScale"), c.Tensors("weightAssistMatrix")
	out, outScale := c.Tensor("output"), c.Tensor("outputScale")
	for _, list := range []op.Named[[]*op.Tensor]{{Name: "weight", Value: weights}, {Name: "weightScale", Value: scales}} {
		switch {
		case list.Value == nil:
			c.Fail(op.NullPointer, "%s is null", list.Name)
		case len(list.Value) == 0:
			c.Invalid("%s has no tensor", list.Name)
		}
	}
	if c.Err() == nil && c.Chip() == acceptance.Ascend950 {
		c.Invalid("x and weight of float8 and float4, which this chip takes, are not emulated")
	}
	c.NoneOf("bias")
	const undefined = 28 // ge::DT_UNDEFINED
	mode := c.Int("dequantMode")
	if n := c.Int("quantMode"); n != 0 {
		c.Invalid("quantMode is %d; on this chip only 0 is supported, a scale for each row of the result", n)
	}
	if n := c.Int("dequantDtype"); n != int64(dtype.Float32) && n != undefined {
		c.Invalid("dequantDtype is %d; on this chip products are dequantised to float32: use 0, or 28 for no type", n)
	}
	q := &quantGroups{Call: c, x: x, rows: rows, groups: groups}
	switch kind := c.Int("groupListType"); kind {
	case 0, 1:
		q.counts = kind == 1
	default:
		c.Invalid("groupListType is %d; 0 is ends, 1 counts", kind)
	}
	if mode != 0 && mode != 1 {
		c.Invalid("dequantMode is %d; 0 is a scale for each column of a weight, 1 for each of equal blocks of its rows too", mode)
	}
	if len(scales) != len(weights) || assist != nil && len(assist) != len(weights) {
		c.Invalid("there are %d weights, %d weightScale and %d weightAssistMatrix; they must be as many", len(weights), len(scales), len(assist))
	}
	if c.Err() != nil {
		return nil, c.Err()
	}
	c.Plain(out, outScale)
	x.SplitInt32()
	for i := range weights {
		part := *q
		part.weight, part.scale, part.member = weights[i], scales[i], true
		if assist != nil {
			part.bias = assist[i]
		}
		if part.checkGate(mode, len(weights) > 1); c.Err() != nil {
			return nil, c.Err()
		}
		q.members = append(q.members, &part)
	}
	first := q.members[0]
	count := int64(len(weights))
	if count == 1 {
		count = first.weight.Dim(0)
		first.members, q = nil, first
	} else {
		q.weight, q.k, q.n = first.weight, first.k, first.n
		for _, part := range q.members {
			if part.n != q.n || part.weight.DType != q.weight.DType {
				c.Invalid("%v and %v must have the same shape and dtype", first.weight, part.weight)
			}
		}
	}
	if c.Rank(groups, 1, 1); c.Err() == nil && (groups.Len() < 1 || groups.Len() > count) {
		c.Invalid("%v must have 1 to %d groups, one for each weight", groups, count)
	}
	kind := gateTypes[[2]dtype.Type{x.DType, first.weight.DType}]
	if kind != "A4W4" && smooth != nil {
		c.Invalid("%v is given; only int4 x and weights have it", smooth)
	}
	if smooth != nil {
		c.Plain(smooth)
		c.DType(smooth, dtype.Float32)
		if !slices.Equal(smooth.Shape, []int64{count}) && !slices.Equal(smooth.Shape, []int64{count, q.n / 2}) {
			c.Invalid("%v must be [%d] or [%d,%d], one for each weight or for each gated column of it", smooth, count, count, q.n/2)
		}
	}
	widest, deepest := int64(10240), int64(20000)
	if kind == "A8W8" {
		deepest = 65536
	}
	if q.n > widest || q.k >= deepest {
		c.Invalid("%v: want at most %d columns and fewer than %d rows", first.weight, widest, deepest)
	}
	return q.gate(out, outScale, smooth)
}

// checkGate checks a weight with its scale and bias: that of all groups, or one of a list, which lacks the dimension of the groups.
func (q *quantGroups) checkGate(mode int64, listed bool) {
	swapped := q.weight.Swapped()
	if swapped {
		v := *q.weight
		v.Shape, v.Strides = slices.Clone(v.Shape), slices.Clone(v.Strides)
		last := v.Rank() - 1
		v.Shape[last], v.Shape[last-1] = v.Shape[last-1], v.Shape[last]
		v.Strides[last], v.Strides[last-1] = v.Strides[last-1], v.Strides[last]
		q.weight, q.transposed = q.Alias(v, q.weight), true
	}
	q.weight.SplitInt32()
	kind, ok := gateTypes[[2]dtype.Type{q.x.DType, q.weight.DType}]
	if !ok {
		q.Invalid("%v and %v: want int8 and int8, int8 and int4, or int4 and int4", q.x, q.weight)
		return
	}
	if strings.Contains(q.Op.Name, "WeightNz") {
		q.weight.Format = dtype.FractalNZ
	}
	nz := op.IsNZ(q.weight.Format)
	if kind == "A8W8" && (!nz || mode != 0) {
		q.Invalid("%v: an int8 weight must be in FRACTAL_NZ, and dequantMode 0", q.weight)
		return
	}
	if (q.bias != nil) != (kind == "A8W4") {
		q.Invalid("weightAssistMatrix belongs to int8 x with int4 weights; there it must be given, and elsewhere null")
		return
	}
	rank, scaleRank := 3, int(2+mode)
	if listed {
		rank, scaleRank = 2, int(1+mode)
	}
	q.Rank(q.scale, scaleRank, scaleRank)
	if q.bias != nil {
		q.Rank(q.bias, rank-1, rank-1)
	}
	if q.Err() != nil {
		return
	}
	if swapped && (kind != "A4W4" || !nz || listed) {
		q.Invalid("%v is transposed; only one int4 weight of all groups in FRACTAL_NZ, with int4 x, may be", q.weight)
		return
	}
	if listed {
		q.weight, q.scale = withGroup(q.Call, q.weight), withGroup(q.Call, q.scale)
		if q.bias != nil {
			q.bias = withGroup(q.Call, q.bias)
		}
	}
	q.bare, q.blocked = kind == "A4W4", mode == 1
	q.scale8, q.scale4 = op.FloatTypes, []dtype.Type{dtype.Uint64, dtype.Int64}
	if q.check(); q.Err() != nil {
		return
	}
	if kind == "A8W8" && (q.k%16 != 0 || q.n%32 != 0) {
		q.Invalid("%v: want rows in sixteens and columns in thirty-twos", q.weight)
	}
	if blocks := q.scale.Dim(1); q.transposed && mode == 1 && q.k/blocks%64 != 0 {
		q.Invalid("%v: the blocks of %d rows of a transposed weight must be multiples of 64", q.scale, q.k/blocks)
	}
}

// withGroup gives a tensor of one group the dimension of the groups.
func withGroup(c *op.Call, t *op.Tensor) *op.Tensor {
	v := *t
	v.Shape, v.Strides = slices.Insert(slices.Clone(t.Shape), 0, 1), slices.Insert(slices.Clone(t.Strides), 0, t.Len())
	if op.IsNZ(t.Format) {
		v.Storage = slices.Insert(slices.Clone(t.Storage), 0, 1)
	}
	return c.Alias(v, t)
}
