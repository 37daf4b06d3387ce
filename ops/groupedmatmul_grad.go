package ops

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// GroupedMatmulGradArgs describes the gradients of GroupedMatmul without activation: DX[rows g] =
// DOut[rows g]·Weight[g]ᵀ, DWeight[g] = X[rows g]ᵀ·DOut[rows g], and DBias[g] is the sum of
// DOut[rows g]. Nil gradients are not computed. Gradients of empty groups are 0.
type GroupedMatmulGradArgs struct {
	DOut   *aclnn.Tensor // [rows, out], dtype of X
	X      *aclnn.Tensor // [rows, in]
	Weight *aclnn.Tensor // [groups, in, out], as in GroupedMatmulArgs; it is not copied
	Groups Groups
	DX     *aclnn.Tensor // [rows, in], dtype of X
	// DWeight is [groups, in, out] in ND, contiguous or the Transpose(1, 2) of a contiguous
	// [groups, out, in]. DBias is [groups, out], contiguous. Both have the dtype of X, or are
	// float32, which keeps the gradients of 16-bit products unrounded (main gradients).
	DWeight, DBias *aclnn.Tensor
	// Accumulate adds to DWeight and DBias instead of overwriting them.
	Accumulate bool
}

func (a *GroupedMatmulGradArgs) validate() error {
	var c args
	c.grouped(a.X, a.Weight, &a.Groups)
	if !c.OK() {
		return c.Err
	}
	groups, in, out := a.Weight.Dim(0), a.Weight.Dim(1), a.Weight.Dim(2)
	if c.Tensor("DOut", a.DOut, a.X.DType()); c.OK() {
		c.Shape("DOut", a.DOut, a.X.Dim(0), out)
	}
	if c.Optional("DX", a.DX, a.X.DType()) {
		c.Like("DX", a.DX, "X", a.X)
	}
	if c.Optional("DWeight", a.DWeight, a.X.DType(), aclnn.Float32) {
		c.Shape("DWeight", a.DWeight, groups, in, out)
		if c.OK() && !a.DWeight.Contiguous() && !swapped(a.DWeight) {
			c.Fail("DWeight is %v; it must be contiguous, or the transpose of a contiguous tensor", a.DWeight)
		}
	}
	if c.Optional("DBias", a.DBias, a.X.DType(), aclnn.Float32) {
		c.Shape("DBias", a.DBias, groups, out)
		c.Contiguous("DBias", a.DBias)
	}
	return c.Err
}

// groupedSum is a product that accumulates in float32: y[g] += x[rows g]ᵀ·dOut[rows g] for 16-bit
// factors.
type groupedSum struct {
	params  aclnn.Params
	launch  func(s *steps, x, dOut, groups, y *aclnn.Tensor, listType aclnn.GroupListType)
	running bool // it takes cumulative group lists only
}

var (
	addV2 = groupedSum{
		params: &aclnn.GroupedMatmulAddV2Params{},
		launch: func(s *steps, x, dOut, groups, y *aclnn.Tensor, listType aclnn.GroupListType) {
			launch(s, aclnn.GroupedMatmulAddV2, aclnn.GroupedMatmulAddV2Params{
				X: x, Weight: dOut, GroupList: groups, Y: y, TransposeX: true, GroupType: groupSum, GroupListType: listType,
			})
		},
	}
	addV1 = groupedSum{
		params: &aclnn.GroupedMatmulAddParams{}, running: true,
		launch: func(s *steps, x, dOut, groups, y *aclnn.Tensor, _ aclnn.GroupListType) {
			launch(s, aclnn.GroupedMatmulAdd, aclnn.GroupedMatmulAddParams{
				X: x, Weight: dOut, GroupList: groups, Y: y, TransposeX: true, GroupType: groupSum,
			})
		},
	}
)

func (a *GroupedMatmulGradArgs) key() key.GroupedMatmulGrad {
	k := key.GroupedMatmulGrad{
		GroupedMatmul: groupedKey(a.X, a.Weight, &a.Groups), DX: a.DX != nil, DWeight: dtypeOf(a.DWeight), DBias: dtypeOf(a.DBias), Accumulate: a.Accumulate,
	}
	k.Contiguous = contiguous(a.DOut, a.X, a.DX, a.DWeight, a.DBias, a.Groups.Device)
	return k
}

func (v *groupedVersion) backward() Kernel[GroupedMatmulGradArgs, key.GroupedMatmulGrad] {
	return Kernel[GroupedMatmulGradArgs, key.GroupedMatmulGrad]{
		Name: v.name,
		Supports: func(env *Env, k key.GroupedMatmulGrad) error {
			read := k.GroupedMatmul
			if k.DX {
				read = transposed(read)
			}
			return errors.Join(v.supports(env, read), availableAll(groupedVersions[v.split].params, v.sum.params))
		},
		Run: func(ctx context.Context, st *acl.Stream, a *GroupedMatmulGradArgs) error {
			return compose(st, func(s *steps) { a.run(ctx, s, v) })
		},
	}
}

func (a *GroupedMatmulGradArgs) run(ctx context.Context, s *steps, v *groupedVersion) {
	x, dOut := s.Contiguous(a.X), s.Contiguous(a.DOut)
	p := groupedGrad{steps: s, split: &groupedVersions[v.split], sum: v.sum, groups: a.Groups.list(ctx, s, v.sum.running), listType: a.Groups.listType()}
	if v.sum.running {
		p.listType = runningSums
	}
	if a.DX != nil {
		v.launch(s, groupedCall{x: dOut, weight: a.Weight.Transpose(1, 2), groups: p.groups, out: a.DX, groupType: groupRows, listType: p.listType})
	}
	if a.DWeight != nil {
		p.outer(a.DWeight, x, dOut, a.Accumulate)
	}
	if a.DBias != nil {
		// The sum of a group's rows is its product with ones; 16 columns of ones fill a tile.
		ones := s.Tensor(x.DType(), x.Dim(0), 16)
		s.Fill(ones, aclnn.Float(1))
		sums := s.Tensor(aclnn.Float32, a.DBias.Dim(0), 16, a.DBias.Dim(1))
		p.outer(sums, ones, dOut, false)
		s.deliver(a.DBias, sums.Select(1, 0), a.Accumulate)
	}
}

// groupedGrad holds the products of a gradient, whose sums run over the rows of each group.
type groupedGrad struct {
	*steps
	split    *groupedVersion
	sum      *groupedSum
	groups   *aclnn.Tensor
	listType aclnn.GroupListType
}

// outer computes dst[g] = x[rows g]ᵀ·y[rows g], or adds it to dst.
func (p *groupedGrad) outer(dst, x, y *aclnn.Tensor, accumulate bool) {
	if swapped(dst) {
		dst, x, y = dst.Transpose(1, 2), y, x
	}
	wide := dst.DType() != x.DType()
	if !accumulate && (wide || x.Dim(0) == 0) {
		p.Zero(dst) // CANN launches nothing if there are no rows
	}
	product := func(out *aclnn.Tensor) {
		p.split.launch(p.steps, groupedCall{x: x.Transpose(0, 1), weight: y, groups: p.groups, out: out, groupType: groupSum, listType: p.listType})
	}
	switch {
	case x.Dim(0) == 0:
	case wide:
		p.sum.launch(p.steps, x, y, p.groups, dst, p.listType)
	case accumulate:
		out := p.Like(dst)
		product(out)
		p.add(dst, out, 1)
	default:
		product(dst)
	}
}

// newGroupedMatmulGrad prefers the kernels in the order of GroupedMatmul.
func newGroupedMatmulGrad(reg *Registry) *Op[GroupedMatmulGradArgs, key.GroupedMatmulGrad] {
	var kernels []Kernel[GroupedMatmulGradArgs, key.GroupedMatmulGrad]
	for i := range groupedVersions {
		kernels = append(kernels, groupedVersions[i].backward())
	}
	kernels = append(kernels, Kernel[GroupedMatmulGradArgs, key.GroupedMatmulGrad]{
		Name: "per_group",
		Supports: func(_ *Env, k key.GroupedMatmulGrad) error {
			return errors.Join(perGroup(k.GroupedMatmul), availableAll(&aclnn.MatmulParams{}, &aclnn.InplaceAddmmParams{}))
		},
		Run: func(_ context.Context, st *acl.Stream, a *GroupedMatmulGradArgs) error {
			return compose(st, a.perGroup)
		},
	})
	return op(reg, "grouped_matmul_grad", (*GroupedMatmulGradArgs).validate, (*GroupedMatmulGradArgs).key, kernels...)
}

// perGroup queues one product per group.
func (a *GroupedMatmulGradArgs) perGroup(s *steps) {
	for _, t := range []*aclnn.Tensor{a.DWeight, a.DBias} {
		if t != nil && !a.Accumulate {
			s.Zero(t)
		}
	}
	a.Groups.each(func(g, first, rows int64) {
		x, dOut := a.X.Narrow(0, first, rows), a.DOut.Narrow(0, first, rows)
		if a.DX != nil {
			s.weigh(dOut, a.Weight.Select(0, g).Transpose(0, 1), a.DX.Narrow(0, first, rows))
		}
		if w := a.DWeight; w != nil {
			// Casting the factors rather than the product keeps the sum unrounded.
			launch(s, aclnn.InplaceAddmm, aclnn.InplaceAddmmParams{
				Self: w.Select(0, g), Mat1: s.Cast(x, w.DType()).Transpose(0, 1), Mat2: s.Cast(dOut, w.DType()),
				Beta: aclnn.Float(1), Alpha: aclnn.Float(1), CubeMathType: keepDType,
			})
		}
		if a.DBias != nil {
			s.add(a.DBias.Select(0, g), s.sum(s.float(dOut), 0).Squeeze(0), 1)
		}
	})
}
