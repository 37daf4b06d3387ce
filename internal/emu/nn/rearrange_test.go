package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
)

// movedTypes stand for the sizes of elements that rearranging moves.
var movedTypes = []dtype.Type{dtype.Float32, dtype.BFloat16, dtype.Int8, dtype.Int64, dtype.Bool}

// counting gives 0, 1, 2, … as type d holds them.
func counting(d dtype.Type, n int64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = kerneltest.Round(d, float64(i%100))
	}
	return v
}

func numbers(t testing.TB, d dtype.Type, l kerneltest.Layout, shape ...int64) *Tensor {
	return tensorIn(t, d, l, shape, counting(d, max(elements(shape), 1))...)
}

func TestChannelShuffle(t *testing.T) {
	for _, d := range movedTypes {
		for _, l := range kerneltest.Layouts {
			x, out := numbers(t, d, l, 2, 6, 3), tensorIn(t, d, l, []int64{2, 6, 3})
			run(t, "ChannelShuffle", args{"self": x, "groups": 3, "out": out})
			xs := values(x)
			for i, v := range values(out) {
				n, channel, place := i/18, i/3%6, i%3
				from := channel%3*2 + channel/3
				assert.Equal(t, xs[n*18+from*3+place], v, "%v %v element %d", d, l, i)
			}
			refused(t, invalidParam, "ChannelShuffle", args{"self": x, "groups": 4, "out": out}, "4 groups")
		}
	}
}

func TestConfusionTranspose(t *testing.T) {
	for _, d := range movedTypes {
		for _, l := range kerneltest.Layouts {
			x, out := numbers(t, d, kerneltest.Contiguous, 4, 6), tensorIn(t, d, l, []int64{3, 2, 4})
			run(t, "ConfusionTranspose", args{"x": x, "perm": []int64{2, 1, 0}, "shape": []int64{4, 2, 3}, "out": out})
			xs := values(x)
			for i, v := range values(out) {
				a, b, c := i/8, i/4%2, i%4
				assert.Equal(t, xs[c*6+b*3+a], v, "%v %v", d, l)
			}
			x, out = numbers(t, d, l, 4, 6), tensor(t, d, []int64{8, 3})
			run(t, "ConfusionTranspose", args{"x": x, "perm": []int64{1, 0}, "shape": []int64{8, 3}, "transpose_first": true, "out": out})
			xs = values(x)
			for i, v := range values(out) {
				assert.Equal(t, xs[i%4*6+i/4], v, "%v %v", d, l)
			}
		}
	}
	x := numbers(t, dtype.Float32, kerneltest.Contiguous, 4, 6)
	a := args{"x": x, "perm": []int64{1, 0}, "shape": []int64{6, 4}, "out": tensor(t, dtype.Float32, []int64{4, 6})}
	refused(t, invalidParam, "ConfusionTranspose", a.with(args{"perm": []int64{1, 1}}), "perm [1,1]")
	refused(t, invalidParam, "ConfusionTranspose", a.with(args{"shape": []int64{5, 4}}), "shape [5,4]")
	refused(t, invalidParam, "ConfusionTranspose", a.with(args{"out": x.transposed()}), "out float32[6,4]")
}

// transposed is a matrix with its dimensions swapped.
func (t *Tensor) transposed() *Tensor {
	x := t.clone(t.name)
	x.Shape, x.Strides = []int64{t.Shape[1], t.Shape[0]}, []int64{t.Strides[1], t.Strides[0]}
	return x
}

func TestDiag(t *testing.T) {
	for _, d := range movedTypes {
		for _, l := range kerneltest.Layouts {
			for k := -6; k <= 6; k++ {
				what := fmt.Sprintf("%v %v, diagonal %d", d, l, k)
				m := numbers(t, d, l, 3, 5)
				var want []float64
				ms := values(m)
				for i := range 3 {
					if j := i + k; j >= 0 && j < 5 {
						want = append(want, ms[i*5+j])
					}
				}
				out := tensorIn(t, d, l, []int64{int64(len(want))})
				run(t, "Diag", args{"self": m, "diagonal": k, "out": out})
				assert.Equal(t, append([]float64{}, want...), append([]float64{}, values(out)...), what)

				v := numbers(t, d, l, 2, 2)
				n := int64(4 + max(k, -k))
				matrix := tensorIn(t, d, l, []int64{n, n}, 1)
				run(t, "DiagFlat", args{"self": v, "diagonal": k, "out": matrix})
				vs := values(v)
				for i, x := range values(matrix) {
					r, c := i/int(n), i%int(n)
					want := 0.0
					if c-r == k {
						want = vs[min(r, c)]
					}
					assert.Equal(t, want, x, what)
				}
			}
		}
	}
	v := numbers(t, dtype.Float32, kerneltest.Contiguous, 2)
	matrix := tensor(t, dtype.Float32, []int64{2, 2})
	run(t, "Diag", args{"self": v, "out": matrix})
	assert.Equal(t, []float64{0, 0, 0, 1}, values(matrix))
	refused(t, invalidParam, "Diag", args{"self": v, "diagonal": 1, "out": matrix}, "[3,3]")
	refused(t, invalidParam, "Diag", args{"self": tensor(t, dtype.Float32, []int64{1, 1, 1}, 1), "out": matrix}, "dimensions")
}

func TestTrace(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16, dtype.BFloat16, dtype.Int8, dtype.Int32, dtype.Bool} {
		for _, l := range kerneltest.Layouts {
			for _, shape := range [][]int64{{3, 5}, {4, 4}, {1, 1}, {0, 3}} {
				m, want := numbers(t, d, l, shape...), 0.0
				for i, v := range values(m) {
					if int64(i)/max(shape[1], 1) == int64(i)%max(shape[1], 1) {
						want += v
					}
				}
				out := tensor(t, d, []int64{})
				if !d.IsFloat() {
					out = tensor(t, dtype.Int64, []int64{})
				}
				run(t, "Trace", args{"self": m, "out": out})
				assert.Equal(t, []float64{want}, values(out), "%v %v %v", d, l, shape)
			}
		}
	}
	refused(t, invalidParam, "Trace", args{"self": tensor(t, dtype.Int32, []int64{2, 2}, 1), "out": tensor(t, dtype.Int32, []int64{})}, "out int32")
}

func TestChunkCat(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			a, b, e := filled(t, 1, d, l, []int64{5, 2}), filled(t, 2, d, l, []int64{3}), tensorIn(t, d, l, []int64{0, 4})
			out := tensorIn(t, dtype.Float32, l, []int64{4, 5}, 7)
			run(t, "ChunkCat", args{"tensors": []*Tensor{a, b, e}, "numChunks": 4, "out": out})
			as, bs := values(a), values(b)
			at := func(v []float64, i int) float64 {
				if i < len(v) {
					return v[i]
				}
				return 0
			}
			var want []float64
			for k := range 4 { // two rows of a and one element of b to a chunk
				want = append(want, at(as, 4*k), at(as, 4*k+1), at(as, 4*k+2), at(as, 4*k+3), at(bs, k))
			}
			assert.Equal(t, want, values(out), "%v %v", d, l)
			refused(t, invalidParam, "ChunkCat", args{"tensors": []*Tensor{a}, "numChunks": 4, "out": out}, "[4,4]")
			refused(t, invalidParam, "ChunkCat", args{"tensors": []*Tensor{a}, "dim": 1, "numChunks": 4, "out": out}, "dim is 1")
			refused(t, invalidParam, "ChunkCat", args{"tensors": []*Tensor{a}, "out": out}, "numChunks is 0")
		}
	}
}

func TestUnfoldGrad(t *testing.T) {
	for _, d := range transformerTypes {
		for _, l := range kerneltest.Layouts {
			for _, s := range []struct{ axis, size, step int64 }{{0, 2, 1}, {0, 3, 2}, {1, 2, 3}, {1, 7, 1}} {
				shape := []int64{4, 7}
				n := (shape[s.axis]-s.size)/s.step + 1
				windows := []int64{4, 7, s.size}
				windows[s.axis] = n
				dy, dx := filled(t, 1, d, l, windows), tensorIn(t, d, l, shape)
				run(t, "UnfoldGrad", args{"gradOut": dy, "inputSizes": shape, "dim": s.axis, "size": s.size, "step": s.step, "gradIn": dx})
				want := make([]float64, 28)
				for i, v := range values(dy) {
					at := []int64{int64(i) / s.size / windows[1], int64(i) / s.size % windows[1]}
					at[s.axis] = at[s.axis]*s.step + int64(i)%s.size
					want[at[0]*7+at[1]] += v
				}
				closeTo(t, fmt.Sprintf("%v %v %+v", d, l, s), want, values(dx), resultLimit(d))
			}
		}
	}
	x := tensor(t, dtype.Float32, []int64{7}, 1)
	a := args{"gradOut": tensor(t, dtype.Float32, []int64{6, 2}, 1), "inputSizes": []int64{7}, "size": 2, "step": 1, "gradIn": x}
	refused(t, invalidParam, "UnfoldGrad", a.with(args{"size": 8}), "size 8")
	refused(t, invalidParam, "UnfoldGrad", a.with(args{"step": 2}), "[3,2]")
}

func TestStridedSliceAssign(t *testing.T) {
	for _, d := range movedTypes {
		for _, l := range kerneltest.Layouts {
			into, value := tensorIn(t, d, l, []int64{4, 5}, 0), tensorIn(t, d, l, []int64{2, 2}, 1)
			run(t, "StridedSliceAssignV2", args{"varRef": into, "inputValue": value, "begin": []int64{0, -4}, "end": []int64{4, 3}, "strides": []int64{2, 1}})
			for i, v := range values(into) {
				want := 0.0
				if r, c := i/5, i%5; r%2 == 0 && (c == 1 || c == 2) {
					want = 1
				}
				assert.Equal(t, want, v, "%v %v element %d", d, l, i)
			}
			run(t, "StridedSliceAssignV2", args{"varRef": into, "inputValue": tensorIn(t, d, l, []int64{4, 1}, 1), "begin": []int64{4}, "end": []int64{99}, "strides": []int64{1}, "axesOptional": []int64{1}})
			assert.Equal(t, 1.0, values(into)[9])
			refused(t, invalidParam, "StridedSliceAssignV2", args{"varRef": into, "inputValue": value, "begin": []int64{0}, "end": []int64{4}, "strides": []int64{0}}, "stride 0")
			refused(t, invalidParam, "StridedSliceAssignV2", args{"varRef": into, "inputValue": value, "begin": []int64{0}, "end": []int64{4}, "strides": []int64{1}}, "[4,5]")
		}
	}
}

func TestComplex(t *testing.T) {
	for c, d := range map[dtype.Type]dtype.Type{dtype.Complex64: dtype.Float32, dtype.Complex128: dtype.Float64, dtype.Complex32: dtype.Float16} {
		x, y := filled(t, 1, d, kerneltest.Gapped, []int64{3, 1}), filled(t, 2, d, kerneltest.Contiguous, []int64{4})
		both := tensor(t, d, []int64{3, 4, 2}, 9)
		out := of(both.View())
		out.DType, out.Shape, out.Strides = c, []int64{3, 4}, []int64{4, 1}
		run(t, "Complex", args{"real": x, "imag": y, "out": out})
		for i, v := range values(both) {
			want := values(x)[i/8]
			if i%2 == 1 {
				want = values(y)[i/2%4]
			}
			assert.Equal(t, want, v)
		}
		re := tensor(t, d, []int64{3, 4})
		run(t, "Real", args{"self": out, "out": re})
		assert.Equal(t, values(both)[6], values(re)[3])
		run(t, "Real", args{"self": re, "out": re})
		refused(t, invalidParam, "Complex", args{"real": x, "imag": y, "out": re}, "complex type")
		if c == dtype.Complex64 {
			run(t, "Polar", args{"input": x, "angle": y, "out": out})
			for i, v := range values(both) {
				part := math.Cos
				if i%2 == 1 {
					part = math.Sin
				}
				assert.InDelta(t, values(x)[i/8]*part(values(y)[i/2%4]), v, 1e-6)
			}
		}
	}
}
