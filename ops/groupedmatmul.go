package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/aclnn"
	"github.com/goascend/cann/ops/key"
)

// Activation is an elementwise function that is applied to a product.
type Activation = key.Activation

// The activations.
const (
	Identity Activation = iota
	ReLU
	GELU // with the tanh approximation
	SiLU
)

// GroupedMatmulArgs multiplies the rows of each group by the group's matrix: Out[rows g] =
// act(X[rows g]·Weight[g] + Bias[g]). X, Weight and Out have one dtype, float32, float16 or
// bfloat16.
type GroupedMatmulArgs struct {
	X *aclnn.Tensor // [rows, in]
	// Weight is [groups, in, out], in ND or FRACTAL_NZ (16-bit dtypes, both sizes multiples of 16).
	// For a weight stored as [groups, out, in], as in PyTorch, pass its Transpose(1, 2).
	Weight *aclnn.Tensor
	Bias   *aclnn.Tensor // [groups, out] or nil; float32 for bfloat16, else the dtype of X
	Groups Groups
	// Activation is applied to Out; its gradient is not part of GroupedMatmulGrad.
	Activation Activation
	Out        *aclnn.Tensor // [rows, out]
}

func (a *GroupedMatmulArgs) validate() error {
	var c args
	c.grouped(a.X, a.Weight, &a.Groups)
	if !c.OK() {
		return c.Err
	}
	if c.Tensor("Out", a.Out, a.X.DType()); c.OK() {
		c.Shape("Out", a.Out, a.X.Dim(0), a.Weight.Dim(2))
	}
	if c.Optional("Bias", a.Bias, biasType(a.X)) {
		c.Shape("Bias", a.Bias, a.Weight.Dim(0), a.Weight.Dim(2))
	}
	if a.Activation > SiLU {
		c.Fail("Activation is %d; it must be Identity, ReLU, GELU or SiLU", a.Activation)
	}
	return c.Err
}

// biasType returns the dtype that CANN requires for the bias of a grouped product.
func biasType(x *aclnn.Tensor) aclnn.DType {
	if x.DType() == aclnn.BFloat16 {
		return aclnn.Float32
	}
	return x.DType()
}

// grouped checks rows, weights and groups of a grouped product.
func (c *args) grouped(x, weight *aclnn.Tensor, groups *Groups) {
	c.Tensor("X", x, floats...)
	if !c.OK() {
		return
	}
	c.weight("Weight", weight, x.DType())
	switch {
	case !c.OK():
		return
	case x.Rank() != 2:
		c.Fail("X is %v; it must be [rows, in]", x)
	case weight.Rank() != 3 || weight.Dim(0) == 0 || weight.Dim(1) == 0 || weight.Dim(2) == 0:
		c.Fail("Weight is %v; it must be [groups, in, out], none of them 0", weight)
	case x.Dim(1) != weight.Dim(1):
		c.Fail("X is %v; its columns must be the %d rows of each matrix of Weight %v", x, weight.Dim(1), weight)
	}
	groups.validate(c, weight.Dim(0), x.Dim(0))
}

// weight checks a tensor that may be in FRACTAL_NZ.
func (c *args) weight(name string, t *aclnn.Tensor, dt aclnn.DType) {
	if t == nil || t.Err() != nil || t.Format() != aclnn.FractalNZ {
		c.Tensor(name, t, dt)
		return
	}
	if c.OK() && t.DType() != dt {
		c.Fail("%s is %v; its dtype must be %v", name, t, dt)
	}
}

func (a *GroupedMatmulArgs) key() key.GroupedMatmul {
	k := groupedKey(a.X, a.Weight, &a.Groups)
	k.Bias, k.Activation, k.Contiguous = a.Bias != nil, a.Activation, contiguous(a.X, a.Bias, a.Out, a.Groups.Device)
	return k
}

// groupedKey returns the part of the key that the product and its gradient share.
func groupedKey(x, weight *aclnn.Tensor, groups *Groups) key.GroupedMatmul {
	return key.GroupedMatmul{
		DType: x.DType(), Format: weight.Format(), Groups: weight.Dim(0), In: weight.Dim(1), Out: weight.Dim(2), Rows: key.ExtentOf(x.Dim(0)),
		ByRows: weight.Contiguous(), ByColumns: byColumns(weight), Host: groups.Device == nil, Cumulative: groups.Cumulative,
	}
}

// transposed returns the key for the same weight with its last two dimensions exchanged.
func transposed(k key.GroupedMatmul) key.GroupedMatmul {
	k.In, k.Out, k.ByRows, k.ByColumns = k.Out, k.In, k.ByColumns, k.ByRows
	return k
}

// groupLimit is the longest group list of a grouped product with one weight tensor.
const groupLimit = 1024

// supports returns why a version cannot take a weight, or nil.
func (v *groupedVersion) supports(env *Env, k key.GroupedMatmul) error {
	switch nz := k.Format == aclnn.FractalNZ; {
	case v == &groupedVersions[0] && !nz:
		return errors.New("the weight is not FRACTAL_NZ")
	case k.Groups > groupLimit:
		return fmt.Errorf("there are more than %d groups", groupLimit)
	case k.In >= innerLimit || k.Out >= innerLimit:
		return fmt.Errorf("a dimension is not below %d", innerLimit)
	case nz && !is16(k.DType):
		return fmt.Errorf("a FRACTAL_NZ weight of %v is not supported", k.DType)
	case nz && (k.In%16 != 0 || k.Out%16 != 0):
		return errors.New("a dimension of the FRACTAL_NZ weight is not a multiple of 16")
	case nz && !k.ByRows && k.ByColumns && available(groupedVersions[0].params) != nil:
		// The kernel of CANN 8.1 computes addresses of tiles for both orders, but what its host checks is
		// not public, and nobody has reported a run.
		return errors.New("this CANN is not known to read a FRACTAL_NZ weight transposed")
	}
	return env.Has(v.params)
}

// groupedVersion is one of CANN's interfaces to the grouped product, with related operators.
type groupedVersion struct {
	name   string
	params aclnn.Params
	// launch queues a product of one tensor each of x, weight and out. It has no activation,
	// because CANN fuses activations into quantised products only.
	launch func(s *steps, c groupedCall)
	sum    *groupedSum // the product of the same CANN that accumulates in float32
	split  int         // index in groupedVersions of the version for products without a weight
}

// groupedCall holds the operands of a grouped product.
type groupedCall struct {
	x, weight, bias, groups, out *aclnn.Tensor
	scale, offset                *aclnn.Tensor // of a weight in codes, or nil
	groupType                    aclnn.GroupType
	listType                     aclnn.GroupListType
}

// one makes a list of one tensor, or nil for a nil tensor.
func one(t *aclnn.Tensor) []*aclnn.Tensor {
	if t == nil {
		return nil
	}
	return []*aclnn.Tensor{t}
}

// groupedVersions is in order of preference: first the entry point for FRACTAL_NZ, which accepts
// nothing else, then the newer of the others.
var groupedVersions = []groupedVersion{
	{
		name: "GroupedMatmulWeightNz", params: &aclnn.GroupedMatmulWeightNzParams{}, sum: &addV2, split: 1,
		launch: func(s *steps, c groupedCall) {
			launch(s, aclnn.GroupedMatmulWeightNz, aclnn.GroupedMatmulWeightNzParams{
				X: one(c.x), Weight: one(c.weight), Bias: one(c.bias), GroupList: c.groups,
				SplitItem: oneOutput, GroupType: c.groupType, GroupListType: c.listType, Out: one(c.out),
			})
		},
	},
	{
		name: "GroupedMatmulV5", params: &aclnn.GroupedMatmulV5Params{}, sum: &addV2, split: 1,
		launch: func(s *steps, c groupedCall) {
			launch(s, aclnn.GroupedMatmulV5, aclnn.GroupedMatmulV5Params{
				X: one(c.x), Weight: one(c.weight), Bias: one(c.bias), AntiquantScale: one(c.scale), AntiquantOffset: one(c.offset), GroupList: c.groups,
				SplitItem: oneOutput, GroupType: c.groupType, GroupListType: c.listType, Out: one(c.out),
			})
		},
	},
	{
		name: "GroupedMatmulV4", params: &aclnn.GroupedMatmulV4Params{}, sum: &addV1, split: 2,
		launch: func(s *steps, c groupedCall) {
			launch(s, aclnn.GroupedMatmulV4, aclnn.GroupedMatmulV4Params{
				X: one(c.x), Weight: one(c.weight), Bias: one(c.bias), AntiquantScale: one(c.scale), AntiquantOffset: one(c.offset), GroupList: c.groups,
				SplitItem: oneOutput, GroupType: c.groupType, GroupListType: c.listType, Out: one(c.out),
			})
		},
	},
}

// Values of groupType, which says along which dimension the groups divide.
const (
	groupRows = aclnn.GroupM // the rows of x
	groupSum  = aclnn.GroupK // the dimension that the product sums over
)

// oneOutput is the splitItem of a product with one output tensor.
const oneOutput = aclnn.OneOutput

// activate applies the activation in place.
func (s *steps) activate(t *aclnn.Tensor, f Activation) {
	switch f {
	case ReLU:
		launch(s, aclnn.InplaceRelu, aclnn.InplaceReluParams{Self: t})
	case GELU:
		launch(s, aclnn.Gelu, aclnn.GeluParams{Self: t, Out: t})
	case SiLU:
		launch(s, aclnn.Silu, aclnn.SiluParams{Self: t, Out: t})
	}
}

func (v *groupedVersion) forward() Kernel[GroupedMatmulArgs, key.GroupedMatmul] {
	return Kernel[GroupedMatmulArgs, key.GroupedMatmul]{
		Name: v.name, Supports: v.supports,
		Run: func(ctx context.Context, st *acl.Stream, a *GroupedMatmulArgs) error {
			return compose(st, func(s *steps) {
				v.launch(s, groupedCall{
					x: s.Contiguous(a.X), weight: a.Weight, bias: a.Bias, groups: a.Groups.list(ctx, s, false), out: a.Out,
					groupType: groupRows, listType: a.Groups.listType(),
				})
				s.activate(a.Out, a.Activation)
			})
		},
	}
}

// newGroupedMatmul prefers the newest grouped product. One product per group remains for shapes and
// formats that the grouped products refuse.
func newGroupedMatmul(reg *Registry) *Op[GroupedMatmulArgs, key.GroupedMatmul] {
	var kernels []Kernel[GroupedMatmulArgs, key.GroupedMatmul]
	for i := range groupedVersions {
		kernels = append(kernels, groupedVersions[i].forward())
	}
	kernels = append(kernels, perGroupMatmul)
	return op(reg, "grouped_matmul", (*GroupedMatmulArgs).validate, (*GroupedMatmulArgs).key, kernels...)
}

// perGroupMatmul runs one product per group.
var perGroupMatmul = Kernel[GroupedMatmulArgs, key.GroupedMatmul]{
	Name: "per_group",
	Supports: func(_ *Env, k key.GroupedMatmul) error {
		return errors.Join(perGroup(k), available(&aclnn.MatmulParams{}))
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

// perGroup returns why one product per group is impossible, or nil.
func perGroup(k key.GroupedMatmul) error {
	switch nz := k.Format == aclnn.FractalNZ; {
	case !k.Host:
		return errors.New("the sizes of the groups are on the device; a product per group needs them on the host")
	case nz && (k.In == 1 || k.Out == 1):
		return errors.New("a FRACTAL_NZ weight must have more than one row and column")
	case nz:
		return available(&aclnn.MatmulWeightNzParams{})
	}
	return nil
}

// weigh computes out = x·weight for matrices.
func (s *steps) weigh(x, weight, out *aclnn.Tensor) {
	if weight.Format() == aclnn.FractalNZ {
		launch(s, aclnn.MatmulWeightNz, aclnn.MatmulWeightNzParams{Self: x, Mat2: weight, Out: out, CubeMathType: keepDType})
		return
	}
	launch(s, aclnn.Matmul, aclnn.MatmulParams{Self: x, Mat2: weight, Out: out, CubeMathType: keepDType})
}
