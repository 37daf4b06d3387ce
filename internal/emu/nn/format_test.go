package nn

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/golden"
)

// nzTensor makes a tensor in FRACTAL_NZ storage for a logical shape; values are those of
// the storage. swapped makes it the view of a stored transpose.
func nzTensor(t testing.TB, d dtype.Type, shape []int64, swapped bool, c0 int64, values ...float64) *Tensor {
	t.Helper()
	storage := nzShape(shape, swapped, c0)
	x := tensor(t, d, []int64{count(storage)}, values...)
	x.Shape, x.Strides = shape, ContiguousStrides(shape)
	if swapped {
		n := len(shape)
		x.Strides[n-2], x.Strides[n-1] = 1, shape[n-2]
	}
	x.Format, x.Storage = dtype.FractalNZ, storage
	return x
}

// stored reads the storage of a tensor as a row of elements.
func stored(x *Tensor) []float64 {
	n := count(x.Storage)
	return kerneltest.Values(kernel.View{Data: rt.Pointer(x.Addr), DType: x.DType, Shape: []int64{n}, Strides: []int64{1}})
}

func floats[T float32 | int64](v []T) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

func shapeOf(shape []int) []int64 {
	out := make([]int64, len(shape))
	for i, d := range shape {
		out[i] = int64(d)
	}
	return out
}

func TestGoldenFormatCast(t *testing.T) {
	for _, c := range golden.Cases(t, "nd_to_nz") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			shape, nd, nz := shapeOf(c.Shape("nd")), floats(c.Float32("nd")), floats(c.Float32("nz"))
			src := tensor(t, c.DType, shape, nd...)
			dst := nzTensor(t, c.DType, shape, false, int64(c.Int("c0")))
			require.Equal(t, shapeOf(c.Shape("nz")), dst.Storage)
			run(t, "NpuFormatCast", args{"srcTensor": src, "dstTensor": dst})
			require.Equal(t, nz, stored(dst))
			back := tensor(t, c.DType, shape)
			run(t, "NpuFormatCast", args{"srcTensor": dst, "dstTensor": back})
			require.Equal(t, nd, values(back))

			weight := tensor(t, c.DType, []int64{count(dst.Storage)}, nd...)
			weight.Shape, weight.Strides, weight.Storage = shape, ContiguousStrides(shape), []int64{count(shape)}
			run(t, "TransMatmulWeight", args{"mmWeightRef": weight})
			require.Equal(t, dtype.FractalNZ, weight.Format)
			require.Equal(t, dst.Storage, weight.Storage)
			require.Equal(t, nz, stored(weight))
		})
	}
}

// sliceNzOperator is the declaration that a custom operator package gives aclnnSliceNz.
var sliceNzOperator = operator{name: "SliceNz", params: []param{
	{"self", tensorClass, read}, {"dim", intClass, read}, {"start", intClass, read}, {"end", intClass, read}, {"out", tensorClass, written},
}}

func runSliceNz(t *testing.T, a args) error {
	t.Helper()
	c := &Call{op: &sliceNzOperator, args: make([]any, len(sliceNzOperator.params))}
	for i, p := range sliceNzOperator.params {
		c.args[i] = argument(t, c, p, a[p.name])
	}
	e, err := newExecutor(sliceNz, c)
	if err != nil {
		return err
	}
	return e.execute(host{}, 0, e.run)
}

func TestGoldenSliceNz(t *testing.T) {
	for _, c := range golden.Cases(t, "slice_nz") {
		c.Run(t, func(t *testing.T, c *golden.Case) {
			out := nzTensor(t, c.DType, []int64{int64(c.Int("E")), int64(c.Int("K")), int64(c.Int("N"))}, false, 16)
			self := tensor(t, c.DType, shapeOf(c.Shape("flat")), floats(c.Float32("flat"))...)
			require.NoError(t, runSliceNz(t, args{"self": self, "dim": 1, "start": c.Int("start"), "end": c.Int("end"), "out": out}))
			require.Equal(t, floats(c.Float32("nz")), stored(out))
		})
	}
}

func TestSliceNzRefuses(t *testing.T) {
	bf := dtype.BFloat16
	self := tensor(t, bf, []int64{2, 300})
	out := func() *Tensor { return nzTensor(t, bf, []int64{1, 16, 16}, false, 16) }
	dense := tensor(t, bf, []int64{1, 16, 16})
	for name, c := range map[string]struct {
		a    args
		text string
	}{
		"null":       {args{"dim": 1, "end": 128, "out": out()}, "self is null"},
		"dim":        {args{"self": self, "dim": 0, "end": 2, "out": out()}, "dim 0"},
		"range":      {args{"self": self, "dim": 1, "start": 200, "end": 301, "out": out()}, "columns 200 to 301"},
		"backwards":  {args{"self": self, "dim": 1, "start": 200, "end": 100, "out": out()}, "columns 200 to 100"},
		"too few":    {args{"self": self, "dim": 1, "start": 0, "end": 127, "out": out()}, "hold 254 elements"},
		"not NZ":     {args{"self": self, "dim": 1, "start": 0, "end": 128, "out": dense}, "FRACTAL_NZ"},
		"swapped":    {args{"self": self, "dim": 1, "start": 0, "end": 128, "out": nzTensor(t, bf, []int64{1, 16, 16}, true, 16)}, "dense strides"},
		"other type": {args{"self": tensor(t, dtype.Float16, []int64{2, 300}), "dim": 1, "end": 128, "out": out()}, "dtypes differ"},
	} {
		t.Run(name, func(t *testing.T) { require.ErrorContains(t, runSliceNz(t, c.a), c.text) })
	}
}

func TestFormatCastRefuses(t *testing.T) {
	f16 := dtype.Float16
	nd, nz := tensor(t, f16, []int64{16, 16}), nzTensor(t, f16, []int64{16, 16}, false, 16)
	small := nzTensor(t, f16, []int64{16, 16}, false, 16)
	small.Storage = []int64{1, 1, 8, 16}
	for name, c := range map[string]struct {
		code     int32
		src, dst *Tensor
		text     string
	}{
		"null":         {invalidParam, nil, nz, "null"},
		"both ND":      {unsupported, nd, tensor(t, f16, []int64{16, 16}), "between ND and FRACTAL_NZ"},
		"both NZ":      {unsupported, nz, nz, "between ND and FRACTAL_NZ"},
		"empty":        {unsupported, tensor(t, f16, []int64{0, 16}), nzTensor(t, f16, []int64{0, 16}, false, 16), "empty"},
		"strided":      {invalidParam, tensorIn(t, f16, kerneltest.Transposed, []int64{16, 16}), nz, "contiguous"},
		"shapes":       {invalidParam, tensor(t, f16, []int64{16, 8}), nz, "shapes differ"},
		"dtypes":       {invalidParam, tensor(t, dtype.BFloat16, []int64{16, 16}), nz, "dtypes differ"},
		"double":       {invalidParam, tensor(t, dtype.Float64, []int64{16, 16}), nz, "not supported"},
		"vector":       {invalidParam, tensor(t, f16, []int64{16}), &Tensor{Shape: []int64{16}, Strides: []int64{1}, DType: f16, Format: dtype.FractalNZ}, "dimensions"},
		"storage size": {invalidParam, nd, small, "FRACTAL_NZ needs [1,1,16,16]"},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, c.code, "NpuFormatCast", args{"srcTensor": c.src, "dstTensor": c.dst}, c.text)
		})
	}
}

func TestTransMatmulWeight(t *testing.T) {
	refused(t, nullPointer, "TransMatmulWeight", args{}, "mmWeightRef is null")
	refused(t, invalidParam, "TransMatmulWeight", args{"mmWeightRef": tensor(t, dtype.Float32, []int64{16, 16})}, "not supported")
	refused(t, invalidParam, "TransMatmulWeight", args{"mmWeightRef": nzTensor(t, dtype.Float16, []int64{16, 16}, false, 16)}, "transformed once")
	refused(t, invalidParam, "TransMatmulWeight", args{"mmWeightRef": tensor(t, dtype.Float16, []int64{16})}, "dimensions")
	empty := tensor(t, dtype.Float16, []int64{0, 16})
	run(t, "TransMatmulWeight", args{"mmWeightRef": empty})
	require.Equal(t, dtype.ND, empty.Format)

	// A strided weight becomes the storage of its view; int8 has tiles of 32 columns.
	for d, c0 := range map[dtype.Type]int64{dtype.Int8: 32, dtype.BFloat16: 16} {
		w := tensor(t, d, []int64{2048}, 1, 2, 3, 4, 5, 6, 7)
		w.Shape, w.Strides, w.Storage = []int64{20, 33}, []int64{1, 20}, []int64{660}
		var want []float64
		for i := range (kernel.NZ{Rows: 20, Cols: 33, C0: c0}).Len() {
			v := 0.0
			if r, c, ok := (kernel.NZ{Rows: 20, Cols: 33, C0: c0}).At(i); ok {
				v = float64((c*20+r)%7 + 1)
			}
			want = append(want, v)
		}
		run(t, "TransMatmulWeight", args{"mmWeightRef": w})
		require.Equal(t, want, stored(w))
	}
}

func TestMatmulWithNzWeight(t *testing.T) {
	for _, op := range []string{"Mm", "MatmulWeightNz", "Matmul"} {
		x := tensor(t, dtype.Float16, []int64{3, 20}, 1, 2, 3)
		w := tensor(t, dtype.Float16, []int64{32 * 48}, 1, -1, 2, 5)
		w.Shape, w.Strides, w.Storage = []int64{20, 33}, []int64{33, 1}, []int64{660}
		plain, tiled := tensor(t, dtype.Float16, []int64{3, 33}), tensor(t, dtype.Float16, []int64{3, 33})
		run(t, "Mm", args{"self": x, "mat2": w, "out": plain})
		run(t, "TransMatmulWeight", args{"mmWeightRef": w})
		run(t, op, args{"self": x, "mat2": w, "out": tiled})
		require.Equal(t, values(plain), values(tiled))
		// The swapped view of the same bytes is the transpose.
		y, back, again := tensor(t, dtype.Float16, []int64{2, 33}, 1, 0, 2), tensor(t, dtype.Float16, []int64{2, 20}), tensor(t, dtype.Float16, []int64{2, 20})
		swapped := *w
		swapped.Shape, swapped.Strides = []int64{33, 20}, []int64{1, 33}
		run(t, op, args{"self": y, "mat2": &swapped, "out": back})
		nd := tensor(t, dtype.Float16, []int64{20, 33}, 1, -1, 2, 5)
		nd.Shape, nd.Strides = swapped.Shape, swapped.Strides
		run(t, "Mm", args{"self": y, "mat2": nd, "out": again})
		require.Equal(t, values(again), values(back))
	}
	one := nzTensor(t, dtype.Float16, []int64{1, 16}, false, 16)
	refused(t, invalidParam, "MatmulWeightNz", args{"self": tensor(t, dtype.Float16, []int64{3, 1}), "mat2": one, "out": tensor(t, dtype.Float16, []int64{3, 16})}, "may be 1")
}

// A batch of weights lies matrix after matrix.
func TestBatchMatmulWithNzWeight(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16} {
		for _, batch := range []int64{1, 3} {
			x, w := filled(t, 1, d, kerneltest.Contiguous, []int64{3, 2, 20}), filled(t, 2, d, kerneltest.Contiguous, []int64{batch, 20, 33})
			tiled := nzTensor(t, d, []int64{batch, 20, 33}, false, 16)
			run(t, "NpuFormatCast", args{"srcTensor": w, "dstTensor": tiled})
			want, got := tensor(t, d, []int64{3, 2, 33}), tensor(t, d, []int64{3, 2, 33})
			run(t, "BatchMatMul", args{"self": x, "mat2": w, "out": want})
			run(t, "BatchMatMulWeightNz", args{"self": x, "mat2": tiled, "out": got})
			require.Equal(t, values(want), values(got), "%v %d", d, batch)
		}
	}
	refused(t, invalidParam, "BatchMatMulWeightNz", args{"self": tensor(t, dtype.Float16, []int64{2, 3}), "mat2": nzTensor(t, dtype.Float16, []int64{16, 16}, false, 16), "out": tensor(t, dtype.Float16, []int64{2, 16})}, "dimensions")
}

func TestFormatShape(t *testing.T) {
	l := New(rt.New())
	call := l.Functions()["aclnnNpuFormatCastCalculateSizeAndFormat"]
	results := kerneltest.New(t, dtype.Int64, kerneltest.Contiguous, []int64{3}, nil)
	at := uint64(uintptr(results.Data))
	var thread rt.Thread
	ask := func(src *Tensor, format dtype.Format, additional int32) ([]int64, int32, uint64) {
		h := l.rt.Handles.New(rt.TensorKind, src)
		defer l.rt.Handles.Delete(h)
		if code := call(&thread, []uint64{h, uint64(format), uint64(uint32(additional)), at, at + 8, at + 16}); code != 0 {
			return nil, 0, code
		}
		p, n := *(*unsafe.Pointer)(results.Data), *(*uint64)(unsafe.Add(results.Data, 8))
		defer rt.Free(p)
		return rt.Read[int64](uint64(uintptr(p)), n), *(*int32)(unsafe.Add(results.Data, 16)), 0
	}
	for _, c := range []struct {
		d          dtype.Type
		format     dtype.Format
		additional int32
		want       []int64
	}{
		{dtype.Int8, dtype.FractalNZ, -1, []int64{4, 4, 16, 32}},
		{dtype.Float16, dtype.FractalNZ, -1, []int64{8, 4, 16, 16}},
		{dtype.Float32, dtype.FractalNZ, -1, []int64{16, 4, 16, 8}},
		{dtype.Float32, dtype.FractalNZ, int32(dtype.Float16), []int64{8, 4, 16, 16}},
		{dtype.Int8, dtype.FractalNZ, int32(dtype.Float4E2M1), []int64{2, 4, 16, 64}},
		{dtype.Float32, dtype.FractalNZC04, -1, []int64{32, 4, 16, 4}},
		{dtype.Float32, dtype.FractalNZC02, -1, []int64{64, 4, 16, 2}},
		{dtype.Int32, dtype.FractalNZC016, -1, []int64{8, 4, 16, 16}},
	} {
		got, format, code := ask(tensor(t, c.d, []int64{64, 128}), c.format, c.additional)
		require.Zero(t, code)
		require.Equal(t, c.want, got, fmt.Sprint(c))
		require.EqualValues(t, c.format, format)
	}
	got, format, code := ask(nzTensor(t, dtype.Float16, []int64{3, 20, 40}, false, 16), dtype.ND, -1)
	require.Zero(t, code)
	require.EqualValues(t, dtype.ND, format)
	require.Equal(t, []int64{3, 20, 40}, got)
	for name, c := range map[string]struct {
		code   int32
		src    *Tensor
		format dtype.Format
	}{
		"empty":   {unsupported, tensor(t, dtype.Float16, []int64{0, 16}), dtype.FractalNZ},
		"ND→ND":   {unsupported, tensor(t, dtype.Float16, []int64{16, 16}), dtype.ND},
		"format":  {unsupported, tensor(t, dtype.Float16, []int64{16, 16}), dtype.FractalZ},
		"double":  {invalidParam, tensor(t, dtype.Float64, []int64{16, 16}), dtype.FractalNZ},
		"vector":  {invalidParam, tensor(t, dtype.Float16, []int64{16}), dtype.FractalNZ},
		"no type": {invalidParam, nil, dtype.FractalNZ},
	} {
		t.Run(name, func(t *testing.T) {
			if c.src == nil {
				require.EqualValues(t, c.code, int32(call(&thread, []uint64{0, uint64(c.format), 0, at, at + 8, at + 16})))
				return
			}
			_, _, code := ask(c.src, c.format, -1)
			require.EqualValues(t, c.code, int32(code))
		})
	}
}

func TestMatmulWeightSize(t *testing.T) {
	l := New(rt.New())
	result := kerneltest.New(t, dtype.Int64, kerneltest.Contiguous, []int64{1}, nil)
	at := uint64(uintptr(result.Data))
	v1, v2 := l.Functions()["aclnnCalculateMatmulWeightSize"], l.Functions()["aclnnCalculateMatmulWeightSizeV2"]
	var thread rt.Thread
	array := func(d ...int64) uint64 { return l.rt.Handles.New(rt.IntArrayKind, &intArray{d}) }
	for _, c := range []struct {
		shape  []int64
		d      dtype.Type
		v1, v2 float64
	}{
		{[]int64{510, 510}, dtype.Float16, 262144, 262144},
		{[]int64{510, 270}, dtype.Int8, 139264, 147456},
		{[]int64{3, 20, 40}, dtype.BFloat16, 3 * 32 * 48, 3 * 32 * 48},
		{[]int64{2, 3, 20, 40}, dtype.Float32, 6 * 32 * 48, 6 * 32 * 64},
	} {
		require.Zero(t, v1(&thread, []uint64{array(c.shape...), at}))
		require.Equal(t, []float64{c.v1}, kerneltest.Values(result))
		require.Zero(t, v2(&thread, []uint64{array(c.shape...), uint64(c.d), at}))
		require.Equal(t, []float64{c.v2}, kerneltest.Values(result))
	}
	code := func(w uint64) int32 { return int32(uint32(w)) }
	require.Equal(t, nullPointer, code(v1(&thread, []uint64{0, at})))
	require.Equal(t, nullPointer, code(v2(&thread, []uint64{array(2, 2), 1, 0})))
	require.Equal(t, invalidParam, code(v1(&thread, []uint64{array(2), at})))
	require.Equal(t, invalidParam, code(v2(&thread, []uint64{array(1, 1, 1, 1, 1, 1, 1), 1, at})))
	require.Equal(t, invalidParam, code(v2(&thread, []uint64{array(0, 2), 1, at})))
	require.Equal(t, invalidParam, code(v1(&thread, []uint64{at, at})))
}
