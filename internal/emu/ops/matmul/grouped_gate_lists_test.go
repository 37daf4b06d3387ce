package matmul

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// gateCase is a call of GroupedMatmulSwigluQuantV2.
type gateCase struct {
	form                string // as in weightIn, or "swapped": NZ of the transposed weight
	x, weights, scale   dtype.Type
	blocks              int64 // 0 for a scale of two dimensions
	listed, counts, few bool  // a weight for each group; groupList is counts, and has one group less than there are weights
	smooth              int   // dimensions of smoothScale
}

// args returns the arguments, and the products that they have.
func (c gateCase) args(t *testing.T, ends []int64) (optest.Args, *expertProducts) {
	small := 127.0
	if c.weights != dtype.Int8 {
		small = 8
	}
	p := newExpertProducts(9, 128, 64, ends, small)
	if c.x != dtype.Int8 {
		for i := range p.x {
			p.x[i] = float64(i*7%16) - 8
		}
		p.multiply()
	}
	g := int64(len(ends))
	scales, bias := p.inBlocks(max(c.blocks, 1), func(i int64) float64 {
		if c.x == dtype.Int8 && c.weights != dtype.Int8 {
			return float64(i % 3)
		}
		return 0
	})
	list := slices.Clone(ends)
	if c.counts {
		for i := len(list) - 1; i > 0; i-- {
			list[i] -= list[i-1]
		}
	}
	used := g
	if c.few {
		used--
		p.ends = ends[:used]
	}
	x := optest.Tensor(t, dtype.Int8, []int64{p.m, p.k}, p.x...)
	if c.x != dtype.Int8 {
		x = int4Tensor(t, x.Shape, p.x)
		if c.x == dtype.Int32 {
			asInt32(x)
		}
	}
	a := optest.Args{
		"x": x, "xScale": optest.Tensor(t, dtype.Float32, []int64{p.m}, p.rows...), "groupList": optest.Tensor(t, dtype.Int64, []int64{used}, optest.Floats(list[:used])...),
		"output": optest.Tensor(t, dtype.Int8, []int64{p.m, p.n / 2}, 99), "outputScale": optest.Tensor(t, dtype.Float32, []int64{p.m}, 99),
	}
	if c.counts {
		a["groupListType"] = 1
	}
	if c.blocks > 0 {
		a["dequantMode"] = 1
	}
	if c.smooth > 0 {
		shape := []int64{g, p.n / 2}[:c.smooth]
		a["smoothScale"] = optest.Filled(t, 8, dtype.Float32, 0, shape)
	}
	whole := *p
	whole.ends = ends
	parts := []*expertProducts{&whole}
	if c.listed {
		parts = nil
		for i := range g {
			parts = append(parts, &expertProducts{k: p.k, n: p.n, ends: []int64{0}, w: p.w[i*p.k*p.n:][:p.k*p.n]})
		}
	}
	var weights, scale, assist []*op.Tensor
	for i, part := range parts {
		n := int64(len(part.ends))
		lead := []int64{n}
		if c.listed {
			lead = nil
		}
		w := part.weightIn(t, c.form, c.weights)
		if c.listed {
			w.Shape, w.Strides = w.Shape[1:], w.Strides[1:]
			if len(w.Storage) > 3 {
				w.Storage = w.Storage[1:]
			} else {
				w.Storage = w.Shape
			}
		}
		weights = append(weights, w)
		shape, values := append(slices.Clone(lead), p.n), scales[int64(i)*n*max(c.blocks, 1)*p.n:][:n*max(c.blocks, 1)*p.n]
		if c.blocks > 0 {
			shape = append(slices.Clone(lead), c.blocks, p.n)
		}
		if c.weights == dtype.Int8 {
			scale = append(scale, optest.Tensor(t, c.scale, shape, values...))
		} else {
			scale = append(scale, packedScales(t, c.scale, shape, values))
		}
		if c.x == dtype.Int8 && c.weights != dtype.Int8 {
			assist = append(assist, optest.Tensor(t, dtype.Float32, append(slices.Clone(lead), p.n), bias[int64(i)*n*p.n:][:n*p.n]...))
		}
	}
	a["weight"], a["weightScale"] = weights, scale
	if assist != nil {
		a["weightAssistMatrix"] = assist
	}
	return a, p
}

// swappedNz returns the weight as a transposed view of int4 in FRACTAL_NZ of its transpose.
func (p *expertProducts) swappedNz(t *testing.T, d dtype.Type) *op.Tensor {
	g := int64(len(p.ends))
	across := make([]float64, len(p.w))
	for i := range across {
		e, row, column := int64(i)/(p.k*p.n), int64(i)/p.n%p.k, int64(i)%p.n
		across[(e*p.n+column)*p.k+row] = p.w[i]
	}
	w := int4Nz(t, []int64{g, p.n, p.k}, across)
	if d == dtype.Int32 {
		asInt32(w)
	}
	s := w.Shape
	w.Shape, w.Strides = []int64{s[0], s[2], s[1]}, []int64{s[1] * s[2], 1, s[2]}
	return w
}

// TestGroupedGateOfLists compares GroupedMatmulSwigluQuantV2 with products, gates and scales in float64.
func TestGroupedGateOfLists(t *testing.T) {
	i4, i8, i32, f, u := dtype.Int4, dtype.Int8, dtype.Int32, dtype.Float32, dtype.Uint64
	for _, c := range []gateCase{
		{form: "nz", x: i8, weights: i8, scale: f}, {form: "storage", x: i8, weights: i8, scale: dtype.BFloat16, counts: true}, {form: "nz", x: i8, weights: i8, scale: dtype.Float16, listed: true}, {form: "storage", x: i8, weights: i8, scale: f, listed: true, few: true},
		{form: "nd", x: i8, weights: i4, scale: u}, {form: "nd", x: i8, weights: i32, scale: u, blocks: 4, counts: true}, {form: "nz", x: i8, weights: i4, scale: u, blocks: 2, listed: true}, {form: "storage", x: i8, weights: i32, scale: dtype.Int64, few: true}, {form: "nd", x: i8, weights: i4, scale: u, listed: true, counts: true},
		{form: "nd", x: i4, weights: i4, scale: u}, {form: "nz", x: i4, weights: i4, scale: u, blocks: 2, smooth: 1}, {form: "storage", x: i32, weights: i32, scale: u, smooth: 2}, {form: "nz", x: i32, weights: i4, scale: u, blocks: 4, listed: true, smooth: 2}, {form: "nd", x: i4, weights: i32, scale: u, few: true, counts: true, smooth: 1},
		{form: "swapped", x: i4, weights: i4, scale: u}, {form: "swapped", x: i4, weights: i32, scale: u, blocks: 2, smooth: 2},
	} {
		for _, ends := range [][]int64{{3, 3, 7}, {2, 9}, {0, 5}} {
			name := "GroupedMatmulSwigluQuantV2"
			if c.form == "nz" {
				name = "GroupedMatmulSwigluQuantWeightNzV2"
			}
			form := c
			if c.form == "swapped" {
				form.form = "nz"
			}
			a, p := form.args(t, ends)
			if c.form == "swapped" {
				whole := *p
				whole.ends = ends
				a["weight"] = []*op.Tensor{whole.swappedNz(t, c.weights)}
			}
			optest.Run(t, name, a)
			out, scale, half := optest.Values(a["output"].(*op.Tensor)), optest.Values(a["outputScale"].(*op.Tensor)), p.n/2
			group := 0
			for row := range p.m {
				got, of := out[row*half:][:half], scale[row]
				for group < len(p.ends) && row >= p.ends[group] {
					group++
				}
				if group == len(p.ends) {
					require.Equal(t, 99.0, of, "left alone")
					continue
				}
				most, want := 0.0, make([]float64, half)
				for j := range half {
					v := p.products[row*p.n+j]
					want[j] = v / (1 + math.Exp(-v)) * p.products[row*p.n+half+j]
					if c.smooth > 0 {
						s := optest.Values(a["smoothScale"].(*op.Tensor))
						want[j] *= s[(int64(group)*half+j)%int64(len(s))*int64(c.smooth-1)+int64(group)*int64(2-c.smooth)]
					}
					most = max(most, math.Abs(want[j]))
				}
				assert.InEpsilon(t, most/127, of, 1e-4, "%+v %v row %d", c, ends, row)
				for j := range want {
					assert.InDelta(t, want[j]/of, got[j], .51, "%+v %v row %d column %d", c, ends, row, j)
				}
			}
		}
	}
}

func TestGroupedGateOfListsRefuses(t *testing.T) {
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	f := dtype.Float32
	const name = "GroupedMatmulSwigluQuantV2"
	a, _ := gateCase{form: "nz", x: dtype.Int8, weights: dtype.Int8, scale: f}.args(t, []int64{3, 9})
	for text, set := range map[string]optest.Args{
		"groupListType is 2":          {"groupListType": 2},
		"dequantMode is 2":            {"dequantMode": 2},
		"dequantMode 0":               {"dequantMode": 1},
		"quantMode is 1":              {"quantMode": 1},
		"dequantDtype is 27":          {"dequantDtype": dtype.BFloat16},
		"they must be as many":        {"weightScale": []*op.Tensor{x(f, 2, 64), x(f, 2, 64)}},
		"weightScale has no tensor":   {"weightScale": []*op.Tensor{}},
		"1 to 2 groups":               {"groupList": x(dtype.Int64, 3)},
		"weightAssistMatrix belongs":  {"weightAssistMatrix": []*op.Tensor{x(f, 2, 64)}},
		"only int4 x and weights":     {"smoothScale": x(f, 2)},
		"must be in FRACTAL_NZ":       {"weight": []*op.Tensor{x(dtype.Int8, 2, 128, 64)}},
		"half of the columns":         {"output": x(dtype.Int8, 9, 64)},
		"one for each row of x":       {"xScale": x(f, 8)},
		"cannot be multiplied":        {"x": x(dtype.Int8, 9, 64)},
		"int8 and int4, or int4":      {"x": int4Tensor(t, []int64{9, 128}, nil)},
		"dtype that is not supported": {"weightScale": []*op.Tensor{x(dtype.Uint64, 2, 64)}},
	} {
		optest.Refused(t, op.InvalidParam, name, a.With(set), text)
	}
	for _, missing := range []string{"x", "weight", "weightScale", "xScale", "groupList", "output", "outputScale"} {
		optest.Refused(t, op.NullPointer, name, a.With(optest.Args{missing: nil}), missing+" is null")
	}
	optest.Run(t, name, a.With(optest.Args{"dequantDtype": 28}))
	optest.Run(t, name, a.With(optest.Args{"tuningConfigOptional": []int64{4}})) // the source of the 910B does not look at it
	for range 20 {                                                               // the order of refusals does not change from call to call
		optest.Refused(t, op.NullPointer, name, a.With(optest.Args{"weight": nil, "weightScale": nil}), "weight is null")
	}
	c := gateCase{form: "nz", x: dtype.Int4, weights: dtype.Int4, scale: dtype.Uint64, blocks: 4}
	a, p := c.args(t, []int64{3, 9})
	a["weight"] = []*op.Tensor{p.swappedNz(t, dtype.Int4)}
	optest.Refused(t, op.InvalidParam, name, a, "multiples of 64")
	optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"smoothScale": x(f, 3)}), "multiples of 64")
	c.x = dtype.Int8
	a, p = c.args(t, []int64{3, 9})
	optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"weightAssistMatrix": nil}), "weightAssistMatrix belongs")
	optest.Refused(t, op.InvalidParam, name, a.With(optest.Args{"weight": []*op.Tensor{p.swappedNz(t, dtype.Int4)}}), "is transposed")
}
