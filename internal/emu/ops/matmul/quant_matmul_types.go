package matmul

import (
	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
)

// checkQuantTypes refuses combinations of element types that QuantMatmulV3 and V4 refuse on chips whose
// cube unit writes to global memory itself (CheckDtypeValidOnOnlyL0c2out of aclnn_quant_matmul_v4.cpp).
func checkQuantTypes(c *op.Call, x1, x2, scale, offset, bias, rows, out *op.Tensor) {
	if chip := c.Chip(); chip != acceptance.Ascend910B && chip != acceptance.Ascend910_93 {
		return
	}
	is := func(t *op.Tensor, types ...dtype.Type) bool {
		for _, d := range types {
			if t != nil && t.DType == d {
				return true
			}
		}
		return false
	}
	byRow := rows != nil
	four := func(t *op.Tensor) bool { return is(t, dtype.Int4, dtype.Int32) } // an int32 holds eight int4
	alike := x1.DType == x2.DType || four(x2) && (four(x1) || byRow && is(x1, dtype.Int8))
	for _, r := range []struct {
		refused bool
		why     string
	}{
		{!alike, "x1 and x2 must have one element type"},
		{bias != nil && bias.Rank() != 1 && bias.Rank() != 3, "a bias has 1 or 3 dimensions"},
		{four(x2) && c.Flag("transposeX1", "adjX1"), "products of int4 do not take a transposed x1"},
		{four(x2) && x2.Rank() != 2, "products of int4 take an x2 of 2 dimensions"},
		{four(x2) && bias != nil && bias.Rank() != 1, "products of int4 take a bias of 1 dimension"},
		{four(x1) && !byRow && !is(scale, dtype.Int64, dtype.Uint64), "products of int4 without scales of rows take an int64 or uint64 scale"},
		{four(x1) && !byRow && bias != nil && !is(bias, dtype.Int32), "products of int4 without scales of rows take an int32 bias"},
		{four(x1) && !is(out, dtype.Float16, dtype.BFloat16), "products of int4 have a float16 or bfloat16 result"},
		{offset != nil && !is(out, dtype.Int8), "an offset goes with an int8 result"},
		{is(bias, dtype.BFloat16) && !is(out, dtype.BFloat16), "a bfloat16 bias goes with a bfloat16 result"},
		{is(scale, dtype.BFloat16) && !is(out, dtype.BFloat16, dtype.Int32), "a bfloat16 scale goes with a bfloat16 or int32 result"},
		{is(out, dtype.BFloat16) && !is(scale, dtype.BFloat16, dtype.Float32), "a bfloat16 result takes a bfloat16 or float32 scale"},
		{is(out, dtype.Int8) && !is(scale, dtype.Int64, dtype.Uint64), "an int8 result takes an int64 or uint64 scale"},
		{is(out, dtype.Int32) && !is(scale, dtype.Float32, dtype.BFloat16), "an int32 result takes a float32 or bfloat16 scale"},
		{is(out, dtype.Int32) && bias != nil && !is(bias, dtype.Int32), "an int32 result takes an int32 bias"},
		{byRow && is(bias, dtype.Float16) && !is(out, dtype.Float16), "a float16 bias goes with a float16 result"},
		{byRow && !is(out, dtype.Float16, dtype.BFloat16), "scales of rows go with a float16 or bfloat16 result"},
		{byRow && is(out, dtype.Float16) && !is(scale, dtype.Float32, dtype.Uint64), "scales of rows and a float16 result take a float32 or uint64 scale"},
		{!byRow && is(bias, dtype.Float16), "a float16 bias goes with scales of rows"},
		{!byRow && is(bias, dtype.Float32) && !is(out, dtype.BFloat16), "a float32 bias without scales of rows goes with a bfloat16 result"},
		{!byRow && is(out, dtype.Int8, dtype.Float16) && is(scale, dtype.Float32), "a float32 scale without scales of rows goes with a bfloat16 or int32 result"},
	} {
		if r.refused {
			c.Invalid("%v: %s", c, r.why)
		}
	}
}
