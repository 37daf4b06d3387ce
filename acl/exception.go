package acl

import (
	"fmt"
	"strings"
	"sync"

	"github.com/goascend/cann/cshim"
)

// Exception is a task that failed on a device, as CANN named it to the exception callback that this
// package registers (aclrtExceptionInfoCallbackRegister, or aclrtSetExceptionInfoCallback before CANN
// 8.5). A number that CANN does not know is -1.
type Exception struct {
	Device int
	Stream int // CANN's number
	Task   int
	Thread int  // CANN's number of the OS thread that launched the task
	Code   Code // of the failure, sometimes one that only CANN's log explains
}

func (x Exception) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "task %d of stream %d failed with %d", x.Task, x.Stream, int32(x.Code))
	if name := x.Code.String(); !strings.HasPrefix(name, "code ") {
		b.WriteString(" (" + name + ")")
	}
	if x.Thread >= 0 {
		fmt.Fprintf(&b, ", launched by thread %d", x.Thread)
	}
	return b.String()
}

// exceptions are the failed tasks that no error has reported yet.
var exceptions exceptionList

type exceptionList struct {
	sync.Mutex
	read   uint64 // number of failed tasks of the process that were looked at
	unread []Exception
}

// maxUnread is how many failed tasks are kept for errors to come.
const maxUnread = 64

// watchExceptions registers the callback. Errors of a CANN without it have fewer details.
func watchExceptions() {
	callback := aclrtExceptionInfoCallback(cshim.ExceptionCallback())
	if fnAclrtExceptionInfoCallbackRegister.Available() == nil {
		_ = aclrtExceptionInfoCallbackRegister(0, callback) // it may be registered already
		return
	}
	_ = aclrtSetExceptionInfoCallback(0, callback) // it may be missing
}

// forgetExceptions takes the callback back before CANN is finalised.
func forgetExceptions() {
	if fnAclrtExceptionInfoCallbackRegister.Available() == nil {
		_ = aclrtExceptionInfoCallbackUnregister(0, aclrtExceptionInfoCallback(cshim.ExceptionCallback())) // CANN ends anyhow
		return
	}
	_ = aclrtSetExceptionInfoCallback(0, 0) // likewise
}

// takeExceptions returns the failed tasks of a stream that no error has reported; all of the device if
// stream is negative, or if none is of the stream: the tasks of graphs are on streams of CANN's own.
func takeExceptions(device, stream int) []Exception {
	x := &exceptions
	x.Lock()
	defer x.Unlock()
	failed, total := cshim.Exceptions(x.read)
	x.read = total
	for _, f := range failed {
		x.unread = append(x.unread, Exception{
			Device: number(f.Device), Stream: number(f.Stream), Task: number(f.Task), Thread: number(f.Thread), Code: Code(f.Code),
		})
	}
	taken := x.take(func(e Exception) bool { return (e.Device == device || e.Device < 0) && e.Stream == stream })
	if taken == nil {
		taken = x.take(func(e Exception) bool { return e.Device == device || e.Device < 0 })
	}
	if n := len(x.unread); n > maxUnread {
		x.unread = x.unread[n-maxUnread:]
	}
	return taken
}

func (x *exceptionList) take(of func(Exception) bool) (taken []Exception) {
	var left []Exception
	for _, e := range x.unread {
		if of(e) {
			taken = append(taken, e)
		} else {
			left = append(left, e)
		}
	}
	x.unread = left
	return taken
}

// number converts CANN's number; the largest value, which stands for an unknown number, becomes -1.
func number(v uint32) int { return int(int32(v)) }
