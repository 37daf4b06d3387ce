package nn

import (
	"fmt"
	"math"
	"sort"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// sampleDefinition chooses one candidate at a time what is kept of a row, and the position of
// the choice.
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
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, weighted := range []bool{false, true} {
				for _, softmax := range []bool{true, false} {
					for _, minimal := range []bool{false, true} {
						what := fmt.Sprintf("%v %v weighted %v softmax %v minimal %v", d, l, weighted, softmax, minimal)
						x := filled(t, 1, d, l, []int64{rows, n})
						if !softmax { // probabilities of each row
							v := values(x)
							for i := range v {
								v[i] = kerneltest.Round(d, math.Abs(v[i])/16)
							}
							x = tensorIn(t, d, l, []int64{rows, n}, v...)
						}
						k, p, q := tensor(t, dtype.Int32, []int64{rows}, ks...), tensor(t, d, []int64{rows}, ps...), filled(t, 2, f, l, []int64{rows, n})
						choice, kept := tensor(t, dtype.Int64, []int64{rows}, -1), tensorIn(t, f, l, []int64{rows, n}, 9)
						places, probabilities := tensorIn(t, dtype.Int64, l, []int64{rows, n}, 9), tensorIn(t, f, l, []int64{rows, n}, 9)
						a := args{"logits": x, "topK": k, "topP": p, "eps": 1e-8, "isNeedLogits": true, "topKGuess": 32, "logitsSelectIdx": choice, "logitsTopKPSelect": kept}
						newer := a.with(args{"ksMax": 8, "inputIsLogits": softmax, "logitsIdx": places, "logitsSortMasked": probabilities})
						if weighted {
							a["q"], newer["q"] = q, q
						}
						most, least := 1024, make([]float64, rows)
						if minimal {
							newer["minPs"], least = tensor(t, d, []int64{rows}, minPs...), minPs
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
									weights = row(values(q), n, i)
								}
								at, _, best := sampleDefinition(row(values(x), n, i), weights, int(ks[i]), most, ps[i], least[i], softmax)
								wantChoice = append(wantChoice, float64(at[best]))
								line := make([]float64, n)
								for j := range line {
									line[j] = outside
								}
								for _, j := range at {
									line[j] = row(values(x), n, i)[j]
								}
								wantKept = append(wantKept, line...)
							}
							assert.Equal(t, wantChoice, values(choice), name+" "+what)
							assert.Equal(t, wantKept, values(kept), name+" "+what)
						}
						if softmax && !minimal && d != f {
							run(t, "TopKTopPSample", a)
							check("TopKTopPSample", most, make([]float64, rows))
						}
						run(t, "TopKTopPSampleV2", newer)
						check("TopKTopPSampleV2", 8, least)
						fill(choice, -1)
						run(t, "TopKTopPSampleV2", newer.with(args{"isNeedSampleResult": true, "isNeedLogits": false}))
						assert.Equal(t, -1.0, values(choice)[0])
						for i := range rows {
							at, probability, _ := sampleDefinition(row(values(x), n, i), nil, int(ks[i]), 8, ps[i], least[i], softmax)
							line := make([]float64, n)
							copy(line, ints(at))
							assert.Equal(t, line, row(values(places), n, i), what)
							wide := make([]float64, n)
							copy(wide, probability)
							assert.InDeltaSlice(t, wide, row(values(probabilities), n, i), 1e-6, what)
						}
						refused(t, invalidParam, "TopKTopPSampleV2", newer.with(args{"ksMax": 0}), "ksMax is 0")
						refused(t, invalidParam, "TopKTopPSampleV2", newer.with(args{"topK": tensor(t, dtype.Int32, []int64{2}, 1)}), "one for each row")
						refused(t, invalidParam, "TopKTopPSampleV2", newer.with(args{"q": choice}), "dtype")
						refused(t, nullPointer, "TopKTopPSampleV2", newer.with(args{"logitsSelectIdx": nil}), "logitsSelectIdx is null")
					}
				}
			}
		}
	}
	empty := args{"logits": tensor(t, dtype.Float16, []int64{2, 0}), "topK": tensor(t, dtype.Int32, []int64{2}, 1), "topP": tensor(t, dtype.Float16, []int64{2}, 1)}
	refused(t, invalidParam, "TopKTopPSample", empty, "is empty")
}

func TestAdvanceStepV2(t *testing.T) {
	i := dtype.Int64
	for _, l := range kerneltest.Layouts {
		tokens, positions, lengths, slots := tensorIn(t, i, l, []int64{6}, 0), tensorIn(t, i, l, []int64{6}, 4, 5, 1, 2, 7, 8), tensorIn(t, i, l, []int64{6}, 0), tensorIn(t, i, l, []int64{6}, 0)
		a := args{
			"inputTokens": tokens, "sampledTokenIds": tensorIn(t, i, l, []int64{3, 2}, 50, -1, 60, 61, 70, 71), "inputPositions": positions, "seqLens": lengths, "slotMapping": slots,
			"blockTables": tensorIn(t, i, l, []int64{3, 4}, 10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33), "specToken": tensorIn(t, i, l, []int64{3, 1}, 5, 6, 7),
			"acceptedNum": tensor(t, i, []int64{3}, 0, 1, 1), "numSeqs": 3, "numQueries": 3, "blockSize": 4,
		}
		run(t, "AdvanceStepV2", a)
		assert.Equal(t, []float64{50, 5, 61, 6, 71, 7}, values(tokens), "%v", l)
		assert.Equal(t, []float64{5, 6, 3, 4, 9, 10}, values(positions), "%v", l)
		assert.Equal(t, []float64{6, 7, 4, 5, 10, 11}, values(lengths), "%v", l)
		assert.Equal(t, []float64{11*4 + 1, 11*4 + 2, 20*4 + 3, 21 * 4, 32*4 + 1, 32*4 + 2}, values(slots), "%v", l)
		far := a.with(args{"acceptedNum": tensor(t, i, []int64{3}, 0, 9, 9)})
		assert.ErrorContains(t, execute(t, "AdvanceStepV2", far), "sequence 2 has 19 tokens")
		refused(t, tilingRefused, "AdvanceStepV2", a.with(args{"numQueries": 2}), "numQueries 2")
		refused(t, tilingRefused, "AdvanceStepV2", a.with(args{"acceptedNum": tensor(t, i, []int64{2}, 0)}), "one for each sequence")
		refused(t, tilingRefused, "AdvanceStepV2", a.with(args{"inputTokens": tensor(t, i, []int64{3}, 0)}), "2 elements for each")
		refused(t, tilingRefused, "AdvanceStepV2", a.with(args{"specToken": tensor(t, i, []int64{3}, 0)}), "2 dimensions")
		refused(t, invalidParam, "AdvanceStepV2", a.with(args{"seqLens": tensor(t, dtype.Int32, []int64{6}, 0)}), "dtype")
		refused(t, nullPointer, "AdvanceStepV2", a.with(args{"specToken": nil}), "specToken is null")
	}
}
