package graph

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/rt"
	"github.com/goascend/cann/internal/emu/rt/rttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	eventSync     = uint32(abi.ACL_EVENT_SYNC)
	eventTimeLine = uint32(abi.ACL_EVENT_TIME_LINE)
	eventExternal = uint32(abi.ACL_EVENT_EXTERNAL)

	captureGlobal      = rt.CaptureGlobal
	captureThreadLocal = rt.CaptureThreadLocal
	captureRelaxed     = rt.CaptureRelaxed
)

// process is an emulated process with graphs.
type process struct {
	*rttest.Process
	tb testing.TB
}

func newProcess(tb testing.TB) *process {
	return newMachine(tb, rt.Config{Devices: 4, Memory: 16 << 20, SoC: "Ascend910B1"})
}

func newMachine(tb testing.TB, c rt.Config) *process {
	p := rttest.NewMachine(tb, c)
	p.Add(New(p.Runtime).Functions())
	return &process{p, tb}
}
