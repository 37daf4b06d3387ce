package nn

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
)

// Every foreach operator computes what its single-tensor definition says.
func TestForeach(t *testing.T) {
	x := [][]float64{{.25, .5, .75}, {}, {.125}}
	shapes := [][]int64{{3}, {0, 2}, {}}
	list := func(d dtype.Type, v float64) []*Tensor {
		var l []*Tensor
		for i, s := range shapes {
			scaled := slices.Clone(x[i])
			for k := range scaled {
				scaled[k] *= v
			}
			l = append(l, tensor(t, d, s, scaled...))
		}
		return l
	}
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	want := map[string]func(x, y, z, s float64) float64{
		"Add": func(x, y, _, s float64) float64 { return x + s*y }, "Sub": func(x, y, _, s float64) float64 { return x - s*y },
		"Mul": func(x, y, _, _ float64) float64 { return x * y }, "Div": func(x, y, _, _ float64) float64 { return x / y },
		"Maximum": func(x, y, _, _ float64) float64 { return max(x, y) }, "Minimum": func(x, y, _, _ float64) float64 { return min(x, y) },
		"Pow": func(x, y, _, _ float64) float64 { return math.Pow(x, y) }, "Lerp": func(x, y, z, _ float64) float64 { return x + z*(y-x) },
		"Addcmul": func(x, y, z, s float64) float64 { return x + s*y*z }, "Addcdiv": func(x, y, z, s float64) float64 { return x + s*y/z },
		"Exp": func(x, _, _, _ float64) float64 { return math.Exp(x) }, "Sigmoid": func(x, _, _, _ float64) float64 { return sigmoid(x) },
		"Sqrt": func(x, _, _, _ float64) float64 { return math.Sqrt(x) }, "Neg": func(x, _, _, _ float64) float64 { return -x },
		"Copy": func(x, _, _, _ float64) float64 { return x },
	}
	const s = 1.5
	for name := range foreachTable {
		base := strings.TrimPrefix(name, "Foreach")
		f, scalarOperand := want[base], false
		for _, suffix := range []string{"ListV2", "ScalarList", "ScalarV2", "ScalarAndTensor", "Scalar", "List"} {
			if b, ok := strings.CutSuffix(base, suffix); ok {
				base, scalarOperand = b, strings.HasPrefix(suffix, "Scalar") && !strings.HasPrefix(b, "Addc")
				f = want[b]
				break
			}
		}
		if f == nil {
			continue
		}
		for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16} {
			a, lists := args{}, 0
			for _, p := range find(name).params {
				switch p.class {
				case tensorListClass:
					lists++
					a[p.name] = list(d, float64(lists))
				case tensorClass:
					a[p.name] = tensor(t, dtype.Float32, []int64{1}, s)
				case scalarClass:
					a[p.name] = scalar(s)
				case scalarListClass:
					a[p.name] = []*Scalar{scalar(s), scalar(s), scalar(s)}
				}
			}
			if lists == 1 {
				t.Fatal(name, "has no output list")
			}
			run(t, name, a)
			for i, out := range a["out"].([]*Tensor) {
				for k, got := range values(out) {
					x, y, z := x[i][k], 2*x[i][k], 3*x[i][k]
					factor := s
					if scalarOperand {
						y, z, factor = s, s, 1
						if base == "Lerp" {
							y = 2 * x
						}
						if name == "ForeachPowScalarAndTensor" {
							x, y = s, x
						}
					}
					w := f(x, y, z, factor)
					assert.InDelta(t, w, got, map[dtype.Type]float64{dtype.Float32: 1e-6, dtype.Float16: 2e-3, dtype.BFloat16: 2e-2}[d], "%s %v", name, d)
				}
			}
		}
	}
}

func TestForeachNormAndZero(t *testing.T) {
	x := []*Tensor{tensor(t, dtype.BFloat16, []int64{2, 2}, 1, 2, 2, 4), tensor(t, dtype.BFloat16, []int64{0}), tensor(t, dtype.BFloat16, []int64{1}, -3)}
	out := []*Tensor{tensor(t, dtype.Float32, []int64{}), tensor(t, dtype.Float32, []int64{1}), tensor(t, dtype.Float32, []int64{})}
	run(t, "ForeachNorm", args{"x": x, "scalar": scalar(2), "out": out})
	assert.Equal(t, []float64{5, 0, 3}, []float64{values(out[0])[0], values(out[1])[0], values(out[2])[0]})
	run(t, "ForeachZeroInplace", args{"x": x})
	assert.Equal(t, []float64{0, 0, 0, 0, 0}, append(values(x[0]), values(x[2])...))
}

// The clipping factor lies in device memory: it is read when the operator runs.
func TestForeachReadsDeviceScalars(t *testing.T) {
	x := []*Tensor{tensor(t, dtype.Float32, []int64{2}, 1, 2), tensor(t, dtype.Float32, []int64{1}, 3)}
	factor := tensor(t, dtype.Float32, []int64{1}, 1)
	e, err := prepared(t, "ForeachMulScalar", args{"x": x, "scalar": factor, "out": x})
	assert.NoError(t, err)
	*(*float32)(factor.host) = .5
	assert.NoError(t, e.execute(host{}, 0, e.run))
	assert.Equal(t, []float64{.5, 1, 1.5}, append(values(x[0]), values(x[1])...))

	y := []*Tensor{tensor(t, dtype.Float32, []int64{1}, 10), tensor(t, dtype.Float32, []int64{1}, 10)}
	ones := []*Tensor{tensor(t, dtype.Float32, []int64{1}, 1), tensor(t, dtype.Float32, []int64{1}, 1)}
	run(t, "ForeachAddcdivScalarList", args{"x1": y, "x2": ones, "x3": ones, "scalars": tensor(t, dtype.Float32, []int64{2}, 1, 2), "out": y})
	assert.Equal(t, []float64{11, 12}, append(values(y[0]), values(y[1])...))
}

func TestForeachRefuses(t *testing.T) {
	x, y := []*Tensor{tensor(t, dtype.Float32, []int64{2}, 1)}, []*Tensor{tensor(t, dtype.Float32, []int64{3}, 1)}
	refused(t, invalidParam, "ForeachMulList", args{"x1": x, "x2": y, "out": x}, "x2[0] float32[3]")
	refused(t, invalidParam, "ForeachMulList", args{"x1": x, "x2": append(y, y...), "out": x}, "x2 has 2 tensors")
	refused(t, nullPointer, "ForeachMulList", args{"x1": x, "out": x}, "x2 is null")
	refused(t, invalidParam, "ForeachMulScalarList", args{"x": x, "scalars": []*Scalar{scalar(1), scalar(1)}, "out": x}, "2 entries for 1")
	refused(t, invalidParam, "ForeachNorm", args{"x": x, "scalar": scalar(2), "out": y}, "one element")
}
