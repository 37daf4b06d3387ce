package foreach

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// Every foreach operator computes the definition of its operation on each tensor.
func TestForeach(t *testing.T) {
	x := [][]float64{{.25, .5, .75}, {}, {.125}}
	shapes := [][]int64{{3}, {0, 2}, {}}
	list := func(d dtype.Type, v float64) []*op.Tensor {
		var l []*op.Tensor
		for i, s := range shapes {
			scaled := slices.Clone(x[i])
			for k := range scaled {
				scaled[k] *= v
			}
			l = append(l, optest.Tensor(t, d, s, scaled...))
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
	for name, f := range map[string]func(float64) float64{
		"Abs": math.Abs, "Sign": func(float64) float64 { return 1 }, "Acos": math.Acos, "Asin": math.Asin, "Atan": math.Atan,
		"Cos": math.Cos, "Cosh": math.Cosh, "Erf": math.Erf, "Erfc": math.Erfc, "Expm1": math.Expm1, "Log": math.Log,
		"Log10": math.Log10, "Log1p": math.Log1p, "Log2": math.Log2, "Reciprocal": func(x float64) float64 { return 1 / x },
		"Sin": math.Sin, "Sinh": math.Sinh, "Tan": math.Tan, "Tanh": math.Tanh,
	} {
		want[name] = func(x, _, _, _ float64) float64 { return f(x) }
	}
	const s = 1.5
	for name := range foreachTable {
		base, inplace := strings.CutSuffix(strings.TrimPrefix(name, "Foreach"), "Inplace")
		base = strings.Replace(base, "ACos", "Acos", 1)
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
			a, lists := optest.Args{}, 0
			for _, p := range op.Find(name).Params {
				switch p.Class {
				case op.TensorListClass:
					lists++
					a[p.Name] = list(d, float64(lists))
				case op.TensorClass:
					number := dtype.Float32
					if of16 := []string{"ForeachAddList", "ForeachDivScalar", "ForeachAddcdivScalar", "ForeachAddListInplace", "ForeachSubListInplace"}; d == dtype.Float16 && slices.Contains(of16, name) {
						number = d
					}
					a[p.Name] = optest.Tensor(t, number, []int64{1}, s)
				case op.ScalarClass:
					a[p.Name] = optest.Scalar(s)
				case op.ScalarListClass:
					a[p.Name] = []*op.Scalar{optest.Scalar(s), optest.Scalar(s), optest.Scalar(s)}
				}
			}
			if inplace {
				a["out"] = a[op.Find(name).Params[0].Name]
			} else if lists == 1 {
				t.Fatal(name, "has no output list")
			}
			results := a["out"].([]*op.Tensor)
			if inplace {
				delete(a, "out")
			}
			optest.Run(t, name, a)
			for i, out := range results {
				for k, got := range optest.Values(out) {
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
	x := []*op.Tensor{optest.Tensor(t, dtype.BFloat16, []int64{2, 2}, 1, 2, 2, 4), optest.Tensor(t, dtype.BFloat16, []int64{0}), optest.Tensor(t, dtype.BFloat16, []int64{1}, -3)}
	out := []*op.Tensor{optest.Tensor(t, dtype.Float32, []int64{}), optest.Tensor(t, dtype.Float32, []int64{1}), optest.Tensor(t, dtype.Float32, []int64{})}
	optest.Run(t, "ForeachNorm", optest.Args{"x": x, "scalar": optest.Scalar(2), "out": out})
	assert.Equal(t, []float64{5, 0, 3}, []float64{optest.Values(out[0])[0], optest.Values(out[1])[0], optest.Values(out[2])[0]})
	optest.Run(t, "ForeachZeroInplace", optest.Args{"x": x})
	assert.Equal(t, []float64{0, 0, 0, 0, 0}, append(optest.Values(x[0]), optest.Values(x[2])...))
}

// The clipping factor is in device memory and is read when the operator runs.
func TestForeachReadsDeviceScalars(t *testing.T) {
	x := []*op.Tensor{optest.Tensor(t, dtype.Float32, []int64{2}, 1, 2), optest.Tensor(t, dtype.Float32, []int64{1}, 3)}
	factor := optest.Tensor(t, dtype.Float32, []int64{1}, 1)
	e, err := optest.Prepare(t, "ForeachMulScalar", optest.Args{"x": x, "scalar": factor, "out": x})
	assert.NoError(t, err)
	*(*float32)(factor.Data) = .5
	assert.NoError(t, e.Execute(optest.Memory{}, 0, e.Run))
	assert.Equal(t, []float64{.5, 1, 1.5}, append(optest.Values(x[0]), optest.Values(x[1])...))

	y := []*op.Tensor{optest.Tensor(t, dtype.Float32, []int64{1}, 10), optest.Tensor(t, dtype.Float32, []int64{1}, 10)}
	ones := []*op.Tensor{optest.Tensor(t, dtype.Float32, []int64{1}, 1), optest.Tensor(t, dtype.Float32, []int64{1}, 1)}
	optest.Run(t, "ForeachAddcdivScalarList", optest.Args{"x1": y, "x2": ones, "x3": ones, "scalars": optest.Tensor(t, dtype.Float32, []int64{2}, 1, 2), "out": y})
	assert.Equal(t, []float64{11, 12}, append(optest.Values(y[0]), optest.Values(y[1])...))
}

// TestForeachInplace also has int32, which the definitions list for some, and the types of scalars.
func TestForeachInplace(t *testing.T) {
	i32 := func(v ...float64) []*op.Tensor { return []*op.Tensor{optest.Tensor(t, dtype.Int32, []int64{2}, v...)} }
	number := func(d dtype.Type) *op.Tensor { return optest.Tensor(t, d, []int64{1}, 3) }
	for name, want := range map[string][]float64{"AddList": {5 + 6, -4 + 21}, "SubList": {5 - 6, -4 - 21}, "MulList": {10, -28}, "MulScalar": {15, -12}, "SubScalar": {2, -7}} {
		x := i32(5, -4)
		a := optest.Args{"x1": x, "x2": i32(2, 7), "alpha": number(dtype.Int32)}
		switch {
		case strings.HasSuffix(name, "Scalar"):
			a = optest.Args{"x": x, "scalar": number(dtype.Int32)}
		case name == "MulList":
			delete(a, "alpha")
		}
		optest.Run(t, "Foreach"+name+"Inplace", a)
		assert.Equal(t, want, optest.Values(x[0]), name)
	}
	half := []*op.Tensor{optest.Tensor(t, dtype.Float16, []int64{2}, 1, 2)}
	optest.Run(t, "ForeachMulScalarInplace", optest.Args{"x": half, "scalar": number(dtype.Float16)})
	optest.Run(t, "ForeachMulScalarInplace", optest.Args{"x": half, "scalar": number(dtype.Float32)})
	assert.Equal(t, []float64{9, 18}, optest.Values(half[0]))
	optest.Refused(t, op.InvalidParam, "ForeachAddListInplace", optest.Args{"x1": half, "x2": half, "alpha": number(dtype.Float32)}, "alpha")
	optest.Refused(t, op.InvalidParam, "ForeachDivListInplace", optest.Args{"x1": i32(1, 2), "x2": i32(1, 2)}, "int32")
	optest.Refused(t, op.NullPointer, "ForeachLogInplace", optest.Args{}, "x is null")
}

func TestForeachRefuses(t *testing.T) {
	x, y := []*op.Tensor{optest.Tensor(t, dtype.Float32, []int64{2}, 1)}, []*op.Tensor{optest.Tensor(t, dtype.Float32, []int64{3}, 1)}
	optest.Refused(t, op.InvalidParam, "ForeachMulList", optest.Args{"x1": x, "x2": y, "out": x}, "x2[0] float32[3]")
	optest.Refused(t, op.InvalidParam, "ForeachMulList", optest.Args{"x1": x, "x2": append(y, y...), "out": x}, "x2 has 2 tensors")
	optest.Refused(t, op.NullPointer, "ForeachMulList", optest.Args{"x1": x, "out": x}, "x2 is null")
	optest.Refused(t, op.InvalidParam, "ForeachMulScalarList", optest.Args{"x": x, "scalars": []*op.Scalar{optest.Scalar(1), optest.Scalar(1)}, "out": x}, "2 entries for 1")
	optest.Refused(t, op.InvalidParam, "ForeachNorm", optest.Args{"x": x, "scalar": optest.Scalar(2), "out": y}, "one element")
}

// Exponentials of integers are rounded to even, and limited.
func TestForeachExpOfIntegers(t *testing.T) {
	lessOne := map[dtype.Type][]float64{dtype.Int8: {6, 127}, dtype.Uint8: {6, 147}, dtype.Int16: {6, 147}}
	for d, want := range map[dtype.Type][]float64{dtype.Int8: {0, 1, 3, 127}, dtype.Uint8: {3, 1, 3, 255}, dtype.Int16: {0, 1, 3, 22026}} {
		first := -1.0
		if d == dtype.Uint8 {
			first = 1
		}
		x, y := optest.Tensor(t, d, []int64{4}, first, 0, 1, 10), optest.Tensor(t, d, []int64{4})
		optest.Run(t, "ForeachExp", optest.Args{"x": []*op.Tensor{x}, "out": []*op.Tensor{y}})
		assert.Equal(t, want, optest.Values(y), "%v", d)
		z := optest.Tensor(t, d, []int64{2})
		optest.Run(t, "ForeachExpm1", optest.Args{"x": []*op.Tensor{optest.Tensor(t, d, []int64{2}, 2, 5)}, "out": []*op.Tensor{z}})
		assert.Equal(t, lessOne[d], optest.Values(z), "%v", d)
	}
	whole := []*op.Tensor{optest.Tensor(t, dtype.Int32, []int64{1}, 1)}
	optest.Refused(t, op.InvalidParam, "ForeachExp", optest.Args{"x": whole, "out": whole})
}
