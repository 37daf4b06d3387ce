package queue

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/goascend/cann/internal/emu/rt/rttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// process is an emulated process with queues.
type process struct {
	*rttest.Process
	tb     testing.TB
	queues *queues
}

func newProcess(tb testing.TB) *process {
	p := rttest.New(tb)
	q := New(p.Runtime)
	p.Add(q.Functions())
	return &process{p, tb, &q.queues}
}
