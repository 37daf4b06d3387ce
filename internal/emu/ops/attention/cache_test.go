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

// TestScatterPagesForms compares with the index of each number by the definitions of the layouts.
func TestScatterPagesForms(t *testing.T) {
	const blocks, size, heads = 3, 4, 2
	slots := []int64{11, 0, 6}
	for _, form := range []string{"NHSD", "columns", "columns by head"} {
		for _, d := range [][2]dtype.Type{{dtype.Float16, dtype.Float16}, {dtype.Int8, dtype.Int8}, {dtype.BFloat16, dtype.Int8}} {
			if form == "NHSD" && d[0] != d[1] {
				continue
			}
			for _, l := range kerneltest.Layouts {
				a := optest.Args{"slotMapping": optest.Tensor(t, dtype.Int64, []int64{3}, 11, 0, 6), "scatterModeOptional": "NHSD"}
				if form != "NHSD" {
					a["cacheModeOptional"] = "PA_NZ"
				}
				want := map[string][]float64{}
				for i, name := range []string{"key", "value"} {
					columns := int64(32 / d[i].Size())
					dim := columns * int64(i+1)
					shape := []int64{blocks, heads, size, dim}
					switch form {
					case "columns":
						shape = []int64{blocks, heads * dim / columns, size, columns}
					case "columns by head":
						shape = []int64{blocks, heads, dim / columns, size, columns}
					}
					fresh, old := make([]float64, 3*heads*dim), make([]float64, blocks*size*heads*dim)
					for j := range fresh {
						fresh[j] = float64(j%99 + 1)
					}
					for j := range old {
						old[j] = float64(-(j % 99))
					}
					a[name], a[name+"CacheRef"] = optest.TensorIn(t, d[i], l, []int64{3, heads, dim}, fresh...), optest.TensorIn(t, d[i], l, shape, old...)
					for token, slot := range slots {
						block, place := slot/size, slot%size
						for h := range int64(heads) {
							for j := range dim {
								at := ((block*heads+h)*size+place)*dim + j
								if form != "NHSD" {
									piece := (h*dim + j) / columns
									at = ((block*(heads*dim/columns)+piece)*size+place)*columns + j%columns
								}
								old[at] = fresh[(int64(token)*heads+h)*dim+j]
							}
						}
					}
					want[name] = old
				}
				optest.Run(t, "ScatterPaKvCache", a)
				for name, values := range want {
					assert.Equal(t, values, optest.Values(a[name+"CacheRef"].(*op.Tensor)), "%s %s %v %v", form, name, d, l)
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
		{op.TilingRefused, optest.Args{"cacheModeOptional": "ND"}, "must be Norm or PA_NZ"},
		{op.TilingRefused, optest.Args{"cacheModeOptional": "PA_NZ"}, "multiple of 32 bytes"},
		{op.TilingRefused, optest.Args{"cacheModeOptional": "PA_NZ", "key": f(2, 1, 16), "value": f(2, 1, 16)}, "with 32 bytes of columns"},
		{op.TilingRefused, optest.Args{"scatterModeOptional": "NHSD"}, "multiple of 32 bytes"},
		{op.InvalidParam, optest.Args{"scatterModeOptional": "Rope"}, "None and NHSD only"},
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
