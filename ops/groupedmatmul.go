package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// GroupedMatmulArgs multiplies groups of rows with a matrix each:
// Out[rows of g] = X[rows of g]·Weight[g] + Bias[g]. X, Weight and Out have one dtype,
// float32, float16 or bfloat16. A group may have no rows.
type GroupedMatmulArgs struct {
	X *aclnn.Tensor // [rows, in]
	// Weight is [groups, in, out]: contiguous, a transposed view of [groups, out, in], or, for
	// 16-bit types with in and out multiples of 16, FRACTAL_NZ storage (AsNZ) of either.
	Weight *aclnn.Tensor
	Bias   *aclnn.Tensor // [groups, out] or nil; float32 for bfloat16, else dtype of X
	Groups Groups
	Out    *aclnn.Tensor // [rows, out]
}

func (a *GroupedMatmulArgs) validate() error {
	var c check
	c.tensor("X", a.X, floats...)
	if !c.ok() {
		return c.err
	}
	c.groupedWeight(a.Weight, a.X.DType())
	c.tensor("Out", a.Out, a.X.DType())
	if !c.ok() {
		return c.err
	}
	c.shape("X", a.X, a.X.Dim(0), a.Weight.Dim(1))
	c.shape("Out", a.Out, a.X.Dim(0), a.Weight.Dim(2))
	if c.optional("Bias", a.Bias, biasDType(a.X.DType())) {
		c.shape("Bias", a.Bias, a.Weight.Dim(0), a.Weight.Dim(2))
	}
	c.groups(&a.Groups, a.Weight.Dim(0), a.X.Dim(0))
	return c.err
}

// biasDType is the dtype that a grouped product adds.
func biasDType(dt aclnn.DType) aclnn.DType {
	if dt == aclnn.BFloat16 {
		return aclnn.Float32
	}
	return dt
}

// groupedWeight checks the matrices of a grouped product.
func (c *check) groupedWeight(w *aclnn.Tensor, dt aclnn.DType) {
	switch {
	case c.err != nil:
	case w == nil:
		c.fail("Weight is nil")
	case w.Err() != nil:
		c.fail("Weight: %v", w.Err())
	case w.DType() != dt:
		c.fail("Weight is %v; its dtype must be %v, that of X", w, dt)
	case w.Rank() != 3 || w.Dim(0) < 1 || w.Dim(0) > maxGroups:
		c.fail("Weight is %v; it must be [groups, in, out] with 1 to %d groups", w, maxGroups)
	case w.Format() == aclnn.ND:
	case w.Format() != aclnn.FractalNZ:
		c.fail("Weight is %v; it must be ND or FRACTAL_NZ", w)
	case !is16(dt) || w.Dim(1)%16 != 0 || w.Dim(2)%16 != 0:
		c.fail("Weight is %v; FRACTAL_NZ weights are of a 16-bit dtype, with in and out multiples of 16: keep this one in ND", w)
	}
}

// swapped reports whether the last two dimensions of a tensor are a transposed view.
func swapped(t *aclnn.Tensor) bool {
	strides := t.Strides()
	return strides[len(strides)-2] == 1 && strides[len(strides)-1] != 1
}

// groupedSignature is what the kernels of grouped products look at.
func groupedSignature(x, weight, second *aclnn.Tensor, g *Groups) Signature {
	s := dtypeSignature(x, second)
	if weight != nil {
		s[2] = uint64(uint32(weight.Format()))<<1 | flag(swapped(weight))
	}
	s[3] = flag(g.Host != nil)<<1 | flag(narrow(x, weight))
	return s
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// narrow reports whether the rows of all operands are in CANN's limits.
func narrow(x, weight *aclnn.Tensor) bool {
	return x.Dim(-1) < innerLimit && (weight == nil || weight.Dim(1) < innerLimit && weight.Dim(2) < innerLimit)
}

// groupedCall is a product as V4 and its successors take it.
type groupedCall struct {
	x, weight, bias, groups, out *aclnn.Tensor
	split                        bool // the sum is grouped (groupType 2), not the rows (0)
	listType                     int64
}

// Values of groupType and splitItem.
const (
	groupRows, groupSum = 0, 2
	oneOutput           = 3
)

func (c *groupedCall) groupType() int64 {
	if c.split {
		return groupSum
	}
	return groupRows
}

// one is a list of a tensor, nil for an absent one.
func one(t *aclnn.Tensor) []*aclnn.Tensor {
	if t == nil {
		return nil
	}
	return []*aclnn.Tensor{t}
}

// groupedVersion is one of CANN's interfaces to the same kernel.
type groupedVersion struct {
	name   string
	params aclnn.Params
	run    func(s *steps, c groupedCall)
}

var (
	groupedV5 = groupedVersion{"GroupedMatmulV5", &aclnn.GroupedMatmulV5Params{}, func(s *steps, c groupedCall) {
		launch(s, aclnn.GroupedMatmulV5, aclnn.GroupedMatmulV5Params{
			X: one(c.x), Weight: one(c.weight), BiasOptional: one(c.bias), GroupListOptional: c.groups, SplitItem: oneOutput,
			GroupType: c.groupType(), GroupListType: c.listType, Out: one(c.out),
		})
	}}
	groupedV4 = groupedVersion{"GroupedMatmulV4", &aclnn.GroupedMatmulV4Params{}, func(s *steps, c groupedCall) {
		launch(s, aclnn.GroupedMatmulV4, aclnn.GroupedMatmulV4Params{
			X: one(c.x), Weight: one(c.weight), BiasOptional: one(c.bias), GroupListOptional: c.groups, SplitItem: oneOutput,
			GroupType: c.groupType(), GroupListType: c.listType, Out: one(c.out),
		})
	}}
	groupedNZ = groupedVersion{"GroupedMatmulWeightNz", &aclnn.GroupedMatmulWeightNzParams{}, func(s *steps, c groupedCall) {
		launch(s, aclnn.GroupedMatmulWeightNz, aclnn.GroupedMatmulWeightNzParams{
			X: one(c.x), Weight: one(c.weight), BiasOptional: one(c.bias), GroupListOptional: c.groups, SplitItem: oneOutput,
			GroupType: c.groupType(), GroupListType: c.listType, Out: one(c.out),
		})
	}}
)

// supports says whether the version takes a weight; nil for the product that has none.
func (v *groupedVersion) supports(env *Env, x, weight *aclnn.Tensor) error {
	nz := weight != nil && weight.Format() == aclnn.FractalNZ
	switch {
	case v == &groupedNZ && !nz:
		return errors.New("the weight is not FRACTAL_NZ")
	case v != &groupedNZ && nz && swapped(weight) && available(groupedNZ.params) != nil:
		// The kernel of 8.1 is known to read untransposed NZ weights only.
		return errors.New("this CANN is not known to read a transposed FRACTAL_NZ weight")
	case !narrow(x, weight):
		return fmt.Errorf("a dimension is not below %d", innerLimit)
	}
	return errors.Join(trainingChip(env, v.name), available(v.params))
}

func (v *groupedVersion) forward() Kernel[GroupedMatmulArgs] {
	return Kernel[GroupedMatmulArgs]{
		Name:     v.name,
		Supports: func(env *Env, a *GroupedMatmulArgs) error { return v.supports(env, a.X, a.Weight) },
		Run: func(ctx context.Context, st *acl.Stream, a *GroupedMatmulArgs) error {
			if a.X.Dim(0) == 0 || a.Out.Dim(1) == 0 {
				return nil
			}
			return compose(st, func(s *steps) {
				v.run(s, groupedCall{x: s.dense(a.X), weight: a.Weight, bias: a.Bias, groups: s.onDevice(ctx, &a.Groups), out: a.Out, listType: a.Groups.listType()})
			})
		},
	}
}

// newGroupedMatmul prefers the newest interface; a product per group is for chips and
// sizes that none takes. It waits for the group list if that is on the device.
func newGroupedMatmul(reg *Registry) *Op[GroupedMatmulArgs] {
	return op(reg, "grouped_matmul", (*GroupedMatmulArgs).validate,
		func(a *GroupedMatmulArgs) Signature { return groupedSignature(a.X, a.Weight, a.Bias, &a.Groups) },
		groupedNZ.forward(), groupedV5.forward(), groupedV4.forward(),
		Kernel[GroupedMatmulArgs]{
			Name: "per_group",
			Supports: func(_ *Env, a *GroupedMatmulArgs) error {
				if a.Weight.Format() != aclnn.ND {
					return errors.New("it reads ND weights only")
				}
				return available(&aclnn.MatmulParams{})
			},
			Run: func(ctx context.Context, st *acl.Stream, a *GroupedMatmulArgs) error {
				return eachGroup(ctx, st, &a.Groups, a.X.Dim(0), func(s *steps, g, start, n int64) {
					x, out := a.X.Narrow(0, start, n), a.Out.Narrow(0, start, n)
					launch(s, aclnn.Matmul, aclnn.MatmulParams{Self: x, Mat2: a.Weight.Select(0, g), Out: out, CubeMathType: keepDType})
					if a.Bias != nil {
						s.add(out, s.cast(a.Bias.Select(0, g), out.DType()), 1)
					}
				})
			},
		})
}

// eachGroup runs a body for the rows of each group that has some.
func eachGroup(ctx context.Context, st *acl.Stream, groups *Groups, rows int64, body func(s *steps, g, start, n int64)) error {
	sizes, err := groups.onHost(ctx, st)
	if err != nil {
		return err
	}
	return compose(st, func(s *steps) {
		start := int64(0)
		for g, n := range sizes {
			if n < 0 || n > rows-start {
				s.err = invalid("group %d has %d rows from row %d on, there are %d; sizes %v", g, n, start, rows, sizes)
				return
			}
			if n > 0 {
				body(s, int64(g), start, n)
			}
			start += n
		}
	})
}
