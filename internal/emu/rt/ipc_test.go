package rt_test

import (
	"encoding/hex"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// key returns an exported key as bytes that C functions can read.
func (p *process) key(t *rt.Thread, function string, args ...uint64) []byte {
	p.tb.Helper()
	key := make([]byte, keySize)
	all := append(append([]uint64{}, args[:len(args)-1]...), rttest.Address(&key[0]), keySize, args[len(args)-1])
	p.Must(t, function, all...)
	return key
}

// TestMemoryOfAnotherProcess passes memory back and forth between two processes; notifies wake each
// process when the other is done.
func TestMemoryOfAnotherProcess(t *testing.T) {
	const variable = "CANN_EMU_TEST_KEYS"
	const n = 3 * hostPage
	p := newProcess(t)
	th := p.Thread(1)
	s := p.Stream(th)
	if keys := os.Getenv(variable); keys != "" {
		memory, notify, _ := strings.Cut(keys, ",")
		memoryKey, err := hex.DecodeString(memory)
		require.NoError(t, err)
		notifyKey, err := hex.DecodeString(notify)
		require.NoError(t, err)
		addr := p.Out(th, "aclrtIpcMemImportByKey", 0, rttest.Address(&memoryKey[0]), 1)
		flag := p.Out(th, "aclrtNotifyImportByKey", 0, rttest.Address(&notifyKey[0]), 0)
		require.Equal(t, []byte("ping"), p.read(th, addr+n-4, 4))
		require.Zero(t, p.write(th, addr+n-4, []byte("pong")))
		p.Must(th, "aclrtRecordNotify", flag, s)
		p.Must(th, "aclrtSynchronizeStream", s)
		require.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtIpcMemImportByKey", rttest.Address(new(uint64)), rttest.Address(&memoryKey[0]), 0))
		p.Must(th, "aclrtIpcMemClose", rttest.Address(&memoryKey[0]))
		require.Equal(t, rt.ParamInvalid, p.write(th, addr, []byte("late")))
		p.Must(th, "aclrtDestroyNotify", flag)
		return
	}
	small := p.Out(th, "aclrtMalloc", 0, 512, 0)
	addr := p.Out(th, "aclrtMalloc", 0, n, 0)
	neighbour := p.Out(th, "aclrtMalloc", 0, n, 0)
	require.Zero(t, p.write(th, addr+n-4, []byte("ping")))
	require.Zero(t, p.write(th, neighbour, []byte("mine")))
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtIpcMemGetExportKey", small, 512, rttest.Address(make65()), keySize, 1))
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtIpcMemGetExportKey", addr, n, rttest.Address(make65()), keySize-1, 1))

	memory := p.key(th, "aclrtIpcMemGetExportKey", addr, n, 0)
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtIpcMemImportByKey", rttest.Address(new(uint64)), rttest.Address(&memory[0]), 0))
	require.Contains(t, rttest.Text(th), "is not allowed")
	require.Equal(t, memory, p.key(th, "aclrtIpcMemGetExportKey", addr, n, 1))

	flag := p.Out(th, "aclrtCreateNotify", 0, 0)
	notify := p.key(th, "aclrtNotifyGetExportKey", flag, 2)
	p.Must(th, "aclrtWaitAndResetNotify", flag, s, 60)
	cmd := exec.Command(os.Args[0], "-test.run", "^TestMemoryOfAnotherProcess$")
	cmd.Env = append(os.Environ(), variable+"="+hex.EncodeToString(memory)+","+hex.EncodeToString(notify))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	p.Must(th, "aclrtSynchronizeStream", s)
	require.Equal(t, []byte("pong"), p.read(th, addr+n-4, 4))
	require.Equal(t, []byte("mine"), p.read(th, neighbour, 4))

	p.Must(th, "aclrtIpcMemClose", rttest.Address(&memory[0]))
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtIpcMemClose", rttest.Address(&memory[0])))
	p.Must(th, "aclrtFree", addr)
	again := p.Out(th, "aclrtMalloc", 0, n, 0)
	require.Equal(t, addr, again)
	require.Zero(t, p.write(th, again, []byte("new")))
	for _, a := range []uint64{small, again, neighbour} {
		p.Must(th, "aclrtFree", a)
	}
	p.Must(th, "aclrtDestroyNotify", flag)
}

func make65() *[keySize]byte { return new([keySize]byte) }

func TestNotify(t *testing.T) {
	p := newProcess(t)
	th := p.Thread(0)
	first, second := p.Stream(th), p.Stream(th)
	n := p.Out(th, "aclrtCreateNotify", 0, 0)
	order := make(chan string, 2)
	gate := make(chan struct{})
	p.Submit(th, first, func() error { <-gate; order <- "first"; return nil })
	p.Must(th, "aclrtRecordNotify", n, first)
	p.Must(th, "aclrtWaitAndResetNotify", n, second, 0)
	p.Submit(th, second, func() error { order <- "second"; return nil })
	close(gate)
	p.Must(th, "aclrtSynchronizeStream", second)
	require.Equal(t, "first", <-order)
	require.Equal(t, "second", <-order)

	// The notify was reset, so the next wait times out.
	p.Must(th, "aclrtWaitAndResetNotify", n, second, 1)
	require.Equal(t, int32(abi.ACL_ERROR_RT_WAIT_TIMEOUT), p.Call(th, "aclrtSynchronizeStream", second))
	p.Must(th, "aclrtWaitAndResetNotify", n, second, 0)
	p.Must(th, "aclrtStreamAbort", second)

	p.Must(th, "aclrtRecordNotify", n, first)
	p.Must(th, "aclrtSynchronizeStream", first)
	p.Must(th, "aclrtNotifyBatchReset", rttest.Address(&n), 1)
	p.Must(th, "aclrtWaitAndResetNotify", n, second, 1)
	require.Equal(t, int32(abi.ACL_ERROR_RT_WAIT_TIMEOUT), p.Call(th, "aclrtSynchronizeStream", second))
	p.Must(th, "aclrtDestroyNotify", n)
	require.Equal(t, rt.ParamInvalid, p.Call(th, "aclrtRecordNotify", n, first))
	require.Zero(t, p.Runtime.Handles.Count(rt.NotifyKind))
}
