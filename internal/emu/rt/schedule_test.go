package rt_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

// lines reads a schedule.
func lines(t *testing.T, path string) (all []rt.Planned) {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	for s := bufio.NewScanner(f); s.Scan(); {
		var p rt.Planned
		require.NoError(t, json.Unmarshal(s.Bytes(), &p))
		all = append(all, p)
	}
	return all
}

// TestSchedule: large memory is allocated and copied in no time, as no byte of it is touched; small copies are made; the
// file has the copies, records, waits and synchronisations in the order of the calls, and memory is checked as always.
func TestSchedule(t *testing.T) {
	const huge, few = 1 << 33, 64 // of what is not touched the address sanitizer touches an eighth
	path := filepath.Join(t.TempDir(), "schedule")
	p := rttest.NewMachine(t, rt.Config{Devices: 1, Memory: 1 << 35, SoC: "Ascend910B2", Schedule: path})
	th := p.Thread(0)
	a, b := p.Out(th, "aclrtMalloc", 0, huge, 0), p.Out(th, "aclrtMalloc", 0, huge, 0)
	first, second, event := p.Stream(th), p.Stream(th), p.Event(th)
	p.Must(th, "aclrtMemcpyAsync", a, huge, b, huge, 3, first)
	p.Must(th, "aclrtRecordEvent", event, first)
	p.Must(th, "aclrtStreamWaitEvent", second, event)
	p.Must(th, "aclrtMemsetAsync", b, huge, 1, huge, second)
	p.Must(th, "aclrtSynchronizeStream", second)

	host := new([few]byte)
	host[0] = 7
	p.Must(th, "aclrtMemcpy", a, few, rttest.Address(host), few, 1)
	read := new([few]byte)
	p.Must(th, "aclrtMemcpy", rttest.Address(read), few, a, few, 2)
	require.Equal(t, host, read, "programs read what is small")
	p.Must(th, "aclrtMemcpy", rttest.Address(read), few, b, few, 2)
	require.Zero(t, *read, "the memset was not made")

	p.Must(th, "aclrtMemcpyAsync", a, huge, b+few, huge, 3, first)
	require.NotZero(t, p.Call(th, "aclrtSynchronizeStream", first), "the source ends before the copy")
	require.Contains(t, rttest.Text(th), "beyond their allocation")

	all := lines(t, path)
	require.Len(t, all, 7)
	require.Equal(t, rt.Planned{Stream: all[0].Stream, Copy: "aclrtMemcpyAsync", From: "device", To: "device", Bytes: huge}, all[0])
	require.NotZero(t, all[1].Record)
	require.Equal(t, all[1].Record, all[2].Wait)
	require.Equal(t, all[2].Stream, all[3].Stream)
	require.EqualValues(t, huge, all[3].Bytes)
	require.True(t, all[4].Sync)
	require.Equal(t, all[2].Stream, all[4].Stream)
	require.True(t, all[6].Sync)
}
