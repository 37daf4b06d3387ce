package matmul

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestFeedForward(t *testing.T) {
	for i, d := range []dtype.Type{dtype.Float16, dtype.BFloat16, dtype.Float16} {
		precise, bias := int64(i/2), []dtype.Type{dtype.Float16, dtype.Float32}[i%2] // the first layer's sums are float32, or in the last case float16
		for _, l := range kerneltest.Layouts {
			for activation, f := range activations {
				for _, s := range []struct {
					x          []int64
					in, hidden int64
					ends       []int64 // end of each expert's rows; nil for one expert
				}{
					{[]int64{1}, 1, 1, nil}, {[]int64{5}, 3, 7, nil}, {[]int64{9}, 3, 5, []int64{2, 2, 7}}, {[]int64{2, 3}, 4, 3, nil}, {[]int64{0}, 2, 2, nil},
				} {
					if len(s.x) > 1 && l != kerneltest.Contiguous {
						continue // inputs with more dimensions must be contiguous
					}
					for _, biased := range []bool{false, true} {
						for _, name := range []string{"FFN", "FFNV2", "FFNV3"} {
							what := fmt.Sprintf("%s %s %v %d %v %+v bias %v", name, activation, d, precise, l, s, biased)
							ends, lead := s.ends, []int64{}
							if ends != nil {
								lead = []int64{int64(len(ends))}
							} else {
								ends = []int64{optest.Elements(s.x)}
							}
							x, y := optest.Filled(t, 1, d, l, append(slices.Clone(s.x), s.in)), optest.TensorIn(t, d, l, append(slices.Clone(s.x), s.in))
							w1, w2 := optest.Filled(t, 2, d, l, append(slices.Clone(lead), s.in, s.hidden)), optest.Filled(t, 3, d, l, append(slices.Clone(lead), s.hidden, s.in))
							b1, b2 := optest.Filled(t, 4, bias, l, append(slices.Clone(lead), s.hidden)), optest.Filled(t, 5, bias, l, append(slices.Clone(lead), s.in))
							set := optest.Args{"x": x, "weight1": w1, "weight2": w2, "activation": activation, "innerPrecise": precise, "y": y}
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
									want = append(want, make([]float64, s.in)...)
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
								if precise == 1 {
									h = roundedTo(d, h)
								}
								for i := range h {
									h[i] = f(h[i])
								}
								want = append(want, linear(roundedTo(d, h), w2, b2, s.in)...)
							}
							optest.CloseTo(t, what, want, optest.Values(y), optest.ResultLimit(d))
						}
					}
				}
			}
		}
	}
}

// A gate multiplies the left half of the first layer by the activated right half.
func TestFeedForwardGated(t *testing.T) {
	const rows, in, inner, out = 4, 3, 5, 6
	for _, name := range []string{"FFN", "FFNV2", "FFNV3"} {
		for activation, f := range map[string]string{"geglu": "gelu", "SwiGLU": "silu", "reglu": "relu"} {
			for _, l := range kerneltest.Layouts {
				for _, biased := range []bool{false, true} {
					filled := func(seed uint64, shape ...int64) *op.Tensor { return optest.Filled(t, seed, dtype.Float16, l, shape) }
					x, w1, w2, b1, b2 := filled(1, rows, in), filled(2, in, 2*inner), filled(3, inner, out), filled(4, 2*inner), filled(5, out)
					y := optest.TensorIn(t, dtype.Float16, l, []int64{rows, out})
					a := optest.Args{"x": x, "weight1": w1, "weight2": w2, "activation": activation, "innerPrecise": 1, "y": y}
					suffix := ""
					if name == "FFNV3" {
						suffix = "Optional"
					}
					if biased {
						a["bias1"+suffix], a["bias2"+suffix] = b1, b2
					}
					optest.Run(t, name, a)
					var want []float64
					for r := range int64(rows) {
						linear := func(x []float64, w, b *op.Tensor) []float64 {
							sums := optest.Times(x, optest.Values(w), int64(len(x)))
							for i := range sums {
								if biased {
									sums[i] += optest.Values(b)[i]
								}
							}
							return sums
						}
						sums := roundedTo(dtype.Float16, linear(optest.Values(x)[r*in:][:in], w1, b1))
						h := make([]float64, inner)
						for i := range h {
							h[i] = sums[i] * activations[f](sums[inner+i])
						}
						want = append(want, linear(roundedTo(dtype.Float16, h), w2, b2)...)
					}
					optest.CloseTo(t, fmt.Sprint(name, activation, l, biased), want, optest.Values(y), optest.ResultLimit(dtype.Float16))
				}
			}
		}
	}
}

// The sums of the first layer and what is made of them are rounded where the device rounds them, which the second layer
// makes visible here.
func TestFeedForwardRounds(t *testing.T) {
	of := func(d dtype.Type, shape []int64, v ...float64) *op.Tensor { return optest.Tensor(t, d, shape, v...) }
	const f16, i8, f32 = dtype.Float16, dtype.Int8, dtype.Float32
	for precise, want := range []float64{1, 0} { // silu(1.00048) is 1498 in steps of float16, and silu(1) 1497
		y := of(f16, []int64{1, 2})
		optest.Run(t, "FFN", optest.Args{"x": of(f16, []int64{1, 2}, 1, 0.49/1024), "weight1": of(f16, []int64{2, 1}, 1), "weight2": of(f16, []int64{1, 2}, 2048), "bias2": of(f16, []int64{2}, -1497),
			"activation": "silu", "innerPrecise": precise, "y": y})
		assert.Equal(t, []float64{want, want}, optest.Values(y), "innerPrecise %d", precise)
	}
	y := of(f16, []int64{1, 1})
	optest.Run(t, "FFN", optest.Args{"x": of(i8, []int64{1, 1}, 7), "weight1": of(i8, []int64{1, 1}, 7), "weight2": of(i8, []int64{1, 1}, 1), "activation": "relu", "y": y,
		"deqScale1": of(f32, []int64{1}, 0.01), "deqScale2": of(f32, []int64{1}, 1), "scale": of(f32, []int64{1}, 1), "offset": of(f32, []int64{1}, 100.03)})
	assert.Equal(t, []float64{100}, optest.Values(y), "0.49 + 100.03 is 100.5 in float16")
}

func TestFeedForwardRefuses(t *testing.T) {
	f := dtype.Float16
	base := func() optest.Args {
		return optest.Args{"x": optest.Tensor(t, f, []int64{2, 3}, 1), "weight1": optest.Tensor(t, f, []int64{3, 4}, 1), "weight2": optest.Tensor(t, f, []int64{4, 3}, 1), "activation": "relu", "y": optest.Tensor(t, f, []int64{2, 3})}
	}
	for _, c := range []struct {
		set  optest.Args
		code int32
		text string
	}{
		{optest.Args{"activation": "swish"}, op.InvalidParam, "swish"}, {optest.Args{"activation": nil}, op.NullPointer, "activation"},
		{optest.Args{"deqScale1": optest.Tensor(t, f, []int64{4}, 1)}, op.InvalidParam, "unquantised layers do not have it"},
		{optest.Args{"weight1": optest.Tensor(t, f, []int64{2, 4}, 1)}, op.InvalidParam, "as many rows"},
		{optest.Args{"weight2": optest.Tensor(t, f, []int64{3, 3}, 1)}, op.InvalidParam, "the columns of weight1"},
		{optest.Args{"weight2": optest.Tensor(t, f, []int64{4, 5}, 1), "y": optest.Tensor(t, f, []int64{2, 5})}, op.InvalidParam, "they must be equal"},
		{optest.Args{"bias1": optest.Tensor(t, dtype.Float32, []int64{4}, 1)}, op.InvalidParam, "float32"},
		{optest.Args{"innerPrecise": 2}, op.TilingRefused, "inner_precise only support 0/1"},
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
	of := func(d dtype.Type) optest.Args {
		a := base()
		for _, name := range []string{"x", "weight1", "weight2", "y"} {
			a[name] = optest.Tensor(t, d, a[name].(*op.Tensor).Shape, 1)
		}
		return a
	}
	optest.Run(t, "FFN", of(dtype.BFloat16))
	optest.Refused(t, op.InvalidParam, "FFN", of(dtype.BFloat16).With(optest.Args{"innerPrecise": 1}), "innerPrecise is 1; it must be 0")
	optest.Refused(t, op.InvalidParam, "FFN", of(dtype.Float32), "float32")
	optest.RunOn(t, acceptance.Ascend310P, "FFNV2", base().With(optest.Args{"innerPrecise": 1}))
	_, err := optest.PrepareIn(t, op.Env{Chip: acceptance.Ascend310P}, "FFNV2", base())
	assert.ErrorContains(t, err, "an Ascend310P takes")
	wide := optest.Args{"x": optest.Tensor(t, f, []int64{1, 65536}, 1), "weight1": optest.Tensor(t, f, []int64{65536, 1}, 1), "weight2": optest.Tensor(t, f, []int64{1, 65536}, 1), "y": optest.Tensor(t, f, []int64{1, 65536})}
	optest.Refused(t, op.InvalidParam, "FFN", base().With(wide), "may have 65535 rows")
	many := optest.Args{"weight1": optest.Tensor(t, f, []int64{257, 3, 4}, 1), "weight2": optest.Tensor(t, f, []int64{257, 4, 3}, 1), "expertTokens": make([]int64, 257)}
	optest.Refused(t, op.TilingRefused, "FFN", base().With(many), "there may be 256")
	gated := base().With(optest.Args{"activation": "swiglu", "innerPrecise": 1, "weight2": optest.Tensor(t, f, []int64{2, 3}, 1)})
	optest.Run(t, "FFN", gated)
	optest.Refused(t, op.InvalidParam, "FFN", gated.With(optest.Args{"innerPrecise": 0}), "takes innerPrecise 1 and no experts")
	optest.Refused(t, op.InvalidParam, "FFN", gated.With(optest.Args{"weight2": optest.Tensor(t, f, []int64{4, 3}, 1)}), "half of them")
	optest.Refused(t, op.InvalidParam, "FFN", gated.With(optest.Args{"weight1": optest.Tensor(t, f, []int64{3, 5}, 1)}), "even number of columns")
	optest.Refused(t, op.InvalidParam, "FFN", gated.With(optest.Args{"weight1": optest.Tensor(t, f, []int64{1, 3, 4}, 1), "weight2": optest.Tensor(t, f, []int64{1, 2, 3}, 1), "expertTokens": []int64{2}}), "no experts")
	optest.Refused(t, op.InvalidParam, "FFN", of(dtype.BFloat16).With(optest.Args{"activation": "swiglu", "innerPrecise": 1, "weight2": optest.Tensor(t, dtype.BFloat16, []int64{2, 3}, 1)}), "bfloat16")
	a := base()
	a["weight1"], a["weight2"], a["expertTokens"] = optest.Tensor(t, f, []int64{1, 3, 4}, 1), optest.Tensor(t, f, []int64{1, 4, 3}, 1), []int64{3}
	assert.ErrorContains(t, optest.Execute(t, "FFN", a), "expertTokens 3 of expert 0")
}
