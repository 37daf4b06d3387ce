package rt_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

func TestAllocatorOfStream(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s := p.Stream(th)
	d := p.Functions["aclrtAllocatorCreateDesc"](th, nil)
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
		assert.Equal(t, rt.InvalidParam, p.Call(th, "aclrtAllocatorRegister", s, d))
		assert.Contains(t, rttest.Text(th), part.missing)
		assert.Equal(t, rt.InvalidParam, p.Call(th, part.setter, d, 0))
		assert.Contains(t, rttest.Text(th), part.setter)
		p.Must(th, part.setter, d, part.value)
	}
	p.Must(th, "aclrtAllocatorRegister", s, d)
	p.Must(th, "aclrtAllocatorSetAllocAdviseFuncToDesc", d, 4) // after it was registered

	var got [6]uint64
	get := func() int32 {
		clear(got[:])
		return p.Call(th, "aclrtAllocatorGetByStream", s, rttest.Address(&got[0]), rttest.Address(&got[1]), rttest.Address(&got[2]), rttest.Address(&got[3]), rttest.Address(&got[4]), rttest.Address(&got[5]))
	}
	require.Zero(t, get())
	assert.Equal(t, [6]uint64{d, 1, 2, 3, 0, 5}, got)
	p.Must(th, "aclrtAllocatorRegister", s, d)
	require.Zero(t, get())
	assert.Equal(t, [6]uint64{d, 1, 2, 3, 4, 5}, got)
	assert.Equal(t, d, p.Out(th, "aclrtAllocatorGetByStream", 1, s, 0, 0, 0, 0, 0), "places that are null are passed over")

	p.Must(th, "aclrtAllocatorDestroyDesc", d)
	require.Zero(t, get(), "the stream has a copy")
	p.Must(th, "aclrtAllocatorUnregister", s)
	p.Must(th, "aclrtAllocatorUnregister", s)
	assert.Equal(t, rt.InvalidParam, get())
	assert.Contains(t, rttest.Text(th), "no allocator is registered")
	require.Zero(t, p.Runtime.Handles.Count(rt.AllocatorKind))
}

func TestAllocatorEndsWithItsStream(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	s := p.Stream(th)
	d := p.Functions["aclrtAllocatorCreateDesc"](th, nil)
	for _, name := range []string{"Obj", "AllocFunc", "FreeFunc", "GetAddrFromBlockFunc"} {
		p.Must(th, "aclrtAllocatorSet"+name+"ToDesc", d, 1)
	}
	p.Must(th, "aclrtAllocatorRegister", s, d)
	p.Must(th, "aclrtDestroyStream", s)
	var got uint64
	assert.Equal(t, rt.InvalidParam, p.Call(th, "aclrtAllocatorGetByStream", s, rttest.Address(&got), 0, 0, 0, 0, 0))
	assert.NotZero(t, p.Call(th, "aclrtAllocatorRegister", s, d), "the stream is gone")
	next := p.Stream(th)
	p.Must(th, "aclrtAllocatorRegister", next, d)
	assert.Equal(t, 1, p.Runtime.Allocators())
	p.Must(th, "aclrtAllocatorDestroyDesc", d)
}

func TestAllocatorRefuses(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	var word uint64
	for name, args := range map[string][]uint64{
		"aclrtAllocatorDestroyDesc":        {9},
		"aclrtAllocatorSetObjToDesc":       {9, 1},
		"aclrtAllocatorSetAllocFuncToDesc": {0, 1},
		"aclrtAllocatorRegister":           {0, 9},
		"aclrtAllocatorUnregister":         {0},
		"aclrtAllocatorGetByStream":        {0, rttest.Address(&word), 0, 0, 0, 0, 0},
	} {
		assert.Equal(t, rt.InvalidParam, p.Call(th, name, args...), name)
		assert.Contains(t, rttest.Text(th), name)
	}
	assert.Equal(t, rt.InvalidParam, p.Call(th, "aclrtAllocatorGetByStream", 1, 0, 0, 0, 0, 0, 0))
}
