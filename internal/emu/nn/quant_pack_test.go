package nn

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/rt"
)

func TestTransQuantParam(t *testing.T) {
	for _, c := range []struct {
		scale, offset *Tensor
		out           []int64
		mode          int
		want          []uint64
	}{
		{tensor(t, dtype.Float32, []int64{2}, 1, 0.5), nil, []int64{2}, 0, []uint64{0x400000000000 | 0x3f800000, 0x400000000000 | 0x3f000000}},
		{tensor(t, dtype.Float32, []int64{1}, 2), tensor(t, dtype.Float32, []int64{3}, 0, 300, -1.5), []int64{3}, 0, []uint64{
			0x400000000000 | 0x40000000, 0x400000000000 | 0x40000000 | 255<<37, 0x400000000000 | 0x40000000 | 0x1fe<<37,
		}},
		{tensor(t, dtype.Float32, []int64{1, 1}, float64(math.Float32frombits(0x3f801fff))), nil, []int64{1, 1}, 0, []uint64{0x400000000000 | 0x3f800000}},
		{tensor(t, dtype.Float32, []int64{1, 1}, float64(math.Float32frombits(0x3f801fff))), nil, []int64{1, 1}, 1, []uint64{0x400000000000 | 0x3f802000}},
		{tensor(t, dtype.Float32, []int64{1}, float64(math.Float32frombits(0x3f801000))), nil, []int64{1}, 1, []uint64{0x400000000000 | 0x3f800000}},
	} {
		out := tensor(t, dtype.Int64, c.out)
		name, a := "TransQuantParamV2", args{"scale": c.scale, "offset": c.offset, "out": out}
		if c.mode != 0 {
			name, a["roundMode"] = "TransQuantParamV3", c.mode
		}
		run(t, name, a)
		for i, w := range c.want {
			assert.Equal(t, float64(w), values(out)[i], "%d", i)
		}
	}
	scale, out := tensor(t, dtype.Float32, []int64{2}, 1), tensor(t, dtype.Uint64, []int64{2})
	a := args{"scale": scale, "out": out}
	refused(t, nullPointer, "TransQuantParamV2", a.with(args{"scale": nil}), "scale is null")
	refused(t, invalidParam, "TransQuantParamV2", a.with(args{"offset": tensor(t, dtype.Float32, []int64{3}, 1)}), "do not go together")
	refused(t, invalidParam, "TransQuantParamV2", a.with(args{"out": scale}), "out float32")
	refused(t, invalidParam, "TransQuantParamV3", a.with(args{"roundMode": 2}), "roundMode 2")
}

func TestTransQuantParamOnHost(t *testing.T) {
	l := New(rt.New())
	pack := l.Functions()["aclnnTransQuantParam"]
	var thread rt.Thread
	host := func(d dtype.Type, v ...float64) uint64 {
		return uint64(uintptr(kerneltest.New(t, d, kerneltest.Contiguous, []int64{int64(len(v))}, v).Data))
	}
	scales, offsets, out := host(dtype.Float32, 1, .5), host(dtype.Float32, -2), kerneltest.New(t, dtype.Int64, kerneltest.Contiguous, []int64{2}, nil)
	at := uint64(uintptr(out.Data))
	for _, c := range []struct {
		offsets, n uint64
		want       []uint64
	}{
		{0, 0, []uint64{1<<46 | 0x3f800000, 1<<46 | 0x3f000000}},
		{offsets, 1, []uint64{1<<46 | 0x3f800000 | 0x1fe<<37, 1<<46 | 0x3f000000 | 0x1fe<<37}},
	} {
		require.Zero(t, pack(&thread, []uint64{scales, 2, c.offsets, c.n, at, at + 8}))
		result := rt.Read[uint64](at, 2)
		require.Equal(t, uint64(2), result[1])
		require.Equal(t, c.want, rt.Read[uint64](result[0], 2))
		rt.Free(rt.Pointer(result[0]))
	}
	code := func(a ...uint64) int32 { return int32(uint32(pack(&thread, a))) }
	require.Equal(t, nullPointer, code(0, 2, 0, 0, at, at+8))
	require.Equal(t, nullPointer, code(scales, 2, 0, 0, at, 0))
	require.Equal(t, invalidParam, code(scales, 0, 0, 0, at, at+8))
	require.Equal(t, invalidParam, code(scales, 2, offsets, 3, at, at+8))
}

func TestPackInt4(t *testing.T) {
	weights := make([]float64, 3*16)
	for i := range weights {
		weights[i] = float64(i*5%16 - 8)
	}
	nibble := func(i int) byte { return byte(int(weights[i]) & 15) }
	for _, l := range kerneltest.Layouts {
		w := tensorIn(t, dtype.Int32, l, []int64{3, 16}, weights...)
		bytes := tensor(t, dtype.Uint8, []int64{3, 8})
		out := of(bytes.View())
		out.DType, out.Shape, out.Strides, out.Storage = dtype.Int4, []int64{3, 16}, []int64{16, 1}, []int64{3, 16}
		run(t, "ConvertWeightToINT4Pack", args{"weight": w, "weightInt4Pack": out})
		for i, b := range values(bytes) {
			assert.Equal(t, float64(nibble(2*i)|nibble(2*i+1)<<4), b, "%v %d", l, i)
		}
		whole := tensor(t, dtype.Int32, []int64{3, 2})
		run(t, "ConvertWeightToINT4Pack", args{"weight": w, "weightInt4Pack": whole})
		first := uint32(0)
		for i := range 8 {
			first |= uint32(nibble(i)) << (4 * i)
		}
		assert.Equal(t, float64(int32(first)), values(whole)[0])
	}
	w := tensor(t, dtype.Int32, []int64{3, 16}, weights...)
	storage := tensor(t, dtype.Uint8, []int64{1, 1, 16, 32}, 0)
	out := of(storage.View())
	out.DType, out.Format = dtype.Int4, dtype.FractalNZ
	out.Shape, out.Strides, out.Storage = []int64{3, 16}, []int64{16, 1}, []int64{1, 1, 16, 64}
	run(t, "ConvertWeightToINT4Pack", args{"weight": w, "weightInt4Pack": out})
	got := values(storage)
	for r := range 3 {
		for i := range 8 {
			assert.Equal(t, float64(nibble(16*r+2*i)|nibble(16*r+2*i+1)<<4), got[32*r+i], "row %d byte %d", r, i)
		}
	}
	refused(t, invalidParam, "ConvertWeightToINT4Pack", args{"weight": tensor(t, dtype.Int32, []int64{2, 3}, 1), "weightInt4Pack": out}, "multiple of 2")
	refused(t, invalidParam, "ConvertWeightToINT4Pack", args{"weight": tensor(t, dtype.Int8, []int64{2, 4}, 1), "weightInt4Pack": out}, "int8")
	refused(t, nullPointer, "ConvertWeightToINT4Pack", args{"weight": w}, "weightInt4Pack is null")
}

func TestSignBits(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16} {
		for _, n := range []int64{1, 8, 16, 21, 64} {
			x := filled(t, 1, d, kerneltest.Gapped, []int64{n})
			bytes := (n + 7) / 8
			rows := int64(1)
			if bytes%2 == 0 {
				rows = 2
			}
			packed, back := tensor(t, dtype.Uint8, []int64{rows, bytes / rows}), tensor(t, d, []int64{1, 8 * bytes})
			run(t, "SignBitsPack", args{"self": x, "size": rows, "out": packed})
			flat := of(packed.View())
			flat.Shape, flat.Strides = []int64{bytes}, []int64{1}
			run(t, "SignBitsUnpack", args{"self": flat, "size": 1, "dtype": d, "out": back})
			want := slices.Repeat([]float64{-1}, int(8*bytes))
			for i, v := range values(x) {
				if v >= 0 {
					want[i] = 1
				}
			}
			assert.Equal(t, want, values(back), fmt.Sprintf("%v of %d", d, n))
		}
	}
	x := tensor(t, dtype.Float32, []int64{24}, 1)
	refused(t, invalidParam, "SignBitsPack", args{"self": x, "size": 2, "out": tensor(t, dtype.Uint8, []int64{3})}, "size is 2")
	refused(t, invalidParam, "SignBitsPack", args{"self": x, "size": 3, "out": tensor(t, dtype.Uint8, []int64{3})}, "[3,1]")
	refused(t, invalidParam, "SignBitsUnpack", args{"self": tensor(t, dtype.Uint8, []int64{3}, 1), "size": 3, "dtype": dtype.Float16, "out": x}, "dtype is float16")
}

func TestQuantMatmulForms(t *testing.T) {
	// x1 [3,4] int4 by x2 [4,16] int4, with scales as TransQuantParam makes them.
	x1, x2 := make([]float64, 12), make([]float64, 64)
	for i := range x1 {
		x1[i] = float64(i%16 - 8)
	}
	for i := range x2 {
		x2[i] = float64(i*7%16 - 8)
	}
	want := make([]float64, 48)
	for i := range 3 {
		for j := range 16 {
			for k := range 4 {
				want[i*16+j] += x1[i*4+k] * x2[k*16+j] * .5
			}
		}
	}
	scale, out := tensor(t, dtype.Int64, []int64{16}, float64(packScale(.5, nil, false))), tensor(t, dtype.Float16, []int64{3, 16})
	run(t, "QuantMatmulV2", args{"x1": tensor(t, dtype.Int8, []int64{3, 4}, x1...), "x2": tensor(t, dtype.Int8, []int64{4, 16}, x2...), "deqScale": scale, "out": out})
	assert.Equal(t, want, values(out))

	pack := func(shape []int64, v []float64) *Tensor {
		bytes := tensor(t, dtype.Uint8, []int64{elements(shape) / 2})
		p := of(bytes.View())
		p.DType, p.Shape, p.Strides, p.Storage = dtype.Int4, shape, ContiguousStrides(shape), shape
		run(t, "ConvertWeightToINT4Pack", args{"weight": tensor(t, dtype.Int32, shape, v...), "weightInt4Pack": p})
		return p
	}
	fill(out, 0)
	run(t, "QuantMatmulV4", args{"x1": pack([]int64{3, 4}, x1), "x2": pack([]int64{4, 16}, x2), "scale": scale, "out": out})
	assert.Equal(t, want, values(out))

	weight := tensor(t, dtype.Int8, []int64{1, 1, 16, 32}, 0)
	nz := of(weight.View())
	nz.Shape, nz.Strides, nz.Format = []int64{4, 16}, []int64{16, 1}, dtype.FractalNZ
	run(t, "NpuFormatCast", args{"srcTensor": tensor(t, dtype.Int8, []int64{4, 16}, x2...), "dstTensor": nz})
	fill(out, 0)
	run(t, "QuantMatmulWeightNz", args{"x1": tensor(t, dtype.Int8, []int64{3, 4}, x1...), "x2": nz, "x2Scale": scale, "out": out})
	assert.Equal(t, want, values(out))
}
