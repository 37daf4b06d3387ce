package nn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/testing/golden"
)

// A mixture-of-experts layer and its gradients, composed of the operators that programs use:
// gating, permute, grouped products, SwiGLU and unpermute.
func TestGoldenExperts(t *testing.T) {
	for _, c := range golden.Cases(t, "moe_swiglu") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			newExpertLayer(t, c).check(t)
		})
	}
}

// expertLayer is a layer with the values of the forward pass that its backward pass needs.
type expertLayer struct {
	c                                       *golden.Case
	tokens, width, inner, experts, k, total int64
	x, router, up, down                     *op.Tensor
	expertIdx, weights, places, groups      *op.Tensor
}

func newExpertLayer(t *testing.T, c *golden.Case) *expertLayer {
	l := &expertLayer{
		c: c, tokens: int64(c.Int("T")), width: int64(c.Int("H")), inner: int64(c.Int("I")), experts: int64(c.Int("E")), k: int64(c.Int("topk")),
		x: optest.GoldenTensor(t, c, c.DType, "x"), router: optest.GoldenTensor(t, c, c.DType, "w_router"),
		up: optest.GoldenTensor(t, c, c.DType, "w_gate_up"), down: optest.GoldenTensor(t, c, c.DType, "w_down"),
	}
	l.total = l.tokens * l.k
	return l
}

// product multiplies the rows of each expert by its weight. With split it sums over the rows
// instead.
func (l *expertLayer) product(t *testing.T, x, w, out *op.Tensor, split bool) *op.Tensor {
	groupType := 0 // rows
	if split {
		groupType = 2 // K
	}
	optest.Run(t, "GroupedMatmulV4", optest.Args{
		"x": []*op.Tensor{x}, "weight": []*op.Tensor{w}, "groupListOptional": l.groups, "groupListType": 0, "groupType": groupType, "splitItem": 3, "out": []*op.Tensor{out},
	})
	return out
}

func (l *expertLayer) mm(t *testing.T, a, b *op.Tensor) *op.Tensor {
	out := optest.Tensor(t, a.DType, []int64{a.Dim(0), b.Dim(1)})
	optest.Run(t, "Mm", optest.Args{"self": a, "mat2": b, "out": out})
	return out
}

func (l *expertLayer) check(t *testing.T) {
	const limit = 2e-6
	d, c := l.c.DType, l.c
	// Choose the experts. The weights are normalised over the chosen ones.
	logits := l.mm(t, l.x, l.router)
	l.weights, l.expertIdx = optest.Tensor(t, d, []int64{l.tokens, l.k}), optest.Tensor(t, dtype.Int32, []int64{l.tokens, l.k})
	optest.Run(t, "MoeGatingTopKSoftmaxV2", optest.Args{"x": logits, "k": l.k, "renorm": 1, "yOut": l.weights, "expertIdxOut": l.expertIdx})
	require.Equal(t, optest.Floats(c.Int64("topk_idx")), optest.Values(l.expertIdx))
	optest.RequireRMS(t, c, "topk_w", l.weights, limit)
	rows := optest.Tensor(t, d, []int64{l.total, l.width})
	l.places = optest.Tensor(t, dtype.Int32, []int64{l.total})
	optest.Run(t, "MoeTokenPermute", optest.Args{"tokens": l.x, "indices": l.expertIdx, "permuteTokensOut": rows, "sortedIndicesOut": l.places})

	flat, sortedIdx := optest.Of(l.expertIdx.As([]int64{l.total}, []int64{1})), optest.Tensor(t, dtype.Int32, []int64{l.total})
	optest.Run(t, "Sort", optest.Args{"self": flat, "stable": true, "valuesOut": sortedIdx, "indicesOut": optest.Tensor(t, dtype.Int64, []int64{l.total})})
	counts := optest.Tensor(t, dtype.Int32, []int64{l.experts})
	optest.Run(t, "MoeComputeExpertTokens", optest.Args{"sortedExperts": sortedIdx, "numExperts": l.experts, "out": counts})
	l.groups = optest.Tensor(t, dtype.Int64, []int64{l.experts}, optest.Values(counts)...)

	hidden := l.product(t, rows, l.up, optest.Tensor(t, d, []int64{l.total, 2 * l.inner}), false)
	active := optest.Tensor(t, d, []int64{l.total, l.inner})
	optest.Run(t, "SwiGlu", optest.Args{"x": hidden, "dim": -1, "out": active})
	result := l.product(t, active, l.down, optest.Tensor(t, d, []int64{l.total, l.width}), false)
	y := optest.Tensor(t, d, []int64{l.tokens, l.width})
	optest.Run(t, "MoeTokenUnpermute", optest.Args{"permutedTokens": result, "sortedIndices": l.places, "probsOptional": l.weights, "out": y})
	optest.RequireRMS(t, c, "y", y, limit)

	// The backward pass through the experts.
	dResult, dWeights := optest.Tensor(t, d, []int64{l.total, l.width}), optest.Tensor(t, d, []int64{l.tokens, l.k})
	optest.Run(t, "MoeTokenUnpermuteGrad", optest.Args{
		"permuteTokens": result, "unpermutedTokensGrad": optest.GoldenTensor(t, c, d, "dy"), "sortedIndices": l.places, "probsOptional": l.weights,
		"permutedTokensGradOut": dResult, "probsGradOut": dWeights,
	})
	optest.RequireRMS(t, c, "dw_down", l.product(t, optest.Flipped(active), dResult, optest.Tensor(t, d, []int64{l.experts, l.inner, l.width}), true), limit)
	dActive := l.product(t, dResult, optest.Flipped(l.down), optest.Tensor(t, d, []int64{l.total, l.inner}), false)
	dHidden := optest.Tensor(t, d, []int64{l.total, 2 * l.inner})
	optest.Run(t, "SwiGluGrad", optest.Args{"yGrad": dActive, "x": hidden, "dim": -1, "out": dHidden})
	optest.RequireRMS(t, c, "dw_gate_up", l.product(t, optest.Flipped(rows), dHidden, optest.Tensor(t, d, []int64{l.experts, l.width, 2 * l.inner}), true), limit)
	dRows := l.product(t, dHidden, optest.Flipped(l.up), optest.Tensor(t, d, []int64{l.total, l.width}), false)
	dx := optest.Tensor(t, d, []int64{l.tokens, l.width})
	optest.Run(t, "MoeTokenPermuteGrad", optest.Args{"permutedOutputGrad": dRows, "sortedIndices": l.places, "numTopk": l.k, "out": dx})

	// The backward pass through the router.
	dChosen, dLogits := optest.Tensor(t, d, []int64{l.tokens, l.k}), optest.Tensor(t, d, []int64{l.tokens, l.experts}, 0)
	optest.Run(t, "SoftmaxBackward", optest.Args{"gradOutput": dWeights, "output": l.weights, "dim": 1, "out": dChosen})
	optest.Run(t, "InplaceScatter", optest.Args{"selfRef": dLogits, "dim": 1, "index": l.expertIdx, "src": dChosen})
	optest.RequireRMS(t, c, "dw_router", l.mm(t, optest.Flipped(l.x), dLogits), limit)
	optest.Run(t, "InplaceAdd", optest.Args{"selfRef": dx, "other": l.mm(t, dLogits, optest.Flipped(l.router)), "alpha": optest.Scalar(1)})
	optest.RequireRMS(t, c, "dx", dx, limit)
}
