package rt_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/graph"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

const (
	eventSync     = uint32(abi.ACL_EVENT_SYNC)
	eventTimeLine = uint32(abi.ACL_EVENT_TIME_LINE)
	eventExternal = uint32(abi.ACL_EVENT_EXTERNAL)
	eventIPC      = uint32(abi.ACL_EVENT_IPC)

	captureGlobal      = int32(abi.ACL_MODEL_RI_CAPTURE_MODE_GLOBAL)
	captureThreadLocal = int32(abi.ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL)
	captureRelaxed     = int32(abi.ACL_MODEL_RI_CAPTURE_MODE_RELAXED)

	hostPage      = 4096
	pageUnit      = 2 << 20 // of physical memory
	keySize       = 65      // of aclrtIpcMem… and aclrtNotify…
	ipcHandleSize = 64      // of aclrtIpcEventHandle
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// process is an emulated process with helpers that several test files use.
type process struct {
	*rttest.Process
	tb testing.TB
}

func newProcess(tb testing.TB) *process {
	return newMachine(tb, rt.Config{Devices: 4, Memory: 16 << 20, SoC: "Ascend910B1"})
}

// newMachine is newProcess for another machine. It includes graphs, because captures forbid some
// calls.
func newMachine(tb testing.TB, c rt.Config) *process {
	p := rttest.NewMachine(tb, c)
	p.Add(graph.New(p.Runtime).Functions())
	return &process{p, tb}
}
