package hccl

import (
	"errors"
	"runtime"

	"github.com/goascend/cann/acl"
)

// Together groups the Sends and Recvs that f calls, so that all run at the same time and none waits
// for an earlier one (HcclGroupStart, HcclGroupEnd). f must call nothing else of HCCL, and must
// stay in this goroutine. CANN before 9.0.0 lacks these functions: then the error is acl.ErrNotSupported and f
// is not called; Comm.Exchange does the same for one communicator.
func Together(st *acl.Stream, f func() error) error {
	err := usable(st)
	if err == nil && f == nil {
		err = invalid("the function is nil")
	}
	if err != nil {
		return failed(fnHcclGroupStart.Name(), 0, 0, err)
	}
	if err := fnHcclGroupEnd.Available(); err != nil {
		return failed(fnHcclGroupEnd.Name(), 0, 0, err)
	}
	runtime.LockOSThread() // HCCL keeps the group state per thread
	defer runtime.UnlockOSThread()
	current := contextOf(st)
	if err := hcclGroupStart(current); err != nil {
		return failed(fnHcclGroupStart.Name(), 0, 0, err)
	}
	err = f()
	if e := hcclGroupEnd(current); e != nil {
		err = errors.Join(err, failed(fnHcclGroupEnd.Name(), 0, 0, e))
	}
	return err
}
