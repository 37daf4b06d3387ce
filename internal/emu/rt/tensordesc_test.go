package rt

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"
)

// described makes a description; its thread needs no device.
func (p *process) described(t *Thread, d dtype.Type, shape ...int64) uint64 {
	var dims uint64
	if len(shape) > 0 {
		dims = address(&shape[0])
	}
	return p.f["aclCreateTensorDesc"](t, []uint64{uint64(d), uint64(len(shape)), dims, uint64(dtype.NCHW)})
}

func TestTensorDesc(t *testing.T) {
	p, th := newProcess(t), new(Thread)
	for _, c := range []struct {
		name                  string
		dtype                 dtype.Type
		shape                 []int64
		rank, elements, bytes uint64
	}{
		{"matrix", dtype.Float16, []int64{3, 5}, 2, 15, 30},
		{"scalar", dtype.Float64, nil, 0, 1, 8},
		{"empty", dtype.Int32, []int64{4, 0, 2}, 3, 0, 0},
		{"half bytes", dtype.Int4, []int64{5}, 1, 5, 3},
		{"dimension not known", dtype.Float32, []int64{2, -1}, 2, 0, 0},
		{"rank not known", dtype.Float32, []int64{-2}, abi.ACL_UNKNOWN_RANK, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := p.described(th, c.dtype, c.shape...)
			require.NotZero(t, d, takeText(th))
			get := func(name string) uint64 { return p.f[name](th, []uint64{d}) }
			assert.Equal(t, uint64(c.dtype), get("aclGetTensorDescType"))
			assert.Equal(t, uint64(dtype.NCHW), get("aclGetTensorDescFormat"))
			assert.Equal(t, c.rank, get("aclGetTensorDescNumDims"))
			assert.Equal(t, c.elements, get("aclGetTensorDescElementCount"))
			assert.Equal(t, c.bytes, get("aclGetTensorDescSize"))
			for i, dim := range c.shape {
				assert.Equal(t, uint64(dim), p.f["aclGetTensorDescDim"](th, []uint64{d, uint64(i)}))
				assert.Equal(t, uint64(dim), p.out(th, "aclGetTensorDescDimV2", 2, d, uint64(i)))
			}
			get("aclDestroyTensorDesc")
			require.Zero(t, p.r.Handles.Count(TensorDescKind))
		})
	}
}

func TestTensorDescName(t *testing.T) {
	p, th := newProcess(t), new(Thread)
	d := p.described(th, dtype.Float32, 1)
	name := func(d uint64) string { return CString(p.f["aclGetTensorDescName"](th, []uint64{d})) }
	assert.Empty(t, name(d))
	text := []byte("weights\x00")
	p.must(th, "aclSetTensorDescName", d, address(&text[0]))
	clear(text)
	assert.Equal(t, "weights", name(d), "the text is the description's own")
	p.f["aclDestroyTensorDesc"](th, []uint64{d})
	assert.Empty(t, name(d))
}

func TestTensorDescRange(t *testing.T) {
	p, th := newProcess(t), new(Thread)
	d := p.described(th, dtype.Float32, 4, -1)
	rangeOf := func(dim uint64) (ends [2]int64) {
		p.must(th, "aclGetTensorDescDimRange", d, dim, 2, address(&ends))
		return ends
	}
	assert.Equal(t, [2]int64{4, 4}, rangeOf(0))
	assert.Equal(t, [2]int64{0, -1}, rangeOf(1))
	ranges := [][2]int64{{4, 4}, {1, 64}}
	p.must(th, "aclSetTensorShapeRange", d, 2, address(&ranges[0]))
	assert.Equal(t, [2]int64{1, 64}, rangeOf(1))
	p.f["aclDestroyTensorDesc"](th, []uint64{d})
}

func TestTensorDescRefuses(t *testing.T) {
	p, th := newProcess(t), new(Thread)
	var word [2]int64
	out := address(&word)
	d := p.described(th, dtype.Float32, 2, 3)
	for _, c := range []struct {
		text string
		name string
		args []uint64
	}{
		{"no description of a tensor", "aclGetTensorDescDimV2", []uint64{0, 0, out}},
		{"dimension 2 of a tensor that has 2", "aclGetTensorDescDimV2", []uint64{d, 2, out}},
		{"dimSize is null", "aclGetTensorDescDimV2", []uint64{d, 0, 0}},
		{"dimRange is null", "aclGetTensorDescDimRange", []uint64{d, 0, 2, 0}},
		{"a range has 2 ends", "aclGetTensorDescDimRange", []uint64{d, 0, 1, out}},
		{"1 ranges for 2 dimensions", "aclSetTensorShapeRange", []uint64{d, 1, out}},
		{"dimsRange is null", "aclSetTensorShapeRange", []uint64{d, 2, 0}},
		{"no description of a tensor", "aclSetTensorShapeRange", []uint64{7, 2, out}},
		{"name is null", "aclSetTensorDescName", []uint64{d, 0}},
		{"no description of a tensor", "aclSetTensorDescName", []uint64{7, out}},
	} {
		assert.Equal(t, invalidParam, p.call(th, c.name, c.args...), c.name)
		text := takeText(th)
		assert.Contains(t, text, c.name)
		assert.Contains(t, text, c.text)
	}
	for _, shape := range [][]int64{{-3}, {2, -2}} {
		assert.Zero(t, p.described(th, dtype.Float32, shape...))
		assert.Contains(t, takeText(th), "aclCreateTensorDesc: dimension")
	}
	assert.Zero(t, p.f["aclCreateTensorDesc"](th, []uint64{0, 1, 0, 0}))
	assert.Contains(t, takeText(th), "dims is null")
	assert.Zero(t, p.f["aclCreateTensorDesc"](th, []uint64{0, 1 << 20, out, 0}))
	assert.Contains(t, takeText(th), "numDims is 1048576")
	assert.Equal(t, ^uint64(0), p.f["aclGetTensorDescDim"](th, []uint64{d, 2}))
	assert.Contains(t, takeText(th), "with a dimension 2")
	undefined := int32(abi.ACL_DT_UNDEFINED)
	assert.Equal(t, undefined, int32(p.f["aclGetTensorDescType"](th, []uint64{0})))
	p.f["aclDestroyTensorDesc"](th, []uint64{d})
	p.f["aclDestroyTensorDesc"](th, []uint64{d}) // has nothing to report by
}
