package rt

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAllocatorOfStream(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	s := p.stream(th)
	d := p.f["aclrtAllocatorCreateDesc"](th, nil)
	require.NotZero(t, d)
	for _, part := range []struct {
		setter, missing string
		value           uint64
	}{
		{"aclrtAllocatorSetObjToDesc", "object", 1},
		{"aclrtAllocatorSetAllocFuncToDesc", "alloc function", 2},
		{"aclrtAllocatorSetFreeFuncToDesc", "free function", 3},
		{"aclrtAllocatorSetGetAddrFromBlockFuncToDesc", "address of a block", 5},
	} {
		assert.Equal(t, invalidParam, p.call(th, "aclrtAllocatorRegister", s, d))
		assert.Contains(t, takeText(th), part.missing)
		assert.Equal(t, invalidParam, p.call(th, part.setter, d, 0))
		assert.Contains(t, takeText(th), part.setter)
		p.must(th, part.setter, d, part.value)
	}
	p.must(th, "aclrtAllocatorRegister", s, d)
	p.must(th, "aclrtAllocatorSetAllocAdviseFuncToDesc", d, 4) // after it was registered

	var got [6]uint64
	get := func() int32 {
		clear(got[:])
		return p.call(th, "aclrtAllocatorGetByStream", s, address(&got[0]), address(&got[1]), address(&got[2]), address(&got[3]), address(&got[4]), address(&got[5]))
	}
	require.Zero(t, get())
	assert.Equal(t, [6]uint64{d, 1, 2, 3, 0, 5}, got)
	p.must(th, "aclrtAllocatorRegister", s, d)
	require.Zero(t, get())
	assert.Equal(t, [6]uint64{d, 1, 2, 3, 4, 5}, got)
	assert.Equal(t, d, p.out(th, "aclrtAllocatorGetByStream", 1, s, 0, 0, 0, 0, 0), "places that are null are passed over")

	p.must(th, "aclrtAllocatorDestroyDesc", d)
	require.Zero(t, get(), "the stream has a copy")
	p.must(th, "aclrtAllocatorUnregister", s)
	p.must(th, "aclrtAllocatorUnregister", s)
	assert.Equal(t, invalidParam, get())
	assert.Contains(t, takeText(th), "no allocator is registered")
	require.Zero(t, p.r.Handles.Count(AllocatorKind))
}

func TestAllocatorEndsWithItsStream(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	s := p.stream(th)
	d := p.f["aclrtAllocatorCreateDesc"](th, nil)
	for _, name := range []string{"Obj", "AllocFunc", "FreeFunc", "GetAddrFromBlockFunc"} {
		p.must(th, "aclrtAllocatorSet"+name+"ToDesc", d, 1)
	}
	p.must(th, "aclrtAllocatorRegister", s, d)
	p.must(th, "aclrtDestroyStream", s)
	var got uint64
	assert.Equal(t, invalidParam, p.call(th, "aclrtAllocatorGetByStream", s, address(&got), 0, 0, 0, 0, 0))
	assert.NotZero(t, p.call(th, "aclrtAllocatorRegister", s, d), "the stream is gone")
	next := p.stream(th)
	p.must(th, "aclrtAllocatorRegister", next, d)
	assert.Len(t, p.r.allocators.of, 1)
	p.must(th, "aclrtAllocatorDestroyDesc", d)
}

func TestAllocatorRefuses(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	var word uint64
	for name, args := range map[string][]uint64{
		"aclrtAllocatorDestroyDesc":        {9},
		"aclrtAllocatorSetObjToDesc":       {9, 1},
		"aclrtAllocatorSetAllocFuncToDesc": {0, 1},
		"aclrtAllocatorRegister":           {0, 9},
		"aclrtAllocatorUnregister":         {0},
		"aclrtAllocatorGetByStream":        {0, address(&word), 0, 0, 0, 0, 0},
	} {
		assert.Equal(t, invalidParam, p.call(th, name, args...), name)
		assert.Contains(t, takeText(th), name)
	}
	assert.Equal(t, invalidParam, p.call(th, "aclrtAllocatorGetByStream", 1, 0, 0, 0, 0, 0, 0))
}
