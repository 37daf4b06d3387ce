package convolution

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// convolve computes the definition for one sequence [tokens,d]. past holds the inputs before the
// first token, oldest first.
func convolve(x, taps, bias, past []float64, d int, swish bool) (u, y []float64) {
	width, tokens := len(taps)/d, len(x)/d
	all := append(append([]float64{}, past...), x...)
	before := len(past) / d
	u, y = make([]float64, len(x)), make([]float64, len(x))
	for t := range tokens {
		for ch := range d {
			sum := 0.
			if bias != nil {
				sum = bias[ch]
			}
			for i := range width {
				if at := before + t - i; at >= 0 {
					sum += taps[(width-1-i)*d+ch] * all[at*d+ch]
				}
			}
			u[t*d+ch], y[t*d+ch] = sum, sum
			if swish {
				y[t*d+ch] = sum / (1 + math.Exp(-sum))
			}
		}
	}
	return u, y
}

const convChannels = 16

func TestCausalConv(t *testing.T) {
	const d = convChannels
	for _, width := range []int64{2, 3, 4} {
		for _, tokens := range []int64{1, 2, 7} {
			for form := range 8 {
				swish, update, heads := form&1 != 0, form&2 != 0, form&4 != 0
				t.Run(fmt.Sprintf("%d taps/%d tokens/%d", width, tokens, form), func(t *testing.T) {
					x, taps := optest.Normal(1, dtype.Float16, 2*tokens*d), optest.Normal(2, dtype.Float16, width*d)
					bias, states := optest.Normal(3, dtype.Float16, d), optest.Normal(4, dtype.Float16, 3*(width-1)*d)
					cache := optest.Tensor(t, dtype.Float16, []int64{3, width - 1, d}, states...)
					shape := []int64{2, tokens, d}
					a := optest.Args{
						"x": optest.Tensor(t, dtype.Float16, shape, x...), "weight": optest.Tensor(t, dtype.Float16, []int64{width, d}, taps...),
						"biasOptional": optest.Tensor(t, dtype.Float16, []int64{d}, bias...), "convStates": cache, "cacheIndicesOptional": []int64{2, 0},
						"padSlotId": -1,
					}
					if swish {
						a["activationMode"] = 1
					}
					if update {
						a["runMode"] = 1
					}
					out := optest.Tensor(t, dtype.Float16, shape)
					if heads {
						a["headNum"] = 2
						out = optest.Tensor(t, dtype.Float16, []int64{2, 2, tokens, d / 2})
					}
					a["out"] = out
					optest.Run(t, "CausalConv1d", a)
					got, kept := optest.Values(out), optest.Values(cache)
					per := int(width-1) * d
					for b, line := range []int{2, 0} {
						before := make([]float64, per)
						if update {
							copy(before, states[line*per:(line+1)*per])
						}
						in := x[b*int(tokens)*d : (b+1)*int(tokens)*d]
						_, want := convolve(in, taps, bias, before, d, swish)
						for i, w := range want {
							at := b*len(want) + i
							if heads {
								token, ch := i/d, i%d
								at = b*len(want) + (ch/(d/2)*int(tokens)+token)*(d/2) + ch%(d/2)
							}
							require.InDelta(t, w, got[at], 1e-2, "row %d element %d", b, i)
						}
						all := append(before, in...)
						require.Equal(t, all[len(all)-per:], kept[line*per:(line+1)*per], "line %d", line)
					}
					require.Equal(t, states[per:2*per], kept[per:2*per], "the line of no sequence")
				})
			}
		}
	}
}

// Packed sequences are independent of each other, and sequences with the padding slot are skipped.
func TestCausalConvPacked(t *testing.T) {
	const d = convChannels
	x, taps := optest.Normal(1, dtype.BFloat16, 5*d), optest.Normal(2, dtype.BFloat16, 4*d)
	out := optest.Tensor(t, dtype.BFloat16, []int64{5, d}, 7)
	a := optest.Args{
		"x": optest.Tensor(t, dtype.BFloat16, []int64{5, d}, x...), "weight": optest.Tensor(t, dtype.BFloat16, []int64{4, d}, taps...),
		"convStates": optest.Tensor(t, dtype.BFloat16, []int64{2, 3, d}, 1), "queryStartLocOptional": []int64{0, 1, 3, 5}, "cacheIndicesOptional": []int64{1, 0, -1},
		"initialStateModeOptional": []int64{0, 1, 0}, "padSlotId": -1, "out": out,
	}
	optest.Run(t, "CausalConv1d", a)
	_, first := convolve(x[:d], taps, nil, nil, d, false)
	ones := make([]float64, 3*d)
	for i := range ones {
		ones[i] = 1
	}
	_, second := convolve(x[d:3*d], taps, nil, ones, d, false)
	require.InDeltaSlice(t, append(first, second...), optest.Values(out)[:3*d], 6e-2)
	for _, v := range optest.Values(out)[3*d:] {
		require.Equal(t, 7., v)
	}
	optest.Refused(t, op.InvalidParam, "CausalConv1d", a.With(optest.Args{"queryStartLocOptional": []int64{0, 4}}), "queryStartLocOptional [0,4]")
	optest.Refused(t, op.InvalidParam, "CausalConv1d", a.With(optest.Args{"cacheIndicesOptional": []int64{1, 2, 0}}), "sequence 1 has line 2")
	optest.Refused(t, op.InvalidParam, "CausalConv1d", a.With(optest.Args{"activationMode": 2}), "activationMode is 2")
	optest.Refused(t, op.InvalidParam, "CausalConv1d", a.With(optest.Args{"headNum": 3}), "headNum is 3")
	optest.Refused(t, op.NullPointer, "CausalConv1d", a.With(optest.Args{"convStates": nil}), "convStates is null")
	optest.Refused(t, op.InvalidParam, "CausalConv1d", a.With(optest.Args{"x": optest.Tensor(t, dtype.Float32, []int64{5, d})}), "float32")
	optest.Refused(t, op.InvalidParam, "CausalConv1d", a.With(optest.Args{"weight": optest.Tensor(t, dtype.BFloat16, []int64{5, d})}), "2 to 4 taps")
}

func TestCausalConvGrad(t *testing.T) {
	const d, width = convChannels, 3
	for _, tokens := range []int64{1, 2, 6} {
		for _, layout := range []string{"BSH", "BSND", "BNSD", "TND", "NTD"} {
			for _, swish := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d tokens/%s/%v", tokens, layout, swish), func(t *testing.T) {
					n := tokens * d
					x, taps, past, dy := optest.Normal(1, dtype.Float32, 2*n), optest.Normal(2, dtype.Float32, width*d), optest.Normal(3, dtype.Float32, 2*width*d), optest.Normal(4, dtype.Float32, 2*n)
					bias := optest.Normal(5, dtype.Float32, d)
					forward := func(x, taps, bias []float64) (y []float64) {
						for b := range 2 {
							_, part := convolve(x[int64(b)*n:int64(b+1)*n], taps, bias, past[(b*width+1)*d:(b+1)*width*d], d, swish)
							y = append(y, part...)
						}
						return y
					}
					var u []float64
					for b := range 2 {
						part, _ := convolve(x[int64(b)*n:int64(b+1)*n], taps, bias, past[(b*width+1)*d:(b+1)*width*d], d, swish)
						u = append(u, part...)
					}
					shape, lie, starts := []int64{2, tokens, d}, []int64{2, tokens, d}, []int64(nil)
					arranged := func(v []float64) []float64 { return v }
					switch layout {
					case "BSND":
						lie = []int64{2, tokens, 2, d / 2}
					case "BNSD":
						lie = []int64{2, 2, tokens, d / 2}
						arranged = func(v []float64) []float64 { return headsFirst(v, 2, int(tokens), 2, d/2) }
					case "TND":
						shape, lie, starts = []int64{2 * tokens, d}, []int64{2 * tokens, 2, d / 2}, []int64{0, tokens, 2 * tokens}
					case "NTD":
						shape, lie, starts = []int64{2 * tokens, d}, []int64{2, 2 * tokens, d / 2}, []int64{0, tokens, 2 * tokens}
						arranged = func(v []float64) []float64 { return headsFirst(v, 1, 2*int(tokens), 2, d/2) }
					}
					f := func(shape []int64, v ...float64) *op.Tensor { return optest.Tensor(t, dtype.Float32, shape, v...) }
					dx, dw, db, dpast := f(shape), f([]int64{width, d}), f([]int64{d}), f([]int64{2, width, d})
					activation := 0
					if swish {
						activation = 1
					}
					optest.Run(t, "CausalConv1dBwd", optest.Args{
						"x": f(shape, x...), "yOptional": f(lie, arranged(u)...), "weight": f([]int64{width, d}, taps...), "dy": f(lie, arranged(dy)...),
						"initialStateOptional": f([]int64{2, width, d}, past...), "queryStartLocOptional": starts, "activation": activation,
						"inputLayoutOptional": layout, "dxOut": dx, "dwOutOptional": dw, "dbOutOptional": db, "dh0OutOptional": dpast,
					})
					require.InDeltaSlice(t, optest.Gradient(func(x []float64) []float64 { return forward(x, taps, bias) }, dy, x), optest.Values(dx), 1e-3)
					require.InDeltaSlice(t, optest.Gradient(func(w []float64) []float64 { return forward(x, w, bias) }, dy, taps), optest.Values(dw), 1e-3)
					require.InDeltaSlice(t, optest.Gradient(func(b []float64) []float64 { return forward(x, taps, b) }, dy, bias), optest.Values(db), 1e-3)
					require.InDeltaSlice(t, optest.Gradient(func(p []float64) []float64 {
						before := past
						past = p
						defer func() { past = before }()
						return forward(x, taps, bias)
					}, dy, past), optest.Values(dpast), 1e-3)
				})
			}
		}
	}
	f := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Float32, shape) }
	a := optest.Args{"x": f(2, 3, d), "weight": f(width, d), "dy": f(2, 3, d), "inputLayoutOptional": "BSH", "dxOut": f(2, 3, d)}
	optest.Refused(t, op.InvalidParam, "CausalConv1dBwd", a.With(optest.Args{"activation": 1}), "yOptional is null")
	optest.Refused(t, op.InvalidParam, "CausalConv1dBwd", a.With(optest.Args{"inputLayoutOptional": "SBH"}), `inputLayoutOptional is "SBH"`)
	optest.Refused(t, op.InvalidParam, "CausalConv1dBwd", a.With(optest.Args{"dy": f(2, d, 3)}), "shapes differ")
	optest.Refused(t, op.InvalidParam, "CausalConv1dBwd", a.With(optest.Args{"inputLayoutOptional": "BNSD"}), "does not lie as BNSD")
	optest.Refused(t, op.InvalidParam, "CausalConv1dBwd", a.With(optest.Args{"initialStateOptional": f(2, 2, d)}), "initialStateOptional")
	optest.Refused(t, op.NullPointer, "CausalConv1dBwd", a.With(optest.Args{"dxOut": nil}), "dxOut is null")
}

// headsFirst converts [b,t,n,d] to [b,n,t,d].
func headsFirst(v []float64, b, tokens, heads, d int) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		c, n, t, row := i%d, i/d%heads, i/d/heads%tokens, i/d/heads/tokens
		out[((row*heads+n)*tokens+t)*d+c] = v[i]
	}
	return out
}
