package normalization

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// normShapes are shapes and the number of their trailing dimensions that are normalised.
var normShapes = []struct {
	shape []int64
	inner int
}{
	{[]int64{1}, 1}, {[]int64{7}, 1}, {[]int64{1, 33}, 1}, {[]int64{5, 1}, 1}, {[]int64{3, 67}, 1}, {[]int64{2, 3, 17}, 1},
	{[]int64{2, 3, 17}, 2}, {[]int64{2, 5, 3}, 3}, {[]int64{2, 1, 3, 2, 1, 8}, 2},
}

const epsilon = 1e-5

// rmsNormArgs returns the arguments of both directions.
type rmsNormTensors struct{ x, gamma, y, rstd, dy, dx, dgamma *op.Tensor }

func newRMSNorm(t testing.TB, d, gammaType dtype.Type, l kerneltest.Layout, shape []int64, inner int) rmsNormTensors {
	outer := len(shape) - inner
	stats := append([]int64{}, shape[:outer]...)
	for range inner {
		stats = append(stats, 1)
	}
	return rmsNormTensors{
		x: optest.Filled(t, 1, d, l, shape), dy: optest.Filled(t, 2, d, l, shape), gamma: optest.Filled(t, 3, gammaType, kerneltest.Contiguous, shape[outer:]),
		y: optest.TensorIn(t, d, l, shape), dx: optest.TensorIn(t, d, l, shape), rstd: optest.Tensor(t, dtype.Float32, stats), dgamma: optest.Tensor(t, dtype.Float32, shape[outer:]),
	}
}

func (n rmsNormTensors) forward() optest.Args {
	return optest.Args{"x": n.x, "gamma": n.gamma, "epsilon": epsilon, "yOut": n.y, "rstdOut": n.rstd}
}

func (n rmsNormTensors) backward() optest.Args {
	return optest.Args{"dy": n.dy, "x": n.x, "rstd": n.rstd, "gamma": n.gamma, "dxOut": n.dx, "dgammaOut": n.dgamma}
}

func TestRMSNorm(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, gammaType := range []dtype.Type{d, dtype.Float32} {
			for _, l := range kerneltest.Layouts {
				for _, c := range normShapes {
					n := newRMSNorm(t, d, gammaType, l, c.shape, c.inner)
					what := fmt.Sprintf("%v, gamma of %v, %v %v, %d inner", d, gammaType, l, c.shape, c.inner)
					optest.Run(t, "RmsNorm", n.forward())
					optest.Run(t, "RmsNormGrad", n.backward())
					x, dy, gamma := optest.Values(n.x), optest.Values(n.dy), optest.Values(n.gamma)
					y, rstd := optest.RMSNorm(x, gamma)
					optest.CloseTo(t, "y of "+what, y, optest.Values(n.y), optest.ResultLimit(d))
					optest.CloseTo(t, "rstd of "+what, rstd, optest.Values(n.rstd), 1e-6)
					dx := optest.Gradient(func(x []float64) []float64 { y, _ := optest.RMSNorm(x, gamma); return y }, dy, x)
					dgamma := optest.Gradient(func(gamma []float64) []float64 { y, _ := optest.RMSNorm(x, gamma); return y }, dy, gamma)
					optest.CloseTo(t, "dx of "+what, dx, optest.Values(n.dx), 2*optest.ResultLimit(d))
					optest.CloseTo(t, "dgamma of "+what, dgamma, optest.Values(n.dgamma), 3e-6)
				}
			}
		}
	}
}

// rstd may have axes of x's size. The numbers of the rows are then at the start of its memory.
func TestRMSNormWideReciprocals(t *testing.T) {
	const left = 7
	for _, c := range []struct{ x, rstd []int64 }{
		{[]int64{2, 3, 4}, []int64{2, 3, 4}}, {[]int64{2, 3, 4}, []int64{2, 1, 4}}, {[]int64{2, 3, 4}, []int64{1, 3, 4}},
	} {
		n := newRMSNorm(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, c.x, 1)
		n.rstd = optest.Tensor(t, dtype.Float32, c.rstd, left)
		optest.Run(t, "RmsNorm", n.forward())
		_, want := optest.RMSNorm(optest.Values(n.x), optest.Values(n.gamma))
		got := optest.Values(n.rstd)
		optest.CloseTo(t, "rstd", want, got[:6], 1e-6)
		for _, v := range got[6:] {
			assert.EqualValues(t, left, v, "the device leaves the rest as it is")
		}
	}
	n := newRMSNorm(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, []int64{2, 3, 4}, 1)
	for _, shape := range [][]int64{{1, 1, 4}, {2, 2, 4}, {2, 3, 4, 1}, {3}} {
		n.rstd = optest.Tensor(t, dtype.Float32, shape)
		optest.Refused(t, op.InvalidParam, "RmsNorm", n.forward(), "one number for each normalised row")
	}
}

func TestRMSNormOfNothing(t *testing.T) {
	n := newRMSNorm(t, dtype.BFloat16, dtype.Float32, kerneltest.Contiguous, []int64{0, 3}, 1)
	optest.Run(t, "RmsNorm", n.forward())
	optest.Run(t, "RmsNormGrad", n.backward())
	assert.Equal(t, []float64{0, 0, 0}, optest.Values(n.dgamma))
	n = newRMSNorm(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, []int64{3, 0}, 1)
	optest.Run(t, "RmsNorm", n.forward())
	optest.Run(t, "RmsNormGrad", n.backward())
}

// Programs may normalise rows in place, with one tensor as input and output.
func TestRMSNormInPlace(t *testing.T) {
	n := newRMSNorm(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, []int64{3, 67}, 1)
	want, _ := optest.RMSNorm(optest.Values(n.x), optest.Values(n.gamma))
	n.y = n.x
	optest.Run(t, "RmsNorm", n.forward())
	optest.CloseTo(t, "y", want, optest.Values(n.x), 3e-6)

	n = newRMSNorm(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, []int64{3, 67}, 1)
	optest.Run(t, "RmsNorm", n.forward())
	optest.Run(t, "RmsNormGrad", n.backward())
	dx := optest.Values(n.dx)
	n.dx = n.dy
	optest.Run(t, "RmsNormGrad", n.backward())
	assert.Equal(t, dx, optest.Values(n.dy))
}

func TestAddRMSNorm(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			n := newRMSNorm(t, d, d, l, []int64{3, 5, 19}, 1)
			sum := optest.TensorIn(t, d, l, n.x.Shape)
			optest.Run(t, "AddRmsNorm", optest.Args{"x1": n.x, "x2": n.dy, "gamma": n.gamma, "epsilon": epsilon, "yOut": n.y, "rstdOut": n.rstd, "xOut": sum})
			added := optest.Values(n.x)
			for i, v := range optest.Values(n.dy) {
				added[i] += v
			}
			optest.CloseTo(t, "sum", added, optest.Values(sum), optest.ResultLimit(d))
			y, rstd := optest.RMSNorm(optest.Values(sum), optest.Values(n.gamma))
			optest.CloseTo(t, "y", y, optest.Values(n.y), optest.ResultLimit(d))
			optest.CloseTo(t, "rstd", rstd, optest.Values(n.rstd), 1e-6)
		}
	}
	n := newRMSNorm(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, []int64{2, 3}, 1)
	a := optest.Args{"x1": n.x, "x2": optest.Tensor(t, dtype.Float32, []int64{3}, 1), "gamma": n.gamma, "epsilon": epsilon, "yOut": n.y, "rstdOut": n.rstd, "xOut": n.dx}
	optest.Refused(t, op.InvalidParam, "AddRmsNorm", a, "x1 float32[2,3]", "x2 float32[3]")
	a["x2"] = nil
	optest.Refused(t, op.NullPointer, "AddRmsNorm", a, "x2 is null")
}

func TestRMSNormRefuses(t *testing.T) {
	f := dtype.Float32
	for _, c := range []struct {
		name  string
		code  int32
		set   func(n *rmsNormTensors)
		texts []string
	}{
		{"RmsNorm", op.NullPointer, func(n *rmsNormTensors) { n.gamma = nil }, []string{"gamma is null"}},
		{"RmsNorm", op.NullPointer, func(n *rmsNormTensors) { n.rstd = nil }, []string{"rstdOut is null"}},
		{"RmsNorm", op.InvalidParam, func(n *rmsNormTensors) { n.gamma = optest.Tensor(t, f, []int64{2}, 1) }, []string{"gamma float32[2]", "trailing dimensions of x float32[2,3]"}},
		{"RmsNorm", op.InvalidParam, func(n *rmsNormTensors) { n.gamma = optest.Tensor(t, f, []int64{}, 1) }, []string{"gamma float32[]"}},
		{"RmsNorm", op.InvalidParam, func(n *rmsNormTensors) { n.gamma = optest.Tensor(t, f, []int64{1, 2, 3}, 1) }, []string{"[1,2,3]"}},
		{"RmsNorm", op.InvalidParam, func(n *rmsNormTensors) { n.gamma = optest.Tensor(t, dtype.BFloat16, []int64{3}, 1) }, []string{"gamma bfloat16[3]"}},
		{"RmsNorm", op.InvalidParam, func(n *rmsNormTensors) { n.rstd = optest.Tensor(t, f, []int64{3, 1}) }, []string{"rstdOut float32[3,1]", "[2,1]"}},
		{"RmsNorm", op.InvalidParam, func(n *rmsNormTensors) { n.rstd = optest.Tensor(t, dtype.Float16, []int64{2, 1}) }, []string{"rstdOut float16"}},
		{"RmsNorm", op.InvalidParam, func(n *rmsNormTensors) { n.y = optest.Tensor(t, dtype.Float16, []int64{2, 3}) }, []string{"dtypes differ", "yOut float16"}},
		{"RmsNorm", op.InvalidParam, func(n *rmsNormTensors) { n.x, n.y = optest.Tensor(t, dtype.Int32, []int64{2, 3}, 1), n.x }, []string{"x int32[2,3]"}},
		{"RmsNormGrad", op.NullPointer, func(n *rmsNormTensors) { n.dgamma = nil }, []string{"dgammaOut is null"}},
		{"RmsNormGrad", op.InvalidParam, func(n *rmsNormTensors) { n.dgamma = optest.Tensor(t, f, []int64{4}) }, []string{"dgammaOut float32[4]"}},
		{"RmsNormGrad", op.InvalidParam, func(n *rmsNormTensors) { n.dy = optest.Tensor(t, f, []int64{3, 3}, 1) }, []string{"dy float32[3,3]"}},
	} {
		n := newRMSNorm(t, f, f, kerneltest.Contiguous, []int64{2, 3}, 1)
		c.set(&n)
		a := n.forward()
		if c.name == "RmsNormGrad" {
			a = n.backward()
		}
		optest.Refused(t, c.code, c.name, a, c.texts...)
	}
}

// layerNormDefinition normalises rows of the length of weight.
func layerNormDefinition(x, weight, bias []float64) (y, mean, rstd []float64) {
	width := len(weight)
	y = make([]float64, len(x))
	for lo := 0; lo < len(x); lo += width {
		sum, squares := 0.0, 0.0
		for _, v := range x[lo : lo+width] {
			sum += v
		}
		m := sum / float64(width)
		for _, v := range x[lo : lo+width] {
			squares += (v - m) * (v - m)
		}
		r := 1 / math.Sqrt(squares/float64(width)+epsilon)
		for j := range weight {
			y[lo+j] = (x[lo+j]-m)*r*weight[j] + bias[j]
		}
		mean, rstd = append(mean, m), append(rstd, r)
	}
	return y, mean, rstd
}

func TestLayerNorm(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, c := range normShapes {
				what := fmt.Sprintf("%v %v %v, %d inner", d, l, c.shape, c.inner)
				n := newRMSNorm(t, d, d, l, c.shape, c.inner)
				inner := n.gamma.Shape
				bias, mean := optest.Filled(t, 4, d, kerneltest.Contiguous, inner), optest.Tensor(t, dtype.Float32, n.rstd.Shape)
				for _, p := range []struct{ weight, bias *op.Tensor }{{n.gamma, bias}, {nil, nil}} {
					w, b := make([]float64, optest.Elements(inner)), make([]float64, optest.Elements(inner))
					for i := range w {
						w[i] = 1
					}
					if p.weight != nil {
						w, b = optest.Values(p.weight), optest.Values(p.bias)
					}
					optest.Run(t, "LayerNorm", optest.Args{
						"input": n.x, "normalizedShape": inner, "weightOptional": p.weight, "biasOptional": p.bias, "eps": epsilon,
						"out": n.y, "meanOutOptional": mean, "rstdOutOptional": n.rstd,
					})
					x, dy := optest.Values(n.x), optest.Values(n.dy)
					y, m, r := layerNormDefinition(x, w, b)
					optest.CloseTo(t, "y of "+what, y, optest.Values(n.y), 2*optest.ResultLimit(d))
					optest.CloseTo(t, "mean of "+what, m, optest.Values(mean), 2e-6)
					// A row of equal values has a deviation of 0 and an rstd of 1/√eps.
					optest.CloseTo(t, "rstd of "+what, r, optest.Values(n.rstd), 2e-6)
					dbias := optest.Tensor(t, d, inner)
					dweight := optest.Tensor(t, d, inner)
					optest.Run(t, "LayerNormBackward", optest.Args{
						"gradOut": n.dy, "input": n.x, "normalizedShape": inner, "mean": mean, "rstd": n.rstd, "weightOptional": p.weight, "biasOptional": p.bias,
						"outputMask": []bool{true, true, true}, "gradInputOut": n.dx, "gradWeightOut": dweight, "gradBiasOut": dbias,
					})
					if optest.Elements(inner) > 1 { // a difference quotient fails at a deviation of 0
						dx := optest.Gradient(func(x []float64) []float64 { y, _, _ := layerNormDefinition(x, w, b); return y }, dy, x)
						optest.CloseTo(t, "dx of "+what, dx, optest.Values(n.dx), 3*optest.ResultLimit(d))
					}
					dw := optest.Gradient(func(w []float64) []float64 { y, _, _ := layerNormDefinition(x, w, b); return y }, dy, w)
					optest.CloseTo(t, "dweight of "+what, dw, optest.Values(dweight), 2*optest.ResultLimit(d))
					db := optest.Gradient(func(b []float64) []float64 { y, _, _ := layerNormDefinition(x, w, b); return y }, dy, b)
					optest.CloseTo(t, "dbias of "+what, db, optest.Values(dbias), 2*optest.ResultLimit(d))
				}
			}
		}
	}
}

func TestLayerNormParts(t *testing.T) {
	n := newRMSNorm(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, []int64{4, 6}, 1)
	mean := optest.Tensor(t, dtype.Float32, []int64{4, 1}, 0)
	a := optest.Args{"input": n.x, "normalizedShape": []int64{6}, "weightOptional": n.gamma, "eps": epsilon, "out": n.y}
	optest.Run(t, "LayerNorm", a)
	want, _, _ := layerNormDefinition(optest.Values(n.x), optest.Values(n.gamma), make([]float64, 6))
	optest.CloseTo(t, "without bias and statistics", want, optest.Values(n.y), 3e-6)
	a["meanOutOptional"], a["rstdOutOptional"] = mean, n.rstd
	optest.Run(t, "LayerNorm", a)
	back := optest.Args{
		"gradOut": n.dy, "input": n.x, "normalizedShape": []int64{6}, "mean": mean, "rstd": n.rstd, "weightOptional": n.gamma,
		"outputMask": []bool{true, true, false}, "gradInputOut": n.dx, "gradWeightOut": n.dgamma,
	}
	optest.Run(t, "LayerNormBackward", back)
	dx, dweight := optest.Values(n.dx), optest.Values(n.dgamma)
	for i := range 3 {
		mask, dbias := make([]bool, 3), optest.Tensor(t, dtype.Float32, []int64{6})
		mask[i] = true
		optest.Fill(n.dx, 9)
		optest.Fill(n.dgamma, 9)
		back["outputMask"], back["gradBiasOut"] = mask, dbias
		optest.Run(t, "LayerNormBackward", back)
		switch i {
		case 0:
			require.Equal(t, dx, optest.Values(n.dx))
			require.Equal(t, 9.0, optest.Values(n.dgamma)[0])
		case 1:
			require.Equal(t, dweight, optest.Values(n.dgamma))
			require.Equal(t, 9.0, optest.Values(n.dx)[0])
		}
	}
	back["outputMask"] = []bool{true}
	optest.Refused(t, op.InvalidParam, "LayerNormBackward", back, "outputMask has 1 elements")
	back["outputMask"], back["gradBiasOut"] = []bool{false, false, true}, nil
	optest.Refused(t, op.NullPointer, "LayerNormBackward", back, "gradBiasOut is null")
	a["normalizedShape"] = []int64{5}
	optest.Refused(t, op.InvalidParam, "LayerNorm", a, "normalizedShape [5]", "input float32[4,6]")
	a["normalizedShape"] = []int64{}
	optest.Refused(t, op.InvalidParam, "LayerNorm", a, "normalizedShape []")
	a["normalizedShape"], a["weightOptional"] = []int64{6}, optest.Tensor(t, dtype.Float32, []int64{4}, 1)
	optest.Refused(t, op.InvalidParam, "LayerNorm", a, "weightOptional float32[4]", "[6]")

	none, dweightOut, dbias := optest.Tensor(t, dtype.Float32, []int64{0, 6}), optest.Tensor(t, dtype.Float32, []int64{6}, 3), optest.Tensor(t, dtype.Float32, []int64{6}, 3)
	stats := optest.Tensor(t, dtype.Float32, []int64{0, 1})
	optest.Run(t, "LayerNormBackward", optest.Args{
		"gradOut": none, "input": none, "normalizedShape": []int64{6}, "mean": stats, "rstd": stats, "outputMask": []bool{true, true, true},
		"gradInputOut": none, "gradWeightOut": dweightOut, "gradBiasOut": dbias,
	})
	assert.Equal(t, make([]float64, 12), append(optest.Values(dweightOut), optest.Values(dbias)...))
}
