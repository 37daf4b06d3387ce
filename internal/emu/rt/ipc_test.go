package rt

import (
	"encoding/hex"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/abi"
)

// key is an exported key as bytes that C functions can read.
func (p *process) key(t *Thread, function string, args ...uint64) []byte {
	p.tb.Helper()
	key := make([]byte, keySize)
	all := append(append([]uint64{}, args[:len(args)-1]...), address(&key[0]), keySize, args[len(args)-1])
	p.must(t, function, all...)
	return key
}

// TestMemoryOfAnotherProcess: two processes hand memory to and fro, and a notify tells each
// when the other is done.
func TestMemoryOfAnotherProcess(t *testing.T) {
	const variable = "CANN_EMU_TEST_KEYS"
	const n = 3 * hostPage
	p := newProcess(t)
	th := p.thread(1)
	s := p.stream(th)
	if keys := os.Getenv(variable); keys != "" {
		memory, notify, _ := strings.Cut(keys, ",")
		memoryKey, err := hex.DecodeString(memory)
		require.NoError(t, err)
		notifyKey, err := hex.DecodeString(notify)
		require.NoError(t, err)
		addr := p.out(th, "aclrtIpcMemImportByKey", 0, address(&memoryKey[0]), 1)
		flag := p.out(th, "aclrtNotifyImportByKey", 0, address(&notifyKey[0]), 0)
		require.Equal(t, []byte("ping"), p.read(th, addr+n-4, 4))
		require.Zero(t, p.write(th, addr+n-4, []byte("pong")))
		p.must(th, "aclrtRecordNotify", flag, s)
		p.must(th, "aclrtSynchronizeStream", s)
		require.Equal(t, paramInvalid, p.call(th, "aclrtIpcMemImportByKey", address(new(uint64)), address(&memoryKey[0]), 0))
		p.must(th, "aclrtIpcMemClose", address(&memoryKey[0]))
		require.Equal(t, paramInvalid, p.write(th, addr, []byte("late")))
		p.must(th, "aclrtDestroyNotify", flag)
		return
	}
	small := p.out(th, "aclrtMalloc", 0, 512, 0)
	addr := p.out(th, "aclrtMalloc", 0, n, 0)
	neighbour := p.out(th, "aclrtMalloc", 0, n, 0)
	require.Zero(t, p.write(th, addr+n-4, []byte("ping")))
	require.Zero(t, p.write(th, neighbour, []byte("mine")))
	require.Equal(t, paramInvalid, p.call(th, "aclrtIpcMemGetExportKey", small, 512, address(make65()), keySize, 1))
	require.Equal(t, paramInvalid, p.call(th, "aclrtIpcMemGetExportKey", addr, n, address(make65()), keySize-1, 1))

	memory := p.key(th, "aclrtIpcMemGetExportKey", addr, n, 0)
	require.Equal(t, paramInvalid, p.call(th, "aclrtIpcMemImportByKey", address(new(uint64)), address(&memory[0]), 0))
	require.Contains(t, takeText(th), "is not allowed")
	require.Equal(t, memory, p.key(th, "aclrtIpcMemGetExportKey", addr, n, 1))

	flag := p.out(th, "aclrtCreateNotify", 0, 0)
	notify := p.key(th, "aclrtNotifyGetExportKey", flag, 2)
	p.must(th, "aclrtWaitAndResetNotify", flag, s, 60)
	cmd := exec.Command(os.Args[0], "-test.run", "^TestMemoryOfAnotherProcess$")
	cmd.Env = append(os.Environ(), variable+"="+hex.EncodeToString(memory)+","+hex.EncodeToString(notify))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	p.must(th, "aclrtSynchronizeStream", s)
	require.Equal(t, []byte("pong"), p.read(th, addr+n-4, 4))
	require.Equal(t, []byte("mine"), p.read(th, neighbour, 4))

	p.must(th, "aclrtIpcMemClose", address(&memory[0]))
	require.Equal(t, paramInvalid, p.call(th, "aclrtIpcMemClose", address(&memory[0])))
	p.must(th, "aclrtFree", addr)
	again := p.out(th, "aclrtMalloc", 0, n, 0)
	require.Equal(t, addr, again)
	require.Zero(t, p.write(th, again, []byte("new")))
	for _, a := range []uint64{small, again, neighbour} {
		p.must(th, "aclrtFree", a)
	}
	p.must(th, "aclrtDestroyNotify", flag)
}

func make65() *[keySize]byte { return new([keySize]byte) }

func TestNotify(t *testing.T) {
	p := newProcess(t)
	th := p.thread(0)
	first, second := p.stream(th), p.stream(th)
	n := p.out(th, "aclrtCreateNotify", 0, 0)
	order := make(chan string, 2)
	gate := make(chan struct{})
	p.submit(th, first, func() error { <-gate; order <- "first"; return nil })
	p.must(th, "aclrtRecordNotify", n, first)
	p.must(th, "aclrtWaitAndResetNotify", n, second, 0)
	p.submit(th, second, func() error { order <- "second"; return nil })
	close(gate)
	p.must(th, "aclrtSynchronizeStream", second)
	require.Equal(t, "first", <-order)
	require.Equal(t, "second", <-order)

	// It was reset: the next wait runs out of time.
	p.must(th, "aclrtWaitAndResetNotify", n, second, 1)
	require.Equal(t, int32(abi.ACL_ERROR_RT_WAIT_TIMEOUT), p.call(th, "aclrtSynchronizeStream", second))
	p.must(th, "aclrtWaitAndResetNotify", n, second, 0)
	p.must(th, "aclrtStreamAbort", second)

	p.must(th, "aclrtRecordNotify", n, first)
	p.must(th, "aclrtSynchronizeStream", first)
	p.must(th, "aclrtNotifyBatchReset", address(&n), 1)
	p.must(th, "aclrtWaitAndResetNotify", n, second, 1)
	require.Equal(t, int32(abi.ACL_ERROR_RT_WAIT_TIMEOUT), p.call(th, "aclrtSynchronizeStream", second))
	p.must(th, "aclrtDestroyNotify", n)
	require.Equal(t, paramInvalid, p.call(th, "aclrtRecordNotify", n, first))
	require.Zero(t, p.r.Handles.Count(NotifyKind))
}
