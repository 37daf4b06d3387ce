package ops

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// GroupedMatmulGradArgs are the gradients of GroupedMatmul before its activation:
// DX[rows g] = DOut[rows g]·Weight[g]ᵀ, DWeight[g] = X[rows g]ᵀ·DOut[rows g], DBias[g] = the
// sum of DOut[rows g]. Those that are nil are not computed. Gradients of empty groups are 0.
type GroupedMatmulGradArgs struct {
	DOut   *aclnn.Tensor // [rows, out], dtype of X
	X      *aclnn.Tensor // [rows, in]
	Weight *aclnn.Tensor // [groups, in, out], as in GroupedMatmulArgs; its memory is used as it is
	Groups Groups
	DX     *aclnn.Tensor // [rows, in], dtype of X
	// DWeight is [groups, in, out] in ND, contiguous or the Transpose(1, 2) of a contiguous
	// [groups, out, in]; DBias is [groups, out], contiguous. Both of the dtype of X, or float32,
	// which keeps the gradients of 16-bit products unrounded (main gradients).
	DWeight, DBias *aclnn.Tensor
	// Accumulate adds to what DWeight and DBias have instead of overwriting it.
	Accumulate bool
}

func (a *GroupedMatmulGradArgs) validate() error {
	var c check
	c.grouped(a.X, a.Weight, &a.Groups)
	if !c.ok() {
		return c.err
	}
	groups, in, out := a.Weight.Dim(0), a.Weight.Dim(1), a.Weight.Dim(2)
	if c.tensor("DOut", a.DOut, a.X.DType()); c.ok() {
		c.shape("DOut", a.DOut, a.X.Dim(0), out)
	}
	if c.optional("DX", a.DX, a.X.DType()) {
		c.like("DX", a.DX, "X", a.X)
	}
	if c.optional("DWeight", a.DWeight, a.X.DType(), aclnn.Float32) {
		c.shape("DWeight", a.DWeight, groups, in, out)
		if c.ok() && !a.DWeight.Contiguous() && !swapped(a.DWeight) {
			c.fail("DWeight is %v; it must be contiguous, or the transpose of a contiguous tensor", a.DWeight)
		}
	}
	if c.optional("DBias", a.DBias, a.X.DType(), aclnn.Float32) {
		c.shape("DBias", a.DBias, groups, out)
		c.contiguous("DBias", a.DBias)
	}
	return c.err
}

// groupedSum is a product that adds to float32: y[g] += x[rows g]ᵀ·dOut[rows g] for 16-bit
// factors.
type groupedSum struct {
	params  aclnn.Params
	launch  func(s *steps, x, dOut, groups, y *aclnn.Tensor, listType int64)
	running bool // it takes running sums only
}

var (
	addV2 = groupedSum{
		params: &aclnn.GroupedMatmulAddV2Params{},
		launch: func(s *steps, x, dOut, groups, y *aclnn.Tensor, listType int64) {
			launch(s, aclnn.GroupedMatmulAddV2, aclnn.GroupedMatmulAddV2Params{
				X: x, Weight: dOut, GroupList: groups, YRef: y, TransposeX: true, GroupType: groupSum, GroupListType: listType,
			})
		},
	}
	addV1 = groupedSum{
		params: &aclnn.GroupedMatmulAddParams{}, running: true,
		launch: func(s *steps, x, dOut, groups, y *aclnn.Tensor, _ int64) {
			launch(s, aclnn.GroupedMatmulAdd, aclnn.GroupedMatmulAddParams{
				X: x, Weight: dOut, GroupList: groups, YRef: y, TransposeX: true, GroupType: groupSum,
			})
		},
	}
)

func (v *groupedVersion) backward() Kernel[GroupedMatmulGradArgs] {
	return Kernel[GroupedMatmulGradArgs]{
		Name: v.name,
		Supports: func(env *Env, a *GroupedMatmulGradArgs) error {
			weight := a.Weight
			if a.DX != nil {
				weight = weight.Transpose(1, 2)
			}
			return errors.Join(v.supports(env, a.X, weight), availableAll(groupedVersions[v.split].params, v.sum.params))
		},
		Run: func(ctx context.Context, st *acl.Stream, a *GroupedMatmulGradArgs) error {
			return compose(st, func(s *steps) { a.run(ctx, s, v) })
		},
	}
}

func (a *GroupedMatmulGradArgs) run(ctx context.Context, s *steps, v *groupedVersion) {
	x, dOut := s.dense(a.X), s.dense(a.DOut)
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
		// The sum of a group's rows is its product with ones; 16 columns of them fill a tile.
		ones := s.tensor(x.DType(), x.Dim(0), 16)
		s.fill(ones, aclnn.Float(1))
		sums := s.tensor(aclnn.Float32, a.DBias.Dim(0), 16, a.DBias.Dim(1))
		p.outer(sums, ones, dOut, false)
		s.deliver(a.DBias, sums.Select(1, 0), a.Accumulate)
	}
}

// groupedGrad are the products of a gradient whose sum is grouped.
type groupedGrad struct {
	*steps
	split    *groupedVersion
	sum      *groupedSum
	groups   *aclnn.Tensor
	listType int64
}

// outer is dst[g] = x[rows g]ᵀ·y[rows g], or adds that to dst.
func (p *groupedGrad) outer(dst, x, y *aclnn.Tensor, accumulate bool) {
	if swapped(dst) {
		dst, x, y = dst.Transpose(1, 2), y, x
	}
	wide := dst.DType() != x.DType()
	if !accumulate && (wide || x.Dim(0) == 0) {
		p.zero(dst) // without rows CANN launches nothing that would
	}
	product := func(out *aclnn.Tensor) {
		p.split.launch(p.steps, groupedCall{x: x.Transpose(0, 1), weight: y, groups: p.groups, out: out, groupType: groupSum, listType: p.listType})
	}
	switch {
	case x.Dim(0) == 0:
	case wide:
		p.sum.launch(p.steps, x, y, p.groups, dst, p.listType)
	case accumulate:
		out := p.tensor(dst.DType(), dst.Shape()...)
		product(out)
		p.add(dst, out, 1)
	default:
		product(dst)
	}
}

// newGroupedMatmulGrad prefers the kernels in the order of GroupedMatmul.
func newGroupedMatmulGrad(reg *Registry) *Op[GroupedMatmulGradArgs] {
	var kernels []Kernel[GroupedMatmulGradArgs]
	for i := range groupedVersions {
		kernels = append(kernels, groupedVersions[i].backward())
	}
	kernels = append(kernels, Kernel[GroupedMatmulGradArgs]{
		Name: "per_group",
		Supports: func(_ *Env, a *GroupedMatmulGradArgs) error {
			return errors.Join(perGroup(a.Weight, &a.Groups), availableAll(&aclnn.MatmulParams{}, &aclnn.InplaceAddmmParams{}))
		},
		Run: func(_ context.Context, st *acl.Stream, a *GroupedMatmulGradArgs) error {
			return compose(st, a.perGroup)
		},
	})
	return op(reg, "grouped_matmul_grad", (*GroupedMatmulGradArgs).validate,
		func(a *GroupedMatmulGradArgs) Signature {
			s := groupedSignature(a.X, a.Weight, &a.Groups)
			if a.DX != nil {
				s[2] = 1
			}
			return s
		}, kernels...)
}

// perGroup queues the products of one group after the other.
func (a *GroupedMatmulGradArgs) perGroup(s *steps) {
	for _, t := range []*aclnn.Tensor{a.DWeight, a.DBias} {
		if t != nil && !a.Accumulate {
			s.zero(t)
		}
	}
	a.Groups.each(func(g, first, rows int64) {
		x, dOut := a.X.Narrow(0, first, rows), a.DOut.Narrow(0, first, rows)
		if a.DX != nil {
			s.weigh(dOut, a.Weight.Select(0, g).Transpose(0, 1), a.DX.Narrow(0, first, rows))
		}
		if w := a.DWeight; w != nil {
			// Casting the factors, not the product, keeps the sum unrounded.
			launch(s, aclnn.InplaceAddmm, aclnn.InplaceAddmmParams{
				SelfRef: w.Select(0, g), Mat1: s.cast(x, w.DType()).Transpose(0, 1), Mat2: s.cast(dOut, w.DType()),
				Beta: aclnn.Float(1), Alpha: aclnn.Float(1), CubeMathType: keepDType,
			})
		}
		if a.DBias != nil {
			s.add(a.DBias.Select(0, g), s.sum(s.float(dOut), 0).Squeeze(0), 1)
		}
	})
}
