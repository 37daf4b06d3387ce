package describe_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/dtype"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// described creates a description; the thread needs no device for it.
func (p *process) described(t *rt.Thread, d dtype.Type, shape ...int64) uint64 {
	var dims uint64
	if len(shape) > 0 {
		dims = rttest.Address(&shape[0])
	}
	return p.Functions["aclCreateTensorDesc"](t, []uint64{uint64(d), uint64(len(shape)), dims, uint64(dtype.NCHW)})
}

func TestTensorDesc(t *testing.T) {
	p, th := newProcess(t), new(rt.Thread)
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
			require.NotZero(t, d, rttest.Text(th))
			get := func(name string) uint64 { return p.Functions[name](th, []uint64{d}) }
			assert.Equal(t, uint64(c.dtype), get("aclGetTensorDescType"))
			assert.Equal(t, uint64(dtype.NCHW), get("aclGetTensorDescFormat"))
			assert.Equal(t, c.rank, get("aclGetTensorDescNumDims"))
			assert.Equal(t, c.elements, get("aclGetTensorDescElementCount"))
			assert.Equal(t, c.bytes, get("aclGetTensorDescSize"))
			for i, dim := range c.shape {
				assert.Equal(t, uint64(dim), p.Functions["aclGetTensorDescDim"](th, []uint64{d, uint64(i)}))
				assert.Equal(t, uint64(dim), p.Out(th, "aclGetTensorDescDimV2", 2, d, uint64(i)))
			}
			get("aclDestroyTensorDesc")
			require.Zero(t, p.Runtime.Handles.Count(rt.TensorDescKind))
		})
	}
}

func TestTensorDescName(t *testing.T) {
	p, th := newProcess(t), new(rt.Thread)
	d := p.described(th, dtype.Float32, 1)
	name := func(d uint64) string { return rt.CString(p.Functions["aclGetTensorDescName"](th, []uint64{d})) }
	assert.Empty(t, name(d))
	text := []byte("weights\x00")
	p.Must(th, "aclSetTensorDescName", d, rttest.Address(&text[0]))
	clear(text)
	assert.Equal(t, "weights", name(d), "the text is the description's own")
	p.Functions["aclDestroyTensorDesc"](th, []uint64{d})
	assert.Empty(t, name(d))
}

func TestTensorDescRange(t *testing.T) {
	p, th := newProcess(t), new(rt.Thread)
	d := p.described(th, dtype.Float32, 4, -1)
	rangeOf := func(dim uint64) (ends [2]int64) {
		p.Must(th, "aclGetTensorDescDimRange", d, dim, 2, rttest.Address(&ends))
		return ends
	}
	assert.Equal(t, [2]int64{4, 4}, rangeOf(0))
	assert.Equal(t, [2]int64{0, -1}, rangeOf(1))
	ranges := [][2]int64{{4, 4}, {1, 64}}
	p.Must(th, "aclSetTensorShapeRange", d, 2, rttest.Address(&ranges[0]))
	assert.Equal(t, [2]int64{1, 64}, rangeOf(1))
	p.Functions["aclDestroyTensorDesc"](th, []uint64{d})
}

func TestTensorDescRefuses(t *testing.T) {
	p, th := newProcess(t), new(rt.Thread)
	var word [2]int64
	out := rttest.Address(&word)
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
		code := p.Call(th, c.name, c.args...)
		if c.name != "aclSetTensorDescName" { // that function has no result
			assert.Equal(t, rt.InvalidParam, code, c.name)
		}
		text := rttest.Text(th)
		assert.Contains(t, text, c.name)
		assert.Contains(t, text, c.text)
	}
	for _, shape := range [][]int64{{-3}, {2, -2}} {
		assert.Zero(t, p.described(th, dtype.Float32, shape...))
		assert.Contains(t, rttest.Text(th), "aclCreateTensorDesc: dimension")
	}
	assert.Zero(t, p.Functions["aclCreateTensorDesc"](th, []uint64{0, 1, 0, 0}))
	assert.Contains(t, rttest.Text(th), "dims is null")
	assert.Zero(t, p.Functions["aclCreateTensorDesc"](th, []uint64{0, 1 << 20, out, 0}))
	assert.Contains(t, rttest.Text(th), "numDims is 1048576")
	assert.Equal(t, ^uint64(0), p.Functions["aclGetTensorDescDim"](th, []uint64{d, 2}))
	assert.Contains(t, rttest.Text(th), "with a dimension 2")
	undefined := int32(abi.ACL_DT_UNDEFINED)
	assert.Equal(t, undefined, int32(p.Functions["aclGetTensorDescType"](th, []uint64{0})))
	p.Functions["aclDestroyTensorDesc"](th, []uint64{d})
	p.Functions["aclDestroyTensorDesc"](th, []uint64{d}) // has no result to report an error
}
