package random

import (
	"fmt"
	"math"
	"sort"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// sampleDefinition filters the candidates of a row one at a time. It returns the kept candidates
// and the position of the choice.
func sampleDefinition(row, q []float64, k, most int, p, minP float64, softmax bool) (at []int, probability []float64, best int) {
	for i := range row {
		at = append(at, i)
	}
	byK := k >= 1 && k <= min(most, len(row))
	if byK || p < 1 || minP >= 1 {
		sort.SliceStable(at, func(i, j int) bool { return row[at[i]] > row[at[j]] })
	}
	if byK {
		at = at[:k]
	}
	sum, most64 := 0.0, math.Inf(-1)
	for _, i := range at {
		most64 = max(most64, row[i])
	}
	for _, i := range at {
		sum += math.Exp(row[i] - most64)
	}
	for _, i := range at {
		v := row[i]
		if softmax {
			v = math.Exp(v-most64) / sum
		}
		probability = append(probability, v)
	}
	keep := make([]bool, len(at))
	before := 0.0
	for i, v := range probability {
		keep[i] = p >= 1 || p > 0 && before < p || p <= 0 && i == 0
		before += v
	}
	if p <= 0 && softmax {
		probability[0] = 1
	}
	limit := 0.0
	for i, v := range probability {
		if keep[i] {
			limit = max(limit, v*minP)
		}
	}
	var places []int
	var kept []float64
	for i, v := range probability {
		if keep[i] && (minP <= 0 || minP < 1 && v >= limit || minP >= 1 && i == 0) {
			places, kept = append(places, at[i]), append(kept, v)
		}
	}
	score := func(i int) float64 {
		if q == nil {
			return kept[i]
		}
		return kept[i] / (math.Abs(q[i]) + 1e-8)
	}
	for i := range kept {
		if score(i) > score(best) {
			best = i
		}
	}
	return places, kept, best
}

func TestTopKTopPSample(t *testing.T) {
	const rows, n = 7, 11
	f := dtype.Float32
	ks, ps, minPs := []float64{3, 0, 20, 11, 1, 5, 4}, []float64{0.5, 0.75, 2, 1, 0.25, 0, 0.875}, []float64{0, 0.25, 0.5, -1, 0.125, 0, 2}
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, weighted := range []bool{false, true} {
				for _, softmax := range []bool{true, false} {
					for _, minimal := range []bool{false, true} {
						what := fmt.Sprintf("%v %v weighted %v softmax %v minimal %v", d, l, weighted, softmax, minimal)
						x := optest.Filled(t, 1, d, l, []int64{rows, n})
						if !softmax { // use positive values as probabilities
							v := optest.Values(x)
							for i := range v {
								v[i] = kerneltest.Round(d, math.Abs(v[i])/16)
							}
							x = optest.TensorIn(t, d, l, []int64{rows, n}, v...)
						}
						k, p, q := optest.Tensor(t, dtype.Int32, []int64{rows}, ks...), optest.Tensor(t, d, []int64{rows}, ps...), optest.Filled(t, 2, f, l, []int64{rows, n})
						choice, kept := optest.Tensor(t, dtype.Int64, []int64{rows}, -1), optest.TensorIn(t, f, l, []int64{rows, n}, 9)
						places, probabilities := optest.TensorIn(t, dtype.Int64, l, []int64{rows, n}, 9), optest.TensorIn(t, f, l, []int64{rows, n}, 9)
						a := optest.Args{"logits": x, "topK": k, "topP": p, "eps": 1e-8, "isNeedLogits": true, "topKGuess": 32, "logitsSelectIdx": choice, "logitsTopKPSelect": kept}
						newer := a.With(optest.Args{"ksMax": 8, "inputIsLogits": softmax, "logitsIdx": places, "logitsSortMasked": probabilities})
						if weighted {
							a["q"], newer["q"] = q, q
						}
						most, least := 1024, make([]float64, rows)
						if minimal {
							newer["minPs"], least = optest.Tensor(t, d, []int64{rows}, minPs...), minPs
						}
						check := func(name string, most int, least []float64) {
							outside := math.Inf(-1)
							if !softmax {
								outside = 0
							}
							var wantChoice, wantKept []float64
							for i := range rows {
								var weights []float64
								if weighted {
									weights = optest.Row(optest.Values(q), n, i)
								}
								at, _, best := sampleDefinition(optest.Row(optest.Values(x), n, i), weights, int(ks[i]), most, ps[i], least[i], softmax)
								wantChoice = append(wantChoice, float64(at[best]))
								line := make([]float64, n)
								for j := range line {
									line[j] = outside
								}
								for _, j := range at {
									line[j] = optest.Row(optest.Values(x), n, i)[j]
								}
								wantKept = append(wantKept, line...)
							}
							assert.Equal(t, wantChoice, optest.Values(choice), name+" "+what)
							assert.Equal(t, wantKept, optest.Values(kept), name+" "+what)
						}
						if softmax && !minimal && d != f {
							optest.Run(t, "TopKTopPSample", a)
							check("TopKTopPSample", most, make([]float64, rows))
						}
						optest.Run(t, "TopKTopPSampleV2", newer)
						check("TopKTopPSampleV2", 8, least)
						optest.Fill(choice, -1)
						optest.Run(t, "TopKTopPSampleV2", newer.With(optest.Args{"isNeedSampleResult": true, "isNeedLogits": false}))
						assert.Equal(t, -1.0, optest.Values(choice)[0])
						for i := range rows {
							at, probability, _ := sampleDefinition(optest.Row(optest.Values(x), n, i), nil, int(ks[i]), 8, ps[i], least[i], softmax)
							line := make([]float64, n)
							copy(line, optest.Floats(at))
							assert.Equal(t, line, optest.Row(optest.Values(places), n, i), what)
							wide := make([]float64, n)
							copy(wide, probability)
							assert.InDeltaSlice(t, wide, optest.Row(optest.Values(probabilities), n, i), 1e-6, what)
						}
						optest.Refused(t, op.InvalidParam, "TopKTopPSampleV2", newer.With(optest.Args{"ksMax": 0}), "ksMax is 0")
						optest.Refused(t, op.InvalidParam, "TopKTopPSampleV2", newer.With(optest.Args{"topK": optest.Tensor(t, dtype.Int32, []int64{2}, 1)}), "one for each row")
						optest.Refused(t, op.InvalidParam, "TopKTopPSampleV2", newer.With(optest.Args{"q": choice}), "dtype")
						optest.Refused(t, op.NullPointer, "TopKTopPSampleV2", newer.With(optest.Args{"logitsSelectIdx": nil}), "logitsSelectIdx is null")
					}
				}
			}
		}
	}
	empty := optest.Args{"logits": optest.Tensor(t, dtype.Float16, []int64{2, 0}), "topK": optest.Tensor(t, dtype.Int32, []int64{2}, 1), "topP": optest.Tensor(t, dtype.Float16, []int64{2}, 1)}
	optest.Refused(t, op.InvalidParam, "TopKTopPSample", empty, "is empty")
}
