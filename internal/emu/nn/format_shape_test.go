package nn

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
	"github.com/goascend/cann/internal/emu/rt"
)

func TestFormatShape(t *testing.T) {
	l := New(rt.New())
	call := l.Functions()["aclnnNpuFormatCastCalculateSizeAndFormat"]
	results := kerneltest.New(t, dtype.Int64, kerneltest.Contiguous, []int64{3}, nil)
	at := uint64(uintptr(results.Data))
	var thread rt.Thread
	ask := func(src *op.Tensor, format dtype.Format, additional int32) ([]int64, int32, uint64) {
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
		got, format, code := ask(optest.Tensor(t, c.d, []int64{64, 128}), c.format, c.additional)
		require.Zero(t, code)
		require.Equal(t, c.want, got, fmt.Sprint(c))
		require.EqualValues(t, c.format, format)
	}
	got, format, code := ask(optest.NZ(t, dtype.Float16, []int64{3, 20, 40}, false, 16), dtype.ND, -1)
	require.Zero(t, code)
	require.EqualValues(t, dtype.ND, format)
	require.Equal(t, []int64{3, 20, 40}, got)
	for name, c := range map[string]struct {
		code   int32
		src    *op.Tensor
		format dtype.Format
	}{
		"empty":   {op.Unsupported, optest.Tensor(t, dtype.Float16, []int64{0, 16}), dtype.FractalNZ},
		"ND→ND":   {op.Unsupported, optest.Tensor(t, dtype.Float16, []int64{16, 16}), dtype.ND},
		"format":  {op.Unsupported, optest.Tensor(t, dtype.Float16, []int64{16, 16}), dtype.FractalZ},
		"double":  {op.InvalidParam, optest.Tensor(t, dtype.Float64, []int64{16, 16}), dtype.FractalNZ},
		"vector":  {op.InvalidParam, optest.Tensor(t, dtype.Float16, []int64{16}), dtype.FractalNZ},
		"no type": {op.InvalidParam, nil, dtype.FractalNZ},
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
