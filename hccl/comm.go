package hccl

import (
	"sync/atomic"
	"unsafe"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

var (
	getRootInfo   = cshim.NewFunc(cshim.HCCL, "HcclGetRootInfo")
	initRootInfo  = cshim.NewFunc(cshim.HCCL, "HcclCommInitRootInfo")
	destroyComm   = cshim.NewFunc(cshim.HCCL, "HcclCommDestroy")
	getAsyncError = cshim.NewFunc(cshim.HCCL, "HcclGetCommAsyncError")
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
}

// Join makes the communicator of a root info and waits until all size ranks have called it,
// at most HCCL_CONNECT_TIMEOUT (HcclCommInitRootInfo). The ranks of one process call it from
// a goroutine each. It fails with ErrJoin when ranks do not come.
func Join(st *acl.Stream, info *RootInfo, rank, size int) (*Comm, error) {
	if info == nil || rank < 0 || rank >= size {
		return nil, failed(initRootInfo.Name(), rank, size, ErrArgument)
	}
	c := cshim.Call{Args: [cshim.Args]uint64{uint64(size), 0, uint64(rank)}, HostArg: 2, Host: unsafe.Pointer(info), Out: 1 << 3}
	if err := c.Do(initRootInfo, st.ContextHandle()); err != nil {
		return nil, failed(initRootInfo.Name(), rank, size, err)
	}
	return &Comm{handle: c.Args[3], context: st.ContextHandle(), rank: rank, size: size}, nil
}

// Rank is this rank's number in the communicator.
func (c *Comm) Rank() int { return c.rank }

// Size is the number of ranks.
func (c *Comm) Size() int { return c.size }

// AsyncError is what HCCL has noticed by itself since the communicator was made, or nil
// (HcclGetCommAsyncError). It does not wait.
func (c *Comm) AsyncError() error {
	if c.closed.Load() {
		return failed(getAsyncError.Name(), c.rank, c.size, ErrClosed)
	}
	call := cshim.Call{Args: [cshim.Args]uint64{c.handle}, Out: 1 << 1}
	err := call.Do(getAsyncError, c.context)
	if code := int32(call.Args[1]); err == nil && code != 0 {
		err = &cshim.Error{Func: getAsyncError.Name(), Code: code}
	}
	if err != nil {
		return failed(getAsyncError.Name(), c.rank, c.size, err)
	}
	return nil
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
	return nil
}
