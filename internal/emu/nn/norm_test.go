package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// normShapes are shapes with the number of their trailing dimensions that are normalised.
var normShapes = []struct {
	shape []int64
	inner int
}{
	{[]int64{1}, 1}, {[]int64{7}, 1}, {[]int64{1, 33}, 1}, {[]int64{5, 1}, 1}, {[]int64{3, 67}, 1}, {[]int64{2, 3, 17}, 1},
	{[]int64{2, 3, 17}, 2}, {[]int64{2, 5, 3}, 3}, {[]int64{2, 1, 3, 2, 1, 8}, 2},
}

const epsilon = 1e-5

// resultLimit is what rounding one result to a type may cost, and that of a difference
// quotient in float64.
func resultLimit(d dtype.Type) float64 {
	return map[dtype.Type]float64{dtype.Float32: 3e-6, dtype.Float16: 1.1e-3, dtype.BFloat16: 8e-3, dtype.Float64: 1e-8}[d]
}

// rmsNormDefinition normalises rows of the length of gamma.
func rmsNormDefinition(x, gamma []float64) (y, rstd []float64) {
	y = make([]float64, len(x))
	for lo := 0; lo < len(x); lo += len(gamma) {
		squares := 0.0
		for j := range gamma {
			squares += x[lo+j] * x[lo+j]
		}
		r := 1 / math.Sqrt(squares/float64(len(gamma))+epsilon)
		for j, g := range gamma {
			y[lo+j] = x[lo+j] * r * g
		}
		rstd = append(rstd, r)
	}
	return y, rstd
}

// rmsNormArgs are the arguments of both directions.
type rmsNormTensors struct{ x, gamma, y, rstd, dy, dx, dgamma *Tensor }

func newRMSNorm(t testing.TB, d, gammaType dtype.Type, l kerneltest.Layout, shape []int64, inner int) rmsNormTensors {
	outer := len(shape) - inner
	stats := append([]int64{}, shape[:outer]...)
	for range inner {
		stats = append(stats, 1)
	}
	return rmsNormTensors{
		x: filled(t, 1, d, l, shape), dy: filled(t, 2, d, l, shape), gamma: filled(t, 3, gammaType, kerneltest.Contiguous, shape[outer:]),
		y: tensorIn(t, d, l, shape), dx: tensorIn(t, d, l, shape), rstd: tensor(t, dtype.Float32, stats), dgamma: tensor(t, dtype.Float32, shape[outer:]),
	}
}

func (n rmsNormTensors) forward() args {
	return args{"x": n.x, "gamma": n.gamma, "epsilon": epsilon, "yOut": n.y, "rstdOut": n.rstd}
}

func (n rmsNormTensors) backward() args {
	return args{"dy": n.dy, "x": n.x, "rstd": n.rstd, "gamma": n.gamma, "dxOut": n.dx, "dgammaOut": n.dgamma}
}

func TestRMSNorm(t *testing.T) {
	for _, d := range transformerTypes {
		for _, gammaType := range []dtype.Type{d, dtype.Float32} {
			for _, l := range kerneltest.Layouts {
				for _, c := range normShapes {
					n := newRMSNorm(t, d, gammaType, l, c.shape, c.inner)
					what := fmt.Sprintf("%v, gamma of %v, %v %v, %d inner", d, gammaType, l, c.shape, c.inner)
					run(t, "RmsNorm", n.forward())
					run(t, "RmsNormGrad", n.backward())
					x, dy, gamma := values(n.x), values(n.dy), values(n.gamma)
					y, rstd := rmsNormDefinition(x, gamma)
					closeTo(t, "y of "+what, y, values(n.y), resultLimit(d))
					closeTo(t, "rstd of "+what, rstd, values(n.rstd), 1e-6)
					dx := gradient(func(x []float64) []float64 { y, _ := rmsNormDefinition(x, gamma); return y }, dy, x)
					dgamma := gradient(func(gamma []float64) []float64 { y, _ := rmsNormDefinition(x, gamma); return y }, dy, gamma)
					closeTo(t, "dx of "+what, dx, values(n.dx), 2*resultLimit(d))
					closeTo(t, "dgamma of "+what, dgamma, values(n.dgamma), 3e-6)
				}
			}
		}
	}
}

func TestRMSNormOfNothing(t *testing.T) {
	n := newRMSNorm(t, dtype.BFloat16, dtype.Float32, kerneltest.Contiguous, []int64{0, 3}, 1)
	run(t, "RmsNorm", n.forward())
	run(t, "RmsNormGrad", n.backward())
	assert.Equal(t, []float64{0, 0, 0}, values(n.dgamma))
	n = newRMSNorm(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, []int64{3, 0}, 1)
	run(t, "RmsNorm", n.forward())
	run(t, "RmsNormGrad", n.backward())
}

// Rows that a program normalises in place.
func TestRMSNormInPlace(t *testing.T) {
	n := newRMSNorm(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, []int64{3, 67}, 1)
	want, _ := rmsNormDefinition(values(n.x), values(n.gamma))
	n.y = n.x
	run(t, "RmsNorm", n.forward())
	closeTo(t, "y", want, values(n.x), 3e-6)

	n = newRMSNorm(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, []int64{3, 67}, 1)
	run(t, "RmsNorm", n.forward())
	run(t, "RmsNormGrad", n.backward())
	dx := values(n.dx)
	n.dx = n.dy
	run(t, "RmsNormGrad", n.backward())
	assert.Equal(t, dx, values(n.dy))
}

func TestAddRMSNorm(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			n := newRMSNorm(t, d, d, l, []int64{3, 5, 19}, 1)
			sum := tensorIn(t, d, l, n.x.Shape)
			run(t, "AddRmsNorm", args{"x1": n.x, "x2": n.dy, "gamma": n.gamma, "epsilon": epsilon, "yOut": n.y, "rstdOut": n.rstd, "xOut": sum})
			added := values(n.x)
			for i, v := range values(n.dy) {
				added[i] += v
			}
			closeTo(t, "sum", added, values(sum), resultLimit(d))
			y, rstd := rmsNormDefinition(values(sum), values(n.gamma))
			closeTo(t, "y", y, values(n.y), resultLimit(d))
			closeTo(t, "rstd", rstd, values(n.rstd), 1e-6)
		}
	}
	n := newRMSNorm(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, []int64{2, 3}, 1)
	a := args{"x1": n.x, "x2": tensor(t, dtype.Float32, []int64{3}, 1), "gamma": n.gamma, "epsilon": epsilon, "yOut": n.y, "rstdOut": n.rstd, "xOut": n.dx}
	refused(t, invalidParam, "AddRmsNorm", a, "x1 float32[2,3]", "x2 float32[3]")
	a["x2"] = nil
	refused(t, nullPointer, "AddRmsNorm", a, "x2 is null")
}

func TestRMSNormRefuses(t *testing.T) {
	f := dtype.Float32
	for _, c := range []struct {
		name  string
		code  int32
		set   func(n *rmsNormTensors)
		texts []string
	}{
		{"RmsNorm", nullPointer, func(n *rmsNormTensors) { n.gamma = nil }, []string{"gamma is null"}},
		{"RmsNorm", nullPointer, func(n *rmsNormTensors) { n.rstd = nil }, []string{"rstdOut is null"}},
		{"RmsNorm", invalidParam, func(n *rmsNormTensors) { n.gamma = tensor(t, f, []int64{2}, 1) }, []string{"gamma float32[2]", "trailing dimensions of x float32[2,3]"}},
		{"RmsNorm", invalidParam, func(n *rmsNormTensors) { n.gamma = tensor(t, f, []int64{}, 1) }, []string{"gamma float32[]"}},
		{"RmsNorm", invalidParam, func(n *rmsNormTensors) { n.gamma = tensor(t, f, []int64{1, 2, 3}, 1) }, []string{"[1,2,3]"}},
		{"RmsNorm", invalidParam, func(n *rmsNormTensors) { n.gamma = tensor(t, dtype.BFloat16, []int64{3}, 1) }, []string{"gamma bfloat16[3]"}},
		{"RmsNorm", invalidParam, func(n *rmsNormTensors) { n.rstd = tensor(t, f, []int64{3, 1}) }, []string{"rstdOut float32[3,1]", "[2,1]"}},
		{"RmsNorm", invalidParam, func(n *rmsNormTensors) { n.rstd = tensor(t, dtype.Float16, []int64{2, 1}) }, []string{"rstdOut float16"}},
		{"RmsNorm", invalidParam, func(n *rmsNormTensors) { n.y = tensor(t, dtype.Float16, []int64{2, 3}) }, []string{"dtypes differ", "yOut float16"}},
		{"RmsNorm", invalidParam, func(n *rmsNormTensors) { n.x, n.y = tensor(t, dtype.Int32, []int64{2, 3}, 1), n.x }, []string{"x int32[2,3]"}},
		{"RmsNormGrad", nullPointer, func(n *rmsNormTensors) { n.dgamma = nil }, []string{"dgammaOut is null"}},
		{"RmsNormGrad", invalidParam, func(n *rmsNormTensors) { n.dgamma = tensor(t, f, []int64{4}) }, []string{"dgammaOut float32[4]"}},
		{"RmsNormGrad", invalidParam, func(n *rmsNormTensors) { n.dy = tensor(t, f, []int64{3, 3}, 1) }, []string{"dy float32[3,3]"}},
	} {
		n := newRMSNorm(t, f, f, kerneltest.Contiguous, []int64{2, 3}, 1)
		c.set(&n)
		a := n.forward()
		if c.name == "RmsNormGrad" {
			a = n.backward()
		}
		refused(t, c.code, c.name, a, c.texts...)
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
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, c := range normShapes {
				what := fmt.Sprintf("%v %v %v, %d inner", d, l, c.shape, c.inner)
				n := newRMSNorm(t, d, d, l, c.shape, c.inner)
				inner := n.gamma.Shape
				bias, mean := filled(t, 4, d, kerneltest.Contiguous, inner), tensor(t, dtype.Float32, n.rstd.Shape)
				for _, p := range []struct{ weight, bias *Tensor }{{n.gamma, bias}, {nil, nil}} {
					w, b := make([]float64, elements(inner)), make([]float64, elements(inner))
					for i := range w {
						w[i] = 1
					}
					if p.weight != nil {
						w, b = values(p.weight), values(p.bias)
					}
					run(t, "LayerNorm", args{
						"input": n.x, "normalizedShape": inner, "weightOptional": p.weight, "biasOptional": p.bias, "eps": epsilon,
						"out": n.y, "meanOutOptional": mean, "rstdOutOptional": n.rstd,
					})
					x, dy := values(n.x), values(n.dy)
					y, m, r := layerNormDefinition(x, w, b)
					closeTo(t, "y of "+what, y, values(n.y), 2*resultLimit(d))
					closeTo(t, "mean of "+what, m, values(mean), 2e-6)
					// A row of equal values has a deviation of 0 and rstd 1/√eps.
					closeTo(t, "rstd of "+what, r, values(n.rstd), 2e-6)
					dbias := tensor(t, d, inner)
					dweight := tensor(t, d, inner)
					run(t, "LayerNormBackward", args{
						"gradOut": n.dy, "input": n.x, "normalizedShape": inner, "mean": mean, "rstd": n.rstd, "weightOptional": p.weight, "biasOptional": p.bias,
						"outputMask": []bool{true, true, true}, "gradInputOut": n.dx, "gradWeightOut": dweight, "gradBiasOut": dbias,
					})
					if elements(inner) > 1 { // the slope at a deviation of 0 is no difference quotient
						dx := gradient(func(x []float64) []float64 { y, _, _ := layerNormDefinition(x, w, b); return y }, dy, x)
						closeTo(t, "dx of "+what, dx, values(n.dx), 3*resultLimit(d))
					}
					dw := gradient(func(w []float64) []float64 { y, _, _ := layerNormDefinition(x, w, b); return y }, dy, w)
					closeTo(t, "dweight of "+what, dw, values(dweight), 2*resultLimit(d))
					db := gradient(func(b []float64) []float64 { y, _, _ := layerNormDefinition(x, w, b); return y }, dy, b)
					closeTo(t, "dbias of "+what, db, values(dbias), 2*resultLimit(d))
				}
			}
		}
	}
}

func TestLayerNormParts(t *testing.T) {
	n := newRMSNorm(t, dtype.Float32, dtype.Float32, kerneltest.Contiguous, []int64{4, 6}, 1)
	mean := tensor(t, dtype.Float32, []int64{4, 1}, 0)
	a := args{"input": n.x, "normalizedShape": []int64{6}, "weightOptional": n.gamma, "eps": epsilon, "out": n.y}
	run(t, "LayerNorm", a)
	want, _, _ := layerNormDefinition(values(n.x), values(n.gamma), make([]float64, 6))
	closeTo(t, "without bias and statistics", want, values(n.y), 3e-6)
	a["meanOutOptional"], a["rstdOutOptional"] = mean, n.rstd
	run(t, "LayerNorm", a)
	back := args{
		"gradOut": n.dy, "input": n.x, "normalizedShape": []int64{6}, "mean": mean, "rstd": n.rstd, "weightOptional": n.gamma,
		"outputMask": []bool{true, true, false}, "gradInputOut": n.dx, "gradWeightOut": n.dgamma,
	}
	run(t, "LayerNormBackward", back)
	dx, dweight := values(n.dx), values(n.dgamma)
	for i := range 3 {
		mask, dbias := make([]bool, 3), tensor(t, dtype.Float32, []int64{6})
		mask[i] = true
		fill(n.dx, 9)
		fill(n.dgamma, 9)
		back["outputMask"], back["gradBiasOut"] = mask, dbias
		run(t, "LayerNormBackward", back)
		switch i {
		case 0:
			require.Equal(t, dx, values(n.dx))
			require.Equal(t, 9.0, values(n.dgamma)[0])
		case 1:
			require.Equal(t, dweight, values(n.dgamma))
			require.Equal(t, 9.0, values(n.dx)[0])
		}
	}
	back["outputMask"] = []bool{true}
	refused(t, invalidParam, "LayerNormBackward", back, "outputMask has 1 elements")
	back["outputMask"], back["gradBiasOut"] = []bool{false, false, true}, nil
	refused(t, nullPointer, "LayerNormBackward", back, "gradBiasOut is null")
	a["normalizedShape"] = []int64{5}
	refused(t, invalidParam, "LayerNorm", a, "normalizedShape [5]", "input float32[4,6]")
	a["normalizedShape"] = []int64{}
	refused(t, invalidParam, "LayerNorm", a, "normalizedShape []")
	a["normalizedShape"], a["weightOptional"] = []int64{6}, tensor(t, dtype.Float32, []int64{4}, 1)
	refused(t, invalidParam, "LayerNorm", a, "weightOptional float32[4]", "[6]")

	none, dweightOut, dbias := tensor(t, dtype.Float32, []int64{0, 6}), tensor(t, dtype.Float32, []int64{6}, 3), tensor(t, dtype.Float32, []int64{6}, 3)
	stats := tensor(t, dtype.Float32, []int64{0, 1})
	run(t, "LayerNormBackward", args{
		"gradOut": none, "input": none, "normalizedShape": []int64{6}, "mean": stats, "rstd": stats, "outputMask": []bool{true, true, true},
		"gradInputOut": none, "gradWeightOut": dweightOut, "gradBiasOut": dbias,
	})
	assert.Equal(t, make([]float64, 12), append(values(dweightOut), values(dbias)...))
}
