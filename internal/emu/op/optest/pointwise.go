package optest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
)

// arguments returns valid arguments for an element-wise operator: tensors of one shape with values
// in (0, 1), or with small integers if the operator requires them.
func arguments(t *testing.T, name string, l kerneltest.Layout, shape []int64) Args {
	o := op.Find(name)
	require.NotNil(t, o, name)
	a := Args{}
	for i, p := range o.Params {
		d, v := dtype.Float32, []float64{.5, .25, .75, .125, .375, .625, .875}
		switch {
		case p.Name == "condition" || p.Name == "mask" && name != "MaskedScale" || p.Name == "out" && strings.HasPrefix(name, "Is"):
			d, v = dtype.Bool, []float64{1, 0, 0, 1, 1}
		case strings.Contains(name, "Bitwise") || strings.Contains(name, "Shift") || name == "Gcd":
			d, v = dtype.Int32, []float64{1, 2, 3, 5, 7}
		}
		switch p.Class {
		case op.TensorClass:
			a[p.Name] = TensorIn(t, d, l, shape, slices.Concat(v[i%len(v):], v[:i%len(v)])...)
			if name == "InplaceMaskedFillTensor" && p.Name == "value" {
				a[p.Name] = Tensor(t, d, []int64{}, 2)
			}
		case op.ScalarClass:
			a[p.Name] = Scalar(1)
		case op.DoubleClass, op.FloatClass:
			a[p.Name] = .25
		case op.IntClass:
			a[p.Name] = 1
		case op.StringClass:
			a[p.Name] = "none"
		}
	}
	return a
}

// outputOf returns the tensor that an element-wise operator writes.
func outputOf(name string, a Args) *op.Tensor {
	o := op.Find(name)
	out := -1
	for i, p := range o.Params {
		if p.Class == op.TensorClass && (out < 0 || !strings.HasPrefix(name, "Inplace")) && p.Name != "buffer" {
			out = i
		}
	}
	return a[o.Params[out].Name].(*op.Tensor)
}

// onlyTensor reports whether an operator has a single tensor, so that any shape is valid.
func onlyTensor(name string) bool {
	n := 0
	for _, p := range op.Find(name).Params {
		if p.Class == op.TensorClass {
			n++
		}
	}
	return n == 1
}

// Slope returns the derivative of f at x, computed as a difference quotient.
func Slope(f func(float64) float64, x float64) float64 { return (f(x+1e-5) - f(x-1e-5)) / 2e-5 }

// VerifyPointwise asserts the common properties of element-wise operators: the layout of the
// tensors does not matter, the in-place form computes the same result as the other one, and wrong
// arguments are refused.
func VerifyPointwise(t *testing.T, operators op.Table) {
	for _, name := range slices.Sorted(maps.Keys(operators)) {
		t.Run(name, func(t *testing.T) {
			verifyLayouts(t, name)
			verifyRefusals(t, name)
			if base, ok := strings.CutPrefix(name, "Inplace"); ok && operators[base] != nil {
				in, out := arguments(t, name, kerneltest.Contiguous, []int64{3, 5}), arguments(t, base, kerneltest.Contiguous, []int64{3, 5})
				Run(t, base, out)
				Run(t, name, in)
				assert.Equal(t, fmt.Sprint(Values(outputOf(base, out))), fmt.Sprint(Values(outputOf(name, in))))
			}
		})
	}
}

func verifyLayouts(t *testing.T, name string) {
	want := arguments(t, name, kerneltest.Contiguous, []int64{3, 5})
	Run(t, name, want)
	for _, l := range kerneltest.Layouts {
		got := arguments(t, name, l, []int64{3, 5})
		Run(t, name, got)
		require.Equal(t, fmt.Sprint(Values(outputOf(name, want))), fmt.Sprint(Values(outputOf(name, got))), "%v", l)
	}
	Run(t, name, arguments(t, name, kerneltest.Contiguous, []int64{0, 5}))
	Run(t, name, arguments(t, name, kerneltest.Contiguous, []int64{}))
}

func verifyRefusals(t *testing.T, name string) {
	for _, p := range op.Find(name).Params {
		if p.Class != op.TensorClass || p.Name == "buffer" {
			continue
		}
		null := arguments(t, name, kerneltest.Contiguous, []int64{3, 5})
		null[p.Name] = nil
		Refused(t, nullCode(t, name, p.Name), name, null, p.Name+" is null")
		shape := arguments(t, name, kerneltest.Contiguous, []int64{3, 5})
		shape[p.Name] = Tensor(t, shape[p.Name].(*op.Tensor).DType, []int64{3, 4}, 1)
		_, err := Prepare(t, name, shape)
		var e *op.Error
		if strings.HasPrefix(name, "Inplace") && len(arguments(t, name, 0, nil)) == 1 || onlyTensor(name) {
			continue
		}
		require.True(t, errors.As(err, &e), "another shape of %s", p.Name)
		require.Equal(t, op.InvalidParam, e.Code)
		require.Contains(t, e.Text, "[3,4]")
	}
	text := arguments(t, name, kerneltest.Contiguous, []int64{2})
	outputOf(name, text).DType = dtype.String
	Refused(t, op.InvalidParam, name, text, "string")
}

// VerifyValues compares element-wise operators of one or two tensors with their definitions. All
// scalar arguments are 2.
func VerifyValues(t *testing.T, definitions map[string]func(x, y float64) float64) {
	x, y := []float64{-2.5, -1, -.5, .25, 1, 3.5}, []float64{1, 2, 4, -1, .5, 2.75}
	for name, f := range definitions {
		a := Args{}
		in := [][]float64{x, y}
		for _, p := range op.Find(name).Params {
			switch {
			case p.Class == op.ScalarClass:
				a[p.Name] = Scalar(2)
			case p.Class == op.TensorClass && len(in) > 0 && !slices.Contains([]string{"out", "result", "gradInput", "z"}, p.Name):
				a[p.Name], in = Tensor(t, dtype.Float32, []int64{6}, in[0]...), in[1:]
			case p.Class == op.TensorClass:
				a[p.Name] = Tensor(t, dtype.Float32, []int64{6})
			}
		}
		Run(t, name, a)
		for i, got := range Values(outputOf(name, a)) {
			want := f(x[i], y[i])
			if math.IsNaN(want) && math.IsNaN(got) || math.IsInf(want, 0) && want == got {
				continue
			}
			assert.InDelta(t, want, got, 1e-5*(1+math.Abs(want)), "%s(%v, %v)", name, x[i], y[i])
		}
	}
}

// OfOne converts definitions of one number to the form that VerifyValues takes.
func OfOne(definitions map[string]func(x float64) float64) map[string]func(x, y float64) float64 {
	of := make(map[string]func(x, y float64) float64)
	for name, f := range definitions {
		of[name] = func(x, _ float64) float64 { return f(x) }
	}
	return of
}

// nullCode returns the code with which CANN refuses a null argument.
func nullCode(t testing.TB, name, param string) int32 {
	rules, err := acceptance.Rules(name, acceptance.Ascend910B)
	require.NoError(t, err)
	for _, r := range rules {
		if r.Cond.String() == "(null "+param+")" {
			return r.Code
		}
	}
	return op.NullPointer
}
