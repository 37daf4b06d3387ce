package nn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/golden"
)

// A mixture-of-experts layer with its gradients, as programs put it together: gating,
// permute, grouped products, SwiGLU and unpermute.
func TestGoldenExperts(t *testing.T) {
	for _, c := range golden.Cases(t, "moe_swiglu") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			newExpertLayer(t, c).check(t)
		})
	}
}

// expertLayer is a layer and what its backward pass needs of the forward one.
type expertLayer struct {
	c                                       *golden.Case
	tokens, width, inner, experts, k, total int64
	x, router, up, down                     *Tensor
	expertIdx, weights, places, groups      *Tensor
}

func newExpertLayer(t *testing.T, c *golden.Case) *expertLayer {
	l := &expertLayer{
		c: c, tokens: int64(c.Int("T")), width: int64(c.Int("H")), inner: int64(c.Int("I")), experts: int64(c.Int("E")), k: int64(c.Int("topk")),
		x: goldenTensor(t, c, c.DType, "x"), router: goldenTensor(t, c, c.DType, "w_router"),
		up: goldenTensor(t, c, c.DType, "w_gate_up"), down: goldenTensor(t, c, c.DType, "w_down"),
	}
	l.total = l.tokens * l.k
	return l
}

// product multiplies the rows of each expert, or with split sums over them.
func (l *expertLayer) product(t *testing.T, x, w, out *Tensor, split bool) *Tensor {
	groupType := groupRows
	if split {
		groupType = groupSum
	}
	run(t, "GroupedMatmulV4", args{
		"x": single(x), "weight": single(w), "groupListOptional": l.groups, "groupListType": 0, "groupType": groupType, "splitItem": 3, "out": single(out),
	})
	return out
}

func (l *expertLayer) mm(t *testing.T, a, b *Tensor) *Tensor {
	out := tensor(t, a.DType, []int64{a.Dim(0), b.Dim(1)})
	run(t, "Mm", args{"self": a, "mat2": b, "out": out})
	return out
}

func (l *expertLayer) check(t *testing.T) {
	const limit = 2e-6
	d, c := l.c.DType, l.c
	// The choice of experts, with weights normalised over those chosen.
	logits := l.mm(t, l.x, l.router)
	l.weights, l.expertIdx = tensor(t, d, []int64{l.tokens, l.k}), tensor(t, dtype.Int32, []int64{l.tokens, l.k})
	run(t, "MoeGatingTopKSoftmaxV2", args{"x": logits, "k": l.k, "renorm": 1, "yOut": l.weights, "expertIdxOut": l.expertIdx})
	require.Equal(t, reals(c.Int64("topk_idx")), values(l.expertIdx))
	requireRMS(t, c, "topk_w", l.weights, limit)
	rows := tensor(t, d, []int64{l.total, l.width})
	l.places = tensor(t, dtype.Int32, []int64{l.total})
	run(t, "MoeTokenPermute", args{"tokens": l.x, "indices": l.expertIdx, "permuteTokensOut": rows, "sortedIndicesOut": l.places})

	flat, sortedIdx := of(l.expertIdx.As([]int64{l.total}, []int64{1})), tensor(t, dtype.Int32, []int64{l.total})
	run(t, "Sort", args{"self": flat, "stable": true, "valuesOut": sortedIdx, "indicesOut": tensor(t, dtype.Int64, []int64{l.total})})
	counts := tensor(t, dtype.Int32, []int64{l.experts})
	run(t, "MoeComputeExpertTokens", args{"sortedExperts": sortedIdx, "numExperts": l.experts, "out": counts})
	l.groups = tensor(t, dtype.Int64, []int64{l.experts}, values(counts)...)

	hidden := l.product(t, rows, l.up, tensor(t, d, []int64{l.total, 2 * l.inner}), false)
	active := tensor(t, d, []int64{l.total, l.inner})
	run(t, "SwiGlu", args{"x": hidden, "dim": -1, "out": active})
	result := l.product(t, active, l.down, tensor(t, d, []int64{l.total, l.width}), false)
	y := tensor(t, d, []int64{l.tokens, l.width})
	run(t, "MoeTokenUnpermute", args{"permutedTokens": result, "sortedIndices": l.places, "probsOptional": l.weights, "out": y})
	requireRMS(t, c, "y", y, limit)

	// Back through the experts.
	dResult, dWeights := tensor(t, d, []int64{l.total, l.width}), tensor(t, d, []int64{l.tokens, l.k})
	run(t, "MoeTokenUnpermuteGrad", args{
		"permuteTokens": result, "unpermutedTokensGrad": goldenTensor(t, c, d, "dy"), "sortedIndices": l.places, "probsOptional": l.weights,
		"permutedTokensGradOut": dResult, "probsGradOut": dWeights,
	})
	requireRMS(t, c, "dw_down", l.product(t, flipped(active), dResult, tensor(t, d, []int64{l.experts, l.inner, l.width}), true), limit)
	dActive := l.product(t, dResult, flipped(l.down), tensor(t, d, []int64{l.total, l.inner}), false)
	dHidden := tensor(t, d, []int64{l.total, 2 * l.inner})
	run(t, "SwiGluGrad", args{"yGrad": dActive, "x": hidden, "dim": -1, "out": dHidden})
	requireRMS(t, c, "dw_gate_up", l.product(t, flipped(rows), dHidden, tensor(t, d, []int64{l.experts, l.width, 2 * l.inner}), true), limit)
	dRows := l.product(t, dHidden, flipped(l.up), tensor(t, d, []int64{l.total, l.width}), false)
	dx := tensor(t, d, []int64{l.tokens, l.width})
	run(t, "MoeTokenPermuteGrad", args{"permutedOutputGrad": dRows, "sortedIndices": l.places, "numTopk": l.k, "out": dx})

	// Back through the router.
	dChosen, dLogits := tensor(t, d, []int64{l.tokens, l.k}), tensor(t, d, []int64{l.tokens, l.experts}, 0)
	run(t, "SoftmaxBackward", args{"gradOutput": dWeights, "output": l.weights, "dim": 1, "out": dChosen})
	run(t, "InplaceScatter", args{"selfRef": dLogits, "dim": 1, "index": l.expertIdx, "src": dChosen})
	requireRMS(t, c, "dw_router", l.mm(t, flipped(l.x), dLogits), limit)
	run(t, "InplaceAdd", args{"selfRef": dx, "other": l.mm(t, dLogits, flipped(l.router)), "alpha": scalar(1)})
	requireRMS(t, c, "dx", dx, limit)
}
