package activation

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// clippedDefinition computes the gate for rows of the given length. It skips the rows from used on.
func clippedDefinition(x, weight []float64, length, used int, alpha, limit, bias float64, interleaved, after bool) (y []float64) {
	for r := range len(x) / length {
		for i := range length / 2 {
			a, b := x[r*length+i], x[r*length+length/2+i]
			if interleaved {
				a, b = x[r*length+2*i], x[r*length+2*i+1]
			}
			if !after {
				a = min(a, limit)
			}
			gate := a / (1 + math.Exp(-alpha*a))
			if after {
				gate = min(gate, limit)
			}
			v := gate * (max(min(b, limit), -limit) + bias)
			if weight != nil {
				v *= weight[r]
			}
			if r >= used {
				v = 0
			}
			y = append(y, v)
		}
	}
	return y
}

func TestClippedSwiglu(t *testing.T) {
	for _, s := range []struct {
		shape  []int64
		dim    int64
		counts []float64 // nil for all rows
	}{
		{[]int64{5, 8}, 1, nil}, {[]int64{5, 8}, -1, []float64{1, 2}}, {[]int64{2, 3, 4}, 1 - 3 + 4, []float64{0, 9}}, {[]int64{3, 4, 5}, 1, []float64{2}},
		{[]int64{2}, 0, nil}, {[]int64{0, 4}, 1, nil}, {[]int64{4, 6}, 1, []float64{0}},
	} {
		axis := (s.dim + int64(len(s.shape))) % int64(len(s.shape))
		rows, length := int(optest.Elements(s.shape[:axis])), int(optest.Elements(s.shape[axis:]))
		used := rows
		var counts *op.Tensor
		if s.counts != nil {
			used = 0
			for _, n := range s.counts {
				used = min(used+int(n), rows)
			}
			counts = optest.Tensor(t, dtype.Int64, []int64{int64(len(s.counts))}, s.counts...)
		}
		half := slices.Clone(s.shape)
		half[axis] /= 2
		for _, d := range op.FloatTypes {
			for _, interleaved := range []bool{false, true} {
				const alpha, limit, bias = 1.7, 0.75, 1
				what := fmt.Sprintf("%v %v interleaved %v", s, d, interleaved)
				x, dy := optest.Filled(t, 1, d, kerneltest.Contiguous, s.shape), optest.Filled(t, 2, d, kerneltest.Contiguous, half)
				set := optest.Args{"x": x, "groupIndexOptional": counts, "dim": s.dim, "alpha": alpha, "limit": limit, "bias": float64(bias), "interleaved": interleaved}
				for _, mode := range []int{0, 1} {
					y := optest.Filled(t, 3, d, kerneltest.Contiguous, half)
					before := optest.Values(y)
					a := optest.Args{"out": y, "clampMode": mode}
					for k, v := range set {
						a[k] = v
					}
					name, want := "ClippedSwigluV2", clippedDefinition(optest.Values(x), nil, length, used, alpha, limit, bias, interleaved, false)
					if mode == 1 {
						want = clippedDefinition(optest.Values(x), nil, length, used, 1, limit, 0, interleaved, true)
					}
					copy(want[used*length/2:], before[used*length/2:]) // rows of no group are not written
					optest.Run(t, name, a)
					optest.CloseTo(t, what, want, optest.Values(y), 2*optest.ResultLimit(d))
					if mode == 0 {
						delete(a, "clampMode")
						optest.Run(t, "ClippedSwiglu", a)
						optest.CloseTo(t, what, want, optest.Values(y), 2*optest.ResultLimit(d))
					}
				}
				dx := optest.Filled(t, 4, d, kerneltest.Contiguous, s.shape)
				set["gradY"], set["gradXOut"] = dy, dx
				optest.Run(t, "ClippedSwigluGrad", set)
				if x.Len() > 0 {
					f := func(x []float64) []float64 {
						return clippedDefinition(x, nil, length, used, alpha, limit, bias, interleaved, false)
					}
					optest.CloseTo(t, "dx of "+what, optest.Gradient(f, optest.Values(dy), optest.Values(x)), optest.Values(dx), 4*optest.ResultLimit(d))
				}
			}
		}
	}
}

func TestSwigluGroup(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, limit := range []float64{0, 0.5} {
			for _, weighted := range []bool{false, true} {
				for _, counts := range []*op.Tensor{nil, optest.Tensor(t, dtype.Int64, []int64{2}, 1, 3)} {
					what := fmt.Sprintf("%v limit %g weighted %v counts %v", d, limit, weighted, counts)
					shape, rows, used := []int64{2, 3, 6}, 6, 6
					if counts != nil {
						used = 4
					}
					x, dy, y := optest.Filled(t, 1, d, kerneltest.Contiguous, shape), optest.Filled(t, 2, d, kerneltest.Contiguous, []int64{2, 3, 3}), optest.Tensor(t, d, []int64{2, 3, 3}, 0)
					bound := limit
					if limit == 0 {
						bound = math.Inf(1)
					}
					set := optest.Args{"x": x, "groupIndexOptional": counts, "clampLimit": limit, "out": y}
					var weight, dweight *op.Tensor
					var w []float64
					if weighted {
						weight, dweight = optest.Filled(t, 5, dtype.Float32, kerneltest.Contiguous, []int64{2, 3, 1}), optest.Tensor(t, dtype.Float32, []int64{2, 3, 1})
						if counts == nil { // a weight for each row may have a dimension less than x
							for _, w := range []*op.Tensor{weight, dweight} {
								w.Shape, w.Strides, w.Storage = []int64{2, 3}, []int64{3, 1}, []int64{2, 3}
							}
						}
						w, set["weightOptional"] = optest.Values(weight), weight
					}
					want := func(x []float64) []float64 { return clippedDefinition(x, w, 6, used, 1, bound, 0, false, false) }
					optest.Run(t, "SwigluGroup", set)
					optest.CloseTo(t, what, want(optest.Values(x)), optest.Values(y), 2*optest.ResultLimit(d))
					dx := optest.Tensor(t, d, shape)
					grad := optest.Args{"gradY": dy, "x": x, "groupIndexOptional": counts, "clampLimit": limit, "gradXOut": dx}
					if weighted {
						grad["weightOptional"], grad["yOriginOptional"], grad["gradWeightOutOptional"] = weight, y, dweight
					}
					optest.Run(t, "SwigluGroupGrad", grad)
					optest.CloseTo(t, "dx of "+what, optest.Gradient(want, optest.Values(dy), optest.Values(x)), optest.Values(dx), 4*optest.ResultLimit(d))
					if weighted {
						sums := make([]float64, rows)
						for i, g := range optest.Values(dy) {
							sums[i/3] += g * optest.Values(y)[i]
						}
						optest.CloseTo(t, "dweight of "+what, sums, optest.Values(dweight), optest.ResultLimit(dtype.Float32))
					}
				}
			}
		}
	}
}

func TestSituGlu(t *testing.T) {
	for _, shape := range [][]int64{{2}, {5, 6}, {3, 4, 7}, {0, 4}} {
		for _, d := range op.FloatTypes {
			for _, l := range kerneltest.Layouts {
				for i, linear := range []float64{0, 1.5} {
					axis, left := min(1, len(shape)-1), i == 0
					what := fmt.Sprintf("%v %v %v linear %g", shape, d, l, linear)
					half := slices.Clone(shape)
					half[axis] /= 2
					const beta = 0.8
					definition := func(x []float64) (y []float64) {
						n, size := optest.Elements(shape[axis+1:]), shape[axis]/2
						for lo := int64(0); lo < int64(len(x)); lo += 2 * size * n {
							for k := range size * n {
								a, b := x[lo+k], x[lo+size*n+k]
								if !left {
									a, b = b, a
								}
								if linear > 0 {
									b = linear * math.Tanh(b/linear)
								}
								y = append(y, beta*math.Tanh(a/beta)/(1+math.Exp(-a))*b)
							}
						}
						return y
					}
					x, dy, y, dx := optest.Filled(t, 1, d, l, shape), optest.Filled(t, 2, d, l, half), optest.TensorIn(t, d, l, half), optest.TensorIn(t, d, l, shape)
					set := optest.Args{"x": x, "dim": axis, "beta": beta, "linearBeta": linear, "activateLeft": left, "out": y}
					optest.Run(t, "SituGlu", set)
					optest.CloseTo(t, what, definition(optest.Values(x)), optest.Values(y), 2*optest.ResultLimit(d))
					set["gradY"], set["out"] = dy, dx
					optest.Run(t, "SituGluGrad", set)
					if x.Len() > 0 {
						optest.CloseTo(t, "dx of "+what, optest.Gradient(definition, optest.Values(dy), optest.Values(x)), optest.Values(dx), 4*optest.ResultLimit(d))
					}
				}
			}
		}
	}
}

func TestBoundedGatesRefuse(t *testing.T) {
	f := dtype.Float32
	base := optest.Args{"x": optest.Tensor(t, f, []int64{2, 4}, 1), "dim": 1, "alpha": 1.0, "limit": 7.0, "out": optest.Tensor(t, f, []int64{2, 2})}
	for _, c := range []struct {
		set  optest.Args
		code int32
		text string
	}{
		{optest.Args{"limit": 0.0}, op.InvalidParam, "limit is 0"},
		{optest.Args{"clampMode": 2}, op.InvalidParam, "clampMode is 2"},
		{optest.Args{"dim": 2}, op.InvalidParam, "out of range"},
		{optest.Args{"x": optest.Tensor(t, f, []int64{2, 3}, 1)}, op.InvalidParam, "cannot be halved"},
		{optest.Args{"x": optest.TensorIn(t, f, kerneltest.Gapped, []int64{2, 4}, 1)}, op.InvalidParam, "contiguous"},
		{optest.Args{"groupIndexOptional": optest.Tensor(t, dtype.Int32, []int64{1}, 1)}, op.InvalidParam, "dtype"},
		{optest.Args{"out": optest.Tensor(t, dtype.Float16, []int64{2, 2})}, op.InvalidParam, "dtypes differ"},
		{optest.Args{"x": nil}, op.NullPointer, "x is null"},
	} {
		a := optest.Args{}
		for _, from := range []optest.Args{base, c.set} {
			for k, v := range from {
				a[k] = v
			}
		}
		optest.Refused(t, c.code, "ClippedSwigluV2", a, c.text)
	}
	base["groupIndexOptional"] = optest.Tensor(t, dtype.Int64, []int64{2}, 1, -1)
	require.ErrorContains(t, optest.Execute(t, "ClippedSwiglu", base), "-1 at position 1")
	grad := optest.Args{"x": optest.Tensor(t, f, []int64{2, 4}, 1), "gradY": optest.Tensor(t, f, []int64{2, 2}, 1), "gradXOut": optest.Tensor(t, f, []int64{2, 4}), "weightOptional": optest.Tensor(t, f, []int64{2, 1}, 1)}
	optest.Refused(t, op.NullPointer, "SwigluGroupGrad", grad, "gradWeightOutOptional")
	grad["gradWeightOutOptional"] = optest.Tensor(t, f, []int64{2, 1})
	optest.Refused(t, op.InvalidParam, "SwigluGroupGrad", grad, "give both or none")
	grad["yOriginOptional"] = optest.Tensor(t, f, []int64{2, 2}, 1)
	optest.Run(t, "SwigluGroupGrad", grad)
	for name, v := range map[string]any{"clampLimit": math.NaN(), "gradWeightOutOptional": optest.Tensor(t, f, []int64{2}), "groupIndexOptional": optest.Tensor(t, dtype.Int64, []int64{0})} {
		optest.Refused(t, op.InvalidParam, "SwigluGroupGrad", grad.With(optest.Args{name: v}), name)
	}
	optest.Refused(t, op.InvalidParam, "SituGlu", optest.Args{"x": optest.Tensor(t, f, []int64{3}, 1), "beta": 1.0, "out": optest.Tensor(t, f, []int64{1})}, "cannot be halved")
}
