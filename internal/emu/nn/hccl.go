package nn

import (
	"fmt"

	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/emu/op"
	"github.com/goascend/cann/internal/emu/rt"
)

// Collectives is the part of HCCL that fused operators use. Find returns the communicator of a
// named group on a device.
type Collectives struct {
	op.HCCL
	Find func(device int, name string) (op.Communicator, bool)
}

// communicator returns the communicator of a named group on the current device.
func (l *Library) communicator(t *rt.Thread, group string) (op.Communicator, error) {
	device, code := l.rt.CurrentDevice(t)
	if code != 0 {
		return op.Communicator{}, fmt.Errorf("the thread has no device (%d); call aclrtSetDevice", code)
	}
	if l.Collectives.Find != nil {
		if comm, ok := l.Collectives.Find(device, group); ok {
			return comm, nil
		}
	}
	return op.Communicator{}, fmt.Errorf("device %d has no communicator named %q; take the name from HcclGetCommName", device, group)
}

// collect queues a collective of a call. Operators run on the default stream too, which HCCL must be
// given by its handle.
func (l *Library) collect(t *rt.Thread, p *op.Collective, workspace, stream uint64) rt.Code {
	if stream == 0 {
		s, code := l.rt.Stream(t, 0)
		if s == nil {
			return code
		}
		stream = s.Handle()
	}
	if err := p.Queue(l.Collectives, op.Launch{Thread: t, Stream: stream, Workspace: workspace}); err != nil {
		return t.Fail(int32(abi.ACLNN_ERR_INNER), "%v", err)
	}
	return 0
}
