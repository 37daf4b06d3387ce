package loss

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// vocabularyLoss is Σ dy · (log Σ exp(x·w) − x·w[target]) over rows of x and words of w.
func vocabularyLoss(x, w, target, dy []float64, width int) float64 {
	sum := 0.0
	for i, g := range dy {
		logits := optest.Times(x[i*width:][:width], optest.Transposed(w, width), width)
		total := 0.0
		for _, l := range logits {
			total += math.Exp(l)
		}
		sum += g * (math.Log(total) - logits[int(target[i])])
	}
	return sum
}

// Run on two ranks that each have part of the vocabulary, with reductions between them, the
// three operators compute the loss of the whole vocabulary and its gradients.
func TestVocabularyParallelLoss(t *testing.T) {
	const ranks = 2
	f := dtype.Float32
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		for _, l := range kerneltest.Layouts {
			for _, s := range []struct{ rows, width, words int64 }{{1, 1, 1}, {11, 5, 7}, {8, 3, 2}} {
				for _, recomputed := range []bool{false, true} {
					what := fmt.Sprintf("%v %v %+v recomputed %v", d, l, s, recomputed)
					limit := 8 * optest.ResultLimit(d)
					if !recomputed {
						limit *= 4 // the logits passed on were rounded
					}
					x, whole := optest.Filled(t, 1, d, l, []int64{s.rows, s.width}), optest.Filled(t, 2, d, kerneltest.Contiguous, []int64{ranks * s.words, s.width})
					var targets []float64
					for i := range s.rows {
						targets = append(targets, float64((3*i+1)%(ranks*s.words)))
					}
					target := optest.TensorIn(t, dtype.Int64, l, []int64{s.rows}, targets...)
					perRow := func() *op.Tensor { return optest.Tensor(t, f, []int64{s.rows}) }
					type rank struct{ weight, most, sum, predicted, mask, masked, logits *op.Tensor }
					var parts [ranks]rank
					for r := range parts {
						first := int64(r) * s.words
						p := rank{
							weight: optest.TensorIn(t, d, l, []int64{s.words, s.width}, optest.Values(whole)[first*s.width:][:s.words*s.width]...), most: perRow(), sum: perRow(), predicted: perRow(),
							mask: optest.Tensor(t, dtype.Uint8, []int64{(s.rows + 7) / 8}), masked: optest.Tensor(t, dtype.Int64, []int64{s.rows}), logits: optest.TensorIn(t, d, l, []int64{s.rows, s.words}),
						}
						set := optest.Args{
							"input": x, "weight": p.weight, "target": target, "vocabStartIndex": first, "vocabEndIndex": first + s.words - 1, "logitsMaxLocalOut": p.most,
							"sumExpLogitsLocalOut": p.sum, "predictedLogitsLocalOut": p.predicted, "targetMaskOut": p.mask, "maskedTargetOut": p.masked,
						}
						if !recomputed {
							set["vocabParallelLogitsOutOptional"] = p.logits
						}
						optest.Run(t, "FusedLinearOnlineMaxSum", set)
						for i := range 8 * p.mask.Len() {
							outside := i >= s.rows || int64(targets[i]) < first || int64(targets[i]) >= first+s.words
							assert.Equal(t, outside, int(optest.Values(p.mask)[i/8])&(0x80>>(i%8)) != 0, "%s: bit %d", what, i)
						}
						parts[r] = p
					}
					var most, sum, predicted []float64
					for i := range s.rows {
						m := max(optest.Values(parts[0].most)[i], optest.Values(parts[1].most)[i])
						total, at := 0.0, 0.0
						for r, p := range parts {
							total += optest.Values(p.sum)[i] * math.Exp(optest.Values(p.most)[i]-m)
							if int64(targets[i])/s.words == int64(r) {
								at = optest.Values(p.predicted)[i] + optest.Values(p.most)[i] - m
							}
						}
						most, sum, predicted = append(most, m), append(sum, total), append(predicted, at)
					}
					dy := optest.Filled(t, 3, f, l, []int64{s.rows})
					var want []float64
					for i := range s.rows {
						want = append(want, vocabularyLoss(optest.Values(x)[i*s.width:][:s.width], optest.Values(whole), targets[i:], []float64{1}, int(s.width)))
					}
					dx := make([]float64, x.Len())
					for r, p := range parts {
						m, e, g := optest.Tensor(t, f, []int64{s.rows}, most...), optest.Tensor(t, f, []int64{s.rows}, sum...), optest.Tensor(t, f, []int64{s.rows}, predicted...)
						loss := optest.TensorIn(t, f, l, []int64{s.rows})
						set := optest.Args{"logitsMax": m, "sumExpLogits": e, "predictedLogits": g, "lossOut": loss}
						grad := optest.Args{"grad": dy, "input": x, "weight": p.weight, "targetMask": p.mask, "maskedTarget": p.masked, "logitsMaxOptional": m, "sumExpLogitsOptional": e}
						if !recomputed {
							softmax := optest.Tensor(t, f, []int64{s.rows, s.words})
							set["vocabParallelLogitsOptional"], set["softMaxOutOptional"] = p.logits, softmax
							grad["softmaxOptional"], grad["logitsMaxOptional"], grad["sumExpLogitsOptional"] = softmax, nil, nil
						}
						optest.Run(t, "FusedCrossEntropyLossWithMaxSum", set)
						optest.CloseTo(t, what, want, optest.Values(loss), 1e-5)
						ownX, ownW := optest.TensorIn(t, d, l, x.Shape), optest.TensorIn(t, d, l, p.weight.Shape)
						grad["inputGradOut"], grad["weightGradOut"] = ownX, ownW
						optest.Run(t, "FusedLinearCrossEntropyLossGrad", grad)
						_, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend910B, Tiled: true}, "FusedLinearCrossEntropyLossGrad", grad)
						assert.Equal(t, !recomputed && s.words < 128, err != nil, "%s: %v", what, err)
						packed, apart := optest.Values(p.mask), make([]float64, s.rows)
						for i := range apart {
							apart[i] = float64(int(packed[i/8]) >> (7 - i%8) & 1)
						}
						byBits, byBools := optest.Values(ownX), optest.TensorIn(t, d, l, x.Shape)
						optest.Run(t, "FusedLinearCrossEntropyLossGrad", grad.With(optest.Args{"targetMask": optest.Tensor(t, dtype.Bool, []int64{s.rows}, apart...), "inputGradOut": byBools}))
						assert.Equal(t, byBits, optest.Values(byBools), what)
						for i, v := range optest.Values(ownX) {
							dx[i] += v
						}
						ofWords := func(v []float64) []float64 {
							return []float64{vocabularyLoss(optest.Values(x), v, targets, optest.Values(dy), int(s.width))}
						}
						n := int(s.words * s.width)
						optest.CloseTo(t, what, optest.Gradient(ofWords, []float64{1}, optest.Values(whole))[r*n:][:n], optest.Values(ownW), limit)
					}
					ofInput := func(v []float64) []float64 {
						return []float64{vocabularyLoss(v, optest.Values(whole), targets, optest.Values(dy), int(s.width))}
					}
					optest.CloseTo(t, what, optest.Gradient(ofInput, []float64{1}, optest.Values(x)), dx, limit)
				}
			}
		}
	}
}

func TestVocabularyParallelLossRefuses(t *testing.T) {
	d, f := dtype.Float16, dtype.Float32
	for _, c := range []struct {
		set  optest.Args
		code int32
		text string
	}{
		{optest.Args{"vocabStartIndex": -1}, op.InvalidParam, "vocabStartIndex is -1"},
		{optest.Args{"vocabEndIndex": 0, "vocabStartIndex": 1}, op.InvalidParam, "vocabEndIndex 0"},
		{optest.Args{"weight": optest.Tensor(t, d, []int64{2, 3}, 1)}, op.InvalidParam, "does not fit"},
		{optest.Args{"weight": optest.Tensor(t, f, []int64{2, 2}, 1)}, op.InvalidParam, "dtypes differ"},
		{optest.Args{"targetMaskOut": optest.Tensor(t, dtype.Uint8, []int64{9})}, op.InvalidParam, "a bit for each row"},
		{optest.Args{"maskedTargetOut": optest.Tensor(t, dtype.Int32, []int64{9})}, op.InvalidParam, "maskedTargetOut"},
		{optest.Args{"target": nil}, op.NullPointer, "target is null"},
	} {
		a := optest.Args{
			"input": optest.Tensor(t, d, []int64{9, 2}, 1), "weight": optest.Tensor(t, d, []int64{2, 2}, 1), "target": optest.Tensor(t, dtype.Int64, []int64{9}, 0), "vocabEndIndex": 1,
			"logitsMaxLocalOut": optest.Tensor(t, f, []int64{9}), "sumExpLogitsLocalOut": optest.Tensor(t, f, []int64{9}), "predictedLogitsLocalOut": optest.Tensor(t, f, []int64{9}),
			"targetMaskOut": optest.Tensor(t, dtype.Uint8, []int64{2}), "maskedTargetOut": optest.Tensor(t, dtype.Int64, []int64{9}),
		}
		for k, v := range c.set {
			a[k] = v
		}
		optest.Refused(t, c.code, "FusedLinearOnlineMaxSum", a, c.text)
	}
	v := optest.Tensor(t, f, []int64{3}, 1)
	optest.Refused(t, op.InvalidParam, "FusedCrossEntropyLossWithMaxSum", optest.Args{"logitsMax": v, "sumExpLogits": v, "predictedLogits": v, "lossOut": v, "labelSmoothing": 0.1}, "labelSmoothing")
	optest.Refused(t, op.InvalidParam, "FusedCrossEntropyLossWithMaxSum", optest.Args{"logitsMax": v, "sumExpLogits": v, "predictedLogits": v, "lossOut": v, "inputOptional": v}, "only null")
	two := func() *op.Tensor { return optest.Tensor(t, f, []int64{3, 2}, 1) }
	loss := optest.Tensor(t, f, []int64{3}, 0)
	optest.Run(t, "FusedCrossEntropyLossWithMaxSum", optest.Args{
		"logitsMax": v, "sumExpLogits": v, "predictedLogits": v, "lossOut": loss, "inputOptional": v, "weightOptional": v,
		"vocabParallelLogitsOptional": two(), "softMaxOutOptional": two(),
	})
	assert.Equal(t, []float64{-1, -1, -1}, optest.Values(loss)) // log 1 - 1
	x, w := optest.Tensor(t, d, []int64{3, 2}, 1), optest.Tensor(t, d, []int64{2, 2}, 1)
	grad := optest.Args{"grad": v, "input": x, "weight": w, "targetMask": optest.Tensor(t, dtype.Uint8, []int64{1}, 0), "maskedTarget": optest.Tensor(t, dtype.Int64, []int64{3}, 5), "inputGradOut": x, "weightGradOut": w}
	optest.Refused(t, op.NullPointer, "FusedLinearCrossEntropyLossGrad", grad, "logitsMaxOptional")
	grad["softmaxOptional"] = optest.Tensor(t, f, []int64{3, 2}, 0.5)
	assert.ErrorContains(t, optest.Execute(t, "FusedLinearCrossEntropyLossGrad", grad), "target 5 of row 0")
}
