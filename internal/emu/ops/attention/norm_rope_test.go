package attention

import (
	"fmt"
	"math"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/kernel/rowwise"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// jointCase is a call of NormRopeConcat. text is 0 without a second input.
type jointCase struct {
	batch, images, text, heads, dim, angles int64
	norm, added, rope, order                int64
}

// normedBy is the definition of a norm of rows.
func normedBy(norm int64, x, weight, bias []float64, dim int64) (y, means, rstds []float64) {
	for first := int64(0); first < int64(len(x)); first += dim {
		row, mean, square := x[first:][:dim], 0.0, 0.0
		for _, v := range row {
			mean += v / float64(dim)
		}
		if norm == noNorm || norm >= rmsNorm {
			mean = 0
		}
		for _, v := range row {
			square += (v - mean) * (v - mean) / float64(dim)
		}
		rstd := 1 / math.Sqrt(square+1e-3)
		if norm == noNorm {
			rstd = 1
		}
		means, rstds = append(means, mean), append(rstds, rstd)
		for i, v := range row {
			v = (v - mean) * rstd
			if norm == affineLayerNorm || norm == affineRMSNorm {
				v *= weight[i]
			}
			if norm == affineLayerNorm {
				v += bias[i]
			}
			y = append(y, v)
		}
	}
	return y, means, rstds
}

// joined joins and transposes two inputs of normalised rows, and rotates the first tokens.
func (c jointCase) joined(images, text, cos, sin []float64) []float64 {
	total := c.images + c.text
	y := make([]float64, c.batch*total*c.heads*c.dim)
	for b := range c.batch {
		for s := range total {
			from, at, n := images, s, c.images
			switch {
			case c.order == 0 && s >= c.images:
				from, at, n = text, s-c.images, c.text
			case c.order == 1 && s < c.text:
				from, n = text, c.text
			case c.order == 1:
				at = s - c.text
			}
			for h := range c.heads {
				row := from[((b*n+at)*c.heads+h)*c.dim:][:c.dim]
				if c.rope != 0 && s < c.angles && cos != nil {
					mode := rowwise.RotaryInterleave
					if c.rope == 2 {
						mode = rowwise.RotaryHalf
					}
					row = rotaryDefinition(mode, row, cos[s*c.dim:][:c.dim], sin[s*c.dim:][:c.dim])
				}
				copy(y[((b*c.heads+h)*total+s)*c.dim:], row)
			}
		}
	}
	return y
}

func (c jointCase) forwardArgs(t *testing.T, d dtype.Type, l kerneltest.Layout) optest.Args {
	f := kerneltest.Contiguous
	a := optest.Args{"normType": c.norm, "normAddedType": c.added, "ropeType": c.rope, "concatOrder": c.order, "eps": 1e-3, "isTraining": true}
	for i, name := range []string{"Query", "Key", "Value"} {
		a[[]string{"query", "key", "value"}[i]] = optest.Filled(t, uint64(1+i), d, l, []int64{c.batch, c.images, c.heads, c.dim})
		if c.text > 0 {
			a["encoder"+name] = optest.Filled(t, uint64(4+i), d, l, []int64{c.batch, c.text, c.heads, c.dim})
		}
		a[[]string{"query", "key", "value"}[i]+"Output"] = optest.TensorIn(t, d, l, []int64{c.batch, c.heads, c.images + c.text, c.dim})
		if i == 2 {
			continue
		}
		for k, n := range []int64{c.images, c.text} {
			prefix := []string{"norm", "normAdded"}[k] + name
			if n == 0 {
				continue
			}
			a[prefix+"Weight"], a[prefix+"Bias"] = optest.Filled(t, uint64(7+2*i+k), d, f, []int64{c.dim}), optest.Filled(t, uint64(11+2*i+k), d, f, []int64{c.dim})
			a[prefix+"Mean"], a[prefix+"Rstd"] = optest.TensorIn(t, dtype.Float32, l, []int64{c.batch, n, c.heads, 1}), optest.TensorIn(t, dtype.Float32, l, []int64{c.batch, n, c.heads, 1})
		}
	}
	if c.rope != 0 {
		a["ropeSin"], a["ropeCos"] = optest.Filled(t, 20, d, l, []int64{c.angles, c.dim}), optest.Filled(t, 21, d, l, []int64{c.angles, c.dim})
	}
	return a
}

// TestNormRopeConcat compares results, statistics and gradients with the definition in float64 and its differences.
func TestNormRopeConcat(t *testing.T) {
	for _, c := range []jointCase{
		{batch: 1, images: 3, text: 0, heads: 2, dim: 6, angles: 2, norm: 0, added: 0, rope: 1, order: 0},
		{batch: 2, images: 3, text: 2, heads: 2, dim: 8, angles: 4, norm: 1, added: 2, rope: 2, order: 0},
		{batch: 2, images: 2, text: 3, heads: 3, dim: 10, angles: 5, norm: 2, added: 1, rope: 1, order: 1},
		{batch: 1, images: 5, text: 1, heads: 1, dim: 4, angles: 0, norm: 2, added: 2, rope: 0, order: 1},
		{batch: 1, images: 4, text: 3, heads: 2, dim: 6, angles: 7, norm: 3, added: 4, rope: 2, order: 1},
		{batch: 2, images: 1, text: 2, heads: 2, dim: 12, angles: 1, norm: 4, added: 3, rope: 1, order: 0},
	} {
		for _, d := range op.FloatTypes {
			for _, l := range kerneltest.Layouts {
				what := fmt.Sprint(c, d, l)
				a := c.forwardArgs(t, d, l)
				optest.Run(t, "NormRopeConcat", a)
				get := func(name string) []float64 {
					if x, ok := a[name].(*op.Tensor); ok {
						return optest.Values(x)
					}
					return nil
				}
				limit := 2 * optest.ResultLimit(d)
				optest.CloseTo(t, "value "+what, c.joined(get("value"), get("encoderValue"), nil, nil), get("valueOutput"), limit)
				for i, name := range []string{"Query", "Key"} {
					lower := []string{"query", "key"}[i]
					image, imageMean, imageRstd := normedBy(c.norm, get(lower), get("norm"+name+"Weight"), get("norm"+name+"Bias"), c.dim)
					text, textMean, textRstd := normedBy(c.added, get("encoder"+name), get("normAdded"+name+"Weight"), get("normAdded"+name+"Bias"), c.dim)
					optest.CloseTo(t, name+" "+what, c.joined(image, text, get("ropeCos"), get("ropeSin")), get(lower+"Output"), limit)
					if c.norm == 1 || c.norm == 2 {
						optest.CloseTo(t, "mean "+what, imageMean, get("norm"+name+"Mean"), 1e-5)
						optest.CloseTo(t, "rstd "+what, imageRstd, get("norm"+name+"Rstd"), 1e-5)
					}
					if c.text > 0 && (c.added == 1 || c.added == 2) {
						optest.CloseTo(t, "text mean "+what, textMean, get("normAdded"+name+"Mean"), 1e-5)
						optest.CloseTo(t, "text rstd "+what, textRstd, get("normAdded"+name+"Rstd"), 1e-5)
					}
				}
				if c.norm <= affineLayerNorm && c.added <= affineLayerNorm {
					c.testGrad(t, d, l, a, what)
				}
			}
		}
	}
}

func (c jointCase) testGrad(t *testing.T, d dtype.Type, l kerneltest.Layout, forward optest.Args, what string) {
	a := forward.With(nil)
	for _, name := range []string{"value", "encoderValue", "eps", "isTraining", "queryOutput", "keyOutput", "valueOutput"} {
		delete(a, name)
	}
	for i, name := range []string{"Query", "Key", "Value"} {
		a["grad"+name+"Output"] = optest.Filled(t, uint64(30+i), d, l, []int64{c.batch, c.heads, c.images + c.text, c.dim})
		a["grad"+name] = optest.TensorIn(t, d, l, []int64{c.batch, c.images, c.heads, c.dim})
		if c.text > 0 {
			a["gradEncoder"+name] = optest.TensorIn(t, d, l, []int64{c.batch, c.text, c.heads, c.dim})
		}
		for _, prefix := range []string{"norm", "normAdded"} {
			delete(a, prefix+name+"Bias")
			if i < 2 && a[prefix+name+"Weight"] != nil {
				upper := "gradN" + prefix[1:] + name
				a[upper+"Weight"], a[upper+"Bias"] = optest.TensorIn(t, d, l, []int64{c.dim}), optest.TensorIn(t, d, l, []int64{c.dim})
			}
		}
	}
	optest.Run(t, "NormRopeConcatBackward", a)
	get := func(a optest.Args, name string) []float64 {
		if x, ok := a[name].(*op.Tensor); ok {
			return optest.Values(x)
		}
		return nil
	}
	limit := max(8*optest.ResultLimit(d), 1e-4)
	for i, name := range []string{"Query", "Key", "Value"} {
		dy := get(a, "grad"+name+"Output")
		lower := []string{"query", "key", "value"}[i]
		params := [][]float64{get(forward, lower), get(forward, "encoder"+name), get(forward, "norm"+name+"Weight"), get(forward, "norm"+name+"Bias"), get(forward, "normAdded"+name+"Weight"), get(forward, "normAdded"+name+"Bias")}
		of := func(k int) func(v []float64) []float64 {
			return func(v []float64) []float64 {
				p := append([][]float64{}, params...)
				p[k] = v
				if i == 2 {
					return c.joined(p[0], p[1], nil, nil)
				}
				images, _, _ := normedBy(c.norm, p[0], p[2], p[3], c.dim)
				text, _, _ := normedBy(c.added, p[1], p[4], p[5], c.dim)
				return c.joined(images, text, get(forward, "ropeCos"), get(forward, "ropeSin"))
			}
		}
		for k, to := range []string{"grad" + name, "gradEncoder" + name, "gradNorm" + name + "Weight", "gradNorm" + name + "Bias", "gradNormAdded" + name + "Weight", "gradNormAdded" + name + "Bias"} {
			norm := []int64{2, 2, c.norm, c.norm, c.added, c.added}[k]
			if len(params[k]) == 0 || norm != affineLayerNorm {
				continue
			}
			optest.CloseTo(t, to+" "+what, optest.Gradient(of(k), dy, params[k]), get(a, to), limit)
		}
	}
}

func TestNormRopeConcatRefuses(t *testing.T) {
	f := dtype.Float32
	x := func(shape ...int64) *op.Tensor { return optest.Tensor(t, f, shape) }
	a := jointCase{batch: 1, images: 2, text: 1, heads: 2, dim: 4, angles: 2, norm: 2, added: 1, rope: 1}.forwardArgs(t, f, kerneltest.Contiguous)
	for text, set := range map[string]optest.Args{
		"type of norm is 5":            {"normType": 5},
		"even number of elements":      {"query": x(1, 2, 2, 5)},
		"angles of more than 3 tokens": {"ropeSin": x(4, 4), "ropeCos": x(4, 4)},
		"as many values as keys":       {"value": x(1, 1, 2, 4), "valueOutput": x(1, 2, 2, 4)},
		"the tokens of both inputs":    {"keyOutput": x(1, 2, 4, 4)},
		"one for each head":            {"normQueryMean": x(1, 2)},
		"one for each element":         {"normKeyBias": x(5)},
		"batch, tokens, heads":         {"encoderKey": x(1, 1, 1, 4)},
	} {
		optest.Refused(t, op.TilingRefused, "NormRopeConcat", a.With(set), text)
	}
	optest.Refused(t, op.Unsupported, "NormRopeConcat", a.With(optest.Args{"ropeType": 3}), "ropeType is 3")
	optest.Refused(t, op.Unsupported, "NormRopeConcat", a.With(optest.Args{"concatOrder": 2}), "concatOrder is 2")
	optest.Refused(t, op.NullPointer, "NormRopeConcat", a.With(optest.Args{"normQueryBias": nil}), "normQueryBias is null")
	optest.Refused(t, op.InvalidParam, "NormRopeConcat", a.With(optest.Args{"key": optest.Tensor(t, dtype.Float16, []int64{1, 2, 2, 4})}), "dtypes differ")
}
