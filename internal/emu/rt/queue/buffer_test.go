package queue

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

func TestDataBuffer(t *testing.T) {
	p := newProcess(t)
	th := new(rt.Thread) // a data buffer needs no device
	get := func(name string, b uint64) uint64 { return p.Functions[name](th, []uint64{b}) }
	const large = 5<<32 + 3
	b := p.Functions["aclCreateDataBuffer"](th, []uint64{0xD000, large})
	require.NotZero(t, b)
	require.Equal(t, uint64(0xD000), get("aclGetDataBufferAddr", b))
	require.Equal(t, uint64(3), get("aclGetDataBufferSize", b))
	require.Equal(t, uint64(large), get("aclGetDataBufferSizeV2", b))
	p.Must(th, "aclUpdateDataBuffer", b, 0xE000, 9)
	require.Equal(t, uint64(0xE000), get("aclGetDataBufferAddr", b))
	require.Equal(t, uint64(9), get("aclGetDataBufferSizeV2", b))
	p.Must(th, "aclDestroyDataBuffer", b)
	require.Zero(t, p.Runtime.Handles.Count(rt.DataBufferKind))
	for stale, text := range map[uint64]string{0: "dataBuffer is null", b: "data buffer"} {
		require.Zero(t, get("aclGetDataBufferAddr", stale))
		require.Zero(t, get("aclGetDataBufferSize", stale))
		require.Equal(t, rt.InvalidParam, p.Call(th, "aclDestroyDataBuffer", stale))
		require.Equal(t, rt.InvalidParam, p.Call(th, "aclUpdateDataBuffer", stale, 1, 1))
		require.Contains(t, rttest.Text(th), text)
	}
}
