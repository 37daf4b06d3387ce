package ops

import (
	"context"
	"errors"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// GroupedMatmulGradArgs are the gradients of GroupedMatmul, for each group g:
// DX = DOut·Weight[g]ᵀ, DWeight[g] = Xᵀ·DOut, DBias[g] = the sum of DOut over its rows.
// Those that are nil are not computed. A group without rows has gradients of zero.
type GroupedMatmulGradArgs struct {
	DOut *aclnn.Tensor // [rows, out], dtype of X
	X    *aclnn.Tensor // [rows, in]
	// Weight is [groups, in, out] as GroupedMatmul took it, FRACTAL_NZ included: the gradient
	// reads the same memory through a swapped view. It may be nil if DX is nil.
	Weight *aclnn.Tensor
	Groups Groups
	DX     *aclnn.Tensor // like X
	// DWeight is [groups, in, out], contiguous, and DBias [groups, out]: of the dtype of X, or
	// float32, which keeps the gradients of 16-bit products unrounded (main gradients).
	DWeight, DBias *aclnn.Tensor
	// Accumulate adds to what DWeight and DBias have instead of overwriting it.
	Accumulate bool
}

func (a *GroupedMatmulGradArgs) validate() error {
	var c check
	c.tensor("X", a.X, floats...)
	if !c.ok() {
		return c.err
	}
	c.tensor("DOut", a.DOut, a.X.DType())
	if !c.ok() {
		return c.err
	}
	c.shape("X", a.X, a.X.Dim(0), a.X.Dim(-1))
	c.shape("DOut", a.DOut, a.X.Dim(0), a.DOut.Dim(-1))
	if !c.ok() {
		return c.err
	}
	groups, in, out := a.groups(), a.X.Dim(1), a.DOut.Dim(1)
	if a.DX != nil || a.Weight != nil {
		c.groupedWeight(a.Weight, a.X.DType())
		if c.ok() {
			c.shape("Weight", a.Weight, groups, in, out)
		}
	}
	if c.optional("DX", a.DX, a.X.DType()) {
		c.like("DX", a.DX, "X", a.X)
	}
	if c.optional("DWeight", a.DWeight, a.X.DType(), aclnn.Float32) {
		c.shape("DWeight", a.DWeight, groups, in, out)
		c.contiguous("DWeight", a.DWeight)
	}
	if c.optional("DBias", a.DBias, a.X.DType(), aclnn.Float32) {
		c.shape("DBias", a.DBias, groups, out)
	}
	c.groups(&a.Groups, groups, a.X.Dim(0))
	return c.err
}

// groups is the number of groups that the tensors have.
func (a *GroupedMatmulGradArgs) groups() int64 {
	for _, t := range []*aclnn.Tensor{a.Weight, a.DWeight, a.DBias} {
		if t != nil && t.Rank() > 0 {
			return t.Dim(0)
		}
	}
	return a.Groups.Len()
}

// clear sets the gradients of the weights to zero.
func (a *GroupedMatmulGradArgs) clear(s *steps) {
	for _, t := range []*aclnn.Tensor{a.DWeight, a.DBias} {
		if t != nil && t.Len() > 0 {
			s.zero(t)
		}
	}
}

func (v *groupedVersion) backward() Kernel[GroupedMatmulGradArgs] {
	// The weight's own gradient has no FRACTAL_NZ operand, which the version for them refuses.
	split := v
	if v == &groupedNZ {
		split = &groupedV5
	}
	return Kernel[GroupedMatmulGradArgs]{
		Name: v.name,
		Supports: func(env *Env, a *GroupedMatmulGradArgs) error {
			weight := a.Weight
			if weight != nil {
				weight = weight.Transpose(-2, -1)
			}
			return errors.Join(v.supports(env, a.DOut, weight), split.supports(env, a.X, nil))
		},
		Run: func(ctx context.Context, st *acl.Stream, a *GroupedMatmulGradArgs) error {
			return compose(st, func(s *steps) {
				if a.X.Dim(0) == 0 { // CANN would leave the gradients of the weights as they are
					if !a.Accumulate {
						a.clear(s)
					}
					return
				}
				list, listType := s.onDevice(ctx, &a.Groups), a.Groups.listType()
				dOut := s.dense(a.DOut)
				if a.DX != nil && a.DX.Len() > 0 {
					v.run(s, groupedCall{x: dOut, weight: a.Weight.Transpose(-2, -1), groups: list, listType: listType, out: a.DX})
				}
				if a.DWeight != nil && a.DWeight.Len() > 0 {
					a.weight(ctx, s, split, list, dOut)
				}
				if a.DBias != nil && a.DBias.Len() > 0 {
					a.bias(s, split, list, dOut)
				}
			})
		},
	}
}

// weight queues the gradient of the weight: a product whose sum is grouped. Where it is
// float32 and its factors are not, CANN has a kernel that accumulates without rounding.
func (a *GroupedMatmulGradArgs) weight(ctx context.Context, s *steps, v *groupedVersion, list, dOut *aclnn.Tensor) {
	x := s.dense(a.X)
	widened := a.DWeight.DType() != x.DType()
	if widened && available(&aclnn.GroupedMatmulAddParams{}) == nil {
		if !a.Accumulate {
			s.zero(a.DWeight)
		}
		launch(s, aclnn.GroupedMatmulAdd, aclnn.GroupedMatmulAddParams{
			X: x, Weight: dOut, GroupList: s.sums(ctx, &a.Groups), YRef: a.DWeight, TransposeX: true, GroupType: groupSum,
		})
		return
	}
	if widened {
		x, dOut = s.float(x), s.float(dOut)
	}
	out := a.DWeight
	if a.Accumulate {
		out = s.tensor(a.DWeight.DType(), a.DWeight.Shape()...)
	}
	v.run(s, groupedCall{x: x.Transpose(0, 1), weight: dOut, groups: list, listType: a.Groups.listType(), out: out, split: true})
	if a.Accumulate {
		s.add(a.DWeight, out, 1)
	}
}

// bias queues the sums of each group's rows: a product with ones.
func (a *GroupedMatmulGradArgs) bias(s *steps, v *groupedVersion, list, dOut *aclnn.Tensor) {
	wide := s.float(dOut)
	ones := s.tensor(aclnn.Float32, wide.Dim(0), 1)
	s.fill(ones, aclnn.Float(1))
	sums := s.tensor(aclnn.Float32, a.groups(), 1, wide.Dim(1))
	v.run(s, groupedCall{x: ones.Transpose(0, 1), weight: wide, groups: list, listType: a.Groups.listType(), out: sums, split: true})
	s.deliver(a.DBias, sums.Squeeze(1), a.Accumulate)
}

func newGroupedMatmulGrad(reg *Registry) *Op[GroupedMatmulGradArgs] {
	return op(reg, "grouped_matmul_grad", (*GroupedMatmulGradArgs).validate,
		func(a *GroupedMatmulGradArgs) Signature { return groupedSignature(a.X, a.Weight, a.DWeight, &a.Groups) },
		groupedNZ.backward(), groupedV5.backward(), groupedV4.backward(),
		Kernel[GroupedMatmulGradArgs]{
			Name: "per_group",
			Supports: func(_ *Env, a *GroupedMatmulGradArgs) error {
				if a.Weight != nil && a.Weight.Format() != aclnn.ND {
					return errors.New("it reads ND weights only")
				}
				return available(&aclnn.MatmulParams{})
			},
			Run: runGroupedMatmulGrad,
		})
}

// runGroupedMatmulGrad computes the gradients with a product per group.
func runGroupedMatmulGrad(ctx context.Context, st *acl.Stream, a *GroupedMatmulGradArgs) error {
	if !a.Accumulate { // groups without rows
		if err := compose(st, a.clear); err != nil {
			return err
		}
	}
	return eachGroup(ctx, st, &a.Groups, a.X.Dim(0), func(s *steps, g, start, n int64) {
		x, dOut := a.X.Narrow(0, start, n), a.DOut.Narrow(0, start, n)
		if a.DX != nil {
			launch(s, aclnn.Matmul, aclnn.MatmulParams{
				Self: dOut, Mat2: a.Weight.Select(0, g).Transpose(0, 1), Out: a.DX.Narrow(0, start, n), CubeMathType: keepDType,
			})
		}
		if a.DWeight != nil {
			// Casting the factors, not the product, keeps the sum unrounded.
			dt := a.DWeight.DType()
			launch(s, aclnn.InplaceAddmm, aclnn.InplaceAddmmParams{
				SelfRef: a.DWeight.Select(0, g), Mat1: s.cast(x, dt).Transpose(0, 1), Mat2: s.cast(dOut, dt),
				Beta: aclnn.Float(1), Alpha: aclnn.Float(1), CubeMathType: keepDType,
			})
		}
		if a.DBias != nil {
			s.deliver(a.DBias.Select(0, g), s.sum(s.float(dOut), 0).Squeeze(0), true)
		}
	})
}
