package layout

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// rearrangedTypes has one type for each element size that rearranging supports.
var rearrangedTypes = []dtype.Type{dtype.Float32, dtype.BFloat16, dtype.Int8, dtype.Int64, dtype.Bool}

func TestChannelShuffle(t *testing.T) {
	for _, d := range rearrangedTypes {
		for _, l := range kerneltest.Layouts {
			x, out := optest.Numbers(t, d, l, 2, 6, 3), optest.TensorIn(t, d, l, []int64{2, 6, 3})
			optest.Run(t, "ChannelShuffle", optest.Args{"self": x, "groups": 3, "out": out})
			xs := optest.Values(x)
			for i, v := range optest.Values(out) {
				n, channel, place := i/18, i/3%6, i%3
				from := channel%3*2 + channel/3
				assert.Equal(t, xs[n*18+from*3+place], v, "%v %v element %d", d, l, i)
			}
			optest.Refused(t, op.InvalidParam, "ChannelShuffle", optest.Args{"self": x, "groups": 4, "out": out}, "4 groups")
		}
	}
}

func TestConfusionTranspose(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.BFloat16, dtype.Int8, dtype.Int64} {
		for _, l := range kerneltest.Layouts {
			x, out := optest.Numbers(t, d, kerneltest.Contiguous, 4, 6), optest.TensorIn(t, d, l, []int64{3, 2, 4})
			optest.Run(t, "ConfusionTranspose", optest.Args{"x": x, "perm": []int64{2, 1, 0}, "shape": []int64{4, 2, 3}, "out": out})
			xs := optest.Values(x)
			for i, v := range optest.Values(out) {
				a, b, c := i/8, i/4%2, i%4
				assert.Equal(t, xs[c*6+b*3+a], v, "%v %v", d, l)
			}
			x, out = optest.Numbers(t, d, l, 4, 6), optest.Tensor(t, d, []int64{8, 3})
			optest.Run(t, "ConfusionTranspose", optest.Args{"x": x, "perm": []int64{1, 0}, "shape": []int64{8, 3}, "transpose_first": true, "out": out})
			xs = optest.Values(x)
			for i, v := range optest.Values(out) {
				assert.Equal(t, xs[i%4*6+i/4], v, "%v %v", d, l)
			}
		}
	}
	x := optest.Numbers(t, dtype.Float32, kerneltest.Contiguous, 4, 6)
	a := optest.Args{"x": x, "perm": []int64{1, 0}, "shape": []int64{6, 4}, "out": optest.Tensor(t, dtype.Float32, []int64{4, 6})}
	optest.Refused(t, op.InvalidParam, "ConfusionTranspose", a.With(optest.Args{"perm": []int64{1, 1}}), "perm [1,1]")
	optest.Refused(t, op.InvalidParam, "ConfusionTranspose", a.With(optest.Args{"shape": []int64{5, 4}}), "shape [5,4]")
	optest.Refused(t, op.InvalidParam, "ConfusionTranspose", a.With(optest.Args{"out": transposed(x)}), "out float32[6,4]")
}

// transposed is a matrix with its dimensions swapped.
func transposed(t *op.Tensor) *op.Tensor {
	clone := *t
	x := &clone
	x.Shape, x.Strides = []int64{t.Shape[1], t.Shape[0]}, []int64{t.Strides[1], t.Strides[0]}
	return x
}

func TestDiag(t *testing.T) {
	for _, d := range rearrangedTypes {
		for _, l := range kerneltest.Layouts {
			for k := -6; k <= 6; k++ {
				what := fmt.Sprintf("%v %v, diagonal %d", d, l, k)
				m := optest.Numbers(t, d, l, 3, 5)
				var want []float64
				ms := optest.Values(m)
				for i := range 3 {
					if j := i + k; j >= 0 && j < 5 {
						want = append(want, ms[i*5+j])
					}
				}
				out := optest.TensorIn(t, d, l, []int64{int64(len(want))})
				optest.Run(t, "Diag", optest.Args{"self": m, "diagonal": k, "out": out})
				assert.Equal(t, append([]float64{}, want...), append([]float64{}, optest.Values(out)...), what)

				v := optest.Numbers(t, d, l, 2, 2)
				n := int64(4 + max(k, -k))
				matrix := optest.TensorIn(t, d, l, []int64{n, n}, 1)
				optest.Run(t, "DiagFlat", optest.Args{"self": v, "diagonal": k, "out": matrix})
				vs := optest.Values(v)
				for i, x := range optest.Values(matrix) {
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
	v := optest.Numbers(t, dtype.Float32, kerneltest.Contiguous, 2)
	matrix := optest.Tensor(t, dtype.Float32, []int64{2, 2})
	optest.Run(t, "Diag", optest.Args{"self": v, "out": matrix})
	assert.Equal(t, []float64{0, 0, 0, 1}, optest.Values(matrix))
	optest.Refused(t, op.InvalidParam, "Diag", optest.Args{"self": v, "diagonal": 1, "out": matrix}, "[3,3]")
	optest.Refused(t, op.InvalidParam, "Diag", optest.Args{"self": optest.Tensor(t, dtype.Float32, []int64{1, 1, 1}, 1), "out": matrix}, "dimensions")
}

func TestChunkCat(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			a, b, e := optest.Filled(t, 1, d, l, []int64{5, 2}), optest.Filled(t, 2, d, l, []int64{3}), optest.TensorIn(t, d, l, []int64{0, 4})
			out := optest.TensorIn(t, dtype.Float32, l, []int64{4, 5}, 7)
			optest.Run(t, "ChunkCat", optest.Args{"tensors": []*op.Tensor{a, b, e}, "numChunks": 4, "out": out})
			as, bs := optest.Values(a), optest.Values(b)
			at := func(v []float64, i int) float64 {
				if i < len(v) {
					return v[i]
				}
				return 0
			}
			var want []float64
			for k := range 4 { // each chunk has two rows of a and one element of b
				want = append(want, at(as, 4*k), at(as, 4*k+1), at(as, 4*k+2), at(as, 4*k+3), at(bs, k))
			}
			assert.Equal(t, want, optest.Values(out), "%v %v", d, l)
			optest.Refused(t, op.InvalidParam, "ChunkCat", optest.Args{"tensors": []*op.Tensor{a}, "numChunks": 4, "out": out}, "[4,4]")
			optest.Refused(t, op.InvalidParam, "ChunkCat", optest.Args{"tensors": []*op.Tensor{a}, "dim": 1, "numChunks": 4, "out": out}, "dim is 1")
			optest.Refused(t, op.InvalidParam, "ChunkCat", optest.Args{"tensors": []*op.Tensor{a}, "out": out}, "numChunks is 0")
		}
	}
}

func TestUnfoldGrad(t *testing.T) {
	for _, d := range op.FloatTypes {
		for _, l := range kerneltest.Layouts {
			for _, s := range []struct{ axis, size, step int64 }{{0, 2, 1}, {0, 3, 2}, {1, 2, 3}, {1, 7, 1}} {
				shape := []int64{4, 7}
				n := (shape[s.axis]-s.size)/s.step + 1
				windows := []int64{4, 7, s.size}
				windows[s.axis] = n
				dy, dx := optest.Filled(t, 1, d, l, windows), optest.TensorIn(t, d, l, shape)
				optest.Run(t, "UnfoldGrad", optest.Args{"gradOut": dy, "inputSizes": shape, "dim": s.axis, "size": s.size, "step": s.step, "gradIn": dx})
				want := make([]float64, 28)
				for i, v := range optest.Values(dy) {
					at := []int64{int64(i) / s.size / windows[1], int64(i) / s.size % windows[1]}
					at[s.axis] = at[s.axis]*s.step + int64(i)%s.size
					want[at[0]*7+at[1]] += v
				}
				optest.CloseTo(t, fmt.Sprintf("%v %v %+v", d, l, s), want, optest.Values(dx), optest.ResultLimit(d))
			}
		}
	}
	x := optest.Tensor(t, dtype.Float32, []int64{7}, 1)
	a := optest.Args{"gradOut": optest.Tensor(t, dtype.Float32, []int64{6, 2}, 1), "inputSizes": []int64{7}, "size": 2, "step": 1, "gradIn": x}
	optest.Refused(t, op.InvalidParam, "UnfoldGrad", a.With(optest.Args{"size": 8}), "size 8")
	optest.Refused(t, op.InvalidParam, "UnfoldGrad", a.With(optest.Args{"step": 2}), "[3,2]")
}

func TestStridedSliceAssign(t *testing.T) {
	for _, d := range rearrangedTypes {
		for _, l := range kerneltest.Layouts {
			into, value := optest.TensorIn(t, d, l, []int64{4, 5}, 0), optest.TensorIn(t, d, l, []int64{2, 2}, 1)
			optest.Run(t, "StridedSliceAssignV2", optest.Args{"varRef": into, "inputValue": value, "begin": []int64{0, -4}, "end": []int64{4, 3}, "strides": []int64{2, 1}})
			for i, v := range optest.Values(into) {
				want := 0.0
				if r, c := i/5, i%5; r%2 == 0 && (c == 1 || c == 2) {
					want = 1
				}
				assert.Equal(t, want, v, "%v %v element %d", d, l, i)
			}
			optest.Run(t, "StridedSliceAssignV2", optest.Args{"varRef": into, "inputValue": optest.TensorIn(t, d, l, []int64{4, 1}, 1), "begin": []int64{4}, "end": []int64{99}, "strides": []int64{1}, "axesOptional": []int64{1}})
			assert.Equal(t, 1.0, optest.Values(into)[9])
			optest.Refused(t, op.InvalidParam, "StridedSliceAssignV2", optest.Args{"varRef": into, "inputValue": value, "begin": []int64{0}, "end": []int64{4}, "strides": []int64{0}}, "stride 0")
			optest.Refused(t, op.InvalidParam, "StridedSliceAssignV2", optest.Args{"varRef": into, "inputValue": value, "begin": []int64{0}, "end": []int64{4}, "strides": []int64{1}}, "[4,5]")
		}
	}
}
