package attention

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/dtype"
	"github.com/goascend/cann/internal/emu/kernel/kerneltest"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/op/optest"
)

// TestScatterPages checks that tokens go to their slots and the rest stays, with heads of different
// sizes for keys and values.
func TestScatterPages(t *testing.T) {
	const blocks, size, heads = 3, 4, 2
	slots := []float64{11, 0, 6}
	for _, d := range []dtype.Type{dtype.Float16, dtype.BFloat16, dtype.Int8} {
		for _, index := range op.IndexTypes {
			for _, l := range kerneltest.Layouts {
				a := optest.Args{"slotMapping": optest.Tensor(t, index, []int64{3}, slots...), "cacheModeOptional": "Norm", "scatterModeOptional": "None"}
				want, caches := map[string][]float64{}, map[string]*op.Tensor{}
				for name, dim := range map[string]int64{"key": 2, "value": 3} {
					fresh, old := make([]float64, 3*heads*dim), make([]float64, blocks*size*heads*dim)
					for i := range fresh {
						fresh[i] = float64(i + 1)
					}
					for i := range old {
						old[i] = float64(-i)
					}
					a[name] = optest.TensorIn(t, d, l, []int64{3, heads, dim}, fresh...)
					caches[name] = optest.TensorIn(t, d, l, []int64{blocks, size, heads, dim}, old...)
					a[name+"CacheRef"] = caches[name]
					for i, slot := range slots {
						copy(old[int64(slot)*heads*dim:][:heads*dim], fresh[int64(i)*heads*dim:])
					}
					want[name] = old
				}
				optest.Run(t, "ScatterPaKvCache", a)
				for name, values := range want {
					assert.Equal(t, values, optest.Values(caches[name]), "%s %v %v %v", name, d, index, l)
				}
			}
		}
	}
}

func TestScatterPagesRefusals(t *testing.T) {
	f := func(shape ...int64) *op.Tensor { return optest.Tensor(t, dtype.Float16, shape, 1) }
	slots := func(values ...float64) *op.Tensor {
		return optest.Tensor(t, dtype.Int32, []int64{int64(len(values))}, values...)
	}
	a := optest.Args{"key": f(2, 1, 4), "keyCacheRef": f(3, 4, 1, 4), "value": f(2, 1, 4), "valueCacheRef": f(3, 4, 1, 4), "slotMapping": slots(5, 2)}
	optest.Run(t, "ScatterPaKvCache", a)
	for _, k := range []struct {
		code    int32
		changes optest.Args
		text    string
	}{
		{op.NullPointer, optest.Args{"value": nil}, "value is null"},
		{op.InvalidParam, optest.Args{"key": optest.Tensor(t, dtype.Float32, []int64{2, 1, 4}, 1)}, "float32"},
		{op.InvalidParam, optest.Args{"value": optest.Tensor(t, dtype.BFloat16, []int64{2, 1, 4}, 1)}, "bfloat16"},
		{op.InvalidParam, optest.Args{"slotMapping": f(2)}, "float16"},
		{op.InvalidParam, optest.Args{"cacheModeOptional": "PA_NZ"}, "Norm only"},
		{op.InvalidParam, optest.Args{"scatterModeOptional": "Rope"}, "None only"},
		{op.InvalidParam, optest.Args{"seqLensOptional": slots(1)}, "without compression"},
		{op.TilingRefused, optest.Args{"key": f(2, 4)}, "must be [tokens, heads, dim]"},
		{op.TilingRefused, optest.Args{"slotMapping": slots(1)}, "a token for each of"},
		{op.TilingRefused, optest.Args{"valueCacheRef": f(4, 4, 1, 4)}, "the same blocks"},
		{op.TilingRefused, optest.Args{"slotMapping": optest.Tensor(t, dtype.Int32, []int64{2, 1}, 1)}, "one dimension"},
	} {
		optest.Refused(t, k.code, "ScatterPaKvCache", a.With(k.changes), k.text)
	}
	for _, slot := range []float64{-1, 12} {
		err := optest.Execute(t, "ScatterPaKvCache", a.With(optest.Args{"slotMapping": slots(0, slot)}))
		require.ErrorContains(t, err, "is not within 3 blocks of 4")
	}
}
