package hccl

import (
	"errors"
	"fmt"

	"github.com/goascend/cann/cshim"
	"github.com/goascend/cann/internal/abi"
)

// Window is memory that collectives of a communicator use without copies into HCCL's buffers.
type Window struct {
	comm   *Comm
	handle hcclCommSymWindow
}

// RegisterWindow registers size bytes of device memory at an address as a window (HcclCommSymWinRegister, from CANN
// 9.0.0 on). All ranks register windows of one size together. On Atlas A3 the memory must be physical memory that is
// mapped into reserved addresses (acl.Virtual), the window is the whole of it, and a rank's windows have at most
// Config.WindowGiB; there AllGather, ReduceScatter, AllReduce and AllToAll use windows, for inputs and outputs that both
// lie in one. On the 950 any device memory will do, and AllGather uses windows. Other chips refuse windows with
// acl.ErrNotSupported.
func (c *Comm) RegisterWindow(address uint64, size int) (w *Window, err error) {
	err = c.do(fnHcclCommSymWinRegister, func() error {
		if size <= 0 {
			return invalid("a window of %d bytes", size)
		}
		handle, err := hcclCommSymWinRegister(c.context, c.handle, uintptr(address), uint64(size), 1)
		w = &Window{c, handle}
		return err
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Window returns in which window size bytes at an address lie, and how far behind its begin (HcclCommSymWinGet). It
// fails with ErrNotFound for memory in no window.
func (c *Comm) Window(address uint64, size int) (w *Window, offset uint64, err error) {
	err = c.do(fnHcclCommSymWinGet, func() error {
		if size <= 0 {
			return invalid("memory of %d bytes", size)
		}
		handle, at, err := hcclCommSymWinGet(c.context, c.handle, uintptr(address), uint64(size))
		var refused *cshim.Error
		if err == nil && handle == 0 { // on the 950
			err = fmt.Errorf("%w: %d bytes at %#x", ErrNotFound, size, address)
		} else if errors.As(err, &refused) && refused.Code == abi.HCCL_E_NOT_FOUND { // on Atlas A3
			err = fmt.Errorf("%w: %w", ErrNotFound, err)
		}
		w, offset = &Window{c, handle}, at
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return w, offset, nil
}

// Close ends the window on all ranks together; the memory stays (HcclCommSymWinDeregister). Collectives that use it
// must have ended. The end of the communicator ends its windows too. Closing twice is refused.
func (w *Window) Close() error {
	if w == nil {
		return nil
	}
	return w.comm.do(fnHcclCommSymWinDeregister, func() error { return hcclCommSymWinDeregister(w.comm.context, w.handle) })
}
