package layout

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

func TestSignBits(t *testing.T) {
	for _, d := range []dtype.Type{dtype.Float32, dtype.Float16} {
		for _, n := range []int64{1, 8, 16, 21, 64} {
			x := optest.Filled(t, 1, d, kerneltest.Gapped, []int64{n})
			bytes := (n + 7) / 8
			rows := int64(1)
			if bytes%2 == 0 {
				rows = 2
			}
			packed, back := optest.Tensor(t, dtype.Uint8, []int64{rows, bytes / rows}), optest.Tensor(t, d, []int64{1, 8 * bytes})
			optest.Run(t, "SignBitsPack", optest.Args{"self": x, "size": rows, "out": packed})
			flat := optest.Of(packed.View())
			flat.Shape, flat.Strides = []int64{bytes}, []int64{1}
			optest.Run(t, "SignBitsUnpack", optest.Args{"self": flat, "size": 1, "dtype": d, "out": back})
			want := slices.Repeat([]float64{-1}, int(8*bytes))
			for i, v := range optest.Values(x) {
				if v >= 0 {
					want[i] = 1
				}
			}
			assert.Equal(t, want, optest.Values(back), fmt.Sprintf("%v of %d", d, n))
		}
	}
	x := optest.Tensor(t, dtype.Float32, []int64{24}, 1)
	optest.Refused(t, op.InvalidParam, "SignBitsPack", optest.Args{"self": x, "size": 2, "out": optest.Tensor(t, dtype.Uint8, []int64{3})}, "size is 2")
	optest.Refused(t, op.InvalidParam, "SignBitsPack", optest.Args{"self": x, "size": 3, "out": optest.Tensor(t, dtype.Uint8, []int64{3})}, "[3,1]")
	optest.Refused(t, op.InvalidParam, "SignBitsUnpack", optest.Args{"self": optest.Tensor(t, dtype.Uint8, []int64{3}, 1), "size": 3, "dtype": dtype.Float16, "out": x}, "dtype is float16")
}
