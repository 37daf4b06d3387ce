package hccl

import (
	"errors"
	"runtime"

	"github.com/goascend/cann/acl"
	"github.com/goascend/cann/cshim"
)

var (
	groupStart = cshim.NewFunc(cshim.HCCL, "HcclGroupStart")
	groupEnd   = cshim.NewFunc(cshim.HCCL, "HcclGroupEnd")
)

// Together merges the Sends and Recvs that f calls, so that all are under way at the same
// time and none waits for one before it. f calls nothing else of HCCL, in this goroutine
// only. CANN 8.1 lacks it: the error is then ErrUnsupported, f was not called, and
// Comm.Exchange does the same for one communicator (HcclGroupStart, HcclGroupEnd).
func Together(st *acl.Stream, f func() error) error {
	if err := groupEnd.Available(); err != nil {
		return failed(groupEnd.Name(), 0, 0, err)
	}
	runtime.LockOSThread() // HCCL keeps the group per thread
	defer runtime.UnlockOSThread()
	var start, end cshim.Call
	if err := start.Do(groupStart, st.ContextHandle()); err != nil {
		return failed(groupStart.Name(), 0, 0, err)
	}
	err := f()
	if e := end.Do(groupEnd, st.ContextHandle()); e != nil {
		err = errors.Join(err, failed(groupEnd.Name(), 0, 0, e))
	}
	return err
}
