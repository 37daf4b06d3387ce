package optimizer

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestApplyAdam(t *testing.T) {
	const power1, power2, lr, beta1, beta2, eps = .81, .9025, .125, .9, .95, .25
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16} {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{0}, {1}, {3, 35}} {
				for _, nesterov := range []bool{false, true} {
					w, m, grad := optest.Filled(t, 1, d, l, shape), optest.Filled(t, 2, d, l, shape), optest.Filled(t, 3, d, l, shape)
					v := optest.TensorIn(t, d, l, shape, .5, 2, 0)
					want := optest.Values(w)
					for i, g := range optest.Values(grad) {
						mt, vt := beta1*optest.Values(m)[i]+(1-beta1)*g, beta2*optest.Values(v)[i]+(1-beta2)*g*g
						if nesterov {
							mt = beta1*mt + (1-beta1)*g
						}
						want[i] -= lr * math.Sqrt(1-power2) / (1 - power1) * mt / (math.Sqrt(vt) + eps)
					}
					a := optest.Args{"varRef": w, "m": m, "v": v, "grad": grad, "useNesterov": nesterov}
					for name, x := range map[string]float64{"beta1Power": power1, "beta2Power": power2, "lr": lr, "beta1": beta1, "beta2": beta2, "epsilon": eps} {
						a[name] = optest.Tensor(t, dtype.Float32, []int64{1}, x)
					}
					optest.Run(t, "ApplyAdam", a)
					optest.CloseTo(t, fmt.Sprintf("%v %v %v nesterov %v", d, l, shape, nesterov), want, optest.Values(w), 1.5*optest.ResultLimit(d))
					optest.Refused(t, op.NullPointer, "ApplyAdam", a.With(optest.Args{"v": nil}), "v is null")
					optest.Refused(t, op.InvalidParam, "ApplyAdam", a.With(optest.Args{"lr": optest.Tensor(t, dtype.Float32, []int64{2}, 1)}), "lr", "one element")
					optest.Refused(t, op.InvalidParam, "ApplyAdam", a.With(optest.Args{"lr": optest.Tensor(t, dtype.Float16, []int64{1}, 1)}), "lr", "dtype")
					optest.Refused(t, op.InvalidParam, "ApplyAdam", a.With(optest.Args{"grad": optest.Tensor(t, dtype.Float64, shape, 1)}), "grad")
				}
			}
		}
	}
}

// ladder returns an ascending list of 256 values from lo to 1.
func ladder(lo float64) []float64 {
	v := make([]float64, codeLength)
	for i := range v {
		v[i] = lo + (1-lo)*float64(i)/(codeLength-1)
	}
	return v
}

func TestApplyAdamWQuant(t *testing.T) {
	const lr, beta1, beta2, decay, eps, scale, step = .1, .9, .95, .1, .01, .5, 3
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16} {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{0}, {1}, {256}, {3, 100}} {
				n := optest.Elements(shape)
				blocks := []int64{(n + 255) / 256}
				w, grad := optest.Filled(t, 1, d, l, shape), optest.Filled(t, 2, d, l, shape)
				m, v := optest.TensorIn(t, dtype.Uint8, l, shape, 3, 200, 128, 77), optest.TensorIn(t, dtype.Uint8, l, shape, 0, 9, 255)
				f := dtype.Float32
				mValues, vValues := optest.Tensor(t, f, []int64{256}, ladder(-1)...), optest.Tensor(t, f, []int64{256}, ladder(0)...)
				mLargest, vLargest := optest.Tensor(t, f, blocks, 2, .5), optest.Tensor(t, f, blocks, 3, 1)
				want, wantM, wantV := optest.Values(w), make([]float64, n), make([]float64, n)
				topM, topV := make([]float64, blocks[0]), make([]float64, blocks[0])
				for i, g := range optest.Values(grad) {
					b := i / 256
					wantM[i] = beta1*optest.Values(mValues)[int(optest.Values(m)[i])]*optest.Values(mLargest)[b] + (1-beta1)*g*scale
					wantV[i] = beta2*optest.Values(vValues)[int(optest.Values(v)[i])]*optest.Values(vLargest)[b] + (1-beta2)*g*g*scale*scale
					topM[b], topV[b] = max(topM[b], math.Abs(wantM[i])), max(topV[b], wantV[i])
					want[i] -= lr*decay*want[i] + lr*wantM[i]/(1-math.Pow(beta1, step))/(math.Sqrt(wantV[i]/(1-math.Pow(beta2, step)))+eps)
				}
				a := optest.Args{
					"varRef": w, "grad": grad, "mRef": m, "vRef": v, "qmapM": mValues, "qmapV": vValues, "absmaxMRef": mLargest, "absmaxVRef": vLargest,
					"step": optest.Tensor(t, dtype.Int64, []int64{1}, step), "lr": lr, "beta1": beta1, "beta2": beta2, "weightDecay": decay, "eps": eps, "gnormScale": scale,
					"quantModeOptional": "BLOCKWISE", "blockSize": 256,
				}
				optest.Run(t, "ApplyAdamWQuant", a)
				what := fmt.Sprintf("%v %v %v", d, l, shape)
				optest.CloseTo(t, what, want, optest.Values(w), 1.5*optest.ResultLimit(d))
				optest.CloseTo(t, "absmaxM of "+what, topM, optest.Values(mLargest), 1e-5)
				optest.CloseTo(t, "absmaxV of "+what, topV, optest.Values(vLargest), 1e-5)
				for i := range wantM {
					b := i / 256
					// A byte represents a value with an error of at most half a step of the
					// ladder.
					assert.InDelta(t, wantM[i]/topM[b], optest.Values(mValues)[int(optest.Values(m)[i])], 1.001/255, what)
					assert.InDelta(t, wantV[i]/topV[b], optest.Values(vValues)[int(optest.Values(v)[i])], .501/255, what)
				}
				optest.Refused(t, op.NullPointer, "ApplyAdamWQuant", a.With(optest.Args{"qmapV": nil}), "qmapV is null")
				optest.Refused(t, op.InvalidParam, "ApplyAdamWQuant", a.With(optest.Args{"blockSize": 128}), "blockSize is 128")
				optest.Refused(t, op.InvalidParam, "ApplyAdamWQuant", a.With(optest.Args{"mRef": optest.Tensor(t, dtype.Int8, shape, 0)}), "mRef")
				optest.Refused(t, op.InvalidParam, "ApplyAdamWQuant", a.With(optest.Args{"qmapM": optest.Tensor(t, f, []int64{16}, 0)}), "a value for each byte")
				optest.Refused(t, op.InvalidParam, "ApplyAdamWQuant", a.With(optest.Args{"absmaxVRef": optest.Tensor(t, f, []int64{7}, 0)}), "one for each block")
			}
		}
	}
}

// The out-of-place form leaves its inputs unchanged. Its scalars have the type of the weight.
func TestApplyAdamD(t *testing.T) {
	const power1, power2, lr, beta1, beta2, eps = .75, .875, .125, .5, .75, .25 // exact in 16-bit floats
	for n, d := range op.FloatTypes {
		for _, nesterov := range []bool{false, true} {
			l, shape := kerneltest.Layouts[n%len(kerneltest.Layouts)], []int64{2, 33}
			w, m, grad := optest.Filled(t, 1, d, l, shape), optest.Filled(t, 2, d, l, shape), optest.Filled(t, 3, d, l, shape)
			v := optest.TensorIn(t, d, l, shape, .5, 2, 0)
			wantM, wantV, want := optest.Values(m), optest.Values(v), optest.Values(w)
			for i, g := range optest.Values(grad) {
				wantM[i], wantV[i] = beta1*wantM[i]+(1-beta1)*g, beta2*wantV[i]+(1-beta2)*g*g
				step := wantM[i]
				if nesterov {
					step = beta1*step + (1-beta1)*g
				}
				want[i] -= lr * math.Sqrt(1-power2) / (1 - power1) * step / (math.Sqrt(wantV[i]) + eps)
			}
			outW, outM, outV := optest.TensorIn(t, d, l, shape), optest.TensorIn(t, d, l, shape), optest.TensorIn(t, d, l, shape)
			a := optest.Args{"var": w, "m": m, "v": v, "grad": grad, "useNesterov": nesterov, "varOut": outW, "mOut": outM, "vOut": outV}
			for name, x := range map[string]float64{"beta1Power": power1, "beta2Power": power2, "lr": lr, "beta1": beta1, "beta2": beta2, "epsilon": eps} {
				a[name] = optest.Tensor(t, d, []int64{1}, x)
			}
			optest.Run(t, "ApplyAdamD", a)
			what := fmt.Sprintf("%v nesterov %v", d, nesterov)
			optest.CloseTo(t, what, want, optest.Values(outW), 1.5*optest.ResultLimit(d))
			optest.CloseTo(t, "m "+what, wantM, optest.Values(outM), 1.5*optest.ResultLimit(d))
			optest.CloseTo(t, "v "+what, wantV, optest.Values(outV), 1.5*optest.ResultLimit(d))
			optest.Refused(t, op.InvalidParam, "ApplyAdamD", a.With(optest.Args{"mOut": optest.Tensor(t, d, []int64{3})}), "shapes differ")
			optest.Refused(t, op.InvalidParam, "ApplyAdamD", a.With(optest.Args{"lr": optest.Tensor(t, dtype.Float64, []int64{1})}), "dtype")
			optest.Refused(t, op.NullPointer, "ApplyAdamD", a.With(optest.Args{"vOut": nil}), "vOut is null")
			// The in-place form.
			optest.Run(t, "ApplyAdamD", a.With(optest.Args{"varOut": w, "mOut": m, "vOut": v}))
			assert.Equal(t, optest.Values(outW), optest.Values(w))
			assert.Equal(t, optest.Values(outM), optest.Values(m))
		}
	}
}

func TestApplyGradientDescent(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{0}, {1}, {3, 35}} {
				w, delta := optest.Filled(t, 1, d, l, shape), optest.Filled(t, 2, d, l, shape)
				want := optest.Values(w)
				for i, g := range optest.Values(delta) {
					want[i] -= .125 * g
				}
				a := optest.Args{"var": w, "alpha": optest.Tensor(t, d, []int64{1}, .125), "delta": delta}
				optest.Run(t, "ApplyGradientDescent", a)
				optest.CloseTo(t, fmt.Sprint(d, l, shape), want, optest.Values(w), optest.ResultLimit(d))
				optest.Refused(t, op.InvalidParam, "ApplyGradientDescent", a.With(optest.Args{"alpha": optest.Tensor(t, d, []int64{2})}), "one element")
				optest.Refused(t, op.InvalidParam, "ApplyGradientDescent", a.With(optest.Args{"delta": optest.Tensor(t, d, []int64{7})}), "shapes differ")
				optest.Refused(t, op.NullPointer, "ApplyGradientDescent", a.With(optest.Args{"alpha": nil}), "alpha is null")
			}
		}
	}
}

func TestApplyFtrl(t *testing.T) {
	const lr, l1, l2, power = .5, .25, .125, -.5
	for n, d := range op.FloatTypes {
		l, shape := kerneltest.Layouts[n%len(kerneltest.Layouts)], []int64{3, 11}
		w, accum, linear, grad := optest.Filled(t, 1, d, l, shape), optest.TensorIn(t, d, l, shape, .5, 2, 0), optest.Filled(t, 3, d, l, shape), optest.Filled(t, 4, d, l, shape)
		wantW, wantA, wantZ := optest.Values(w), optest.Values(accum), optest.Values(linear)
		zeros := 0
		for i, g := range optest.Values(grad) {
			sum := wantA[i] + g*g
			wantZ[i] += g - (math.Sqrt(sum)-math.Sqrt(wantA[i]))/lr*wantW[i]
			wantA[i] = sum
			switch z := wantZ[i]; {
			case z > l1:
				wantW[i] = (l1 - z) / (math.Sqrt(sum)/lr + 2*l2)
			case z < -l1:
				wantW[i] = (-l1 - z) / (math.Sqrt(sum)/lr + 2*l2)
			default:
				wantW[i] = 0
				zeros++
			}
		}
		assert.NotZero(t, zeros)
		a := optest.Args{"varRef": w, "accumRef": accum, "linearRef": linear, "grad": grad}
		for name, x := range map[string]float64{"lr": lr, "l1": l1, "l2": l2, "lrPower": power} {
			a[name] = optest.Tensor(t, d, []int64{1}, x)
		}
		optest.Run(t, "ApplyFtrl", a)
		optest.CloseTo(t, fmt.Sprint("weight ", d), wantW, optest.Values(w), optest.ResultLimit(d))
		optest.CloseTo(t, fmt.Sprint("squares ", d), wantA, optest.Values(accum), optest.ResultLimit(d))
		optest.CloseTo(t, fmt.Sprint("linear ", d), wantZ, optest.Values(linear), optest.ResultLimit(d))
		optest.Refused(t, op.InvalidParam, "ApplyFtrl", a.With(optest.Args{"useLocking": true}), "useLocking")
		optest.Refused(t, op.InvalidParam, "ApplyFtrl", a.With(optest.Args{"l1": grad}), "one element")
		optest.Refused(t, op.NullPointer, "ApplyFtrl", a.With(optest.Args{"lr": nil}), "lr is null")
	}
}
