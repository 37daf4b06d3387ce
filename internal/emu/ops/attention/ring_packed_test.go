package attention

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// TestRingAttentionUpdatePacked merges packed sequences, with statistics in the order of the tokens and in that of the heads of each
// sequence, and compares with the formulas in float64.
func TestRingAttentionUpdatePacked(t *testing.T) {
	f := dtype.Float32
	for _, dt := range []dtype.Type{f, dtype.Float16, dtype.BFloat16} {
		for _, lengths := range [][]int64{{1}, {3, 5}, {2, 0, 7}} {
			for _, order := range []string{"", "SBH", "TND"} {
				for _, layout := range kerneltest.Layouts {
					const heads, dim = 3, 64
					tokens := op.Total(lengths)
					bounds := append([]int64{0}, ends(lengths)...)
					stat := func(seed uint64, positive bool) *op.Tensor {
						v := make([]float64, tokens*heads*8)
						for i, x := range optest.Normal(seed, f, tokens*heads) {
							if positive {
								x = math.Abs(x) + 0.5
							}
							for k := range 8 {
								v[8*i+k] = x
							}
						}
						return optest.Tensor(t, f, []int64{tokens, heads, 8}, v...)
					}
					var p [2][3]*op.Tensor
					for i := range p {
						p[i] = [3]*op.Tensor{optest.Filled(t, uint64(10*i+1), dt, layout, []int64{tokens, heads, dim}), stat(uint64(10*i+2), false), stat(uint64(10*i+3), true)}
					}
					out, top, sum := optest.TensorIn(t, dt, layout, []int64{tokens, heads, dim}), optest.Tensor(t, f, []int64{tokens, heads, 8}), optest.Tensor(t, f, []int64{tokens, heads, 8})
					optest.Run(t, "RingAttentionUpdateV2", optest.Args{
						"prevAttnOut": p[0][0], "prevSoftmaxMax": p[0][1], "prevSoftmaxSum": p[0][2], "curAttnOut": p[1][0], "curSoftmaxMax": p[1][1], "curSoftmaxSum": p[1][2],
						"actualSeqQlenOptional": optest.Tensor(t, dtype.Int64, []int64{int64(len(bounds))}, optest.Floats(bounds)...), "inputLayoutOptional": "TND", "inputSoftmaxLayoutOptional": order,
						"attnOutOut": out, "softmaxMaxOut": top, "softmaxSumOut": sum,
					})
					want, wantTop, wantSum := make([]float64, tokens*heads*dim), make([]float64, tokens*heads*8), make([]float64, tokens*heads*8)
					for b, n := range lengths {
						for i := range n {
							for h := range int64(heads) {
								row := (bounds[b]+i)*heads + h
								at := row
								if order != "TND" {
									at = bounds[b]*heads + h*n + i
								}
								a, z := optest.Values(p[0][1])[8*at], optest.Values(p[1][1])[8*at]
								most := max(a, z)
								l, r := optest.Values(p[0][2])[8*at]*math.Exp(a-most), optest.Values(p[1][2])[8*at]*math.Exp(z-most)
								for k := range int64(8) {
									wantTop[8*at+k], wantSum[8*at+k] = most, l+r
								}
								for k := range int64(dim) {
									want[row*dim+k] = (optest.Values(p[0][0])[row*dim+k]*l + optest.Values(p[1][0])[row*dim+k]*r) / (l + r)
								}
							}
						}
					}
					what := fmt.Sprint(dt, lengths, order, layout)
					optest.CloseTo(t, what, want, optest.Values(out), optest.ResultLimit(dt))
					optest.CloseTo(t, "max "+what, wantTop, optest.Values(top), 1e-6)
					optest.CloseTo(t, "sum "+what, wantSum, optest.Values(sum), 1e-5)
				}
			}
		}
	}
	x := func(shape ...int64) *op.Tensor { return optest.Tensor(t, f, shape) }
	a := optest.Args{
		"prevAttnOut": x(2, 1, 64), "prevSoftmaxMax": x(2, 1, 8), "prevSoftmaxSum": x(2, 1, 8), "curAttnOut": x(2, 1, 64), "curSoftmaxMax": x(2, 1, 8), "curSoftmaxSum": x(2, 1, 8),
		"actualSeqQlenOptional": optest.Tensor(t, dtype.Int64, []int64{2}, 0, 3), "inputLayoutOptional": "TND", "attnOutOut": x(2, 1, 64), "softmaxMaxOut": x(2, 1, 8), "softmaxSumOut": x(2, 1, 8),
	}
	optest.Refused(t, op.TilingRefused, "RingAttentionUpdateV2", a.With(optest.Args{"inputSoftmaxLayoutOptional": "BNS"}), "inputSoftmaxLayout is")
	optest.Refused(t, op.TilingRefused, "RingAttentionUpdateV2", a.With(optest.Args{"prevAttnOut": x(2, 1, 8), "curAttnOut": x(2, 1, 8), "attnOutOut": x(2, 1, 8)}), "multiple of 64")
	optest.Refused(t, op.NullPointer, "RingAttentionUpdateV2", a.With(optest.Args{"actualSeqQlenOptional": nil}), "actualSeqQlenOptional is null")
	require.ErrorContains(t, optest.Execute(t, "RingAttentionUpdateV2", a), "must increase from 0 to 2")
}

// TestPartialRotary compares with rotations in float64: types of angles, ranges of columns, and angles for each token or for all.
func TestPartialRotary(t *testing.T) {
	for _, dt := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16} {
		for _, at := range []dtype.Type{dt, dtype.Float32} {
			for _, span := range [][]int64{nil, {0, 4}, {2, 10}, {6, 10}, {4, 4}} {
				for _, size := range [][3]int64{{1, 1, 1}, {2, 5, 3}} {
					for _, tokens := range []int64{1, size[1]} {
						const width = 10
						from, to := int64(0), int64(width)
						if span != nil {
							from, to = span[0], span[1]
						}
						x := optest.Filled(t, 1, dt, kerneltest.Contiguous, []int64{size[0], size[1], size[2], width})
						cos, sin := optest.Filled(t, 2, at, kerneltest.Contiguous, []int64{size[0], tokens, 1, to - from}), optest.Filled(t, 3, at, kerneltest.Contiguous, []int64{size[0], tokens, 1, to - from})
						want, c, s := optest.Values(x), optest.Values(cos), optest.Values(sin)
						optest.Run(t, "InplacePartialRotaryMul", optest.Args{"xRef": x, "cos": cos, "sin": sin, "rotary_mode": 1, "partialSlice": span})
						for row := range size[0] * size[1] * size[2] {
							b, token := row/(size[1]*size[2]), row/size[2]%size[1]
							for i := from; i < to; i += 2 {
								angle := (b*tokens+token%tokens)*(to-from) + i - from
								z := complex(want[row*width+i], want[row*width+i+1])
								want[row*width+i] = real(z)*c[angle] - imag(z)*s[angle]
								want[row*width+i+1] = imag(z)*c[angle+1] + real(z)*s[angle+1]
							}
						}
						optest.CloseTo(t, fmt.Sprint(dt, at, span, size, tokens), want, optest.Values(x), optest.ResultLimit(dt))
					}
				}
			}
		}
	}
	f := dtype.Float32
	x := func(shape ...int64) *op.Tensor { return optest.Tensor(t, f, shape) }
	a := optest.Args{"xRef": x(1, 2, 1, 8), "cos": x(1, 2, 1, 4), "sin": x(1, 2, 1, 4), "rotary_mode": 1, "partialSlice": []int64{0, 4}}
	for text, set := range map[string]optest.Args{
		"rotary_mode is 0":        {"rotary_mode": 0},
		"an even number of them":  {"partialSlice": []int64{0, 3}},
		"within the 8 columns":    {"partialSlice": []int64{6, 10}},
		"columns of partialSlice": {"partialSlice": []int64{0, 6}},
		"the tokens of":           {"xRef": x(1, 3, 1, 8)},
		"must be contiguous":      {"xRef": optest.TensorIn(t, f, kerneltest.Gapped, []int64{1, 2, 1, 8})},
	} {
		optest.Refused(t, op.InvalidParam, "InplacePartialRotaryMul", a.With(set), text)
	}
}
