package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// vocabularyLoss is Σ dy · (log Σ exp(x·w) − x·w[target]) over rows of x and words of w.
func vocabularyLoss(x, w, target, dy []float64, width int) float64 {
	sum := 0.0
	for i, g := range dy {
		logits := timesOf(x[i*width:][:width], turned(w, width), width)
		total := 0.0
		for _, l := range logits {
			total += math.Exp(l)
		}
		sum += g * (math.Log(total) - logits[int(target[i])])
	}
	return sum
}

// The three operators with the reductions between them, on two ranks that have parts of the
// vocabulary, are the loss of the whole and its gradients.
func TestVocabularyParallelLoss(t *testing.T) {
	const ranks = 2
	f := dtype.Float32
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		for _, l := range kerneltest.Layouts {
			for _, s := range []struct{ rows, width, words int64 }{{1, 1, 1}, {11, 5, 7}, {8, 3, 2}} {
				for _, recomputed := range []bool{false, true} {
					what := fmt.Sprintf("%v %v %+v recomputed %v", d, l, s, recomputed)
					limit := 8 * resultLimit(d)
					if !recomputed {
						limit *= 4 // the logits that are passed on were rounded
					}
					x, whole := filled(t, 1, d, l, []int64{s.rows, s.width}), filled(t, 2, d, kerneltest.Contiguous, []int64{ranks * s.words, s.width})
					var targets []float64
					for i := range s.rows {
						targets = append(targets, float64((3*i+1)%(ranks*s.words)))
					}
					target := tensorIn(t, dtype.Int64, l, []int64{s.rows}, targets...)
					perRow := func() *Tensor { return tensor(t, f, []int64{s.rows}) }
					type rank struct{ weight, most, sum, predicted, mask, masked, logits *Tensor }
					var parts [ranks]rank
					for r := range parts {
						first := int64(r) * s.words
						p := rank{
							weight: tensorIn(t, d, l, []int64{s.words, s.width}, values(whole)[first*s.width:][:s.words*s.width]...), most: perRow(), sum: perRow(), predicted: perRow(),
							mask: tensor(t, dtype.Uint8, []int64{(s.rows + 7) / 8}), masked: tensor(t, dtype.Int64, []int64{s.rows}), logits: tensorIn(t, d, l, []int64{s.rows, s.words}),
						}
						set := args{
							"input": x, "weight": p.weight, "target": target, "vocabStartIndex": first, "vocabEndIndex": first + s.words - 1, "logitsMaxLocalOut": p.most,
							"sumExpLogitsLocalOut": p.sum, "predictedLogitsLocalOut": p.predicted, "targetMaskOut": p.mask, "maskedTargetOut": p.masked,
						}
						if !recomputed {
							set["vocabParallelLogitsOutOptional"] = p.logits
						}
						run(t, "FusedLinearOnlineMaxSum", set)
						for i := range 8 * p.mask.Len() {
							outside := i >= s.rows || int64(targets[i]) < first || int64(targets[i]) >= first+s.words
							assert.Equal(t, outside, int(values(p.mask)[i/8])&(0x80>>(i%8)) != 0, "%s: bit %d", what, i)
						}
						parts[r] = p
					}
					var most, sum, predicted []float64
					for i := range s.rows {
						m := max(values(parts[0].most)[i], values(parts[1].most)[i])
						total, at := 0.0, 0.0
						for r, p := range parts {
							total += values(p.sum)[i] * math.Exp(values(p.most)[i]-m)
							if int64(targets[i])/s.words == int64(r) {
								at = values(p.predicted)[i] + values(p.most)[i] - m
							}
						}
						most, sum, predicted = append(most, m), append(sum, total), append(predicted, at)
					}
					dy := filled(t, 3, f, l, []int64{s.rows})
					var want []float64
					for i := range s.rows {
						want = append(want, vocabularyLoss(values(x)[i*s.width:][:s.width], values(whole), targets[i:], []float64{1}, int(s.width)))
					}
					dx := make([]float64, x.Len())
					for r, p := range parts {
						m, e, g := tensor(t, f, []int64{s.rows}, most...), tensor(t, f, []int64{s.rows}, sum...), tensor(t, f, []int64{s.rows}, predicted...)
						loss := tensorIn(t, f, l, []int64{s.rows})
						set := args{"logitsMax": m, "sumExpLogits": e, "predictedLogits": g, "lossOut": loss}
						grad := args{"grad": dy, "input": x, "weight": p.weight, "targetMask": p.mask, "maskedTarget": p.masked, "logitsMaxOptional": m, "sumExpLogitsOptional": e}
						if !recomputed {
							softmax := tensor(t, f, []int64{s.rows, s.words})
							set["vocabParallelLogitsOptional"], set["softMaxOutOptional"] = p.logits, softmax
							grad["softmaxOptional"], grad["logitsMaxOptional"], grad["sumExpLogitsOptional"] = softmax, nil, nil
						}
						run(t, "FusedCrossEntropyLossWithMaxSum", set)
						closeTo(t, what, want, values(loss), 1e-5)
						ownX, ownW := tensorIn(t, d, l, x.Shape), tensorIn(t, d, l, p.weight.Shape)
						grad["inputGradOut"], grad["weightGradOut"] = ownX, ownW
						run(t, "FusedLinearCrossEntropyLossGrad", grad)
						for i, v := range values(ownX) {
							dx[i] += v
						}
						ofWords := func(v []float64) []float64 {
							return []float64{vocabularyLoss(values(x), v, targets, values(dy), int(s.width))}
						}
						n := int(s.words * s.width)
						closeTo(t, what, gradient(ofWords, []float64{1}, values(whole))[r*n:][:n], values(ownW), limit)
					}
					ofInput := func(v []float64) []float64 {
						return []float64{vocabularyLoss(v, values(whole), targets, values(dy), int(s.width))}
					}
					closeTo(t, what, gradient(ofInput, []float64{1}, values(x)), dx, limit)
				}
			}
		}
	}
}

func TestVocabularyParallelLossRefuses(t *testing.T) {
	d, f := dtype.Float16, dtype.Float32
	for _, c := range []struct {
		set  args
		code int32
		text string
	}{
		{args{"vocabStartIndex": -1}, invalidParam, "vocabStartIndex is -1"},
		{args{"vocabEndIndex": 0, "vocabStartIndex": 1}, invalidParam, "vocabEndIndex 0"},
		{args{"weight": tensor(t, d, []int64{2, 3}, 1)}, invalidParam, "does not fit"},
		{args{"weight": tensor(t, f, []int64{2, 2}, 1)}, invalidParam, "dtypes differ"},
		{args{"targetMaskOut": tensor(t, dtype.Uint8, []int64{9})}, invalidParam, "a bit for each row"},
		{args{"maskedTargetOut": tensor(t, dtype.Int32, []int64{9})}, invalidParam, "maskedTargetOut"},
		{args{"target": nil}, nullPointer, "target is null"},
	} {
		a := args{
			"input": tensor(t, d, []int64{9, 2}, 1), "weight": tensor(t, d, []int64{2, 2}, 1), "target": tensor(t, dtype.Int64, []int64{9}, 0), "vocabEndIndex": 1,
			"logitsMaxLocalOut": tensor(t, f, []int64{9}), "sumExpLogitsLocalOut": tensor(t, f, []int64{9}), "predictedLogitsLocalOut": tensor(t, f, []int64{9}),
			"targetMaskOut": tensor(t, dtype.Uint8, []int64{2}), "maskedTargetOut": tensor(t, dtype.Int64, []int64{9}),
		}
		for k, v := range c.set {
			a[k] = v
		}
		refused(t, c.code, "FusedLinearOnlineMaxSum", a, c.text)
	}
	v := tensor(t, f, []int64{3}, 1)
	refused(t, invalidParam, "FusedCrossEntropyLossWithMaxSum", args{"logitsMax": v, "sumExpLogits": v, "predictedLogits": v, "lossOut": v, "labelSmoothing": 0.1}, "labelSmoothing")
	refused(t, invalidParam, "FusedCrossEntropyLossWithMaxSum", args{"logitsMax": v, "sumExpLogits": v, "predictedLogits": v, "lossOut": v, "inputOptional": v}, "only null")
	two := func() *Tensor { return tensor(t, f, []int64{3, 2}, 1) }
	loss := tensor(t, f, []int64{3}, 0)
	run(t, "FusedCrossEntropyLossWithMaxSum", args{
		"logitsMax": v, "sumExpLogits": v, "predictedLogits": v, "lossOut": loss, "inputOptional": v, "weightOptional": v,
		"vocabParallelLogitsOptional": two(), "softMaxOutOptional": two(),
	})
	assert.Equal(t, []float64{-1, -1, -1}, values(loss)) // log 1 - 1
	x, w := tensor(t, d, []int64{3, 2}, 1), tensor(t, d, []int64{2, 2}, 1)
	grad := args{"grad": v, "input": x, "weight": w, "targetMask": tensor(t, dtype.Uint8, []int64{1}, 0), "maskedTarget": tensor(t, dtype.Int64, []int64{3}, 5), "inputGradOut": x, "weightGradOut": w}
	refused(t, nullPointer, "FusedLinearCrossEntropyLossGrad", grad, "logitsMaxOptional")
	grad["softmaxOptional"] = tensor(t, f, []int64{3, 2}, 0.5)
	assert.ErrorContains(t, execute(t, "FusedLinearCrossEntropyLossGrad", grad), "target 5 of row 0")
}
