package matmul

import (
	"slices"

	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/op"
)

// checkForm checks the counts, ranks and sizes of the tensors against the forms that groupType
// and the lists allow.
func (g *grouped) checkForm() {
	if g.transposedX && g.transposedWeight {
		g.Invalid("%v and %v are both transposed; only one may be", g.x[0], g.weight[0])
		return
	}
	switch g.groupType {
	case ungrouped:
		g.checkUngrouped()
	case groupRows:
		g.checkRows()
	case groupSum:
		g.checkSum()
	}
	if g.Err() != nil {
		return
	}
	g.groups.checkLength(g, g.count())
	g.checkBias()
}

// count returns the number of groups.
func (g *grouped) count() int64 {
	switch {
	case g.groupType == groupSum && g.splitItem >= 2:
		return g.y[0].Dim(0)
	case g.weight[0].Rank() == 3:
		return g.weight[0].Dim(0)
	}
	return int64(len(g.weight))
}

func (g *grouped) checkUngrouped() {
	if len(g.x) != len(g.weight) || len(g.x) != len(g.y) {
		g.Invalid("without groups x, weight and the output need as many tensors as each other; there are %d, %d and %d", len(g.x), len(g.weight), len(g.y))
		return
	}
	if g.groups.device != nil {
		g.Invalid("without groups groupListOptional must be null, not %v", g.groups.device)
	}
	if g.transposedX {
		g.Invalid("%v must not be transposed with groupType -1", g.x[0])
	}
	if g.transposedWeight && g.Op.Name == "GroupedMatmul" {
		g.Invalid("%v must not be transposed; use GroupedMatmulV2 or later", g.weight[0])
	}
	for i, x := range g.x {
		g.Rank(g.weight[i], 2, 2)
		if x.Rank() != g.x[0].Rank() {
			g.Invalid("%v and %v must have the same number of dimensions", g.x[0], x)
		}
		g.inner(x, g.weight[i])
	}
}

func (g *grouped) checkRows() {
	if g.transposedX {
		g.Invalid("%v must not be transposed with groupType 0", g.x[0])
	}
	for _, x := range g.x {
		g.Rank(x, 2, 2)
	}
	if g.Err() != nil {
		return
	}
	for _, w := range g.weight {
		if w.Dim(-1) != g.weight[0].Dim(-1) && len(g.y) == 1 {
			g.Invalid("%v and %v must have the same number of columns", g.weight[0], w)
		}
		g.inner(g.x[0], w)
	}
	switch separate := len(g.weight) > 1 || g.weight[0].Rank() == 2; {
	case separate && slices.ContainsFunc(g.weight, func(w *op.Tensor) bool { return w.Rank() != 2 }):
		g.Invalid("the tensors of a weight list must have 2 dimensions")
	case !separate && g.Op.Name == "GroupedMatmul":
		g.Invalid("%v: GroupedMatmul takes one weight of 2 dimensions per group; use GroupedMatmulV2 or later", g.weight[0])
	case len(g.x) > 1:
		if len(g.x) != len(g.weight) || len(g.y) != 1 || !separate {
			g.Invalid("%d tensors of x with groupType 0 need as many weights of 2 dimensions and one output; there are %d and %d", len(g.x), len(g.weight), len(g.y))
		}
		for _, x := range g.x {
			g.inner(x, g.weight[0])
		}
	case g.splitItem < 2:
		if !separate || len(g.y) != len(g.weight) {
			g.Invalid("splitItem %d writes an output for each weight of 2 dimensions; there are %d outputs and %d weights", g.splitItem, len(g.y), len(g.weight))
		}
		if g.groups.host == nil {
			g.Invalid("several outputs of one x need the group list as a host array (GroupedMatmul or GroupedMatmulV2)")
		}
	case g.groups.null() && g.count() > 1:
		g.Invalid("groupListOptional is null, but %v has %d groups", g.weight[0], g.count())
	}
}

func (g *grouped) checkSum() {
	x := g.x[0]
	switch {
	case len(g.x) != 1:
		g.Invalid("groupType 2 takes one x, not %d", len(g.x))
	case !g.transposedX:
		g.Invalid("%v must be transposed with groupType 2: a view of [K,M] in memory", x)
	case g.transposedWeight:
		g.Invalid("%v must not be transposed with groupType 2", g.weight[0])
	case len(g.bias) > 0:
		g.Invalid("biasOptional must be null with groupType 2")
	}
	for _, t := range slices.Concat(g.x, g.weight) {
		g.Rank(t, 2, 2)
	}
	if g.Err() != nil {
		return
	}
	if g.splitItem >= 2 {
		if len(g.weight) != 1 {
			g.Invalid("splitItem %d with groupType 2 takes one weight, not %d", g.splitItem, len(g.weight))
		}
		g.inner(x, g.weight[0])
		g.Rank(g.y[0], 3, 3)
		if g.groups.null() {
			g.Invalid("groupListOptional is null; groupType 2 needs it")
		}
		return
	}
	if len(g.y) != len(g.weight) || !g.groups.null() {
		g.Invalid("%d weights with groupType 2 need as many outputs, not %d, and no group list", len(g.weight), len(g.y))
		return
	}
	sum := int64(0)
	for _, w := range g.weight {
		sum += w.Dim(0)
	}
	if sum > x.Dim(1) {
		g.Invalid("the weights have %d rows together; %v has only %d columns", sum, x, x.Dim(1))
	}
}

// inner refuses operands whose inner dimensions differ.
func (g *grouped) inner(x, w *op.Tensor) {
	if x.Dim(-1) != w.Dim(-2) {
		g.Invalid("%v and %v cannot be multiplied: the inner dimensions are %d and %d", x, w, x.Dim(-1), w.Dim(-2))
	}
}

// perWeight refuses a list that does not match the weights: it must be one tensor [E, …] for a
// single weight [E,K,N], and otherwise one tensor per weight.
func (g *grouped) perWeight(name string, list []*op.Tensor, rest func(w, t *op.Tensor, rank int) []int64) {
	if len(list) == 0 {
		return
	}
	if len(list) != len(g.weight) {
		g.Invalid("%s has %d tensors for %d weights", name, len(list), len(g.weight))
		return
	}
	for i, w := range g.weight {
		want := rest(w, list[i], list[i].Rank())
		if w.Rank() == 3 {
			want = append([]int64{w.Dim(0)}, rest(w, list[i], list[i].Rank()-1)...)
		}
		g.Shape(list[i], want, "for "+w.String())
	}
}

func (g *grouped) checkBias() {
	g.perWeight("biasOptional", g.bias, func(w, _ *op.Tensor, _ int) []int64 { return []int64{w.Dim(-1)} })
}

// checkOutput compares the outputs with the shapes that follow from the operands.
func (g *grouped) checkOutput() {
	n := g.weight[0].Dim(-1)
	switch {
	case g.groupType == ungrouped:
		for i, y := range g.y {
			want := slices.Clone(g.x[i].Shape)
			want[len(want)-1] = g.weight[i].Dim(-1)
			g.Shape(y, want, "rows of x by columns of weight")
		}
	case g.groupType == groupSum && g.splitItem >= 2:
		g.Shape(g.y[0], []int64{g.count(), g.x[0].Dim(0), n}, "a product for each group")
	case g.groupType == groupSum:
		for i, y := range g.y {
			g.Shape(y, []int64{g.x[0].Dim(0), g.weight[i].Dim(1)}, "a product for each group")
		}
	case g.splitItem < 2:
		sizes := g.groups.hostSizes()
		if len(sizes) < len(g.y) {
			g.Invalid("splitItem is %d for %d outputs; a list on the host must give the size of each", g.splitItem, len(g.y))
			return
		}
		for i, y := range g.y {
			g.Shape(y, []int64{sizes[i], g.weight[i].Dim(1)}, "rows of the group by columns of its weight")
		}
	default:
		rows := int64(0)
		for _, x := range g.x {
			rows += x.Dim(0)
		}
		g.Shape(g.y[0], []int64{rows, n}, "rows of x by columns of weight")
	}
}

// group is one product of the call.
type group struct {
	index   int64 // selects the weight, bias and scales
	first   int64 // first row of x, for the per-token scales
	x, y    kernel.View
	weights kernel.View
}

// split divides the operands into the groups that have something to compute. Valid inside Run.
func (g *grouped) split() ([]group, error) {
	if g.groupType == ungrouped {
		return g.each(), nil
	}
	spans, err := g.spans()
	if err != nil {
		return nil, err
	}
	var out []group
	for _, s := range spans {
		p := group{index: s.group, first: s.first}
		if g.groupType == groupSum {
			p.x = g.x[0].View().Narrow(1, s.first, s.size)
			if g.splitItem >= 2 {
				p.weights, p.y = g.weight[0].View().Narrow(0, s.first, s.size), g.y[0].View().Select(0, s.group)
			} else {
				p.weights, p.y = g.weight[s.group].View(), g.y[s.group].View()
			}
			out = append(out, p) // with no terms to sum the product is zero
			continue
		}
		if s.size == 0 {
			continue
		}
		p.weights = g.weightOf(s.group)
		if len(g.x) == 1 {
			p.x = g.x[0].View().Narrow(0, s.first, s.size)
		} else {
			p.x = g.x[s.group].View()
		}
		if g.splitItem >= 2 {
			p.y = g.y[0].View().Narrow(0, s.first, s.size)
		} else {
			p.y = g.y[s.group].View()
		}
		out = append(out, p)
	}
	return out, nil
}

// each returns the products of lists without groups.
func (g *grouped) each() []group {
	var out []group
	for i, x := range g.x {
		if x.Len() > 0 {
			out = append(out, group{index: int64(i), x: x.View(), y: g.y[i].View(), weights: g.weight[i].View()})
		}
	}
	return out
}

// weightOf returns the weight of a group as a matrix.
func (g *grouped) weightOf(i int64) kernel.View {
	if len(g.weight) > 1 || g.weight[0].Rank() == 2 {
		return g.weight[i].View()
	}
	return g.weight[0].View().Select(0, i)
}
