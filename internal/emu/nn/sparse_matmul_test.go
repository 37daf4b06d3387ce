package nn

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/rt"
)

// Which two of four are kept, and the codes of their places.
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

// sparseWeight packs a weight with the library's function.
func sparseWeight(t *testing.T, n, k int64, weight []float64) (kept, index *Tensor) {
	t.Helper()
	l := New(rt.New())
	var thread rt.Thread
	shape := l.rt.Handles.New(rt.IntArrayKind, &intArray{[]int64{n, k}})
	defer l.rt.Handles.Delete(shape)
	w, results := tensor(t, dtype.Int8, []int64{n, k}, weight...), kerneltest.New(t, dtype.Int64, kerneltest.Contiguous, []int64{6}, nil)
	at := uint64(uintptr(results.Data))
	call := l.Functions()["aclnnTransSparse4to2Para"]
	require.Zero(t, call(&thread, []uint64{w.Addr, shape, at, at + 8, at + 16, at + 24, at + 32, at + 40}), "code %d", thread.LastError)
	given := func(first int64, d dtype.Type, shape ...int64) *Tensor {
		words := unsafe.Slice((*uint64)(results.Data), 6)[first:]
		defer rt.Free(rt.Pointer(words[0]))
		defer rt.Free(rt.Pointer(words[1]))
		storage := rt.Read[int64](words[1], words[2])
		x := tensor(t, d, storage)
		copy(unsafe.Slice((*byte)(x.host), x.Len()), rt.Read[byte](words[0], uint64(x.Len())))
		x.Shape, x.Strides, x.Storage = shape, ContiguousStrides(shape), storage
		return x
	}
	return given(0, dtype.Int8, n, (k+7)/8*4), given(3, dtype.Uint8, n, (k+7)/8)
}

func TestSparse4to2QuantMatmul(t *testing.T) {
	for _, s := range []struct{ m, n, k int64 }{{1, 1, 1}, {3, 17, 8}, {2, 16, 64}, {4, 33, 70}, {17, 20, 131}} {
		weight := int8s(1, int(s.n*s.k))
		for i := range s.n {
			for first := int64(0); first < s.k; first += 4 {
				// What stays differs from group to group: none, one, or two.
				for at := first; at < min(first+4, s.k); at++ {
					if keep := [][]int64{{0, 1}, {2, 3}, {1, 3}, {3}, {2}, {}, {0, 3}, {1, 2}, {0, 2}}[(i+first/4)%9]; !slices.Contains(keep, at-first) {
						weight[i*s.k+at] = 0
					}
				}
			}
		}
		kept, index := sparseWeight(t, s.n, s.k, weight)
		x := int8s(2, int(s.m*s.k))
		rows, columns, bias := filled(t, 1, dtype.Float32, kerneltest.Contiguous, []int64{s.m}), filled(t, 2, dtype.Float32, kerneltest.Contiguous, []int64{s.n}), filled(t, 3, dtype.BFloat16, kerneltest.Contiguous, []int64{s.n})
		for _, withBias := range []bool{false, true} {
			out := tensor(t, dtype.BFloat16, []int64{s.m, s.n})
			a := args{"x": tensor(t, dtype.Int8, []int64{s.m, s.k}, x...), "sparseWeight": kept, "index": index, "xScale": rows, "sparseWeightScale": columns, "out": out}
			if withBias {
				a["biasOptional"] = bias
			}
			run(t, "Sparse4to2QuantMatmulWeightNz", a)
			want := matrixProduct(x, transposedMatrix(weight, s.n, s.k), s.m, s.k, s.n)
			for i := range want {
				want[i] *= values(rows)[int64(i)/s.n] * values(columns)[int64(i)%s.n]
				if withBias {
					want[i] += values(bias)[int64(i)%s.n]
				}
			}
			closeTo(t, "sparse product", want, values(out), 2*resultLimit(dtype.BFloat16))
			flat := of(kept.View())
			for text, set := range map[string]args{
				"TransSparse4to2Para gives": {"sparseWeight": flat}, "rounded up to eight": {"x": tensor(t, dtype.Int8, []int64{s.m, s.k + 8}, 1)}, "row of x": {"xScale": tensor(t, dtype.Float32, []int64{s.m + 1}, 1)},
				"dtype": {"out": tensor(t, dtype.Float16, []int64{s.m, s.n})}, "exceed 65535": {"x": tensor(t, dtype.Int8, []int64{0, s.k})},
			} {
				refused(t, invalidParam, "Sparse4to2QuantMatmulWeightNz", a.with(set), text)
			}
			refused(t, nullPointer, "Sparse4to2QuantMatmulWeightNz", a.with(args{"xScale": nil}), "xScale is null")
		}
	}
}

func TestTransSparse4to2Refuses(t *testing.T) {
	l := New(rt.New())
	var thread rt.Thread
	call := l.Functions()["aclnnTransSparse4to2Para"]
	array := func(d ...int64) uint64 { return l.rt.Handles.New(rt.IntArrayKind, &intArray{d}) }
	w, results := tensor(t, dtype.Int8, []int64{1, 4}, 1, 2, 3, 0), kerneltest.New(t, dtype.Int64, kerneltest.Contiguous, []int64{6}, []float64{1})
	at := uint64(uintptr(results.Data))
	ask := func(weight, shape uint64) int32 {
		return int32(uint32(call(&thread, []uint64{weight, shape, at, at + 8, at + 16, at + 24, at + 32, at + 40})))
	}
	assert.Equal(t, nullPointer, ask(0, array(1, 4)))
	assert.Equal(t, nullPointer, ask(w.Addr, 0))
	assert.Equal(t, invalidParam, ask(w.Addr, at))
	assert.Equal(t, invalidParam, ask(w.Addr, array(4)))
	assert.Equal(t, invalidParam, ask(w.Addr, array(0, 4)))
	assert.Equal(t, invalidParam, ask(w.Addr, array(1, 4)), "three of four")
	assert.Equal(t, []float64{1, 1, 1, 1, 1, 1}, kerneltest.Values(results), "a refusal gives nothing")
}
