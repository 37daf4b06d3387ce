package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
)

// Activation is a function of each element of a product.
type Activation uint8

// The activations.
const (
	Identity Activation = iota
	ReLU
	GELU // the tanh form
	SiLU
)

// GroupedMatmulArgs multiplies the rows of each group by the matrix of that group:
// Out[rows g] = act(X[rows g]·Weight[g] + Bias[g]). X, Weight and Out are all float32,
// float16 or bfloat16.
type GroupedMatmulArgs struct {
	X *aclnn.Tensor // [rows, in]
	// Weight is [groups, in, out], ND or FRACTAL_NZ (16-bit dtypes, both sizes multiples of
	// 16). One stored as [groups, out, in], as PyTorch keeps it, comes as its Transpose(1, 2).
	Weight *aclnn.Tensor
	Bias   *aclnn.Tensor // [groups, out] or nil; float32 for bfloat16, else the dtype of X
	Groups Groups
	// Activation is applied to Out; its gradient is not part of GroupedMatmulGrad.
	Activation Activation
	Out        *aclnn.Tensor // [rows, out]
}

func (a *GroupedMatmulArgs) validate() error {
	var c check
	c.grouped(a.X, a.Weight, &a.Groups)
	if !c.ok() {
		return c.err
	}
	if c.tensor("Out", a.Out, a.X.DType()); c.ok() {
		c.shape("Out", a.Out, a.X.Dim(0), a.Weight.Dim(2))
	}
	if c.optional("Bias", a.Bias, biasType(a.X)) {
		c.shape("Bias", a.Bias, a.Weight.Dim(0), a.Weight.Dim(2))
	}
	if a.Activation > SiLU {
		c.fail("Activation is %d; it must be Identity, ReLU, GELU or SiLU", a.Activation)
	}
	return c.err
}

// biasType is the dtype CANN wants for the bias of a grouped product.
func biasType(x *aclnn.Tensor) aclnn.DType {
	if x.DType() == aclnn.BFloat16 {
		return aclnn.Float32
	}
	return x.DType()
}

// grouped checks rows, weights and groups of a grouped product.
func (c *check) grouped(x, weight *aclnn.Tensor, groups *Groups) {
	c.tensor("X", x, floats...)
	if !c.ok() {
		return
	}
	c.weight("Weight", weight, x.DType())
	switch {
	case !c.ok():
		return
	case x.Rank() != 2:
		c.fail("X is %v; it must be [rows, in]", x)
	case weight.Rank() != 3 || weight.Dim(0) == 0 || weight.Dim(1) == 0 || weight.Dim(2) == 0:
		c.fail("Weight is %v; it must be [groups, in, out], none of them 0", weight)
	case x.Dim(1) != weight.Dim(1):
		c.fail("X is %v; its columns must be the %d rows of each matrix of Weight %v", x, weight.Dim(1), weight)
	}
	groups.validate(c, weight.Dim(0), x.Dim(0))
}

// weight is tensor for one that may be in FRACTAL_NZ.
func (c *check) weight(name string, t *aclnn.Tensor, dt aclnn.DType) {
	if t == nil || t.Err() != nil || t.Format() != aclnn.FractalNZ {
		c.tensor(name, t, dt)
		return
	}
	if c.ok() && t.DType() != dt {
		c.fail("%s is %v; its dtype must be %v", name, t, dt)
	}
}

// groupedSignature is what the kernels of grouped products look at.
func groupedSignature(x, weight *aclnn.Tensor, groups *Groups) Signature {
	s := Signature{uint64(x.DType()), uint64(weight.Format())}
	for i, condition := range []bool{
		groups.Device == nil, alignedNZ(weight), swapped(weight), weight.Dim(0) > groupLimit,
		x.Dim(1) >= innerLimit, weight.Dim(1) >= innerLimit, weight.Dim(2) >= innerLimit, weight.Dim(1) == 1, weight.Dim(2) == 1,
	} {
		if condition {
			s[3] |= 1 << i
		}
	}
	return s
}

// swapped reports whether the last two dimensions are stored in the other order.
func swapped(t *aclnn.Tensor) bool { return !t.Contiguous() && t.Transpose(-1, -2).Contiguous() }

// alignedNZ reports whether both sizes of a weight fill the tiles of FRACTAL_NZ.
func alignedNZ(w *aclnn.Tensor) bool { return w.Dim(-1)%16 == 0 && w.Dim(-2)%16 == 0 }

// groupLimit is the longest group list of a grouped product with one weight tensor.
const groupLimit = 1024

// supports says why a version cannot take a weight.
func (v *groupedVersion) supports(env *Env, x, weight *aclnn.Tensor) error {
	switch nz := weight.Format() == aclnn.FractalNZ; {
	case v == &groupedVersions[0] && !nz:
		return errors.New("the weight is not FRACTAL_NZ")
	case weight.Dim(0) > groupLimit:
		return fmt.Errorf("there are more than %d groups", groupLimit)
	case x.Dim(1) >= innerLimit || weight.Dim(1) >= innerLimit || weight.Dim(2) >= innerLimit:
		return fmt.Errorf("a dimension is not below %d", innerLimit)
	case nz && !is16(weight.DType()):
		return fmt.Errorf("a FRACTAL_NZ weight of %v is not supported", weight.DType())
	case nz && !alignedNZ(weight):
		return errors.New("a dimension of the FRACTAL_NZ weight is not a multiple of 16")
	case nz && swapped(weight) && available(groupedVersions[0].params) != nil:
		// The kernel of CANN 8.1 reads tiles by the addresses of an unswapped weight.
		return errors.New("this CANN is not known to read a FRACTAL_NZ weight transposed")
	}
	return errors.Join(trainingChip(env, v.name), available(v.params))
}

// groupedVersion is one of CANN's interfaces to the grouped product, and what comes with it.
type groupedVersion struct {
	name   string
	params aclnn.Params
	// launch queues a product of one tensor each of x, weight and out. CANN fuses activations
	// into quantised products only, hence none here.
	launch func(s *steps, c groupedCall)
	sum    *groupedSum // the product that adds to float32, of the same CANN
	split  int         // the place in groupedVersions of a version for products without a weight
}

// groupedCall are the operands of a grouped product.
type groupedCall struct {
	x, weight, bias, groups, out *aclnn.Tensor
	groupType, listType          int64
}

// one is a list of a tensor, nil for an absent one.
func one(t *aclnn.Tensor) []*aclnn.Tensor {
	if t == nil {
		return nil
	}
	return []*aclnn.Tensor{t}
}

// groupedVersions are in order of preference: the entry for FRACTAL_NZ, which takes nothing
// else, then the newer one.
var groupedVersions = []groupedVersion{
	{
		name: "GroupedMatmulWeightNz", params: &aclnn.GroupedMatmulWeightNzParams{}, sum: &addV2, split: 1,
		launch: func(s *steps, c groupedCall) {
			launch(s, aclnn.GroupedMatmulWeightNz, aclnn.GroupedMatmulWeightNzParams{
				X: one(c.x), Weight: one(c.weight), BiasOptional: one(c.bias), GroupListOptional: c.groups,
				SplitItem: oneOutput, GroupType: c.groupType, GroupListType: c.listType, Out: one(c.out),
			})
		},
	},
	{
		name: "GroupedMatmulV5", params: &aclnn.GroupedMatmulV5Params{}, sum: &addV2, split: 1,
		launch: func(s *steps, c groupedCall) {
			launch(s, aclnn.GroupedMatmulV5, aclnn.GroupedMatmulV5Params{
				X: one(c.x), Weight: one(c.weight), BiasOptional: one(c.bias), GroupListOptional: c.groups,
				SplitItem: oneOutput, GroupType: c.groupType, GroupListType: c.listType, Out: one(c.out),
			})
		},
	},
	{
		name: "GroupedMatmulV4", params: &aclnn.GroupedMatmulV4Params{}, sum: &addV1, split: 2,
		launch: func(s *steps, c groupedCall) {
			launch(s, aclnn.GroupedMatmulV4, aclnn.GroupedMatmulV4Params{
				X: one(c.x), Weight: one(c.weight), BiasOptional: one(c.bias), GroupListOptional: c.groups,
				SplitItem: oneOutput, GroupType: c.groupType, GroupListType: c.listType, Out: one(c.out),
			})
		},
	},
}

// Values of groupType: what the groups cut.
const (
	groupRows = 0 // the rows of x
	groupSum  = 2 // the dimension that the product sums over
)

// oneOutput is the splitItem of a product with one output tensor.
const oneOutput = 3

// activate applies the activation in place.
func (s *steps) activate(t *aclnn.Tensor, f Activation) {
	switch f {
	case ReLU:
		launch(s, aclnn.InplaceRelu, aclnn.InplaceReluParams{SelfRef: t})
	case GELU:
		launch(s, aclnn.Gelu, aclnn.GeluParams{Self: t, Out: t})
	case SiLU:
		launch(s, aclnn.Silu, aclnn.SiluParams{Self: t, Out: t})
	}
}

func (v *groupedVersion) forward() Kernel[GroupedMatmulArgs] {
	return Kernel[GroupedMatmulArgs]{
		Name:     v.name,
		Supports: func(env *Env, a *GroupedMatmulArgs) error { return v.supports(env, a.X, a.Weight) },
		Run: func(ctx context.Context, st *acl.Stream, a *GroupedMatmulArgs) error {
			return compose(st, func(s *steps) {
				v.launch(s, groupedCall{
					x: s.dense(a.X), weight: a.Weight, bias: a.Bias, groups: a.Groups.list(ctx, s, false), out: a.Out,
					groupType: groupRows, listType: a.Groups.listType(),
				})
				s.activate(a.Out, a.Activation)
			})
		},
	}
}

// newGroupedMatmul prefers the newest grouped product; one product per group is what is left
// to shapes and formats that those refuse.
func newGroupedMatmul(reg *Registry) *Op[GroupedMatmulArgs] {
	var kernels []Kernel[GroupedMatmulArgs]
	for i := range groupedVersions {
		kernels = append(kernels, groupedVersions[i].forward())
	}
	kernels = append(kernels, perGroupMatmul)
	return op(reg, "grouped_matmul", (*GroupedMatmulArgs).validate,
		func(a *GroupedMatmulArgs) Signature { return groupedSignature(a.X, a.Weight, &a.Groups) }, kernels...)
}

// perGroupMatmul is one product after the other.
var perGroupMatmul = Kernel[GroupedMatmulArgs]{
	Name: "per_group",
	Supports: func(_ *Env, a *GroupedMatmulArgs) error {
		return errors.Join(perGroup(a.Weight, &a.Groups), available(&aclnn.MatmulParams{}))
	},
	Run: func(_ context.Context, st *acl.Stream, a *GroupedMatmulArgs) error {
		return compose(st, func(s *steps) {
			a.Groups.each(func(g, first, rows int64) {
				out := a.Out.Narrow(0, first, rows)
				s.weigh(a.X.Narrow(0, first, rows), a.Weight.Select(0, g), out)
				if a.Bias != nil {
					s.add(out, a.Bias.Select(0, g), 1)
				}
			})
			s.activate(a.Out, a.Activation)
		})
	},
}

// perGroup says why a product per group is impossible.
func perGroup(weight *aclnn.Tensor, groups *Groups) error {
	switch nz := weight.Format() == aclnn.FractalNZ; {
	case groups.Device != nil:
		return errors.New("the sizes of the groups are on the device; a product per group needs them on the host")
	case nz && (weight.Dim(1) == 1 || weight.Dim(2) == 1):
		return errors.New("a FRACTAL_NZ weight must have more than one row and column")
	case nz:
		return available(&aclnn.MatmulWeightNzParams{})
	}
	return nil
}

// weigh is out = x·weight for matrices.
func (s *steps) weigh(x, weight, out *aclnn.Tensor) {
	if weight.Format() == aclnn.FractalNZ {
		launch(s, aclnn.MatmulWeightNz, aclnn.MatmulWeightNzParams{Self: x, Mat2: weight, Out: out, CubeMathType: keepDType})
		return
	}
	launch(s, aclnn.Matmul, aclnn.MatmulParams{Self: x, Mat2: weight, Out: out, CubeMathType: keepDType})
}
