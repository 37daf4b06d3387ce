package nn

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// clippedDefinition is the gate of rows of the given length; those from used on are left out.
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
		rows, length := int(elements(s.shape[:axis])), int(elements(s.shape[axis:]))
		used := rows
		var counts *Tensor
		if s.counts != nil {
			used = 0
			for _, n := range s.counts {
				used = min(used+int(n), rows)
			}
			counts = tensor(t, dtype.Int64, []int64{int64(len(s.counts))}, s.counts...)
		}
		half := slices.Clone(s.shape)
		half[axis] /= 2
		for _, d := range transformerTypes {
			for _, interleaved := range []bool{false, true} {
				const alpha, limit, bias = 1.7, 0.75, 1
				what := fmt.Sprintf("%v %v interleaved %v", s, d, interleaved)
				x, dy := filled(t, 1, d, kerneltest.Contiguous, s.shape), filled(t, 2, d, kerneltest.Contiguous, half)
				set := args{"x": x, "groupIndexOptional": counts, "dim": s.dim, "alpha": alpha, "limit": limit, "bias": float64(bias), "interleaved": interleaved}
				for _, mode := range []int{0, 1} {
					y := filled(t, 3, d, kerneltest.Contiguous, half)
					before := values(y)
					a := args{"out": y, "clampMode": mode}
					for k, v := range set {
						a[k] = v
					}
					name, want := "ClippedSwigluV2", clippedDefinition(values(x), nil, length, used, alpha, limit, bias, interleaved, false)
					if mode == 1 {
						want = clippedDefinition(values(x), nil, length, used, 1, limit, 0, interleaved, true)
					}
					copy(want[used*length/2:], before[used*length/2:]) // rows of no group are left alone
					run(t, name, a)
					closeTo(t, what, want, values(y), 2*resultLimit(d))
					if mode == 0 {
						delete(a, "clampMode")
						run(t, "ClippedSwiglu", a)
						closeTo(t, what, want, values(y), 2*resultLimit(d))
					}
				}
				dx := filled(t, 4, d, kerneltest.Contiguous, s.shape)
				set["gradY"], set["gradXOut"] = dy, dx
				run(t, "ClippedSwigluGrad", set)
				if x.Len() > 0 {
					f := func(x []float64) []float64 {
						return clippedDefinition(x, nil, length, used, alpha, limit, bias, interleaved, false)
					}
					closeTo(t, "dx of "+what, gradient(f, values(dy), values(x)), values(dx), 4*resultLimit(d))
				}
			}
		}
	}
}

func TestSwigluGroup(t *testing.T) {
	for _, d := range transformerTypes {
		for _, limit := range []float64{0, 0.5} {
			for _, weighted := range []bool{false, true} {
				for _, counts := range []*Tensor{nil, tensor(t, dtype.Int64, []int64{2}, 1, 3)} {
					what := fmt.Sprintf("%v limit %g weighted %v counts %v", d, limit, weighted, counts)
					shape, rows, used := []int64{2, 3, 6}, 6, 6
					if counts != nil {
						used = 4
					}
					x, dy, y := filled(t, 1, d, kerneltest.Contiguous, shape), filled(t, 2, d, kerneltest.Contiguous, []int64{2, 3, 3}), tensor(t, d, []int64{2, 3, 3}, 0)
					bound := limit
					if limit == 0 {
						bound = math.Inf(1)
					}
					set := args{"x": x, "groupIndexOptional": counts, "clampLimit": limit, "out": y}
					var weight, dweight *Tensor
					var w []float64
					if weighted {
						weight, dweight = filled(t, 5, dtype.Float32, kerneltest.Contiguous, []int64{2, 3, 1}), tensor(t, dtype.Float32, []int64{2, 3, 1})
						w, set["weightOptional"] = values(weight), weight
					}
					want := func(x []float64) []float64 { return clippedDefinition(x, w, 6, used, 1, bound, 0, false, false) }
					run(t, "SwigluGroup", set)
					closeTo(t, what, want(values(x)), values(y), 2*resultLimit(d))
					dx := tensor(t, d, shape)
					grad := args{"gradY": dy, "x": x, "groupIndexOptional": counts, "clampLimit": limit, "gradXOut": dx}
					if weighted {
						grad["weightOptional"], grad["yOriginOptional"], grad["gradWeightOutOptional"] = weight, y, dweight
					}
					run(t, "SwigluGroupGrad", grad)
					closeTo(t, "dx of "+what, gradient(want, values(dy), values(x)), values(dx), 4*resultLimit(d))
					if weighted {
						sums := make([]float64, rows)
						for i, g := range values(dy) {
							sums[i/3] += g * values(y)[i]
						}
						closeTo(t, "dweight of "+what, sums, values(dweight), resultLimit(dtype.Float32))
					}
				}
			}
		}
	}
}

func TestSituGlu(t *testing.T) {
	for _, shape := range [][]int64{{2}, {5, 6}, {3, 4, 7}, {0, 4}} {
		for _, d := range transformerTypes {
			for _, l := range kerneltest.Layouts {
				for i, linear := range []float64{0, 1.5} {
					axis, left := min(1, len(shape)-1), i == 0
					what := fmt.Sprintf("%v %v %v linear %g", shape, d, l, linear)
					half := slices.Clone(shape)
					half[axis] /= 2
					const beta = 0.8
					definition := func(x []float64) (y []float64) {
						n, size := elements(shape[axis+1:]), shape[axis]/2
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
					x, dy, y, dx := filled(t, 1, d, l, shape), filled(t, 2, d, l, half), tensorIn(t, d, l, half), tensorIn(t, d, l, shape)
					set := args{"x": x, "dim": axis, "beta": beta, "linearBeta": linear, "activateLeft": left, "out": y}
					run(t, "SituGlu", set)
					closeTo(t, what, definition(values(x)), values(y), 2*resultLimit(d))
					set["gradY"], set["out"] = dy, dx
					run(t, "SituGluGrad", set)
					if x.Len() > 0 {
						closeTo(t, "dx of "+what, gradient(definition, values(dy), values(x)), values(dx), 4*resultLimit(d))
					}
				}
			}
		}
	}
}

func TestBoundedGatesRefuse(t *testing.T) {
	f := dtype.Float32
	base := args{"x": tensor(t, f, []int64{2, 4}, 1), "dim": 1, "alpha": 1.0, "limit": 7.0, "out": tensor(t, f, []int64{2, 2})}
	for _, c := range []struct {
		set  args
		code int32
		text string
	}{
		{args{"limit": 0.0}, invalidParam, "limit is 0"},
		{args{"clampMode": 2}, invalidParam, "clampMode is 2"},
		{args{"dim": 2}, invalidParam, "out of range"},
		{args{"x": tensor(t, f, []int64{2, 3}, 1)}, invalidParam, "cannot be halved"},
		{args{"x": tensorIn(t, f, kerneltest.Gapped, []int64{2, 4}, 1)}, invalidParam, "contiguous"},
		{args{"groupIndexOptional": tensor(t, dtype.Int32, []int64{1}, 1)}, invalidParam, "dtype"},
		{args{"out": tensor(t, dtype.Float16, []int64{2, 2})}, invalidParam, "dtypes differ"},
		{args{"x": nil}, nullPointer, "x is null"},
	} {
		a := args{}
		for _, from := range []args{base, c.set} {
			for k, v := range from {
				a[k] = v
			}
		}
		refused(t, c.code, "ClippedSwigluV2", a, c.text)
	}
	base["groupIndexOptional"] = tensor(t, dtype.Int64, []int64{2}, 1, -1)
	require.ErrorContains(t, execute(t, "ClippedSwiglu", base), "-1 at position 1")
	grad := args{"x": tensor(t, f, []int64{2, 4}, 1), "gradY": tensor(t, f, []int64{2, 2}, 1), "gradXOut": tensor(t, f, []int64{2, 4}), "weightOptional": tensor(t, f, []int64{2, 1}, 1)}
	refused(t, invalidParam, "SwigluGroupGrad", grad, "give both or none")
	grad["yOriginOptional"] = tensor(t, f, []int64{2, 2}, 1)
	refused(t, nullPointer, "SwigluGroupGrad", grad, "gradWeightOutOptional is null")
	refused(t, invalidParam, "SituGlu", args{"x": tensor(t, f, []int64{3}, 1), "beta": 1.0, "out": tensor(t, f, []int64{1})}, "cannot be halved")
}
