package matmul

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestFeedForward(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for activation, f := range activations {
				for _, s := range []struct {
					x                   []int64
					in, hidden, columns int64
					ends                []int64 // end of each expert's rows; nil for one expert
				}{
					{[]int64{1}, 1, 1, 1, nil}, {[]int64{5}, 3, 7, 4, nil}, {[]int64{9}, 3, 5, 2, []int64{2, 2, 7}}, {[]int64{2, 3}, 4, 3, 5, nil}, {[]int64{0}, 2, 2, 2, nil},
				} {
					if len(s.x) > 1 && l != kerneltest.Contiguous {
						continue // inputs with more dimensions must be contiguous
					}
					for _, biased := range []bool{false, true} {
						for _, name := range []string{"FFN", "FFNV2", "FFNV3"} {
							what := fmt.Sprintf("%s %s %v %v %+v bias %v", name, activation, d, l, s, biased)
							ends, lead := s.ends, []int64{}
							if ends != nil {
								lead = []int64{int64(len(ends))}
							} else {
								ends = []int64{optest.Elements(s.x)}
							}
							x, y := optest.Filled(t, 1, d, l, append(slices.Clone(s.x), s.in)), optest.TensorIn(t, d, l, append(slices.Clone(s.x), s.columns))
							w1, w2 := optest.Filled(t, 2, d, l, append(slices.Clone(lead), s.in, s.hidden)), optest.Filled(t, 3, d, l, append(slices.Clone(lead), s.hidden, s.columns))
							b1, b2 := optest.Filled(t, 4, dtype.Float32, l, append(slices.Clone(lead), s.hidden)), optest.Filled(t, 5, d, l, append(slices.Clone(lead), s.columns))
							set := optest.Args{"x": x, "weight1": w1, "weight2": w2, "activation": activation, "y": y}
							suffix := ""
							if name == "FFNV3" {
								suffix = "Optional"
							}
							if biased {
								set["bias1"+suffix], set["bias2"+suffix] = b1, b2
							}
							if s.ends != nil {
								tokens := slices.Clone(s.ends)
								if name == "FFN" {
									tokens = []int64{2, 0, 5}
								} else {
									set["tokensIndexFlag"] = true
								}
								set["expertTokens"] = tokens
								if name == "FFNV3" {
									delete(set, "expertTokens")
									set["expertTokensOptional"] = optest.TensorIn(t, dtype.Int64, l, lead, optest.Floats(tokens)...)
								}
							}
							optest.Run(t, name, set)
							var want []float64
							expert := 0
							for r := range optest.Elements(s.x) {
								for expert < len(ends) && r >= ends[expert] {
									expert++
								}
								if expert == len(ends) {
									want = append(want, make([]float64, s.columns)...)
									continue
								}
								linear := func(x []float64, w, b *op.Tensor, n int64) []float64 {
									k := int64(len(x))
									out := optest.Times(x, optest.Values(w)[int64(expert)*k*n:][:k*n], len(x))
									for i := range out {
										if biased {
											out[i] += optest.Values(b)[int64(expert)*n+int64(i)]
										}
									}
									return out
								}
								h := linear(optest.Values(x)[r*s.in:][:s.in], w1, b1, s.hidden)
								for i := range h {
									h[i] = f(h[i])
								}
								want = append(want, linear(h, w2, b2, s.columns)...)
							}
							optest.CloseTo(t, what, want, optest.Values(y), 8*optest.ResultLimit(d))
						}
					}
				}
			}
		}
	}
}

func TestFeedForwardRefuses(t *testing.T) {
	f := dtype.Float32
	base := func() optest.Args {
		return optest.Args{"x": optest.Tensor(t, f, []int64{2, 3}, 1), "weight1": optest.Tensor(t, f, []int64{3, 4}, 1), "weight2": optest.Tensor(t, f, []int64{4, 5}, 1), "activation": "relu", "y": optest.Tensor(t, f, []int64{2, 5})}
	}
	for _, c := range []struct {
		set  optest.Args
		code int32
		text string
	}{
		{optest.Args{"activation": "swiglu"}, op.InvalidParam, "swiglu"}, {optest.Args{"activation": nil}, op.NullPointer, "activation"},
		{optest.Args{"deqScale1": optest.Tensor(t, f, []int64{4}, 1)}, op.InvalidParam, "unquantised layers do not have it"},
		{optest.Args{"weight1": optest.Tensor(t, f, []int64{2, 4}, 1)}, op.InvalidParam, "as many rows"},
		{optest.Args{"weight2": optest.Tensor(t, f, []int64{3, 5}, 1)}, op.InvalidParam, "the columns of weight1"},
		{optest.Args{"bias1": optest.Tensor(t, f, []int64{5}, 1)}, op.InvalidParam, "one for each column"},
		{optest.Args{"expertTokens": []int64{2}}, op.InvalidParam, "one number for each"},
		{optest.Args{"y": nil}, op.NullPointer, "y is null"}, {optest.Args{"y": optest.Tensor(t, f, nil)}, op.InvalidParam, "dimensions"},
	} {
		a := base()
		for k, v := range c.set {
			a[k] = v
		}
		optest.Refused(t, c.code, "FFN", a, c.text)
	}
	a := base()
	a["weight1"], a["weight2"], a["expertTokens"] = optest.Tensor(t, f, []int64{1, 3, 4}, 1), optest.Tensor(t, f, []int64{1, 4, 5}, 1), []int64{3}
	assert.ErrorContains(t, optest.Execute(t, "FFN", a), "expertTokens 3 of expert 0")
}
