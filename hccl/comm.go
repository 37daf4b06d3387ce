package hccl

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
	"github.com/goascend/cann/internal/bridge"
)

// Comm is one rank's end of a communicator on a device. Only one goroutine at a time may queue
// collectives, in the same order on all ranks. Collectives on several streams must be ordered by
// events.
type Comm struct {
	handle  hcclComm
	context aclrtContext
	rank    int
	size    int
	closed  atomic.Bool
	device  *acl.Device
	called  string                  // HCCL's name of the communicator
	graphs  atomic.Int64            // graphs with collectives of the communicator, or operators that use it
	tracker atomic.Pointer[tracker] // nil unless Track was called

	collectives, exchanges atomic.Uint64 // queued so far
	name                   string        // guarded by flight.mu; "" unless Track was called
}

// Rank returns this rank's number in the communicator.
func (c *Comm) Rank() int {
	if c == nil {
		return 0
	}
	return c.rank
}

// Size returns the number of ranks; 0 of a Comm that was not joined.
func (c *Comm) Size() int {
	if c == nil {
		return 0
	}
	return c.size
}

// usable refuses a communicator that is nil, was never joined, or is closed.
func (c *Comm) usable() error {
	switch {
	case c == nil || c.handle == 0:
		return invalid("the communicator is nil, or was not made by this package")
	case c.closed.Load():
		return fmt.Errorf("%w: the communicator is closed", acl.ErrClosed)
	}
	return nil
}

// AsyncError returns the error that HCCL has detected asynchronously since the communicator was
// made, or nil (HcclGetCommAsyncError). It does not wait.
func (c *Comm) AsyncError() error {
	var code hcclResult
	err := c.do(fnHcclGetCommAsyncError, func() (err error) {
		code, err = hcclGetCommAsyncError(c.context, c.handle)
		return err
	})
	if err != nil || code == abi.HCCL_SUCCESS {
		return err
	}
	name := fnHcclGetCommAsyncError.Name()
	return failed(name, c.rank, c.size, &cshim.Error{Func: name, Code: int32(code)})
}

// Suspend makes collectives fail with ErrSuspended until Resume (HcclCommSuspend). It serves to
// repair a device with a memory fault: suspend on all ranks, abort the devices' tasks, repair, then
// resume.
func (c *Comm) Suspend() error {
	return c.do(fnHcclCommSuspend, func() error { return hcclCommSuspend(c.context, c.handle) })
}

// Resume ends Suspend (HcclCommResume).
func (c *Comm) Resume() error {
	return c.do(fnHcclCommResume, func() error { return hcclCommResume(c.context, c.handle) })
}

// Status says whether a communicator takes collectives (HcclCommStatus).
type Status int32

// The states of a communicator.
const (
	Ready      Status = abi.HCCL_COMM_STATUS_READY
	Suspending Status = abi.HCCL_COMM_STATUS_SUSPENDING
	Unusable   Status = abi.HCCL_COMM_STATUS_INVALID
)

// String returns the state's name.
func (s Status) String() string {
	switch s {
	case Ready:
		return "ready"
	case Suspending:
		return "suspending"
	case Unusable:
		return "unusable"
	}
	return fmt.Sprintf("Status(%d)", int32(s))
}

// Status returns whether the communicator takes collectives (HcclCommGetStatus, from CANN 9.1.0 on). Only the 950 has
// it; other chips refuse it with acl.ErrNotSupported.
func (c *Comm) Status() (status Status, err error) {
	err = c.do(fnHcclCommGetStatus, func() error {
		s, err := hcclCommGetStatus(c.context, &append([]byte(c.called), 0)[0])
		status = Status(s)
		return err
	})
	return status, err
}

// do calls a function of the communicator that takes no tensor.
func (c *Comm) do(f *cshim.Func, call func() error) error {
	err := c.usable()
	if err == nil {
		err = call()
	}
	if err != nil {
		return failed(f.Name(), c.Rank(), c.Size(), err)
	}
	return nil
}

// adopt makes the Comm for a handle returned by HCCL.
func adopt(handle hcclComm, context aclrtContext, device *acl.Device) (*Comm, error) {
	c := &Comm{handle: handle, context: context, device: device, size: 1}
	rank, err := hcclGetRankId(context, handle)
	if err != nil {
		return nil, errors.Join(failed(fnHcclGetRankId.Name(), 0, 1, err), c.Close())
	}
	size, err := hcclGetRankSize(context, handle)
	if err != nil {
		return nil, errors.Join(failed(fnHcclGetRankSize.Name(), int(rank), 1, err), c.Close())
	}
	c.rank, c.size = int(rank), int(size)
	if c.called, err = c.Name(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	bridge.Groups.Open(device.ID(), c.called, &c.graphs)
	return c, nil
}

// contextOf returns the context in which HCCL is called for a stream.
func contextOf(st *acl.Stream) aclrtContext { return aclrtContext(st.ContextHandle()) }

// Close destroys the communicator (HcclCommDestroy). Synchronize its streams first: while
// collectives are running it fails with acl.ErrBusy and can be called again. Closing twice does
// nothing.
func (c *Comm) Close() error {
	if c == nil || c.handle == 0 || c.closed.Load() {
		return nil
	}
	if n := c.graphs.Load(); n > 0 {
		err := fmt.Errorf("%w: %d graphs contain collectives of the communicator, or operators that use it, and would use it after its end; close them first", acl.ErrBusy, n)
		return failed(fnHcclCommDestroy.Name(), c.rank, c.size, err)
	}
	if c.closed.Swap(true) {
		return nil
	}
	if err := hcclCommDestroy(c.context, c.handle); err != nil {
		err = failed(fnHcclCommDestroy.Name(), c.rank, c.size, err)
		c.closed.Store(false)
		return err
	}
	bridge.Groups.Close(c.device.ID(), c.called, &c.graphs)
	c.forget()
	if t := c.tracker.Swap(nil); t != nil {
		return t.close()
	}
	return nil
}
