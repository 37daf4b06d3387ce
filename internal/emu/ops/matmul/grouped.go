package matmul

import (
	"slices"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/fractal"
	"github.com/goascend/cann/internal/emu/op"
)

var groupedTable = op.Table{
	"GroupedMatmul":         groupedMatmul,
	"GroupedMatmulV2":       groupedMatmul,
	"GroupedMatmulV3":       groupedMatmul,
	"GroupedMatmulV4":       groupedMatmul,
	"GroupedMatmulV5":       groupedMatmul,
	"GroupedMatmulWeightNz": groupedMatmul,
	"GroupedMatmulAdd":      groupedMatmulAdd,
	"GroupedMatmulAddV2":    groupedMatmulAdd,
}.Selects()

// Values of groupType: the axis that the groups divide.
const (
	ungrouped = -1
	groupRows = 0 // M
	groupSum  = 2 // K
)

// Limits of the operator family.
const (
	maxGroups      = 1024  // with one weight tensor
	maxGroupTensor = 128   // tensors in a list
	maxInnerAxis   = 65535 // for the contiguous dimension of x and of weight
)

// grouped is a call of the GroupedMatmul family: it multiplies groups of rows, or of columns, of
// x by the weight of each group.
type grouped struct {
	*op.Call
	x, weight, y                            []*op.Tensor
	bias, scale, offset                     []*op.Tensor
	antiquantScale, antiquantOffset         []*op.Tensor
	perToken                                []*op.Tensor
	groupType, splitItem, listType, actType int64
	groups                                  groupList
	mode                                    groupedMode
	transposedX, transposedWeight           bool
	nz                                      bool
}

// groupedMatmul prepares every version of the operator. Versions differ in their parameters.
func groupedMatmul(c *op.Call) (op.Run, error) {
	g := &grouped{Call: c}
	for _, check := range []func(){
		g.read, g.checkAttributes, g.checkLayout, g.checkReserved, g.checkMode, g.checkForm, g.checkLimits,
	} {
		if check(); c.Err() != nil {
			return nil, c.Err()
		}
	}
	if !slices.ContainsFunc(g.x, func(t *op.Tensor) bool { return t.Len() > 0 }) {
		// As on the device nothing is launched: the output keeps its contents.
		return func(*op.Exec) error { return nil }, nil
	}
	g.checkWeightFormat()
	g.checkOutput()
	if c.Err() != nil {
		return nil, c.Err()
	}
	return g.prepare(), nil
}

// read reads the arguments, whichever version is called.
func (g *grouped) read() {
	g.x, g.weight = g.Tensors("x"), g.Tensors("weight")
	g.y = g.Tensors(g.either("y", "out"))
	for _, list := range []op.Named[[]*op.Tensor]{{Name: "x", Value: g.x}, {Name: "weight", Value: g.weight}, {Name: g.either("y", "out"), Value: g.y}} {
		if len(list.Value) == 0 {
			g.Fail(op.NullPointer, "%s is null or empty", list.Name)
		}
	}
	if g.Err() != nil {
		return
	}
	g.bias, g.scale, g.offset = g.list("biasOptional"), g.list("scaleOptional"), g.list("offsetOptional")
	g.antiquantScale, g.antiquantOffset = g.list("antiquantScaleOptional"), g.list("antiquantOffsetOptional")
	g.perToken = g.list("perTokenScaleOptional")
	g.splitItem, g.listType, g.actType = g.Int("splitItem"), g.attribute("groupListType"), g.attribute("actType")
	g.nz = g.Op.Name == "GroupedMatmulWeightNz"
	g.groups = g.groupList()
	switch {
	case g.Has("groupType"):
		g.groupType = g.Int("groupType")
	case len(g.x) > 1 && len(g.y) > 1 || len(g.x)+len(g.weight)+len(g.y) == 3:
		g.groupType = ungrouped
	default:
		g.groupType = groupRows
	}
	for _, t := range slices.Concat(g.x, g.weight) {
		t.SplitInt32()
	}
}

// either returns the first of the names that the operator declares.
func (g *grouped) either(names ...string) string {
	return names[slices.IndexFunc(names, g.Has)]
}

// list reads an optional list. An empty list, or a list of one tensor of shape [0], counts as
// null.
func (g *grouped) list(name string) []*op.Tensor {
	if !g.Has(name) {
		return nil
	}
	list := g.Tensors(name)
	if len(list) == 1 && slices.Equal(list[0].Shape, []int64{0}) {
		return nil
	}
	return list
}

func (g *grouped) attribute(name string) int64 {
	if !g.Has(name) {
		return 0
	}
	return g.Int(name)
}

// checkAttributes checks the attributes that determine the grouping.
func (g *grouped) checkAttributes() {
	if g.nz && g.groupType == groupSum {
		g.Invalid("groupType 2 has no weight in FRACTAL_NZ; use GroupedMatmulV4 or V5")
	}
	switch g.groupType {
	case ungrouped:
		if g.splitItem != 0 && g.splitItem != 1 {
			g.Invalid("groupType -1 gives several outputs; splitItem must be 0 or 1, not %d", g.splitItem)
		}
	case groupRows, groupSum:
		if g.splitItem < 0 || g.splitItem > 3 {
			g.Invalid("splitItem must be 0 to 3, not %d", g.splitItem)
		}
	default:
		g.Invalid("groupType must be -1 (none), 0 (rows of x) or 2 (the summed axis), not %d", g.groupType)
	}
	if single := g.splitItem >= 2; single && len(g.y) != 1 {
		g.Invalid("splitItem %d writes one output, but there are %d", g.splitItem, len(g.y))
	}
	if g.actType < 0 || g.actType > 5 || g.actType == 3 {
		g.Invalid("actType must be 0 (none), 1 (ReLU), 2 (GELU, tanh), 4 (fast GELU) or 5 (SiLU), not %d", g.actType)
	}
	switch {
	case g.listType < 0 || g.listType > 2:
		g.Invalid("groupListType must be 0 (running sums), 1 (sizes) or 2 (pairs of group and size), not %d", g.listType)
	case g.listType == 2 && g.groupType != groupRows:
		g.Invalid("groupListType 2 needs groupType 0, not %d", g.groupType)
	}
	g.groups.check(g)
}

// checkLayout checks the formats and ranks of the operands and detects which are transposed.
func (g *grouped) checkLayout() {
	for _, t := range g.x {
		g.Rank(t, 2, 6)
	}
	for _, t := range g.weight {
		g.Rank(t, 2, 3)
	}
	if g.Err() != nil {
		return
	}
	for _, t := range slices.Concat(g.x, g.y) {
		if op.IsPrivate(t.Format) {
			g.Invalid("%v must be in ND format", t)
		}
	}
	g.transposedX, g.transposedWeight = g.x[0].Swapped(), g.weight[0].Swapped()
	if one := g.x[0]; g.groupType == groupSum && one.Dim(-1) == 1 && one.Dim(-2) == 1 {
		g.transposedX = true // one element fits both orders; groupType needs the transposed
	}
	for _, t := range g.x {
		if t.Swapped() != g.transposedX && t.Len() > 1 {
			g.Invalid("%v and %v: all tensors of x must be transposed, or none", g.x[0], t)
		}
	}
	for _, t := range g.weight {
		if t.Swapped() != g.transposedWeight {
			g.Invalid("%v and %v: all tensors of weight must be transposed, or none", g.weight[0], t)
		}
		if op.IsPrivate(t.Format) && !op.IsNZ(t.Format) {
			g.Invalid("%v must be in ND or FRACTAL_NZ format", t)
		}
	}
	g.nz = g.nz || op.IsNZ(g.weight[0].Format)
}

// checkReserved refuses parameters that are reserved for later versions.
func (g *grouped) checkReserved() {
	for _, name := range []string{
		"activationInputOptional", "activationQuantScaleOptional", "activationQuantOffsetOptional",
		"activationFeatureOutOptional", "dynQuantScaleOutOptional",
	} {
		if len(g.list(name)) > 0 {
			g.Invalid("%s is reserved; pass null", name)
		}
	}
}

// checkLimits checks the sizes. It runs after the shapes were found consistent.
func (g *grouped) checkLimits() {
	if g.Has("quantGroupSize") {
		size := int64(0)
		if g.x[0].DType == dtype.Int8 && g.weight[0].DType == dtype.Int4 && len(g.offset) == 0 {
			size = 256
		}
		if n := g.Int("quantGroupSize"); n != size && (n != 0 || g.Tiled()) {
			g.Invalid("quantGroupSize is %d; use %d for %v and %v", n, size, g.x[0], g.weight[0])
		}
	}
	for _, list := range []op.Named[[]*op.Tensor]{{Name: "x", Value: g.x}, {Name: "weight", Value: g.weight}} {
		if len(list.Value) > maxGroupTensor {
			g.Invalid("%s has %d tensors; at most %d are supported", list.Name, len(list.Value), maxGroupTensor)
		}
	}
	inner := func(t *op.Tensor, transposed bool) {
		n := t.Dim(-1)
		if transposed {
			n = t.Dim(-2)
		}
		if n > maxInnerAxis {
			g.Invalid("%v: the contiguous one of its last two dimensions is %d; at most %d is supported", t, n, maxInnerAxis)
		}
	}
	for _, t := range g.x {
		inner(t, g.transposedX)
	}
	for _, t := range g.weight {
		inner(t, g.transposedWeight)
	}
	if !g.Has("tuningConfigOptional") {
		return
	}
	rows := int64(0)
	for _, t := range g.x {
		rows = max(rows, t.Dim(0))
	}
	if hint := g.Ints("tuningConfigOptional"); len(hint) > 0 && (hint[0] < 0 || hint[0] > rows) {
		g.Invalid("tuningConfigOptional[0] is %d; the expected rows of a group must be 0 to %d", hint[0], rows)
	}
}

// checkWeightFormat checks weights in FRACTAL_NZ. Like CANN it derives the storage shape from
// the view and ignores the one that the tensor declares.
func (g *grouped) checkWeightFormat() {
	if !g.nz {
		return
	}
	if w, y := g.weight[0], g.y[0]; g.mode == antiquant || g.mode == quantised && y.DType == dtype.Int8 {
		g.Invalid("%v cannot be in FRACTAL_NZ with %v and %v; use ND", w, g.x[0], y)
		return
	}
	rows, cols, known := int64(fractal.Rows), int64(0), true
	switch g.weight[0].DType {
	case dtype.Float16, dtype.BFloat16:
		cols = 16
	case dtype.Int8:
		cols = 32
	case dtype.Int4:
		cols = 64
	default:
		known = false
	}
	for _, t := range g.weight {
		k, n := t.Dim(-2), t.Dim(-1)
		if g.transposedWeight {
			k, n = n, k
		}
		switch {
		case !known:
			g.Invalid("%v: there is no grouped product with a weight of this dtype in FRACTAL_NZ; use ND", t)
		case k%rows != 0 || n%cols != 0:
			g.Invalid("%v in FRACTAL_NZ: of the matrix in memory, %dx%d, rows must be a multiple of %d and columns of %d", t, k, n, rows, cols)
		}
		if g.Err() != nil {
			return
		}
		t.Format = dtype.FractalNZ
		t.Storage = op.NZShape(t.Shape, g.transposedWeight, cols)
		g.CheckNZ(t)
	}
}
