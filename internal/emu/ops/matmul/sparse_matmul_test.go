package matmul

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// The kept pairs and the codes of their positions.
func TestPack4to2(t *testing.T) {
	for _, x := range []struct {
		four [4]int8
		kept [2]int8
		code byte
	}{
		{[4]int8{}, [2]int8{}, 0b0000}, {[4]int8{5}, [2]int8{5, 0}, 0b0000}, {[4]int8{0, 5}, [2]int8{5, 0}, 0b0001}, {[4]int8{0, 0, 5}, [2]int8{5, 0}, 0b0010},
		{[4]int8{0, 0, 0, 5}, [2]int8{0, 5}, 0b1000}, {[4]int8{1, 2}, [2]int8{1, 2}, 0b0000}, {[4]int8{1, 0, 2}, [2]int8{1, 2}, 0b0100}, {[4]int8{1, 0, 0, 2}, [2]int8{1, 2}, 0b1000},
		{[4]int8{0, 1, 2}, [2]int8{1, 2}, 0b0101}, {[4]int8{0, 1, 0, 2}, [2]int8{1, 2}, 0b1001}, {[4]int8{0, 0, 1, 2}, [2]int8{1, 2}, 0b1010},
	} {
		kept, code, ok := pack4to2(x.four[:])
		assert.True(t, ok)
		assert.Equal(t, x.kept, kept, "%v", x.four)
		assert.Equal(t, x.code, code, "%v", x.four)
	}
	_, _, ok := pack4to2([]int8{1, 2, 3, 0})
	assert.False(t, ok)
}

// packedWeight packs a weight.
func packedWeight(t *testing.T, n, k int64, weight []float64) (kept, index *op.Tensor) {
	t.Helper()
	elements := make([]int8, len(weight))
	for i, v := range weight {
		elements[i] = int8(v)
	}
	w, err := Sparsify(elements, n, k)
	require.NoError(t, err)
	kept, index = optest.Tensor(t, dtype.Int8, w.KeptShape), optest.Tensor(t, dtype.Uint8, w.IndexShape)
	copy(unsafe.Slice((*int8)(kept.Data), len(w.Kept)), w.Kept)
	copy(unsafe.Slice((*byte)(index.Data), len(w.Index)), w.Index)
	kept.Shape, kept.Strides = []int64{n, (k + 7) / 8 * 4}, op.ContiguousStrides([]int64{n, (k + 7) / 8 * 4})
	index.Shape, index.Strides = []int64{n, (k + 7) / 8}, op.ContiguousStrides([]int64{n, (k + 7) / 8})
	return kept, index
}

func TestSparse4to2QuantMatmul(t *testing.T) {
	for _, s := range []struct{ m, n, k int64 }{{1, 1, 1}, {3, 17, 8}, {2, 16, 64}, {4, 33, 70}, {17, 20, 131}} {
		weight := optest.Int8s(1, int(s.n*s.k))
		for i := range s.n {
			for first := int64(0); first < s.k; first += 4 {
				// The number of nonzero elements differs from group to group: zero, one or two.
				for at := first; at < min(first+4, s.k); at++ {
					if keep := [][]int64{{0, 1}, {2, 3}, {1, 3}, {3}, {2}, {}, {0, 3}, {1, 2}, {0, 2}}[(i+first/4)%9]; !slices.Contains(keep, at-first) {
						weight[i*s.k+at] = 0
					}
				}
			}
		}
		kept, index := packedWeight(t, s.n, s.k, weight)
		x := optest.Int8s(2, int(s.m*s.k))
		rows, columns, bias := optest.Filled(t, 1, dtype.Float32, kerneltest.Contiguous, []int64{s.m}), optest.Filled(t, 2, dtype.Float32, kerneltest.Contiguous, []int64{s.n}), optest.Filled(t, 3, dtype.BFloat16, kerneltest.Contiguous, []int64{s.n})
		for _, withBias := range []bool{false, true} {
			out := optest.Tensor(t, dtype.BFloat16, []int64{s.m, s.n})
			a := optest.Args{"x": optest.Tensor(t, dtype.Int8, []int64{s.m, s.k}, x...), "sparseWeight": kept, "index": index, "xScale": rows, "sparseWeightScale": columns, "out": out}
			if withBias {
				a["biasOptional"] = bias
			}
			optest.Run(t, "Sparse4to2QuantMatmulWeightNz", a)
			want := optest.Times(x, optest.Transposed(weight, s.k), s.k)
			for i := range want {
				want[i] *= optest.Values(rows)[int64(i)/s.n] * optest.Values(columns)[int64(i)%s.n]
				if withBias {
					want[i] += optest.Values(bias)[int64(i)%s.n]
				}
			}
			optest.CloseTo(t, "sparse product", want, optest.Values(out), 2*optest.ResultLimit(dtype.BFloat16))
			flat := optest.Of(kept.View())
			for text, set := range map[string]optest.Args{
				"TransSparse4to2Para gives": {"sparseWeight": flat}, "rounded up to eight": {"x": optest.Tensor(t, dtype.Int8, []int64{s.m, s.k + 8}, 1)}, "row of x": {"xScale": optest.Tensor(t, dtype.Float32, []int64{s.m + 1}, 1)},
				"dtype": {"out": optest.Tensor(t, dtype.Float16, []int64{s.m, s.n})}, "exceed 65535": {"x": optest.Tensor(t, dtype.Int8, []int64{0, s.k})},
			} {
				optest.Refused(t, op.InvalidParam, "Sparse4to2QuantMatmulWeightNz", a.With(set), text)
			}
			optest.Refused(t, op.NullPointer, "Sparse4to2QuantMatmulWeightNz", a.With(optest.Args{"xScale": nil}), "xScale is null")
		}
	}
}
