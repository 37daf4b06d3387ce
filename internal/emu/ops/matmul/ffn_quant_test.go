package matmul

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// activations are those of feed-forward layers, by name.
var activations = map[string]func(x float64) float64{
	"relu": func(x float64) float64 { return max(x, 0) }, "silu": func(x float64) float64 { return x * optest.Sigmoid(x) },
	"gelu": func(x float64) float64 { return x * optest.Sigmoid(1.5957691216057308*(x+0.044715*x*x*x)) }, "fastgelu": func(x float64) float64 { return x * optest.Sigmoid(1.702*x) },
}

// quantLayers is a call of layers with integer weights, for some experts or, with one, for weights that are not stacked.
type quantLayers struct {
	name              string
	tokens            []int64 // rows of each expert
	rows, in, hidden  int64   // there are as many columns of y as of x
	x, w1, w2, b1, b2 []float64
	args              optest.Args
	random            *rand.Rand
}

func newQuantLayers(t *testing.T, name, activation string, several bool, y dtype.Type) *quantLayers {
	r := rand.New(rand.NewPCG(12, 12))
	q := &quantLayers{name: name, random: r, tokens: []int64{5}, rows: 5, in: 6, hidden: 8}
	if several {
		q.tokens = []int64{2, 0, 3}
	}
	e := int(q.experts())
	q.x, q.w1, q.w2 = whole(r, int(q.rows*q.in), 8), whole(r, e*int(q.in*q.hidden), 8), whole(r, e*int(q.in*q.hidden), 8)
	q.b1, q.b2 = whole(r, e*int(q.hidden), 50), whole(r, e*int(q.in), 50)
	q.args = optest.Args{"activation": activation, "y": optest.Tensor(t, y, []int64{q.rows, q.in})}
	if several {
		q.args["expertTokens"] = q.tokens
		if name == "FFNV3" {
			delete(q.args, "expertTokens")
			q.args["expertTokensOptional"] = optest.Tensor(t, dtype.Int64, []int64{int64(e)}, optest.Floats(q.tokens)...)
		}
	}
	return q
}

func (q *quantLayers) experts() int64 { return int64(len(q.tokens)) }

// each returns a shape for each expert.
func (q *quantLayers) each(shape ...int64) []int64 {
	if len(q.tokens) == 1 {
		return shape
	}
	return append([]int64{q.experts()}, shape...)
}

// set sets an optional argument.
func (q *quantLayers) set(name string, x *op.Tensor) {
	if q.name == "FFNV3" {
		name += "Optional"
	}
	q.args[name] = x
}

// compare runs the call and compares y with a definition, which computes the row of an expert, and how far the row may
// be from it besides. That may be nil.
func (q *quantLayers) compare(t *testing.T, what string, row func(expert int64, x []float64) (y, apart []float64)) {
	t.Helper()
	optest.Run(t, q.name, q.args)
	first := int64(0)
	y := q.args["y"].(*op.Tensor)
	for expert, n := range q.tokens {
		for range n {
			want, apart := row(int64(expert), q.x[first*q.in:][:q.in])
			got := optest.Values(y)[first*q.in:][:q.in]
			for i := range apart {
				got[i] -= min(max(got[i]-want[i], -apart[i]), apart[i])
			}
			near(t, y.DType, want, got, what)
			first++
		}
	}
}

// firstSums rounds the sums of the first layer as the device does for a result of type d.
func firstSums(d dtype.Type, sums []float64) []float64 {
	if d == dtype.BFloat16 {
		d = dtype.Float32
	}
	return roundedTo(d, sums)
}

func roundedTo(d dtype.Type, v []float64) []float64 {
	v = slices.Clone(v)
	for i, x := range v {
		v[i] = kerneltest.Round(d, x)
	}
	return v
}

func TestFeedForwardInt8(t *testing.T) {
	for _, name := range []string{"FFN", "FFNV2", "FFNV3"} {
		for _, several := range []bool{false, true} {
			for activation, f := range activations {
				for _, c := range []struct {
					y, deqScale dtype.Type
					perColumn   bool // of scale
					bias        bool
				}{
					{dtype.Float16, dtype.Float32, false, true}, {dtype.Float16, dtype.Uint64, true, true}, {dtype.Float16, dtype.Int64, false, false},
					{dtype.BFloat16, dtype.BFloat16, true, true}, {dtype.BFloat16, dtype.BFloat16, false, false},
				} {
					q := newQuantLayers(t, name, activation, several, c.y)
					e, r := q.experts(), q.random
					scales := []int64{e}
					if c.perColumn {
						scales = q.each(q.hidden)
					}
					deq1, deq2 := powers(r, int(e*q.hidden)), powers(r, int(e*q.in))
					scale, offset := powers(r, int(op.Count(scales))), whole(r, int(e), 9)
					for i := range scale {
						scale[i] *= 64
					}
					for i := range offset {
						if activation != "relu" { // which is exact, so that halves round to even
							offset[i] += 1. / 128
						}
					}
					deqTensor := func(v []float64, n int64) *op.Tensor {
						if c.deqScale == dtype.Uint64 || c.deqScale == dtype.Int64 {
							return packedScales(t, c.deqScale, q.each(n), v)
						}
						return optest.Tensor(t, c.deqScale, q.each(n), v...)
					}
					q.args["x"] = optest.Tensor(t, dtype.Int8, []int64{q.rows, q.in}, q.x...)
					q.args["weight1"], q.args["weight2"] = optest.Tensor(t, dtype.Int8, q.each(q.in, q.hidden), q.w1...), optest.Tensor(t, dtype.Int8, q.each(q.hidden, q.in), q.w2...)
					q.set("deqScale1", deqTensor(deq1, q.hidden))
					q.set("deqScale2", deqTensor(deq2, q.in))
					q.set("scale", optest.Tensor(t, dtype.Float32, scales, scale...))
					q.set("offset", optest.Tensor(t, dtype.Float32, []int64{e}, offset...))
					if c.bias {
						q.set("bias1", optest.Tensor(t, dtype.Int32, q.each(q.hidden), q.b1...))
						q.set("bias2", optest.Tensor(t, dtype.Int32, q.each(q.in), q.b2...))
					}
					q.compare(t, fmt.Sprintf("%s %s several %v %+v", name, activation, several, c), func(expert int64, x []float64) (y, apart []float64) {
						layer := func(x, w, b, deq []float64, n int64) []float64 {
							k := int64(len(x))
							sums := optest.Times(x, w[expert*k*n:][:k*n], k)
							for j := range sums {
								if c.bias {
									sums[j] += b[expert*n+int64(j)]
								}
								sums[j] *= deq[expert*n+int64(j)]
							}
							return sums
						}
						h := firstSums(c.y, layer(x, q.w1, q.b1, deq1, q.hidden))
						steps := make([]float64, q.hidden) // by which a probable rounding changes an integer
						for j, v := range h {
							s := scale[expert%int64(len(scale))]
							if c.perColumn {
								s = scale[expert*q.hidden+int64(j)]
							}
							quantised := func(x float64) float64 {
								return optest.ToInt8(half(half(half(x)*half(s)) + half(offset[expert])))
							}
							h[j], steps[j] = quantised(f(v)), math.Abs(quantised(f(v)*(1+0x1p-20))-quantised(f(v)*(1-0x1p-20)))
						}
						apart = make([]float64, q.in)
						for i := range apart {
							for j, step := range steps {
								apart[i] += step * math.Abs(q.w2[(expert*q.hidden+int64(j))*q.in+int64(i)]) * deq2[expert*q.in+int64(i)]
							}
						}
						return layer(h, q.w2, q.b2, deq2, q.in), apart
					})
				}
			}
		}
	}
}

// half rounds to float16.
func half(x float64) float64 { return kerneltest.Round(dtype.Float16, x) }

func TestFeedForwardIntegerWeights(t *testing.T) {
	for _, name := range []string{"FFN", "FFNV2", "FFNV3"} {
		for _, several := range []bool{false, true} {
			for activation, f := range activations {
				for _, d := range op.HalfTypes {
					for _, c := range []struct {
						weight  dtype.Type
						groups  int64 // 0 for one scale per column
						swapped bool
					}{{dtype.Int8, 0, false}, {dtype.Int8, 0, true}, {dtype.Int4, 0, false}, {dtype.Int4, 2, false}, {dtype.Int4, 1, false}, {dtype.Int4, 2, true}} {
						q := newQuantLayers(t, name, activation, several, d)
						e, r, groups := q.experts(), q.random, max(c.groups, 1)
						shape := func(n int64) []int64 {
							if c.groups == 0 {
								return q.each(n)
							}
							return q.each(groups, n)
						}
						weight := func(v []float64, k, n int64) *op.Tensor {
							s := q.each(k, n)
							if c.swapped {
								var transposed []float64
								for g := range e {
									transposed = append(transposed, optest.Transposed(v[g*k*n:][:k*n], n)...)
								}
								v, s = transposed, q.each(n, k)
							}
							w := optest.Tensor(t, dtype.Int8, s, v...)
							if c.weight == dtype.Int4 {
								w = int4Tensor(t, s, v)
							}
							if c.swapped {
								w = optest.Flipped(w)
							}
							return w
						}
						scale1, scale2 := powers(r, int(e*groups*q.hidden)), powers(r, int(e*groups*q.in))
						offset1, offset2 := whole(r, len(scale1), 3), whole(r, len(scale2), 3)
						q.args["x"] = optest.Tensor(t, d, []int64{q.rows, q.in}, q.x...)
						q.args["weight1"], q.args["weight2"] = weight(q.w1, q.in, q.hidden), weight(q.w2, q.hidden, q.in)
						q.set("antiquantScale1", optest.Tensor(t, d, shape(q.hidden), scale1...))
						q.set("antiquantScale2", optest.Tensor(t, d, shape(q.in), scale2...))
						q.set("antiquantOffset1", optest.Tensor(t, d, shape(q.hidden), offset1...))
						q.set("antiquantOffset2", optest.Tensor(t, d, shape(q.in), offset2...))
						bias := dtype.Float32
						if d == dtype.Float16 {
							bias = d
						}
						q.set("bias1", optest.Tensor(t, bias, q.each(q.hidden), q.b1...))
						q.set("bias2", optest.Tensor(t, bias, q.each(q.in), q.b2...))
						q.compare(t, fmt.Sprintf("%s %s several %v %v %+v", name, activation, several, d, c), func(expert int64, x []float64) (y, apart []float64) {
							layer := func(x, w, b, scale, offset []float64, n int64) []float64 {
								k, out := int64(len(x)), slices.Clone(b[expert*n:][:n])
								for i := range k {
									for j := range n {
										at := (expert*groups+i/(k/groups))*n + j
										out[j] += x[i] * (w[(expert*k+i)*n+j] + offset[at]) * scale[at]
									}
								}
								return out
							}
							h := firstSums(d, layer(x, q.w1, q.b1, scale1, offset1, q.hidden))
							for j := range h {
								h[j] = f(h[j])
							}
							return layer(roundedTo(d, h), q.w2, q.b2, scale2, offset2, q.in), nil
						})
					}
				}
			}
		}
	}
}

func TestFeedForwardQuantisedRefuses(t *testing.T) {
	of := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape, 1) }
	const i8, i32, f16, bf, f32, u64 = dtype.Int8, dtype.Int32, dtype.Float16, dtype.BFloat16, dtype.Float32, dtype.Uint64
	quantised := optest.Args{
		"x": of(i8, 2, 6), "weight1": of(i8, 6, 8), "weight2": of(i8, 8, 6), "activation": "relu", "y": of(f16, 2, 6), "bias1": of(i32, 8), "bias2": of(i32, 6),
		"scale": of(f32, 1), "offset": of(f32, 1), "deqScale1": of(f32, 8), "deqScale2": of(f32, 6),
	}
	int4 := func(shape ...int64) *op.Tensor { return int4Tensor(t, shape, make([]float64, op.Count(shape))) }
	weights := optest.Args{
		"x": of(bf, 2, 6), "weight1": int4(6, 8), "weight2": int4(8, 6), "activation": "relu", "y": of(bf, 2, 6), "bias1": of(f32, 8), "bias2": of(f32, 6),
		"antiquantScale1": of(bf, 2, 8), "antiquantOffset1": of(bf, 2, 8), "antiquantScale2": of(bf, 2, 6), "antiquantOffset2": of(bf, 2, 6),
	}
	optest.Run(t, "FFN", quantised)
	optest.Run(t, "FFN", weights)
	gaps := int4(6, 8)
	gaps.Shape = []int64{6, 6} // of rows of eight
	for _, c := range []struct {
		base, set optest.Args
		text      string
	}{
		{quantised, optest.Args{"scale": nil}, "scale is null"}, {quantised, optest.Args{"deqScale2": nil}, "deqScale2 is null"}, {quantised, optest.Args{"deqScale2": of(u64, 6)}, "dtype"},
		{quantised, optest.Args{"scale": of(f32, 8)}, "dtype"}, {quantised, optest.Args{"scale": of(f32, 2)}, "one for each expert"}, {quantised, optest.Args{"offset": of(f32, 8)}, "one for each expert"},
		{quantised, optest.Args{"deqScale1": of(f32, 6)}, "one for each column"}, {quantised, optest.Args{"bias1": of(f32, 8)}, "dtype"}, {quantised, optest.Args{"y": of(bf, 2, 6)}, "dtype"},
		{quantised, optest.Args{"weight1": int4(6, 8), "weight2": int4(8, 6)}, "dtype"}, {quantised, optest.Args{"antiquantScale1": of(f16, 8)}, "do not have it"},
		{weights, optest.Args{"antiquantOffset2": nil}, "is null"}, {weights, optest.Args{"antiquantScale1": of(f16, 2, 8)}, "dtype"}, {weights, optest.Args{"antiquantOffset1": of(bf, 8)}, "as antiquantScale1"},
		{weights, optest.Args{"antiquantScale1": of(bf, 4, 8), "antiquantOffset1": of(bf, 4, 8)}, "into 4 groups"}, {weights, optest.Args{"antiquantScale1": of(bf, 8), "antiquantOffset1": of(bf, 8)}, "as many dimensions"},
		{weights, optest.Args{"weight1": of(i8, 6, 8), "weight2": of(i8, 8, 6)}, "one for each column"}, {weights, optest.Args{"bias2": of(bf, 6)}, "dtype"}, {weights, optest.Args{"y": of(f16, 2, 6)}, "dtype"},
		{weights, optest.Args{"scale": of(f32, 1)}, "do not have it"}, {weights, optest.Args{"weight1": gaps, "weight2": int4(6, 6), "bias1": nil}, "share bytes"},
	} {
		optest.Refused(t, op.InvalidParam, "FFN", c.base.With(c.set), c.text)
	}
}
