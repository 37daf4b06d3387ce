package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

func TestApplyAdam(t *testing.T) {
	const power1, power2, lr, beta1, beta2, eps = .81, .9025, .125, .9, .95, .25
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16} {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{0}, {1}, {3, 35}} {
				for _, nesterov := range []bool{false, true} {
					w, m, grad := filled(t, 1, d, l, shape), filled(t, 2, d, l, shape), filled(t, 3, d, l, shape)
					v := tensorIn(t, d, l, shape, .5, 2, 0)
					want := values(w)
					for i, g := range values(grad) {
						mt, vt := beta1*values(m)[i]+(1-beta1)*g, beta2*values(v)[i]+(1-beta2)*g*g
						if nesterov {
							mt = beta1*mt + (1-beta1)*g
						}
						want[i] -= lr * math.Sqrt(1-power2) / (1 - power1) * mt / (math.Sqrt(vt) + eps)
					}
					a := args{"varRef": w, "m": m, "v": v, "grad": grad, "useNesterov": nesterov}
					for name, x := range map[string]float64{"beta1Power": power1, "beta2Power": power2, "lr": lr, "beta1": beta1, "beta2": beta2, "epsilon": eps} {
						a[name] = tensor(t, dtype.Float32, []int64{1}, x)
					}
					run(t, "ApplyAdam", a)
					closeTo(t, fmt.Sprintf("%v %v %v nesterov %v", d, l, shape, nesterov), want, values(w), 1.5*resultLimit(d))
					refused(t, nullPointer, "ApplyAdam", a.with(args{"v": nil}), "v is null")
					refused(t, invalidParam, "ApplyAdam", a.with(args{"lr": tensor(t, dtype.Float32, []int64{2}, 1)}), "lr", "one element")
					refused(t, invalidParam, "ApplyAdam", a.with(args{"lr": tensor(t, dtype.Float16, []int64{1}, 1)}), "lr", "dtype")
					refused(t, invalidParam, "ApplyAdam", a.with(args{"grad": tensor(t, dtype.Float64, shape, 1)}), "grad")
				}
			}
		}
	}
}

// ladder is an ascending list of 256 values from lo to 1.
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
				n := elements(shape)
				blocks := []int64{(n + 255) / 256}
				w, grad := filled(t, 1, d, l, shape), filled(t, 2, d, l, shape)
				m, v := tensorIn(t, dtype.Uint8, l, shape, 3, 200, 128, 77), tensorIn(t, dtype.Uint8, l, shape, 0, 9, 255)
				f := dtype.Float32
				mValues, vValues := tensor(t, f, []int64{256}, ladder(-1)...), tensor(t, f, []int64{256}, ladder(0)...)
				mLargest, vLargest := tensor(t, f, blocks, 2, .5), tensor(t, f, blocks, 3, 1)
				want, wantM, wantV := values(w), make([]float64, n), make([]float64, n)
				topM, topV := make([]float64, blocks[0]), make([]float64, blocks[0])
				for i, g := range values(grad) {
					b := i / 256
					wantM[i] = beta1*values(mValues)[int(values(m)[i])]*values(mLargest)[b] + (1-beta1)*g*scale
					wantV[i] = beta2*values(vValues)[int(values(v)[i])]*values(vLargest)[b] + (1-beta2)*g*g*scale*scale
					topM[b], topV[b] = max(topM[b], math.Abs(wantM[i])), max(topV[b], wantV[i])
					want[i] -= lr*decay*want[i] + lr*wantM[i]/(1-math.Pow(beta1, step))/(math.Sqrt(wantV[i]/(1-math.Pow(beta2, step)))+eps)
				}
				a := args{
					"varRef": w, "grad": grad, "mRef": m, "vRef": v, "qmapM": mValues, "qmapV": vValues, "absmaxMRef": mLargest, "absmaxVRef": vLargest,
					"step": tensor(t, dtype.Int64, []int64{1}, step), "lr": lr, "beta1": beta1, "beta2": beta2, "weightDecay": decay, "eps": eps, "gnormScale": scale,
					"quantModeOptional": "BLOCKWISE", "blockSize": 256,
				}
				run(t, "ApplyAdamWQuant", a)
				what := fmt.Sprintf("%v %v %v", d, l, shape)
				closeTo(t, what, want, values(w), 1.5*resultLimit(d))
				closeTo(t, "absmaxM of "+what, topM, values(mLargest), 1e-5)
				closeTo(t, "absmaxV of "+what, topV, values(vLargest), 1e-5)
				for i := range wantM {
					b := i / 256
					// A byte names a value at most half a step of the ladder away.
					assert.InDelta(t, wantM[i]/topM[b], values(mValues)[int(values(m)[i])], 1.001/255, what)
					assert.InDelta(t, wantV[i]/topV[b], values(vValues)[int(values(v)[i])], .501/255, what)
				}
				refused(t, nullPointer, "ApplyAdamWQuant", a.with(args{"qmapV": nil}), "qmapV is null")
				refused(t, invalidParam, "ApplyAdamWQuant", a.with(args{"blockSize": 128}), "blockSize is 128")
				refused(t, invalidParam, "ApplyAdamWQuant", a.with(args{"mRef": tensor(t, dtype.Int8, shape, 0)}), "mRef")
				refused(t, invalidParam, "ApplyAdamWQuant", a.with(args{"qmapM": tensor(t, f, []int64{16}, 0)}), "a value for each byte")
				refused(t, invalidParam, "ApplyAdamWQuant", a.with(args{"absmaxVRef": tensor(t, f, []int64{7}, 0)}), "one for each block")
			}
		}
	}
}

// The form with outputs leaves its inputs alone; its numbers have the type of the weight.
func TestApplyAdamD(t *testing.T) {
	const power1, power2, lr, beta1, beta2, eps = .75, .875, .125, .5, .75, .25 // exact in 16 bits
	for n, d := range transformerTypes {
		for _, nesterov := range []bool{false, true} {
			l, shape := kerneltest.Layouts[n%len(kerneltest.Layouts)], []int64{2, 33}
			w, m, grad := filled(t, 1, d, l, shape), filled(t, 2, d, l, shape), filled(t, 3, d, l, shape)
			v := tensorIn(t, d, l, shape, .5, 2, 0)
			wantM, wantV, want := values(m), values(v), values(w)
			for i, g := range values(grad) {
				wantM[i], wantV[i] = beta1*wantM[i]+(1-beta1)*g, beta2*wantV[i]+(1-beta2)*g*g
				step := wantM[i]
				if nesterov {
					step = beta1*step + (1-beta1)*g
				}
				want[i] -= lr * math.Sqrt(1-power2) / (1 - power1) * step / (math.Sqrt(wantV[i]) + eps)
			}
			outW, outM, outV := tensorIn(t, d, l, shape), tensorIn(t, d, l, shape), tensorIn(t, d, l, shape)
			a := args{"var": w, "m": m, "v": v, "grad": grad, "useNesterov": nesterov, "varOut": outW, "mOut": outM, "vOut": outV}
			for name, x := range map[string]float64{"beta1Power": power1, "beta2Power": power2, "lr": lr, "beta1": beta1, "beta2": beta2, "epsilon": eps} {
				a[name] = tensor(t, d, []int64{1}, x)
			}
			run(t, "ApplyAdamD", a)
			what := fmt.Sprintf("%v nesterov %v", d, nesterov)
			closeTo(t, what, want, values(outW), 1.5*resultLimit(d))
			closeTo(t, "m "+what, wantM, values(outM), 1.5*resultLimit(d))
			closeTo(t, "v "+what, wantV, values(outV), 1.5*resultLimit(d))
			refused(t, invalidParam, "ApplyAdamD", a.with(args{"mOut": tensor(t, d, []int64{3})}), "shapes differ")
			refused(t, invalidParam, "ApplyAdamD", a.with(args{"lr": tensor(t, dtype.Float64, []int64{1})}), "dtype")
			refused(t, nullPointer, "ApplyAdamD", a.with(args{"vOut": nil}), "vOut is null")
			// In place.
			run(t, "ApplyAdamD", a.with(args{"varOut": w, "mOut": m, "vOut": v}))
			assert.Equal(t, values(outW), values(w))
			assert.Equal(t, values(outM), values(m))
		}
	}
}

func TestApplyGradientDescent(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{0}, {1}, {3, 35}} {
				w, delta := filled(t, 1, d, l, shape), filled(t, 2, d, l, shape)
				want := values(w)
				for i, g := range values(delta) {
					want[i] -= .125 * g
				}
				a := args{"var": w, "alpha": tensor(t, d, []int64{1}, .125), "delta": delta}
				run(t, "ApplyGradientDescent", a)
				closeTo(t, fmt.Sprint(d, l, shape), want, values(w), resultLimit(d))
				refused(t, invalidParam, "ApplyGradientDescent", a.with(args{"alpha": tensor(t, d, []int64{2})}), "one element")
				refused(t, invalidParam, "ApplyGradientDescent", a.with(args{"delta": tensor(t, d, []int64{7})}), "shapes differ")
				refused(t, nullPointer, "ApplyGradientDescent", a.with(args{"alpha": nil}), "alpha is null")
			}
		}
	}
}

func TestApplyFtrl(t *testing.T) {
	const lr, l1, l2, power = .5, .25, .125, -.5
	for n, d := range transformerTypes {
		l, shape := kerneltest.Layouts[n%len(kerneltest.Layouts)], []int64{3, 11}
		w, accum, linear, grad := filled(t, 1, d, l, shape), tensorIn(t, d, l, shape, .5, 2, 0), filled(t, 3, d, l, shape), filled(t, 4, d, l, shape)
		wantW, wantA, wantZ := values(w), values(accum), values(linear)
		zeros := 0
		for i, g := range values(grad) {
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
		a := args{"varRef": w, "accumRef": accum, "linearRef": linear, "grad": grad}
		for name, x := range map[string]float64{"lr": lr, "l1": l1, "l2": l2, "lrPower": power} {
			a[name] = tensor(t, d, []int64{1}, x)
		}
		run(t, "ApplyFtrl", a)
		closeTo(t, fmt.Sprint("weight ", d), wantW, values(w), resultLimit(d))
		closeTo(t, fmt.Sprint("squares ", d), wantA, values(accum), resultLimit(d))
		closeTo(t, fmt.Sprint("linear ", d), wantZ, values(linear), resultLimit(d))
		refused(t, invalidParam, "ApplyFtrl", a.with(args{"useLocking": true}), "useLocking")
		refused(t, invalidParam, "ApplyFtrl", a.with(args{"l1": grad}), "one element")
		refused(t, nullPointer, "ApplyFtrl", a.with(args{"lr": nil}), "lr is null")
	}
}
