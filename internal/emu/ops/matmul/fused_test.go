package matmul

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// times multiplies batches of matrices [b, m, k] and [b, k, n].
func times(a, b []float64, batch, m, k, n int64) (y []float64) {
	for p := range batch {
		y = append(y, optest.Times(a[p*m*k:][:m*k], b[p*k*n:][:k*n], k)...)
	}
	return y
}

func TestFusedMatmul(t *testing.T) {
	for _, s := range []struct{ batch, x3 []int64 }{{nil, nil}, {[]int64{3}, []int64{3}}, {[]int64{3}, []int64{1}}, {[]int64{3}, nil}, {[]int64{2, 2, 1}, nil}} {
		for _, size := range [][3]int64{{3, 5, 4}, {1, 1, 1}, {2, 33, 17}} {
			for kind, f := range map[string]func(v, w float64) float64{
				"": func(v, _ float64) float64 { return v }, "16cast32": func(v, _ float64) float64 { return v }, "relu": func(v, _ float64) float64 { return max(v, 0) },
				"add": func(v, w float64) float64 { return v + w }, "mul": func(v, w float64) float64 { return v * w },
				"gelu_erf":  func(v, _ float64) float64 { return v / 2 * (1 + math.Erf(v/math.Sqrt2)) },
				"gelu_tanh": func(v, _ float64) float64 { return v / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v))) },
			} {
				gelu := kind == "gelu_erf" || kind == "gelu_tanh"
				deep := kind == "" || kind == "relu"
				if gelu && len(s.batch) > 0 || !deep && len(s.batch) > 1 || kind == "16cast32" && len(s.batch) > 0 {
					continue
				}
				for _, d := range op.FloatTypes {
					if d == dtype.Float32 && (gelu || kind == "16cast32") {
						continue
					}
					for _, l := range kerneltest.Layouts {
						m, k, n := size[0], size[1], size[2]
						result := slices.Concat(s.batch, []int64{m, n})
						x1, x2 := optest.Filled(t, 1, d, l, slices.Concat(s.batch, []int64{m, k})), optest.Filled(t, 2, d, l, slices.Concat(s.batch, []int64{k, n}))
						out := d
						if kind == "16cast32" {
							out = dtype.Float32
						}
						y := optest.TensorIn(t, out, l, result)
						a := optest.Args{"x1": x1, "x2": x2, "fusedOpType": kind, "y": y}
						if d == dtype.Float32 {
							a["cubeMathType"] = 3
						}
						want := times(tf32(d, optest.Values(x1)), tf32(d, optest.Values(x2)), op.Count(s.batch), m, k, n)
						if !gelu {
							bias := optest.Filled(t, 3, dtype.Float32, kerneltest.Contiguous, []int64{n})
							a["bias"] = bias
							want = optest.Added(want, optest.Values(bias), 1)
						}
						third := make([]float64, len(want))
						if kind == "add" || kind == "mul" {
							x3 := optest.Filled(t, 4, d, l, slices.Concat(s.x3, []int64{m, n}))
							a["x3"] = x3
							third = optest.Repeated(t, x3, result)
						}
						for i, v := range want {
							want[i] = f(v, third[i])
						}
						optest.Run(t, "FusedMatmul", a)
						optest.CloseTo(t, fmt.Sprintf("%q %v %v %v %v", kind, d, l, size, s), want, optest.Values(y), 4*optest.ResultLimit(out))
					}
				}
			}
		}
	}
}

// tf32 rounds float32 to eleven bits of a fraction.
func tf32(d dtype.Type, v []float64) []float64 {
	if d != dtype.Float32 {
		return v
	}
	out := slices.Clone(v)
	for i := range out {
		_, e := math.Frexp(out[i])
		out[i] = math.Ldexp(math.RoundToEven(math.Ldexp(out[i], 12-e)), e-12)
	}
	return out
}

func TestFusedMatmulRefuses(t *testing.T) {
	f := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Float16, shape, 1) }
	a := optest.Args{"x1": f(2, 3), "x2": f(3, 4), "fusedOpType": "add", "x3": f(2, 4), "y": f(2, 4)}
	for name, c := range map[string]struct {
		set  optest.Args
		code int32
	}{
		"no type": {optest.Args{"fusedOpType": nil}, op.InvalidParam}, "type": {optest.Args{"fusedOpType": "sub"}, op.InvalidParam}, "no x3": {optest.Args{"x3": nil}, op.NullPointer},
		"no x1": {optest.Args{"x1": nil}, op.NullPointer}, "bias of gelu": {optest.Args{"fusedOpType": "gelu_erf", "bias": f(4)}, op.NullPointer}, "inner": {optest.Args{"x2": f(4, 4)}, op.InvalidParam},
		"x3": {optest.Args{"x3": f(2, 3)}, op.InvalidParam}, "bias": {optest.Args{"bias": f(3)}, op.InvalidParam}, "rank": {optest.Args{"x1": f(1, 1, 2, 3)}, op.InvalidParam},
		"empty":           {optest.Args{"fusedOpType": "16cast32", "x3": nil, "x1": optest.Tensor(t, dtype.Float16, []int64{0, 3}), "y": optest.Tensor(t, dtype.Float32, []int64{0, 4})}, op.NoStep},
		"gelu of float32": {optest.Args{"fusedOpType": "gelu_erf", "x1": optest.Tensor(t, dtype.Float32, []int64{2, 3}, 1), "x2": optest.Tensor(t, dtype.Float32, []int64{3, 4}, 1), "y": optest.Tensor(t, dtype.Float32, []int64{2, 4}), "cubeMathType": 3}, op.InvalidParam},
		"result":          {optest.Args{"y": optest.Tensor(t, dtype.Float32, []int64{2, 4})}, op.InvalidParam}, "types": {optest.Args{"x2": optest.Tensor(t, dtype.BFloat16, []int64{3, 4}, 1)}, op.InvalidParam}, "cube": {optest.Args{"cubeMathType": 5}, op.InvalidParam},
	} {
		t.Run(name, func(t *testing.T) { optest.Refused(t, c.code, "FusedMatmul", a.With(c.set)) })
	}
	optest.Run(t, "FusedMatmul", a.With(optest.Args{"x1": optest.Tensor(t, dtype.Float16, []int64{0, 3}), "x3": optest.Tensor(t, dtype.Float16, []int64{0, 4}), "y": optest.Tensor(t, dtype.Float16, []int64{0, 4})}))
}

func TestFusedMatmulGelu(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		for _, l := range kerneltest.Layouts {
			for _, with := range []bool{false, true} {
				x, w, y := optest.Filled(t, 1, d, l, []int64{2, 3, 7}), optest.Filled(t, 2, d, l, []int64{5, 7}), optest.TensorIn(t, d, l, []int64{2, 3, 5})
				a, bias := optest.Args{"x": x, "weight": w, "approximate": 1, "y": y}, make([]float64, 5)
				if with {
					a["bias"] = optest.Filled(t, 3, d, l, []int64{5})
					bias = optest.Values(a["bias"].(*op.Tensor))
				}
				optest.Run(t, "FusedMatmulGelu", a)
				want, xs, ws := make([]float64, 30), optest.Values(x), optest.Values(w)
				for i := range want {
					v := bias[i%5]
					for k := range 7 {
						v += xs[i/5*7+k] * ws[i%5*7+k]
					}
					want[i] = v / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
				}
				optest.CloseTo(t, fmt.Sprint(d, l, with), want, optest.Values(y), optest.ResultLimit(d))
			}
		}
	}
	f := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Float16, shape, 1) }
	a := optest.Args{"x": f(2, 3), "weight": f(4, 3), "approximate": 1, "y": f(2, 4)}
	optest.Refused(t, op.InvalidParam, "FusedMatmulGelu", a.With(optest.Args{"approximate": 0}), "approximate is 0")
	optest.Refused(t, op.InvalidParam, "FusedMatmulGelu", a.With(optest.Args{"bias": f(3)}), "one for each row of weight")
	optest.Refused(t, op.InvalidParam, "FusedMatmulGelu", a.With(optest.Args{"weight": f(4, 2)}), "inner dimensions")
	optest.Refused(t, op.NullPointer, "FusedMatmulGelu", a.With(optest.Args{"weight": nil}), "weight is null")
}

// A weight that is split in two bfloat16 gives the product with the weight in float32.
func TestMatmulEmuSplitWeight(t *testing.T) {
	const scale = 1. / 256
	for _, size := range [][3]int64{{1, 1, 1}, {5, 40, 3}, {33, 17, 20}} {
		for _, l := range kerneltest.Layouts {
			m, k, n := size[0], size[1], size[2]
			weight := optest.Normal(2, dtype.Float32, k*n)
			var high, low []float64
			for _, v := range weight {
				h := kerneltest.Round(dtype.BFloat16, v)
				high, low = append(high, h), append(low, (v-h)/scale)
			}
			x, y := optest.Filled(t, 1, dtype.BFloat16, l, []int64{m, k}), optest.TensorIn(t, dtype.Float32, l, []int64{m, n})
			optest.Run(t, "MatmulEmuSplitWeight", optest.Args{"x": x, "wHigh": optest.TensorIn(t, dtype.BFloat16, l, []int64{k, n}, high...), "wLow": optest.TensorIn(t, dtype.BFloat16, l, []int64{k, n}, low...), "wLowScale": scale, "y": y})
			optest.CloseTo(t, fmt.Sprint(size, l), times(optest.Values(x), weight, 1, m, k, n), optest.Values(y), 3e-5)
		}
	}
	b := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.BFloat16, shape, 1) }
	a := optest.Args{"x": b(2, 3), "wHigh": b(3, 4), "wLow": b(3, 4), "wLowScale": scale, "y": optest.Tensor(t, dtype.Float32, []int64{2, 4})}
	for name, set := range map[string]optest.Args{"scale": {"wLowScale": 0.5}, "NaN": {"wLowScale": math.NaN()}, "type": {"yDtype": 1}, "y": {"y": b(2, 4)}, "wLow": {"wLow": b(3, 5)}, "x": {"x": optest.Tensor(t, dtype.Float16, []int64{2, 3}, 1)}, "empty": {"x": b(0, 3), "y": optest.Tensor(t, dtype.Float32, []int64{0, 4})}} {
		t.Run(name, func(t *testing.T) { optest.Refused(t, op.InvalidParam, "MatmulEmuSplitWeight", a.With(set)) })
	}
	optest.Refused(t, op.NullPointer, "MatmulEmuSplitWeight", a.With(optest.Args{"wLow": nil}), "wLow is null")
}
