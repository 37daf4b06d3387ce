package matmul

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// expertProducts computes the scaled products of rows with the weights of their groups.
type expertProducts struct {
	m, k, n  int64
	ends     []int64
	x, w     []float64
	scale    []float64
	rows     []float64
	products []float64
}

func newExpertProducts(m, k, n int64, ends []int64, small float64) *expertProducts {
	g := int64(len(ends))
	p := &expertProducts{m: m, k: k, n: n, ends: ends, x: optest.Normal(1, dtype.Int8, m*k), w: optest.Normal(2, dtype.Int8, g*k*n), products: make([]float64, m*n)}
	for i := range p.w {
		p.w[i] = min(max(p.w[i]+float64(i%5)-2, -small), small-1)
		if i < len(p.x) {
			p.x[i] += float64(i%11) - 5
		}
	}
	for i := range g * n {
		p.scale = append(p.scale, []float64{.5, .25, 1}[i%3])
	}
	for i := range m {
		p.rows = append(p.rows, []float64{1, .5}[i%2])
	}
	p.multiply()
	return p
}

// multiply computes the products.
func (p *expertProducts) multiply() {
	k, n, first := p.k, p.n, int64(0)
	for e, end := range p.ends {
		y := optest.Times(p.x[first*k:end*k], p.w[int64(e)*k*n:int64(e+1)*k*n], k)
		for i, v := range y {
			row, column := first+int64(i)/n, int64(i)%n
			p.products[row*n+column] = v * p.scale[int64(e)*n+column] * p.rows[row]
		}
		first = end
	}
}

// inBlocks scales blocks of the rows of each weight differently and adds more to the columns, which changes the
// products. It returns the scales [groups, blocks, n], and the bias: more, and the correction for the device's x - 8.
func (p *expertProducts) inBlocks(blocks int64, more func(i int64) float64) (scale, bias []float64) {
	groups := int64(len(p.ends))
	bias = make([]float64, groups*p.n)
	for i := range groups * blocks * p.n {
		group, block, column := i/p.n/blocks, i/p.n%blocks, i%p.n
		scale = append(scale, p.scale[group*p.n+column]/float64(block+1))
	}
	for i := range bias {
		bias[i] = more(int64(i))
	}
	for e, first := 0, int64(0); e < len(p.ends); e++ {
		for row := first; row < p.ends[e]; row++ {
			for j := range p.n {
				p.products[row*p.n+j] = bias[int64(e)*p.n+j] * p.rows[row]
			}
		}
		for k := range p.k {
			for j := range p.n {
				v := p.w[(int64(e)*p.k+k)*p.n+j] * scale[(int64(e)*blocks+k/(p.k/blocks))*p.n+j]
				bias[int64(e)*p.n+j] += 8 * v
				for row := first; row < p.ends[e]; row++ {
					p.products[row*p.n+j] += p.x[row*p.k+k] * v * p.rows[row]
				}
			}
		}
		first = p.ends[e]
	}
	return scale, bias
}

// weightIn returns the weight in one form: ND, NZ, or NZ declared with its storage shape. An int32 holds eight
// elements of four bits.
func (p *expertProducts) weightIn(t *testing.T, form string, d dtype.Type) *op.Tensor {
	shape := []int64{int64(len(p.ends)), p.k, p.n}
	var w *op.Tensor
	switch {
	case d == dtype.Int8 && form == "nd":
		w = optest.Tensor(t, d, shape, p.w...)
	case d == dtype.Int8:
		w = inNz(t, optest.Tensor(t, d, shape, p.w...))
	case form == "nd":
		w = int4Tensor(t, shape, p.w)
	default:
		w = int4Nz(t, shape, p.w)
	}
	if form == "storage" {
		w.Shape, w.Strides = w.Storage, op.ContiguousStrides(w.Storage)
	}
	if d == dtype.Int32 {
		asInt32(w)
	}
	return w
}

func TestGroupedMatmulSwigluQuant(t *testing.T) {
	for _, c := range []struct {
		form           string
		weights, scale dtype.Type
		blocks         int64 // 0 for a scale of two dimensions
	}{
		{"nd", dtype.Int8, dtype.Float32, 0}, {"nz", dtype.Int8, dtype.Float32, 0}, {"storage", dtype.Int8, dtype.Float32, 0},
		{"nz", dtype.Int8, dtype.Float16, 0}, {"storage", dtype.Int8, dtype.Float16, 0}, {"nz", dtype.Int8, dtype.BFloat16, 0},
		{"nd", dtype.Int4, dtype.Uint64, 0}, {"nd", dtype.Int32, dtype.Uint64, 4}, {"nz", dtype.Int4, dtype.Uint64, 1}, {"nz", dtype.Int4, dtype.Uint64, 2},
		{"nz", dtype.Int32, dtype.Uint64, 0}, {"storage", dtype.Int4, dtype.Uint64, 4}, {"storage", dtype.Int32, dtype.Int64, 0},
	} {
		for _, ends := range [][]int64{{3, 3, 7}, {9}, {0}} {
			small := 127.0
			if c.weights != dtype.Int8 {
				small = 8
			}
			p := newExpertProducts(9, 32, 64, ends, small)
			name := "GroupedMatmulSwigluQuant"
			if c.form == "nz" {
				name += "WeightNZ"
			}
			g := int64(len(ends))
			out, scale := optest.Tensor(t, dtype.Int8, []int64{p.m, p.n / 2}, 99), optest.Tensor(t, dtype.Float32, []int64{p.m}, 99)
			a := optest.Args{
				"x": optest.Tensor(t, dtype.Int8, []int64{p.m, p.k}, p.x...), "weight": p.weightIn(t, c.form, c.weights),
				"xScale": optest.Tensor(t, dtype.Float32, []int64{p.m}, p.rows...), "groupList": optest.Tensor(t, dtype.Int64, []int64{g}, optest.Floats(ends)...), "output": out, "outputScale": scale,
			}
			refused := map[string]optest.Args{}
			if c.weights == dtype.Int8 {
				a["weightScale"] = optest.Tensor(t, c.scale, []int64{g, p.n}, p.scale...)
				refused["not supported"] = optest.Args{"bias": optest.Tensor(t, dtype.Int32, []int64{g, p.n}, 1)}
			} else {
				shape := []int64{g, p.n}
				if c.blocks > 0 {
					shape = []int64{g, c.blocks, p.n}
				}
				scales, bias := p.inBlocks(max(c.blocks, 1), func(i int64) float64 { return float64(i % 3) })
				a["weightScale"], a["bias"] = packedScales(t, c.scale, shape, scales), optest.Tensor(t, dtype.Float32, []int64{g, p.n}, bias...)
				optest.Refused(t, op.NullPointer, name, a.With(optest.Args{"bias": nil}), "bias is null")
				refused["into 5 blocks"] = optest.Args{"weightScale": optest.Tensor(t, c.scale, []int64{g, 5, p.n}, 1)}
				refused["dtype"] = optest.Args{"weightScale": optest.Tensor(t, dtype.Float32, []int64{g, p.n}, 1)}
			}
			optest.Run(t, name, a)
			half := p.n / 2
			for row := range p.m {
				got, of := optest.Values(out)[row*half:(row+1)*half], optest.Values(scale)[row]
				if row >= ends[len(ends)-1] {
					require.Equal(t, 99.0, of, "left alone")
					continue
				}
				most, want := 0.0, make([]float64, half)
				for j := range half {
					v := p.products[row*p.n+j]
					want[j] = v / (1 + math.Exp(-v)) * p.products[row*p.n+half+j]
					most = max(most, math.Abs(want[j]))
				}
				assert.InEpsilon(t, most/127, of, 1e-4)
				for j := range want {
					assert.InDelta(t, want[j]/of, got[j], .51, "%+v %v row %d column %d", c, ends, row, j)
				}
			}
			refused["one for each row of x"] = optest.Args{"xScale": optest.Tensor(t, dtype.Float32, []int64{p.m + 1}, 1)}
			refused["one for each weight"] = optest.Args{"groupList": optest.Tensor(t, dtype.Int64, []int64{g + 1}, 1)}
			refused["half of the columns"] = optest.Args{"output": optest.Tensor(t, dtype.Int8, []int64{p.m, p.n}, 1)}
			refused["one for each column of each weight"] = optest.Args{"weightScale": optest.Tensor(t, c.scale, []int64{g, p.n + 1}, 1)}
			refused["cannot be multiplied"] = optest.Args{"x": optest.Tensor(t, dtype.Int8, []int64{p.m, p.k + 1}, 1)}
			for text, set := range refused {
				optest.Refused(t, op.InvalidParam, name, a.With(set), text)
			}
			optest.Refused(t, op.NullPointer, name, a.With(optest.Args{"xScale": nil}), "xScale is null")
		}
	}
}

func TestGroupedMatmulFinalizeRouting(t *testing.T) {
	for _, c := range []struct {
		name, form string
		weights    dtype.Type
		counts     bool
		offset     bool
	}{
		{"GroupedMatmulFinalizeRouting", "nd", dtype.Int32, false, false}, {"GroupedMatmulFinalizeRoutingV2", "nd", dtype.Int32, true, false}, {"GroupedMatmulFinalizeRoutingV3", "nd", dtype.Int32, true, true},
		{"GroupedMatmulFinalizeRoutingWeightNz", "nz", dtype.Int8, true, false}, {"GroupedMatmulFinalizeRoutingWeightNz", "nz", dtype.Int4, false, false},
		{"GroupedMatmulFinalizeRoutingWeightNzV2", "storage", dtype.Int8, false, false}, {"GroupedMatmulFinalizeRoutingWeightNzV2", "nz", dtype.Int4, false, true},
		{"GroupedMatmulFinalizeRoutingWeightNzV2", "nz", dtype.Int32, true, false}, {"GroupedMatmulFinalizeRoutingWeightNzV2", "storage", dtype.Int32, true, true},
	} {
		small, packed := 127.0, c.weights != dtype.Int8
		if packed {
			small = 8
		}
		p := newExpertProducts(9, 32, 64, []int64{3, 3, 7}, small)
		const batch = 5
		g := int64(len(p.ends))
		list := []float64{3, 3, 7}
		if c.counts {
			list = []float64{3, 0, 4}
		}
		index, logit, sharedAt := []float64{0, 4, 2, 0, 1, 4, 4, 3, 3}, []float64{.5, 1, 2, .25, 1, 1, .5, 7, 7}, 1
		shared := optest.Normal(5, dtype.BFloat16, 2*p.n)
		names := func(short, long string) string {
			if op := op.Find(c.name); op.Params[2].Name == "scale" {
				return short
			}
			return long
		}
		x, w := "x1", "x2"
		if c.name == "GroupedMatmulFinalizeRouting" {
			x, w = "x", "w"
		}
		out := optest.Tensor(t, dtype.Float32, []int64{batch, p.n}, 99)
		a := optest.Args{
			x: optest.Tensor(t, dtype.Int8, []int64{p.m, p.k}, p.x...), w: p.weightIn(t, c.form, c.weights), names("scale", "scaleOptional"): optest.Tensor(t, dtype.Float32, []int64{g, p.n}, p.scale...),
			"pertokenScaleOptional": optest.Tensor(t, dtype.Float32, []int64{p.m}, p.rows...), names("groupList", "groupListOptional"): optest.Tensor(t, dtype.Int64, []int64{g}, list...),
			names("sharedInput", "sharedInputOptional"): optest.Tensor(t, dtype.BFloat16, []int64{2, p.n}, shared...), names("logit", "logitOptional"): optest.Tensor(t, dtype.Float32, []int64{p.m}, logit...),
			names("rowIndex", "rowIndexOptional"): optest.Tensor(t, dtype.Int64, []int64{p.m}, index...), "sharedInputWeight": .5, "sharedInputOffset": sharedAt,
		}
		if c.name == "GroupedMatmulFinalizeRouting" {
			a["y"] = out
		} else {
			a["out"] = out
		}
		if c.counts {
			a["groupListType"] = 1
		}
		if packed {
			scale, bias := p.inBlocks(1, func(i int64) float64 { return float64(i % 3) })
			a[names("scale", "scaleOptional")] = packedScales(t, dtype.Int64, []int64{g, 1, p.n}, scale)
			a[names("bias", "biasOptional")] = optest.Tensor(t, dtype.Float32, []int64{g, p.n}, bias...)
			optest.Refused(t, op.NullPointer, c.name, a.With(optest.Args{names("bias", "biasOptional"): nil}), "bias is null")
			optest.Refused(t, op.InvalidParam, c.name, a.With(optest.Args{names("scale", "scaleOptional"): packedScales(t, dtype.Int64, []int64{g, p.n}, scale)}), "3 are supported")
			optest.Refused(t, op.InvalidParam, c.name, a.With(optest.Args{names("bias", "biasOptional"): optest.Tensor(t, dtype.Float32, []int64{g, 1, p.n}, bias...)}), "2 are supported")
			optest.Refused(t, op.InvalidParam, c.name, a.With(optest.Args{names("scale", "scaleOptional"): packedScales(t, dtype.Int64, []int64{g, 2, p.n}, slices.Repeat(scale, 2))}), "one for each column of each weight")
		}
		if c.offset {
			offset := make([]float64, g*p.n)
			for i := range offset {
				offset[i] = float64(i%7) / 8
			}
			a["offsetOptional"] = optest.Tensor(t, dtype.Float32, []int64{g, 1, p.n}, offset...)
			first := int64(0)
			for e, end := range p.ends {
				for ; first < end; first++ {
					sum := 0.0
					for k := range p.k {
						sum += p.x[first*p.k+k]
					}
					for j := range p.n {
						p.products[first*p.n+j] += sum * offset[int64(e)*p.n+j] * p.rows[first]
					}
				}
			}
		}
		if !packed {
			bias := optest.Normal(7, dtype.BFloat16, g*p.n)
			a["bias"] = optest.Tensor(t, dtype.BFloat16, []int64{g, p.n}, bias...)
			first := int64(0)
			for e, end := range p.ends {
				for ; first < end; first++ {
					optest.Add(p.products[first*p.n:][:p.n], bias[int64(e)*p.n:])
				}
			}
			optest.Refused(t, op.InvalidParam, c.name, a.With(optest.Args{"bias": optest.Tensor(t, dtype.Float32, []int64{g, p.n}, bias...)}), "dtype")
			optest.Refused(t, op.InvalidParam, c.name, a.With(optest.Args{names("scale", "scaleOptional"): optest.Tensor(t, dtype.Float32, []int64{g, 1, p.n}, p.scale...)}), "2 are supported")
		}
		for _, d := range []dtype.Type{dtype.Int4, dtype.Int8} {
			if c.form == "nd" { // which CANN takes as int32 alone
				optest.Refused(t, op.InvalidParam, c.name, a.With(optest.Args{w: p.weightIn(t, "nd", d)}), "dtype")
			}
		}
		optest.Run(t, c.name, a)
		want := make([]float64, batch*p.n)
		for i, v := range shared {
			want[int64(sharedAt)*p.n+int64(i)] = .5 * v
		}
		for row := range p.ends[2] {
			for j := range p.n {
				want[int64(index[row])*p.n+j] += logit[row] * p.products[row*p.n+j]
			}
		}
		optest.CloseTo(t, fmt.Sprintf("%+v", c), want, optest.Values(out), 1e-4)
		for text, set := range map[string]optest.Args{
			"dtype is 1": {"dtype": 1}, "groupListType is 2": {"groupListType": 2}, "does not fit": {"sharedInputOffset": 4}, "one for each row of x": {names("rowIndex", "rowIndexOptional"): optest.Tensor(t, dtype.Int64, []int64{2}, 0)},
		} {
			optest.Refused(t, op.InvalidParam, c.name, a.With(set), text)
		}
		optest.Refused(t, op.NullPointer, c.name, a.With(optest.Args{"pertokenScaleOptional": nil}), "pertokenScaleOptional is null")
		optest.Refused(t, op.NullPointer, c.name, a.With(optest.Args{names("logit", "logitOptional"): nil}), "is null")
		if o := op.Find(c.name); slices.ContainsFunc(o.Params, func(p op.Param) bool { return p.Name == "antiquantScaleOptional" }) {
			optest.Refused(t, op.NullPointer, c.name, a.With(optest.Args{"antiquantScaleOptional": out}), "antiquantScaleOptional is given")
		}
		if o := op.Find(c.name); slices.ContainsFunc(o.Params, func(p op.Param) bool { return p.Name == "tuningConfigOptional" }) {
			for _, hint := range []int64{-5, p.m + 1} {
				optest.Refused(t, op.InvalidParam, c.name, a.With(optest.Args{"tuningConfigOptional": []int64{hint}}), "must be 0 to")
			}
		}
		if c.counts {
			assert.ErrorContains(t, optest.Execute(t, c.name, a.With(optest.Args{names("groupList", "groupListOptional"): optest.Tensor(t, dtype.Int64, []int64{g}, 3, 0, 7)})), "not exceed 9 together")
		}
	}
}
