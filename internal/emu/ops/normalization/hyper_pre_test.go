package normalization

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

const preStreams, preWidth, preRows, preEps, preNormEps = 4, 128, 24, 1e-6, 1e-3

// preDefinition are the results for tokens in float64: hin, hPost, hRes, hPre, the products with phi, 1/rms, and sums and matrices of each step.
func preDefinition(x, phi, alpha, bias []float64) (y [8][]float64) {
	const n, long = preStreams, preStreams * preWidth
	tokens := len(x) / long
	y[6], y[7] = make([]float64, 40*tokens*n), make([]float64, 40*tokens*n*n)
	for t := range tokens {
		row := x[t*long:][:long]
		mean := 0.0
		for _, v := range row {
			mean += v * v / long
		}
		r := 1 / math.Sqrt(mean+preNormEps)
		mixed := optest.Times(phi, row, long)
		var gates []float64
		for i, v := range mixed {
			gates = append(gates, alpha[min(i/n, 2)]*v*r+bias[i])
		}
		var pre []float64
		for i := range n {
			pre = append(pre, optest.Sigmoid(gates[i])+preEps)
			y[1] = append(y[1], 2*optest.Sigmoid(gates[n+i]))
		}
		for d := range preWidth {
			sum := 0.0
			for i := range n {
				sum += pre[i] * row[i*preWidth+d]
			}
			y[0] = append(y[0], sum)
		}
		m := optest.Softmax(gates[2*n:], n)
		for i := range n {
			highest, sum := slices.Max(gates[2*n+i*n:][:n]), 0.0
			for _, g := range gates[2*n+i*n:][:n] {
				sum += math.Exp(g - highest)
			}
			y[6][t*n+i] = sum + preEps
		}
		for i := range m {
			m[i] += preEps
		}
		copy(y[7][t*n*n:], m)
		for step := 1; step < 40; step++ {
			for i := range n {
				line := func(j int) *float64 {
					if step%2 == 1 {
						return &m[j*n+i]
					}
					return &m[i*n+j]
				}
				sum := preEps
				for j := range n {
					sum += *line(j)
				}
				y[6][(step*tokens+t)*n+i] = sum
				for j := range n {
					*line(j) /= sum
				}
			}
			copy(y[7][(step*tokens+t)*n*n:], m)
		}
		y[2], y[3], y[4], y[5] = append(y[2], m...), append(y[3], pre...), append(y[4], mixed...), append(y[5], r)
	}
	return y
}

// TestHyperPre compares results and what is kept for the gradient with the definition in float64, and gradients with its differences.
func TestHyperPre(t *testing.T) {
	f := dtype.Float32
	names := []string{"hin", "hPost", "hRes", "hPre", "hcBeforeNorm", "invRms", "sumOut", "normOut"}
	for _, dt := range op.HalfTypes {
		for _, leading := range [][]int64{{1, 1}, {1, 3}, {2, 1}} {
			for _, l := range kerneltest.Layouts {
				with := func(tail ...int64) []int64 { return append(slices.Clone(leading), tail...) }
				small := func(seed uint64, shape ...int64) *op.Tensor {
					v := optest.Normal(seed, f, optest.Elements(shape))
					for i := range v {
						v[i] /= 16
					}
					return optest.TensorIn(t, f, l, shape, v...)
				}
				steps := append([]int64{40}, leading...)
				shapes := [][]int64{with(preWidth), with(4), with(16), with(4), with(preRows), with(1), append(slices.Clone(steps), 4), append(slices.Clone(steps), 4, 4)}
				x, phi := optest.Filled(t, 1, dt, l, with(4, preWidth)), small(2, preRows, 4*preWidth)
				alpha, bias := optest.Filled(t, 3, f, l, []int64{3}), optest.Filled(t, 4, f, l, []int64{preRows})
				a := optest.Args{"x": x, "phi": phi, "alpha": alpha, "bias": bias, "hcMult": 4, "numIters": 20, "hcEps": preEps, "normEps": preNormEps, "needBackward": true}
				for i, name := range names {
					d := f
					if i == 0 {
						d = dt
					}
					a[name] = optest.TensorIn(t, d, l, shapes[i])
				}
				optest.Run(t, "MhcPreSinkhorn", a)
				vx, vp, va, vb := optest.Values(x), optest.Values(phi), optest.Values(alpha), optest.Values(bias)
				what, want := fmt.Sprint(dt, leading, l), preDefinition(vx, vp, va, vb)
				for i, name := range names {
					limit := 1e-5
					if i == 0 {
						limit = optest.ResultLimit(dt)
					}
					optest.CloseTo(t, name+" "+what, want[i], optest.Values(a[name].(*op.Tensor)), limit)
				}
				inference := optest.Args{"needBackward": false}
				for _, name := range names[3:] {
					inference[name] = nil
				}
				optest.Run(t, "MhcPreSinkhorn", a.With(inference))
				optest.CloseTo(t, "inference "+what, want[2], optest.Values(a["hRes"].(*op.Tensor)), 1e-5)

				res := shapes[2]
				if dt == dtype.BFloat16 {
					res = append(slices.Clone(leading), 4, 4)
				}
				b := optest.Args{
					"gradHin": optest.Filled(t, 5, dt, l, shapes[0]), "gradHPost": optest.Filled(t, 6, f, l, shapes[1]), "gradHRes": optest.Filled(t, 7, f, l, res), "x": x, "phi": phi, "alpha": alpha, "bias": bias, "hcEps": preEps,
					"gradX": optest.TensorIn(t, dt, l, x.Shape), "gradPhi": optest.TensorIn(t, f, l, phi.Shape), "gradAlpha": optest.TensorIn(t, f, l, []int64{3}), "gradBias": optest.TensorIn(t, f, l, []int64{preRows}),
				}
				for i, name := range names[3:] {
					b[name] = optest.TensorIn(t, f, l, shapes[3+i], want[3+i]...)
				}
				optest.Run(t, "MhcPreSinkhornBackward", b)
				dy := slices.Concat(optest.Values(b["gradHin"].(*op.Tensor)), optest.Values(b["gradHPost"].(*op.Tensor)), optest.Values(b["gradHRes"].(*op.Tensor)))
				inputs := [][]float64{vx, vp, va, vb}
				for i, name := range []string{"gradX", "gradPhi", "gradAlpha", "gradBias"} {
					got := optest.Values(b[name].(*op.Tensor))
					every := []int{7, 401, 1, 1}[i] // each of these elements is compared
					var at, some, of []float64
					for j := 0; j < len(got); j += every {
						at, some, of = append(at, float64(j)), append(some, got[j]), append(of, inputs[i][j])
					}
					forward := func(v []float64) []float64 {
						all := slices.Clone(inputs)
						all[i] = slices.Clone(inputs[i])
						for k, j := range at {
							all[i][int(j)] = v[k]
						}
						y := preDefinition(all[0], all[1], all[2], all[3])
						return slices.Concat(y[0], y[1], y[2])
					}
					limit := 2e-4
					if i == 0 {
						limit = 4 * optest.ResultLimit(dt)
					}
					optest.CloseTo(t, name+" "+what, optest.Gradient(forward, dy, of), some, limit)
				}
			}
		}
	}
	z := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	h := dtype.Float16
	a := optest.Args{"x": z(h, 1, 1, 4, 128), "phi": z(f, 24, 512), "alpha": z(f, 3), "bias": z(f, 24), "hcMult": 4, "numIters": 20, "hin": z(h, 1, 1, 128), "hPost": z(f, 1, 1, 4), "hRes": z(f, 1, 1, 16)}
	for text, set := range map[string]optest.Args{
		"only 20 is supported":     {"numIters": 10},
		"only 4 are supported":     {"hcMult": 2},
		"must have shape [24,512]": {"phi": z(f, 24, 128)},
		"must have shape [3]":      {"alpha": z(f, 4)},
		"multiple of 128":          {"x": z(h, 1, 1, 4, 64), "phi": z(f, 24, 256), "hin": z(h, 1, 1, 64)},
		"from the sizes of x":      {"hRes": z(f, 1, 1, 4, 4)},
		"must have 4 to 4 dim":     {"x": z(h, 1, 4, 128)},
	} {
		optest.Refused(t, op.InvalidParam, "MhcPreSinkhorn", a.With(set), text)
	}
	optest.Refused(t, op.NullPointer, "MhcPreSinkhorn", a.With(optest.Args{"needBackward": true}), "hPre is null")
}
