package hccl

import (
	"bytes"
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

var (
	getRootInfo   = cshim.NewFunc(cshim.HCCL, "HcclGetRootInfo")
	destroyComm   = cshim.NewFunc(cshim.HCCL, "HcclCommDestroy")
	getAsyncError = cshim.NewFunc(cshim.HCCL, "HcclGetCommAsyncError")
	getRank       = cshim.NewFunc(cshim.HCCL, "HcclGetRankId")
	getSize       = cshim.NewFunc(cshim.HCCL, "HcclGetRankSize")
	getName       = cshim.NewFunc(cshim.HCCL, "HcclGetCommName")
	suspendComm   = cshim.NewFunc(cshim.HCCL, "HcclCommSuspend")
	resumeComm    = cshim.NewFunc(cshim.HCCL, "HcclCommResume")
)

// RootInfo is what the ranks of one communicator share: one rank makes it, and hands it to
// the others by other means, such as Group.Broadcast. It holds a secret in the emulator.
type RootInfo [abi.HCCL_ROOT_INFO_BYTES]byte

// NewRootInfo makes a root info on the stream's device (HcclGetRootInfo). The rank that
// calls it must Join with it too; it serves one communicator.
func NewRootInfo(st *acl.Stream) (*RootInfo, error) {
	info := new(RootInfo)
	c := cshim.Call{HostArg: 1, Host: unsafe.Pointer(info)}
	if err := c.Do(getRootInfo, st.ContextHandle()); err != nil {
		return nil, failed(getRootInfo.Name(), 0, 1, err)
	}
	return info, nil
}

// Comm is one rank's end of a communicator on a device. Its collectives may be queued from
// one goroutine at a time, in the same order on all ranks; those on several streams must be
// ordered by events.
type Comm struct {
	handle  uint64
	context uint64
	rank    int
	size    int
	closed  atomic.Bool
	tracker atomic.Pointer[tracker] // nil unless Track was called
}

// Rank is this rank's number in the communicator.
func (c *Comm) Rank() int { return c.rank }

// Size is the number of ranks.
func (c *Comm) Size() int { return c.size }

// Name is the communicator's name in HCCL's logs (HcclGetCommName).
func (c *Comm) Name() (string, error) {
	var name [nameSize]byte
	call := cshim.Call{Args: [cshim.Args]uint64{c.handle}, HostArg: 2, Host: unsafe.Pointer(&name)}
	if err := c.do(getName, &call); err != nil {
		return "", err
	}
	text, _, _ := bytes.Cut(name[:], []byte{0})
	return string(text), nil
}

// nameSize is the room that HCCL asks for a name with its NUL.
const nameSize = 128

// AsyncError is what HCCL has noticed by itself since the communicator was made, or nil
// (HcclGetCommAsyncError). It does not wait.
func (c *Comm) AsyncError() error {
	call := cshim.Call{Args: [cshim.Args]uint64{c.handle}, Out: 1 << 1}
	if err := c.do(getAsyncError, &call); err != nil {
		return err
	}
	if code := int32(call.Args[1]); code != 0 {
		return failed(getAsyncError.Name(), c.rank, c.size, &cshim.Error{Func: getAsyncError.Name(), Code: code})
	}
	return nil
}

// Suspend makes collectives fail with ErrSuspended until Resume, for the repair of a device
// whose memory failed: suspend on all ranks, abort the devices' tasks, repair, resume
// (HcclCommSuspend).
func (c *Comm) Suspend() error {
	return c.do(suspendComm, &cshim.Call{Args: [cshim.Args]uint64{c.handle}})
}

// Resume ends Suspend (HcclCommResume).
func (c *Comm) Resume() error {
	return c.do(resumeComm, &cshim.Call{Args: [cshim.Args]uint64{c.handle}})
}

// do makes a call that concerns no tensor.
func (c *Comm) do(f *cshim.Func, call *cshim.Call) error {
	err := ErrClosed
	if !c.closed.Load() {
		err = call.Do(f, c.context)
	}
	if err != nil {
		return failed(f.Name(), c.rank, c.size, err)
	}
	return nil
}

// adopt makes the Comm of a handle that HCCL gave out.
func adopt(handle, context uint64) (*Comm, error) {
	c := &Comm{handle: handle, context: context, size: 1}
	for f, n := range map[*cshim.Func]*int{getRank: &c.rank, getSize: &c.size} {
		call := cshim.Call{Args: [cshim.Args]uint64{handle}, Out: 1 << 1}
		if err := c.do(f, &call); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		*n = int(call.Args[1])
	}
	return c, nil
}

// Close ends the communicator (HcclCommDestroy). Synchronize its streams first: while
// collectives are not done it fails with ErrBusy and can be called again. Closing twice does
// nothing.
func (c *Comm) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	call := cshim.Call{Args: [cshim.Args]uint64{c.handle}}
	if err := call.Do(destroyComm, c.context); err != nil {
		err = failed(destroyComm.Name(), c.rank, c.size, err)
		c.closed.Store(false)
		return err
	}
	if t := c.tracker.Swap(nil); t != nil {
		return t.close()
	}
	return nil
}
