package matmul

import (
	"slices"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
)

// groupedMode is the arithmetic of a grouped product. It follows from the element types.
type groupedMode int

const (
	plainProduct  groupedMode = iota
	antiquant                 // float x, integer weight: the weight is scaled before the product
	quantised                 // int8 x and weight: the product is scaled
	quantisedA8W4             // int8 x, int4 weight
	quantisedA4W4             // int4 x and weight
)

// modes maps the pairs of element types to their arithmetic.
var modes = []struct {
	x, weight []dtype.Type
	mode      groupedMode
}{
	{[]dtype.Type{dtype.BFloat16, dtype.Float16}, []dtype.Type{dtype.Int8, dtype.Int4}, antiquant},
	{[]dtype.Type{dtype.Int8}, []dtype.Type{dtype.Int8}, quantised},
	{[]dtype.Type{dtype.Int8}, []dtype.Type{dtype.Int4}, quantisedA8W4},
	{[]dtype.Type{dtype.Int4}, []dtype.Type{dtype.Int4}, quantisedA4W4},
}

// checkMode finds the mode and checks the types and shapes that it requires.
func (g *grouped) checkMode() {
	x, w, y := g.x[0], g.weight[0], g.y[0]
	for _, list := range [][]*op.Tensor{g.x, g.weight, g.y, g.bias, g.scale, g.antiquantScale, g.antiquantOffset} {
		if len(list) > 0 {
			g.SameDType(list[0], list...)
		}
	}
	g.mode = -1
	if x.DType == w.DType && slices.Contains(op.FloatTypes, x.DType) {
		g.mode = plainProduct
	}
	for _, m := range modes {
		if slices.Contains(m.x, x.DType) && slices.Contains(m.weight, w.DType) {
			g.mode = m.mode
		}
	}
	if g.mode < 0 {
		g.Invalid("no grouped product of %v and %v; use float32, float16 or bfloat16 for both, an int8 or int4 weight, or int8 or int4 for both", x, w)
	}
	if g.Err() != nil {
		return
	}
	if g.mode != quantised && g.actType != 0 {
		g.Invalid("actType %d needs int8 operands and a float16 or bfloat16 output", g.actType)
	}
	if len(g.offset) > 0 && g.mode != quantisedA8W4 {
		g.Invalid("offsetOptional must be null for %v and %v", x, w)
	}
	if (g.mode == plainProduct || g.mode == antiquant) && (len(g.scale) > 0 || len(g.perToken) > 0) {
		g.Invalid("scaleOptional and perTokenScaleOptional must be null for %v and %v", x, w)
	}
	if g.mode != antiquant && len(g.antiquantScale)+len(g.antiquantOffset) > 0 {
		g.Invalid("antiquantScaleOptional and antiquantOffsetOptional must be null for %v and %v", x, w)
	}
	switch g.mode {
	case plainProduct, antiquant:
		g.types(g.bias, g.biasTypes()...)
		g.SameDType(x, y)
		if x.DType == dtype.Float32 && g.Op.Name == "GroupedMatmul" {
			g.Invalid("%v: GroupedMatmul has no float32; use GroupedMatmulV2 or later", x)
		}
		if g.mode == antiquant {
			g.checkAntiquant()
		}
	case quantised:
		g.checkQuantised()
	default:
		g.checkInt4()
	}
}

// biasTypes are the element types of the bias of a product that is not quantised, or of which only the weight is.
func (g *grouped) biasTypes() []dtype.Type {
	x := g.x[0].DType
	switch newer := g.Chip() == acceptance.Ascend950; {
	case newer && (g.mode == plainProduct || x == dtype.BFloat16):
		return []dtype.Type{x, dtype.Float32}
	case x == dtype.BFloat16:
		return []dtype.Type{dtype.Float32}
	}
	return []dtype.Type{x}
}

// types refuses the first tensor of a list whose type is not among the given ones.
func (g *grouped) types(list []*op.Tensor, allowed ...dtype.Type) {
	if len(list) > 0 {
		g.DType(list[0], allowed...)
	}
}

func (g *grouped) checkAntiquant() {
	x, w := g.x[0], g.weight[0]
	if g.groupType == groupSum {
		g.Invalid("groupType 2 takes no quantised weight such as %v", w)
	}
	single := w.DType == dtype.Int4 && len(g.weight) == 1 && g.groupType != ungrouped // whose offsets may be missing
	switch newer := g.Chip() == acceptance.Ascend950; {
	case newer && len(g.antiquantScale) == 0:
		g.Fail(op.NullPointer, "antiquantScaleOptional is null; %v needs it", w)
	case len(g.antiquantScale) == 0 && single:
		g.Invalid("%v needs antiquantScaleOptional", w)
	case !newer && (len(g.antiquantScale) == 0 || len(g.antiquantOffset) == 0 && !single):
		g.Invalid("%v needs antiquantScaleOptional and antiquantOffsetOptional", w)
	}
	g.types(g.antiquantScale, x.DType)
	g.types(g.antiquantOffset, x.DType)
	for _, list := range []op.Named[[]*op.Tensor]{{Name: "antiquantScaleOptional", Value: g.antiquantScale}, {Name: "antiquantOffsetOptional", Value: g.antiquantOffset}} {
		if len(list.Value) > 0 {
			g.checkScale(list.Name, list.Value, w.DType == dtype.Int4)
		}
	}
	g.checkBlocks()
	g.wholeBytes(g.weight)
}

// checkBlocks refuses scales and offsets of an int4 weight that cut K into blocks of several sizes, and blocks of an odd size if the weight is transposed: such
// a block begins in the middle of a byte.
func (g *grouped) checkBlocks() {
	if g.Err() != nil || g.weight[0].DType != dtype.Int4 {
		return
	}
	first, blocked := g.antiquantScale[0], g.antiquantScale[0].Rank() == g.weight[0].Rank()
	size := g.weight[0].Dim(-2) / g.blocks(first)
	for i, w := range g.weight {
		both := []*op.Tensor{g.antiquantScale[i]}
		if len(g.antiquantOffset) > 0 {
			both = append(both, g.antiquantOffset[i])
		}
		for _, t := range both {
			if t.Rank() != first.Rank() || blocked && w.Dim(-2)/g.blocks(t) != size {
				g.Invalid("%v cuts the %d rows of %v into blocks of %d, and %v into blocks of %d; all must have one size", t, w.Dim(-2), w, w.Dim(-2)/g.blocks(t), first, size)
			}
		}
	}
	if g.transposedWeight && blocked && size%2 != 0 {
		g.Invalid("%v cuts the rows of %v, which is transposed, into blocks of %d; that must be even", first, g.weight[0], size)
	}
}

func (g *grouped) checkQuantised() {
	y := g.y[0]
	switch early := g.Class("groupListOptional") == op.IntArrayClass; { // V1 and V2 take more forms
	case g.groupType == groupSum:
		g.Invalid("groupType 2 takes no quantised operands such as %v", g.x[0])
	case g.Op.Name == "GroupedMatmulWeightNz":
		g.checkSingleForm()
	case !early && (g.groupType != groupRows || len(g.x) != 1):
		g.Invalid("%v and %v need groupType 0 and one x; there are %d", g.x[0], g.weight[0], len(g.x))
	}
	g.DType(y, dtype.Int8, dtype.BFloat16, dtype.Float16, dtype.Int32)
	if g.Err() != nil {
		return
	}
	switch y.DType {
	case dtype.Int32:
		if len(g.scale) > 0 || len(g.perToken) > 0 {
			g.Invalid("scaleOptional and perTokenScaleOptional must be null for %v", y)
		}
		g.types(g.bias, dtype.Int32)
	case dtype.Int8:
		g.types(g.scale, dtype.Uint64, dtype.Int64)
		g.types(g.bias, dtype.Int32)
		if len(g.perToken) > 0 {
			g.Invalid("perTokenScaleOptional must be null for %v", y)
		}
	case dtype.BFloat16, dtype.Float16:
		g.checkRescaled()
	}
	if len(g.scale) == 0 && y.DType != dtype.Int32 {
		g.Invalid("%v needs scaleOptional", y)
	}
	if g.actType != 0 && y.DType != dtype.Float16 && y.DType != dtype.BFloat16 {
		g.Invalid("actType %d needs a float16 or bfloat16 output, not %v", g.actType, y)
	}
	g.checkScale("scaleOptional", g.scale, false)
	g.checkPerToken()
}

// checkRescaled checks the scales and the bias of a product of int8 whose result is a float. The Ascend950 takes more of them.
func (g *grouped) checkRescaled() {
	y := g.y[0].DType
	scales, biases := []dtype.Type{dtype.Float32}, []dtype.Type{dtype.Int32}
	if y == dtype.BFloat16 {
		scales, biases = append(scales, y), append(biases, y)
	}
	if g.Chip() == acceptance.Ascend950 {
		biases = []dtype.Type{dtype.Int32, y, dtype.Float32}
		if len(g.perToken) == 0 {
			scales = append(scales, dtype.Uint64, dtype.Int64)
		}
	} else if y == dtype.BFloat16 && len(g.bias) > 0 && g.bias[0].DType == dtype.Int32 {
		scales = []dtype.Type{y}
	}
	g.types(g.scale, scales...)
	g.types(g.bias, biases...)
}

// checkInt4 checks the modes with an int4 weight and integer x.
func (g *grouped) checkInt4() {
	g.checkSingleForm()
	w := g.weight[0]
	if g.transposedWeight {
		g.Invalid("%v must not be transposed", w)
	}
	g.DType(g.y[0], dtype.BFloat16, dtype.Float16)
	g.types(g.scale, dtype.Uint64, dtype.Int64)
	if len(g.scale) == 0 {
		g.Invalid("%v needs scaleOptional", w)
	}
	if w.Dim(-1)%8 != 0 {
		g.Invalid("%v: columns must be a multiple of 8", w)
	}
	if g.mode == quantisedA8W4 {
		g.types(g.bias, dtype.Float32)
		if len(g.bias) == 0 || len(g.perToken) == 0 {
			g.Invalid("%v and %v need biasOptional (8 times the scaled weight, summed over K) and perTokenScaleOptional", g.x[0], w)
		}
		if len(g.offset) > 0 {
			g.checkOffset()
		}
		if g.groups.device != nil && g.listType != 1 {
			g.Invalid("%v and %v need groupListType 1, not %d", g.x[0], w, g.listType)
		}
	} else if len(g.bias) > 0 {
		g.Invalid("biasOptional must be null for %v and %v", g.x[0], w)
	}
	if g.listType == 2 {
		g.Invalid("groupListType 2 is not supported for %v and %v", g.x[0], w)
	}
	g.checkScale("scaleOptional", g.scale, true)
	g.checkPerToken()
	g.wholeBytes(g.x)
	g.wholeBytes(g.weight)
}

// checkOffset checks the offsets of an int4 weight, which are multiplied by its scales.
func (g *grouped) checkOffset() {
	g.types(g.offset, dtype.Float32)
	g.DType(g.y[0], dtype.Float16)
	for _, list := range []op.Named[[]*op.Tensor]{{Name: "offsetOptional", Value: g.offset}, {Name: "scaleOptional", Value: g.scale}} {
		g.perWeight(list.Name, list.Value, func(w, _ *op.Tensor, _ int) []int64 { return []int64{1, w.Dim(-1)} })
	}
}

// checkSingleForm requires a single x and a single weight, grouped by rows.
func (g *grouped) checkSingleForm() {
	if g.groupType != groupRows || len(g.x) != 1 || len(g.weight) != 1 || len(g.y) != 1 || g.weight[0].Rank() != 3 {
		g.Invalid("%v and %v need groupType 0, one x, one weight [E,K,N] and one output", g.x[0], g.weight[0])
	}
}

// checkScale checks per-column scales [E,N] or, where the mode allows blocks along K, per-block
// scales [E,G,N].
func (g *grouped) checkScale(name string, list []*op.Tensor, blocks bool) {
	if g.Err() != nil {
		return
	}
	g.perWeight(name, list, func(w, t *op.Tensor, rank int) []int64 {
		if blocks && rank == 2 {
			return []int64{t.Dim(-2), w.Dim(-1)}
		}
		return []int64{w.Dim(-1)}
	})
	if g.Err() != nil {
		return
	}
	for i, t := range list {
		if w, n := g.weight[i], g.blocks(t); n < 1 || w.Dim(-2)%n != 0 {
			g.Invalid("%v cuts the %d rows of %v into %d blocks; they must be equal", t, w.Dim(-2), w, n)
		}
	}
}

// blocks returns the number of blocks along K that have scales of their own.
func (g *grouped) blocks(scale *op.Tensor) int64 {
	if scale.Rank() < g.weight[0].Rank() {
		return 1
	}
	return scale.Dim(-2)
}

func (g *grouped) checkPerToken() {
	if len(g.perToken) == 0 || g.Err() != nil {
		return
	}
	if len(g.perToken) != 1 {
		g.Invalid("perTokenScaleOptional has %d tensors; one is supported", len(g.perToken))
	}
	g.types(g.perToken, dtype.Float32)
	if t := g.perToken[0]; t.Len() != g.x[0].Dim(0) || t.Rank() < 1 || t.Dim(0) != t.Len() {
		g.Invalid("%v must have shape [%d], one scale for each row of x", t, g.x[0].Dim(0))
	}
}

// wholeBytes refuses int4 tensors whose rows do not fill whole bytes, because they cannot be
// unpacked row by row.
func (g *grouped) wholeBytes(list []*op.Tensor) {
	for _, t := range list {
		if t.DType == dtype.Int4 && (t.Len()%2 != 0 || !denseMatrices(t) || innermost(t)%2 != 0) {
			g.Invalid("%v: int4 tensors must be dense and have an even contiguous dimension", t)
		}
	}
}

// innermost returns the size of the contiguous dimension.
func innermost(t *op.Tensor) int64 {
	if t.Swapped() {
		return t.Dim(-2)
	}
	return t.Dim(-1)
}

// denseMatrices reports whether t is contiguous, possibly after swapping the last two
// dimensions.
func denseMatrices(t *op.Tensor) bool {
	if !t.Swapped() {
		return t.Contiguous()
	}
	s := *t
	n := t.Rank()
	s.Shape, s.Strides = slices.Clone(t.Shape), slices.Clone(t.Strides)
	s.Shape[n-1], s.Shape[n-2] = s.Shape[n-2], s.Shape[n-1]
	s.Strides[n-1], s.Strides[n-2] = s.Strides[n-2], s.Strides[n-1]
	return s.Contiguous()
}
