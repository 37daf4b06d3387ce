package ops

import (
	"context"
	"fmt"
	"math"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// WeightQuantGroupedMatmulArgs multiplies the rows of each group by the group's matrix, as GroupedMatmulArgs does, with a weight in codes of int8 or int4: an
// element of it is (code + Offset)·Scale. X, Scale, Offset and Out have one dtype. There is no gradient.
//
// GroupedMatmul of CANN takes float16 and bfloat16, a scale for each output, and with int4 also one for each block of inputs, which have equally many. Its document names
// offsets for whole columns only; the kernels of Atlas A2 and A3 read those of blocks as well. Everything else is dequantised for the call (the kernel dequantised), which needs
// the memory of the whole weight in the dtype of X.
type WeightQuantGroupedMatmulArgs struct {
	X *aclnn.Tensor // [rows, in], float32, float16 or bfloat16
	// Weight is [groups, in, out] of int8, contiguous or the Transpose(1, 2) of a contiguous [groups, out, in]; or contiguous [groups, in, out/8] of int32, with eight
	// codes of int4 in each element, the first in its lowest bits.
	Weight *aclnn.Tensor
	// Scale is [groups, out], or [groups, blocks, out] with one for each block of in/blocks inputs; contiguous.
	Scale *aclnn.Tensor
	// Offset is like Scale, or nil for zeros. CANN wants a tensor: without one each call fills one with zeros.
	Offset *aclnn.Tensor
	Bias   *aclnn.Tensor // [groups, out] or nil; float32 for bfloat16, else the dtype of X
	Groups Groups
	Out    *aclnn.Tensor // [rows, out]
}

func (a *WeightQuantGroupedMatmulArgs) validate() error {
	var c args
	c.Tensor("X", a.X, floats...)
	c.Tensor("Weight", a.Weight, aclnn.Int8, aclnn.Int32)
	if !c.OK() {
		return c.Err
	}
	c.Tensor("Scale", a.Scale, a.X.DType())
	c.Tensor("Out", a.Out, a.X.DType())
	switch {
	case !c.OK():
		return c.Err
	case a.X.Rank() != 2:
		c.Fail("X is %v; it must be [rows, in]", a.X)
	case a.Weight.Rank() != 3 || a.Weight.Len() == 0:
		c.Fail("Weight is %v; it must be [groups, in, out], or [groups, in, out/8] of int32, none of them 0", a.Weight)
	case a.X.Dim(1) != a.Weight.Dim(1):
		c.Fail("X is %v; its columns must be the %d rows of each matrix of Weight %v", a.X, a.Weight.Dim(1), a.Weight)
	case !a.Weight.Contiguous() && (a.packed() || !byColumns(a.Weight)):
		c.Fail("Weight is %v; it must be contiguous, or of int8 and the transpose of a contiguous tensor", a.Weight)
	case a.Scale.Rank() == 3 && (a.Scale.Dim(1) == 0 || a.Weight.Dim(1)%a.Scale.Dim(1) != 0):
		c.Fail("Scale is %v; it must be [groups, out], or [groups, blocks, out] with a number of blocks that divides the %d inputs", a.Scale, a.Weight.Dim(1))
	}
	if !c.OK() {
		return c.Err
	}
	groups, out := a.Weight.Dim(0), a.outputs()
	if a.Scale.Rank() == 3 {
		c.Shape("Scale", a.Scale, groups, a.Scale.Dim(1), out)
	} else {
		c.Shape("Scale", a.Scale, groups, out)
	}
	c.Contiguous("Scale", a.Scale)
	if c.Optional("Offset", a.Offset, a.X.DType()) {
		c.Like("Offset", a.Offset, "Scale", a.Scale)
		c.Contiguous("Offset", a.Offset)
	}
	if c.Optional("Bias", a.Bias, biasType(a.X)) {
		c.Shape("Bias", a.Bias, groups, out)
	}
	c.Shape("Out", a.Out, a.X.Dim(0), out)
	a.Groups.validate(&c, groups, a.X.Dim(0))
	return c.Err
}

// packed reports whether Weight has codes of int4.
func (a *WeightQuantGroupedMatmulArgs) packed() bool { return a.Weight.DType() == aclnn.Int32 }

// packedCodes counts the codes of int4 in an int32.
const packedCodes = 8

func (a *WeightQuantGroupedMatmulArgs) outputs() int64 {
	if a.packed() {
		return packedCodes * a.Weight.Dim(2)
	}
	return a.Weight.Dim(2)
}

// blocks counts the scales along the inputs.
func (a *WeightQuantGroupedMatmulArgs) blocks() int64 {
	if a.Scale.Rank() == 3 {
		return a.Scale.Dim(1)
	}
	return 1
}

func (a *WeightQuantGroupedMatmulArgs) key() key.WeightQuantGroupedMatmul {
	k := key.WeightQuantGroupedMatmul{
		DType: a.X.DType(), Bits: 8, Groups: a.Weight.Dim(0), In: a.Weight.Dim(1), Out: a.outputs(), Blocks: a.blocks(), Rows: key.ExtentOf(a.X.Dim(0)),
		ByRows: a.Weight.Contiguous(), Host: a.Groups.Device == nil, Cumulative: a.Groups.Cumulative, Offset: a.Offset != nil, Bias: a.Bias != nil,
		Contiguous: contiguous(a.X, a.Bias, a.Out, a.Groups.Device),
	}
	if a.packed() {
		k.Bits = 4
	}
	return k
}

// supportsCodes returns why a version cannot take a weight in codes, or nil.
func (v *groupedVersion) supportsCodes(env *Env, k key.WeightQuantGroupedMatmul) error {
	switch {
	case !is16(k.DType):
		return fmt.Errorf("it multiplies codes by float16 and bfloat16, not %v", k.DType)
	case k.Groups > groupLimit:
		return fmt.Errorf("there are more than %d groups", groupLimit)
	case k.In >= innerLimit || k.Out >= innerLimit:
		return fmt.Errorf("a dimension is not below %d", innerLimit)
	case k.Bits == 8 && k.Blocks > 1:
		return fmt.Errorf("int8 codes have a scale for each output there, not for blocks of %d inputs", k.In/k.Blocks)
	}
	return env.Has(v.params)
}

// newWeightQuantGroupedMatmul prefers the newest grouped product.
func newWeightQuantGroupedMatmul(reg *Registry) *Op[WeightQuantGroupedMatmulArgs, key.WeightQuantGroupedMatmul] {
	var kernels []Kernel[WeightQuantGroupedMatmulArgs, key.WeightQuantGroupedMatmul]
	for i := range groupedVersions[1:] { // the first takes FRACTAL_NZ only
		v := &groupedVersions[1+i]
		kernels = append(kernels, Kernel[WeightQuantGroupedMatmulArgs, key.WeightQuantGroupedMatmul]{
			Name: v.name, Supports: v.supportsCodes,
			Run: func(ctx context.Context, st *acl.Stream, a *WeightQuantGroupedMatmulArgs) error {
				return compose(st, func(s *steps) {
					scale, offset := a.Scale, a.Offset
					if offset == nil {
						offset = s.Like(scale)
						s.Zero(offset)
					}
					if !a.packed() && scale.Rank() == 3 { // one block
						scale, offset = scale.Select(1, 0), offset.Select(1, 0)
					}
					v.launch(s, groupedCall{
						x: s.Contiguous(a.X), weight: a.Weight, bias: a.Bias, scale: scale, offset: offset, groups: a.Groups.list(ctx, s, false), out: a.Out,
						groupType: groupRows, listType: a.Groups.listType(),
					})
				})
			},
		})
	}
	kernels = append(kernels, Kernel[WeightQuantGroupedMatmulArgs, key.WeightQuantGroupedMatmul]{
		Name: Dequantised,
		Supports: func(_ *Env, k key.WeightQuantGroupedMatmul) error {
			if k.Bits == 4 {
				return availableAll(&aclnn.BitwiseAndScalarParams{}, &aclnn.BitwiseXorScalarParams{})
			}
			return nil
		},
		Run: func(ctx context.Context, st *acl.Stream, a *WeightQuantGroupedMatmulArgs) error {
			return compose(st, func(s *steps) {
				weight := s.Tensor(a.X.DType(), a.Weight.Dim(0), a.Weight.Dim(1), a.outputs())
				for g := range a.Weight.Dim(0) {
					s.Do(func() error { return a.dequantise(st, g, weight.Select(0, g)) })
				}
				Queue(ctx, &s.Scope, reg.GroupedMatmul(), &GroupedMatmulArgs{X: a.X, Weight: weight, Bias: a.Bias, Groups: a.Groups, Out: a.Out})
			})
		},
	})
	return op(reg, "weight_quant_grouped_matmul", (*WeightQuantGroupedMatmulArgs).validate, (*WeightQuantGroupedMatmulArgs).key, kernels...)
}

// Dequantised is the kernel of WeightQuantGroupedMatmul that makes the whole weight in the dtype of X for each call.
const Dequantised = "dequantised"

// dequantise computes the matrix [in, out] of a group, in float32 until it is rounded once.
func (a *WeightQuantGroupedMatmulArgs) dequantise(st *acl.Stream, group int64, matrix *aclnn.Tensor) error {
	return compose(st, func(s *steps) {
		in, out := a.Weight.Dim(1), a.outputs()
		wide := s.codes(a.Weight.Select(0, group), in, out).Reshape(a.blocks(), in/a.blocks(), out)
		part := func(t *aclnn.Tensor) *aclnn.Tensor { return s.float(t.Select(0, group).Reshape(a.blocks(), 1, out)) }
		if a.Offset != nil {
			s.add(wide, part(a.Offset), 1)
		}
		s.times(wide, part(a.Scale))
		s.Copy(matrix, s.Cast(wide.Reshape(in, out), a.X.DType()))
	})
}

// codes returns the codes of a matrix in float32, [in, out].
func (s *steps) codes(weight *aclnn.Tensor, in, out int64) *aclnn.Tensor {
	if weight.DType() == aclnn.Int8 {
		return s.float(weight)
	}
	wide := s.Tensor(aclnn.Float32, in, out)
	// CANN 8.1 has no shifts. Without the bits of the others a code is a multiple of a power of two, which float32 has exactly. The code in the highest bits has the sign
	// of its int32; the others are made positive by their own highest bit first, which adds 8.
	positive, bits := s.Like(weight), s.Like(weight)
	high := uint32(0x88888888)
	launch(s, aclnn.BitwiseXorScalar, aclnn.BitwiseXorScalarParams{Self: weight, Other: aclnn.ScalarOf(aclnn.Int32, int32(high)), Out: positive})
	each := wide.Reshape(in, out/packedCodes, packedCodes)
	for i := range packedCodes {
		from, add := positive, -8.
		if i == packedCodes-1 {
			from, add = weight, 0
		}
		mask := uint32(15) << (4 * i)
		launch(s, aclnn.BitwiseAndScalar, aclnn.BitwiseAndScalarParams{Self: from, Other: aclnn.ScalarOf(aclnn.Int32, int32(mask)), Out: bits})
		code := s.float(bits)
		s.scale(code, math.Ldexp(1, -4*i))
		s.adds(code, add)
		s.Copy(each.Select(2, int64(i)), code)
		s.Free(code)
	}
	return wide
}
