package matmul

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/fractal"
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
	first := int64(0)
	for i := range m {
		p.rows = append(p.rows, []float64{1, .5}[i%2])
	}
	for e, end := range ends {
		y := optest.Times(p.x[first*k:end*k], p.w[int64(e)*k*n:int64(e+1)*k*n], k)
		for i, v := range y {
			row, column := first+int64(i)/n, int64(i)%n
			p.products[row*n+column] = v * p.scale[int64(e)*n+column] * p.rows[row]
		}
		first = end
	}
	return p
}

// weightIn returns the weight in one form: ND, NZ, or NZ declared with its storage shape.
func (p *expertProducts) weightIn(t *testing.T, form string) *op.Tensor {
	g := int64(len(p.ends))
	nd := optest.Tensor(t, dtype.Int8, []int64{g, p.k, p.n}, p.w...)
	if form == "nd" {
		return nd
	}
	shape := op.NZShape(nd.Shape, false, 32)
	nz := optest.Tensor(t, dtype.Int8, shape)
	require.NoError(t, fractal.Pack(nz.Data, 32, nd.View()))
	nz.Format = dtype.FractalNZ
	if form == "nz" {
		nz.Shape, nz.Strides = nd.Shape, nd.Strides
	}
	return nz
}

func TestGroupedMatmulSwigluQuant(t *testing.T) {
	for _, form := range []string{"nd", "nz", "storage"} {
		for _, ends := range [][]int64{{3, 3, 7}, {9}, {0, 0}} {
			p := newExpertProducts(9, 32, 64, ends, 127)
			name := "GroupedMatmulSwigluQuant"
			if form == "nz" {
				name += "WeightNZ"
			}
			g := int64(len(ends))
			out, scale := optest.Tensor(t, dtype.Int8, []int64{p.m, p.n / 2}, 99), optest.Tensor(t, dtype.Float32, []int64{p.m}, 99)
			var list []float64
			for _, end := range ends {
				list = append(list, float64(end))
			}
			a := optest.Args{
				"x": optest.Tensor(t, dtype.Int8, []int64{p.m, p.k}, p.x...), "weight": p.weightIn(t, form), "weightScale": optest.Tensor(t, dtype.Float32, []int64{g, p.n}, p.scale...),
				"xScale": optest.Tensor(t, dtype.Float32, []int64{p.m}, p.rows...), "groupList": optest.Tensor(t, dtype.Int64, []int64{g}, list...), "output": out, "outputScale": scale,
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
					assert.InDelta(t, want[j]/of, got[j], .51, "%s %v row %d column %d", form, ends, row, j)
				}
			}
			for text, set := range map[string]optest.Args{
				"not supported": {"bias": optest.Tensor(t, dtype.Int32, []int64{g, p.n}, 1)}, "one for each row of x": {"xScale": optest.Tensor(t, dtype.Float32, []int64{p.m + 1}, 1)},
				"one for each weight": {"groupList": optest.Tensor(t, dtype.Int64, []int64{g + 1}, 1)}, "half of the columns": {"output": optest.Tensor(t, dtype.Int8, []int64{p.m, p.n}, 1)},
				"one for each column of each weight": {"weightScale": optest.Tensor(t, dtype.Float32, []int64{g, p.n + 1}, 1)}, "cannot be multiplied": {"x": optest.Tensor(t, dtype.Int8, []int64{p.m, p.k + 1}, 1)},
			} {
				optest.Refused(t, op.InvalidParam, name, a.With(set), text)
			}
			optest.Refused(t, op.NullPointer, name, a.With(optest.Args{"xScale": nil}), "xScale is null")
		}
	}
}

func TestGroupedMatmulFinalizeRouting(t *testing.T) {
	for _, c := range []struct {
		name, form string
		counts     bool
		packed     bool
		offset     bool
	}{
		{"GroupedMatmulFinalizeRouting", "nd", false, false, false}, {"GroupedMatmulFinalizeRoutingV2", "nd", true, true, false}, {"GroupedMatmulFinalizeRoutingV3", "nd", true, true, true},
		{"GroupedMatmulFinalizeRoutingWeightNz", "nz", true, false, false}, {"GroupedMatmulFinalizeRoutingWeightNzV2", "storage", false, false, false},
	} {
		small := 127.0
		if c.packed {
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
			x: optest.Tensor(t, dtype.Int8, []int64{p.m, p.k}, p.x...), w: p.weightIn(t, c.form), names("scale", "scaleOptional"): optest.Tensor(t, dtype.Float32, []int64{g, 1, p.n}, p.scale...),
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
		extra := make([]float64, p.m*p.n)
		if c.packed {
			packed := optest.Tensor(t, dtype.Int32, []int64{g, p.k, p.n / 8})
			words := make([]int64, packed.Len())
			for i, v := range p.w {
				words[i/8] |= int64(uint32(int32(v))&15) << (4 * (i % 8))
			}
			for i := range words {
				words[i] = int64(int32(words[i]))
			}
			require.NoError(t, kernel.SetInts(packed.View(), words))
			bits, bias, offset := make([]int64, g*p.n), make([]float64, g*p.n), make([]float64, g*p.n)
			for i, s := range p.scale {
				bits[i] = int64(math.Float32bits(float32(s)))
				offset[i] = float64(i%7) / 8
				group, column := int64(i)/p.n, int64(i)%p.n
				for k := range p.k {
					bias[i] += 8 * p.w[(group*p.k+k)*p.n+column] * s
				}
				bias[i] += float64(i % 3) // a bias beyond the correction for the 8
			}
			scale := optest.Tensor(t, dtype.Int64, []int64{g, 1, p.n})
			require.NoError(t, kernel.SetInts(scale.View(), bits))
			a[w], a[names("scale", "scaleOptional")], a[names("bias", "biasOptional")] = packed, scale, optest.Tensor(t, dtype.Float32, []int64{g, p.n}, bias...)
			if c.offset {
				a["offsetOptional"] = optest.Tensor(t, dtype.Float32, []int64{g, 1, p.n}, offset...)
			}
			first := int64(0)
			for e, end := range p.ends {
				for row := first; row < end; row++ {
					sum := 0.0
					for k := range p.k {
						sum += p.x[row*p.k+k]
					}
					for j := range p.n {
						at := int64(e)*p.n + j
						extra[row*p.n+j] = float64(at%3) * p.rows[row]
						if c.offset {
							extra[row*p.n+j] += sum * offset[at] * p.rows[row]
						}
					}
				}
				first = end
			}
		}
		optest.Run(t, c.name, a)
		want := make([]float64, batch*p.n)
		for i, v := range shared {
			want[int64(sharedAt)*p.n+int64(i)] = .5 * v
		}
		for row := range p.ends[2] {
			for j := range p.n {
				want[int64(index[row])*p.n+j] += logit[row] * (p.products[row*p.n+j] + extra[row*p.n+j])
			}
		}
		optest.CloseTo(t, fmt.Sprintf("%+v", c), want, optest.Values(out), 1e-4)
		for text, set := range map[string]optest.Args{
			"dtype is 1": {"dtype": 1}, "groupListType is 2": {"groupListType": 2}, "does not fit": {"sharedInputOffset": 4}, "one for each row of x": {names("rowIndex", "rowIndexOptional"): optest.Tensor(t, dtype.Int64, []int64{2}, 0)},
		} {
			optest.Refused(t, op.InvalidParam, c.name, a.With(set), text)
		}
		optest.Refused(t, op.NullPointer, c.name, a.With(optest.Args{"pertokenScaleOptional": nil}), "pertokenScaleOptional is null")
		if c.packed {
			optest.Refused(t, op.NullPointer, c.name, a.With(optest.Args{names("bias", "biasOptional"): nil}), "bias is null")
		}
		if c.counts {
			assert.ErrorContains(t, optest.Execute(t, c.name, a.With(optest.Args{names("groupList", "groupListOptional"): optest.Tensor(t, dtype.Int64, []int64{g}, 3, 0, 7)})), "not exceed 9 together")
		}
	}
}
