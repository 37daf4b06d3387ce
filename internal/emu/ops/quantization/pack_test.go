package quantization

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestTransQuantParam(t *testing.T) {
	for _, c := range []struct {
		scale, offset *op.Tensor
		out           []int64
		mode          int
		want          []uint64
	}{
		{optest.Tensor(t, dtype.Float32, []int64{2}, 1, 0.5), nil, []int64{2}, 0, []uint64{0x400000000000 | 0x3f800000, 0x400000000000 | 0x3f000000}},
		{optest.Tensor(t, dtype.Float32, []int64{1}, 2), optest.Tensor(t, dtype.Float32, []int64{3}, 0, 300, -1.5), []int64{3}, 0, []uint64{
			0x400000000000 | 0x40000000, 0x400000000000 | 0x40000000 | 255<<37, 0x400000000000 | 0x40000000 | 0x1fe<<37,
		}},
		{optest.Tensor(t, dtype.Float32, []int64{1, 1}, float64(math.Float32frombits(0x3f801fff))), nil, []int64{1, 1}, 0, []uint64{0x400000000000 | 0x3f800000}},
		{optest.Tensor(t, dtype.Float32, []int64{1, 1}, float64(math.Float32frombits(0x3f801fff))), nil, []int64{1, 1}, 1, []uint64{0x400000000000 | 0x3f802000}},
		{optest.Tensor(t, dtype.Float32, []int64{1}, float64(math.Float32frombits(0x3f801000))), nil, []int64{1}, 1, []uint64{0x400000000000 | 0x3f800000}},
	} {
		out := optest.Tensor(t, dtype.Int64, c.out)
		name, a := "TransQuantParamV2", optest.Args{"scale": c.scale, "offset": c.offset, "out": out}
		if c.mode != 0 {
			name, a["roundMode"] = "TransQuantParamV3", c.mode
		}
		optest.Run(t, name, a)
		for i, w := range c.want {
			assert.Equal(t, float64(w), optest.Values(out)[i], "%d", i)
		}
	}
	scale, out := optest.Tensor(t, dtype.Float32, []int64{2}, 1), optest.Tensor(t, dtype.Uint64, []int64{2})
	a := optest.Args{"scale": scale, "out": out}
	optest.Refused(t, op.NullPointer, "TransQuantParamV2", a.With(optest.Args{"scale": nil}), "scale is null")
	optest.Refused(t, op.InvalidParam, "TransQuantParamV2", a.With(optest.Args{"offset": optest.Tensor(t, dtype.Float32, []int64{3}, 1)}), "do not go together")
	optest.Refused(t, op.InvalidParam, "TransQuantParamV2", a.With(optest.Args{"out": scale}), "out float32")
	optest.Refused(t, op.InvalidParam, "TransQuantParamV3", a.With(optest.Args{"roundMode": 2}), "roundMode 2")
}

func TestPackInt4(t *testing.T) {
	weights := make([]float64, 3*16)
	for i := range weights {
		weights[i] = float64(i*5%16 - 8)
	}
	nibble := func(i int) byte { return byte(int(weights[i]) & 15) }
	for _, l := range kerneltest.Layouts {
		w := optest.TensorIn(t, dtype.Int32, l, []int64{3, 16}, weights...)
		bytes := optest.Tensor(t, dtype.Uint8, []int64{3, 8})
		out := optest.Of(bytes.View())
		out.DType, out.Shape, out.Strides, out.Storage = dtype.Int4, []int64{3, 16}, []int64{16, 1}, []int64{3, 16}
		optest.Run(t, "ConvertWeightToINT4Pack", optest.Args{"weight": w, "weightInt4Pack": out})
		for i, b := range optest.Values(bytes) {
			assert.Equal(t, float64(nibble(2*i)|nibble(2*i+1)<<4), b, "%v %d", l, i)
		}
		whole := optest.Tensor(t, dtype.Int32, []int64{3, 2})
		optest.Run(t, "ConvertWeightToINT4Pack", optest.Args{"weight": w, "weightInt4Pack": whole})
		first := uint32(0)
		for i := range 8 {
			first |= uint32(nibble(i)) << (4 * i)
		}
		assert.Equal(t, float64(int32(first)), optest.Values(whole)[0])
	}
	w := optest.Tensor(t, dtype.Int32, []int64{3, 16}, weights...)
	storage := optest.Tensor(t, dtype.Uint8, []int64{1, 1, 16, 32}, 0)
	out := optest.Of(storage.View())
	out.DType, out.Format = dtype.Int4, dtype.FractalNZ
	out.Shape, out.Strides, out.Storage = []int64{3, 16}, []int64{16, 1}, []int64{1, 1, 16, 64}
	optest.Run(t, "ConvertWeightToINT4Pack", optest.Args{"weight": w, "weightInt4Pack": out})
	got := optest.Values(storage)
	for r := range 3 {
		for i := range 8 {
			assert.Equal(t, float64(nibble(16*r+2*i)|nibble(16*r+2*i+1)<<4), got[32*r+i], "row %d byte %d", r, i)
		}
	}
	optest.Refused(t, op.InvalidParam, "ConvertWeightToINT4Pack", optest.Args{"weight": optest.Tensor(t, dtype.Int32, []int64{2, 3}, 1), "weightInt4Pack": out}, "multiple of 2")
	optest.Refused(t, op.InvalidParam, "ConvertWeightToINT4Pack", optest.Args{"weight": optest.Tensor(t, dtype.Int8, []int64{2, 4}, 1), "weightInt4Pack": out}, "int8")
	optest.Refused(t, op.NullPointer, "ConvertWeightToINT4Pack", optest.Args{"weight": w}, "weightInt4Pack is null")
}
