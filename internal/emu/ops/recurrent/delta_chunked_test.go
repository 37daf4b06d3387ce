package recurrent

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// chunkedProblem makes the arguments of a call.
func chunkedProblem(t *testing.T, layout kerneltest.Layout, hk, hv, dk, dv int64, gate bool, lengths ...int64) (optest.Args, *op.Tensor, *op.Tensor) {
	bf, tokens, batch := dtype.BFloat16, op.Total(lengths), int64(len(lengths))
	made := func(seed uint64, f func(float64) float64, shape ...int64) *op.Tensor {
		v := optest.Normal(seed, bf, optest.Elements(shape))
		for i := range v {
			v[i] = f(v[i])
		}
		return optest.TensorIn(t, bf, layout, shape, v...)
	}
	small := func(x float64) float64 { return max(-1, min(1, x/math.Sqrt(float64(dk)))) }
	out, final := optest.Tensor(t, bf, []int64{tokens, hv, dv}), optest.Tensor(t, bf, []int64{batch, hv, dv, dk})
	a := optest.Args{
		"query": made(1, small, tokens, hk, dk), "key": made(2, small, tokens, hk, dk), "value": made(3, func(x float64) float64 { return x }, tokens, hv, dv),
		"beta": made(4, optest.Sigmoid, tokens, hv), "initialState": made(5, func(x float64) float64 { return x / 2 }, batch, hv, dv, dk),
		"actualSeqLengths": optest.Tensor(t, dtype.Int32, []int64{batch}, optest.Floats(lengths)...), "scaleValue": 0.5, "out": out, "finalState": final,
	}
	if gate {
		v := optest.Normal(6, dtype.Float32, tokens*hv)
		for i := range v {
			v[i] = -math.Abs(math.Tanh(v[i]))
		}
		a["gOptional"] = optest.TensorIn(t, dtype.Float32, layout, []int64{tokens, hv}, v...)
	}
	return a, out, final
}

// TestChunkedDelta compares with S ← αS + β(v − αSk)kᵀ, o = scale·Sq in the matrix form of the paper, in float64: odd
// lengths, sequences without tokens and longer than a chunk, groups of heads, with and without decay, in several layouts.
func TestChunkedDelta(t *testing.T) {
	for _, layout := range kerneltest.Layouts {
		for _, c := range []struct {
			hk, hv, dk, dv int64
			lengths        []int64
		}{
			{1, 1, 1, 1, []int64{1}}, {1, 1, 8, 5, []int64{7}}, {1, 3, 7, 3, []int64{5, 0, 2}}, {2, 4, 16, 9, []int64{3, 70}}, {2, 2, 128, 17, []int64{65}}, {3, 6, 5, 128, []int64{2, 1, 4}},
		} {
			for _, gate := range []bool{true, false} {
				a, out, final := chunkedProblem(t, layout, c.hk, c.hv, c.dk, c.dv, gate, c.lengths...)
				optest.Run(t, "ChunkGatedDeltaRule", a)
				get := func(name string) []float64 { return optest.Values(a[name].(*op.Tensor)) }
				q, k, v, beta, states := get("query"), get("key"), get("value"), get("beta"), get("initialState")
				decay := make([]float64, len(beta))
				if gate {
					decay = get("gOptional")
				}
				want := make([]float64, len(v))
				first := int64(0)
				for b, n := range c.lengths {
					for h := range c.hv {
						s := states[(int64(b)*c.hv+h)*c.dv*c.dk:][:c.dv*c.dk]
						for token := first; token < first+n; token++ {
							key, query := k[(token*c.hk+h*c.hk/c.hv)*c.dk:][:c.dk], q[(token*c.hk+h*c.hk/c.hv)*c.dk:][:c.dk]
							a, r := math.Exp(decay[token*c.hv+h]), beta[token*c.hv+h]
							transition := make([]float64, c.dk*c.dk) // α(I − βkkᵀ)
							for i := range c.dk {
								for j := range c.dk {
									transition[i*c.dk+j] = -a * r * key[i] * key[j]
								}
								transition[i*c.dk+i] += a
							}
							next := optest.Times(s, transition, c.dk)
							for i := range c.dv {
								for j := range c.dk {
									next[i*c.dk+j] += r * v[(token*c.hv+h)*c.dv+i] * key[j]
									want[(token*c.hv+h)*c.dv+i] += 0.5 * next[i*c.dk+j] * query[j]
								}
							}
							copy(s, next)
						}
					}
					first += n
				}
				what := fmt.Sprint(c, layout, gate)
				optest.CloseTo(t, "out "+what, want, optest.Values(out), optest.ResultLimit(dtype.BFloat16))
				optest.CloseTo(t, "state "+what, states, optest.Values(final), optest.ResultLimit(dtype.BFloat16))
			}
		}
	}
}

// TestChunkedDeltaWideStates: the Ascend950 takes states of float32, and rounds them only as such.
func TestChunkedDeltaWideStates(t *testing.T) {
	a, _, final := chunkedProblem(t, kerneltest.Contiguous, 1, 2, 8, 4, true, 5)
	optest.RunOn(t, acceptance.Ascend910B, "ChunkGatedDeltaRule", a)
	start, wide := a["initialState"].(*op.Tensor), optest.Tensor(t, dtype.Float32, final.Shape)
	b := a.With(optest.Args{"initialState": optest.Tensor(t, dtype.Float32, start.Shape, optest.Values(start)...), "finalState": wide})
	optest.Refused(t, op.InvalidParam, "ChunkGatedDeltaRule", b, "dtype")
	optest.RunOn(t, acceptance.Ascend950, "ChunkGatedDeltaRule", b)
	for i, v := range optest.Values(wide) {
		require.Equal(t, optest.Values(final)[i], kerneltest.Round(dtype.BFloat16, v))
	}
}

func TestChunkedDeltaRefuses(t *testing.T) {
	a, _, _ := chunkedProblem(t, kerneltest.Contiguous, 2, 4, 8, 8, true, 3, 2)
	bf, f := dtype.BFloat16, dtype.Float32
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	for text, set := range map[string]optest.Args{
		"query is null":                {"query": nil},
		"a state [Dv,Dk]":              {"initialState": x(bf, 2, 4, 8, 7)},
		"one for each token and value": {"beta": x(bf, 5, 2)},
		"that of value":                {"out": x(bf, 5, 4, 7)},
		"multiple of key heads":        {"value": x(bf, 5, 3, 8), "beta": x(bf, 5, 3), "gOptional": x(f, 5, 3), "out": x(bf, 5, 3, 8), "initialState": x(bf, 2, 3, 8, 8), "finalState": x(bf, 2, 3, 8, 8)},
		"dtype":                        {"query": x(f, 5, 2, 8)},
	} {
		code := op.TilingRefused
		switch text {
		case "query is null":
			code = op.NullPointer
		case "dtype":
			code = op.InvalidParam
		}
		optest.Refused(t, code, "ChunkGatedDeltaRule", a.With(set), text)
	}
	require.ErrorContains(t, optest.Execute(t, "ChunkGatedDeltaRule", a.With(optest.Args{"actualSeqLengths": optest.Tensor(t, dtype.Int32, []int64{2}, 3, 3)})), "6 tokens in all, and query 5")
}
