package loss

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// ctcDefinition sums the probabilities of all paths that spell the target once repetitions and
// blanks are removed. logits has one row of classes per time step.
func ctcDefinition(logits []float64, classes, blank int, target []float64) float64 {
	times := len(logits) / classes
	probs := make([]float64, len(logits))
	for t := range times {
		sum := 0.0
		for k := range classes {
			sum += math.Exp(logits[t*classes+k])
		}
		for k := range classes {
			probs[t*classes+k] = math.Exp(logits[t*classes+k]) / sum
		}
	}
	total := 0.0
	path := make([]int, times)
	for {
		p, spelt := 1.0, []float64{}
		for t, k := range path {
			p *= probs[t*classes+k]
			if k != blank && (t == 0 || path[t-1] != k) {
				spelt = append(spelt, float64(k))
			}
		}
		if slices.Equal(spelt, target) {
			total += p
		}
		t := 0
		for ; t < times; t++ {
			if path[t]++; path[t] < classes {
				break
			}
			path[t] = 0
		}
		if t == times {
			return -math.Log(total)
		}
	}
}

func TestCTC(t *testing.T) {
	const times, classes = 5, 3
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float64} {
		for _, l := range kerneltest.Layouts {
			for _, blank := range []int{0, 2} {
				labels := []float64{1, 1, 1} // the labels when the blank is class 0
				other := []float64{1, 2, 1}
				if blank == 2 {
					other = []float64{1, 0, 0}
				}
				inputs, lengths := []int64{times, 3, 2}, []int64{3, 1, 0}
				targets := [][]float64{other, labels[:1], nil}
				logits := optest.Normal(7, d, times*3*classes)
				probs := make([]float64, len(logits))
				for row := range times * 3 {
					sum := 0.0
					for k := range classes {
						sum += math.Exp(logits[row*classes+k])
					}
					for k := range classes {
						probs[row*classes+k] = logits[row*classes+k] - math.Log(sum)
					}
				}
				logProbs := optest.TensorIn(t, d, l, []int64{times, 3, classes}, probs...)
				padded := optest.Tensor(t, dtype.Int64, []int64{3, 3}, slices.Concat(other, []float64{1, 9, 9, 9, 9, 9})...)
				joined := optest.Tensor(t, dtype.Int32, []int64{4}, slices.Concat(other, []float64{1})...)
				for _, target := range []*op.Tensor{padded, joined} {
					what := fmt.Sprintf("%v %v blank %d, targets %v", d, l, blank, target)
					loss, alpha := optest.Tensor(t, d, []int64{3}), optest.Tensor(t, d, []int64{3, times, 8})
					a := optest.Args{"logProbs": logProbs, "targets": target, "inputLengths": inputs, "blank": blank}
					optest.Run(t, "CtcLoss", a.With(optest.Args{"targetlengths": lengths, "negLogLikelihoodOut": loss, "logAlphaOut": alpha}))
					dy, dx := optest.Filled(t, 3, d, kerneltest.Contiguous, []int64{3}), optest.TensorIn(t, d, l, logProbs.Shape)
					optest.Run(t, "CtcLossBackward", a.With(optest.Args{"targetLengths": lengths, "gradOut": dy, "negLogLikelihood": loss, "logAlpha": alpha, "out": dx}))
					want := func(logits []float64) []float64 {
						losses := make([]float64, 3)
						for i := range losses {
							var own []float64
							for s := range inputs[i] {
								own = append(own, logits[(int(s)*3+i)*classes:][:classes]...)
							}
							losses[i] = ctcDefinition(own, classes, blank, targets[i])
						}
						return losses
					}
					optest.CloseTo(t, what, want(logits), optest.Values(loss), 1e-5)
					optest.CloseTo(t, "gradient of "+what, optest.Gradient(want, optest.Values(dy), logits), optest.Values(dx), 2e-5)
				}
			}
		}
	}
}

func TestCTCWithoutPath(t *testing.T) {
	f := dtype.Float32
	logProbs := optest.Tensor(t, f, []int64{1, 2}, math.Log(.5))
	a := optest.Args{"logProbs": logProbs, "targets": optest.Tensor(t, dtype.Int64, []int64{2}, 1, 1), "inputLengths": []int64{1}}
	loss, alpha, dx := optest.Tensor(t, f, []int64{}), optest.Tensor(t, f, []int64{1, 1, 8}), optest.Tensor(t, f, []int64{1, 2}, 9)
	forward := a.With(optest.Args{"targetlengths": []int64{2}, "negLogLikelihoodOut": loss, "logAlphaOut": alpha})
	optest.Run(t, "CtcLoss", forward)
	assert.True(t, math.IsInf(optest.Values(loss)[0], 1))
	optest.Run(t, "CtcLoss", forward.With(optest.Args{"zeroInfinity": true}))
	assert.Equal(t, []float64{0}, optest.Values(loss))
	back := a.With(optest.Args{"zeroInfinity": true, "targetLengths": []int64{2}, "gradOut": optest.Tensor(t, f, []int64{1}, 1), "negLogLikelihood": loss, "logAlpha": alpha, "out": dx})
	optest.Refused(t, op.InvalidParam, "CtcLossBackward", back) // it has a batch
	batch := optest.Tensor(t, f, []int64{1, 1, 2}, 9)
	optest.Run(t, "CtcLossBackward", back.With(optest.Args{
		"logProbs": optest.Tensor(t, f, []int64{1, 1, 2}, math.Log(.5)), "negLogLikelihood": optest.Tensor(t, f, []int64{1}, 0), "out": batch,
	}))
	assert.Equal(t, []float64{0, 0}, optest.Values(batch))
	optest.Refused(t, op.InvalidParam, "CtcLoss", forward.With(optest.Args{"blank": 2}), "blank 2")
	optest.Refused(t, op.InvalidParam, "CtcLoss", forward.With(optest.Args{"targetlengths": []int64{3}}), "3 labels")
	optest.Refused(t, op.InvalidParam, "CtcLoss", forward.With(optest.Args{"inputLengths": []int64{2}}), "2 times")
	optest.Refused(t, op.InvalidParam, "CtcLoss", forward.With(optest.Args{"inputLengths": []int64{1, 1}}), "inputLengths has 2")
	for _, n := range []int64{4, 5, 7, 9, 16} {
		optest.Refused(t, op.InvalidParam, "CtcLoss", forward.With(optest.Args{"logAlphaOut": optest.Tensor(t, f, []int64{1, 1, n})}), "[1,1,8]", "multiple of 8")
	}
	tight := forward.With(optest.Args{"logAlphaOut": optest.Tensor(t, f, []int64{1, 1, 5})})
	optest.RunOn(t, acceptance.Ascend950, "CtcLoss", tight)
	optest.Refused(t, op.NullPointer, "CtcLoss", forward.With(optest.Args{"targets": nil}), "targets is null")
	require.ErrorContains(t, optest.Execute(t, "CtcLoss", forward.With(optest.Args{"targets": optest.Tensor(t, dtype.Int64, []int64{2}, 1, 2)})), "label 2 of sequence 0")
}
