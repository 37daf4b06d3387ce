package normalization

import (
	"fmt"
	"slices"
	"testing"

	"github.com/goascend/cann/internal/abi/acceptance"
	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// TestHyperPost compares with products of matrices in float64, and the gradients with differences of them: types, numbers of
// tokens, layouts, and streams that are not mixed on the Ascend950.
func TestHyperPost(t *testing.T) {
	const n, width = 4, 128
	for _, dt := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		for _, leading := range [][]int64{{1}, {3}, {2, 1}, {1, 3}} {
			for _, layout := range kerneltest.Layouts {
				for _, mixed := range []bool{true, false} {
					tokens := int(op.Count(leading))
					filled := func(seed uint64, d dtype.Type, tail ...int64) *op.Tensor {
						return optest.Filled(t, seed, d, layout, append(slices.Clone(leading), tail...))
					}
					x, layer, post := filled(1, dt, n, width), filled(3, dt, width), filled(4, dtype.Float32, n)
					out := filled(5, dt, n, width)
					a := optest.Args{"x": x, "hOut": layer, "hPost": post, "out": out}
					run := func(name string, a optest.Args) { optest.RunOn(t, acceptance.Ascend950, name, a) }
					m := make([]float64, tokens*n*n)
					for i := range m {
						if i/n%n == i%n {
							m[i] = 1
						}
					}
					if mixed {
						mix := filled(2, dtype.Float32, n, n)
						a["hRes"], m = mix, optest.Values(mix)
						run = func(name string, a optest.Args) { optest.Run(t, name, a) }
					}
					run("MhcPost", a)
					v, h, w := optest.Values(x), optest.Values(layer), optest.Values(post)
					forward := func(v, m, h, w []float64) []float64 {
						y := optest.Times(optest.Transposed(m, n), v, n)
						optest.Add(y, optest.Times(w, h, 1))
						return y
					}
					part := func(x []float64, token, size int) []float64 { return x[token*size:][:size] }
					var want []float64
					for token := range tokens {
						want = append(want, forward(part(v, token, n*width), part(m, token, n*n), part(h, token, width), part(w, token, n))...)
					}
					what := fmt.Sprint(dt, leading, layout, mixed)
					optest.CloseTo(t, what, want, optest.Values(out), optest.ResultLimit(dt))

					dy := filled(6, dt, n, width)
					grads := []*op.Tensor{filled(7, dt, n, width), filled(7, dtype.Float32, n, n), filled(7, dt, width), filled(7, dtype.Float32, n)}
					b := optest.Args{"gradOutput": dy, "x": x, "hRes": a["hRes"], "hOut": layer, "hPost": post, "gradX": grads[0], "gradHRes": grads[1], "gradHOut": grads[2], "gradHPost": grads[3]}
					if !mixed {
						delete(b, "hRes")
					}
					run("MhcPostBackward", b)
					var wants [4][]float64
					for token := range tokens {
						g := part(optest.Values(dy), token, n*width)
						v, m, h, w := part(v, token, n*width), part(m, token, n*n), part(h, token, width), part(w, token, n)
						wants[0] = append(wants[0], optest.Times(m, g, n)...)
						wants[1] = append(wants[1], optest.Times(v, optest.Transposed(g, width), width)...)
						wants[2] = append(wants[2], optest.Times(w, g, n)...)
						wants[3] = append(wants[3], optest.Times(g, h, width)...)
					}
					for i, name := range []string{"gradX", "gradHRes", "gradHOut", "gradHPost"} {
						optest.CloseTo(t, name+" "+what, wants[i], optest.Values(grads[i]), optest.ResultLimit(grads[i].DType))
					}
				}
			}
		}
	}
}

func TestHyperPostRefuses(t *testing.T) {
	x := func(d dtype.Type, shape ...int64) *op.Tensor { return optest.Tensor(t, d, shape) }
	bf, f := dtype.BFloat16, dtype.Float32
	a := optest.Args{"x": x(bf, 2, 4, 128), "hRes": x(f, 2, 4, 4), "hOut": x(bf, 2, 128), "hPost": x(f, 2, 4), "out": x(bf, 2, 4, 128)}
	for text, set := range map[string]optest.Args{
		"dtype":                   {"hPost": x(bf, 2, 4)},
		"a matrix for each token": {"hRes": x(f, 2, 4, 3)},
		"the layer's output":      {"hOut": x(bf, 3, 128)},
		"they must be equal":      {"out": x(bf, 2, 4, 256)},
	} {
		optest.Refused(t, op.InvalidParam, "MhcPost", a.With(set), text)
	}
	optest.Refused(t, op.NullPointer, "MhcPost", a.With(optest.Args{"hRes": nil}), "only the Ascend950")
	optest.Refused(t, op.NoStep, "MhcPost", a.With(optest.Args{"x": x(bf, 2, 4, 100), "hOut": x(bf, 2, 100), "out": x(bf, 2, 4, 100)}), "multiple of 128")
}
