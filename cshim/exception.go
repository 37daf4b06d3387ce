package cshim

// Exception is a task that failed on a device, as CANN passes it to its exception callback. A field that CANN
// does not know is ^uint32(0).
type Exception struct{ Task, Stream, Thread, Device, Code uint32 }

// keptExceptions is how many failed tasks are kept.
const keptExceptions = 32

// ExceptionCallback returns a C function for aclrtSetExceptionInfoCallback and
// aclrtExceptionInfoCallbackRegister, which keeps the last failed tasks of the process.
func ExceptionCallback() uint64 {
	bindExceptions()
	return exceptionAddress()
}

// Exceptions returns the tasks that failed after the first from ones of the process, as far as they
// are still kept, and how many failed in all.
func Exceptions(from uint64) (failed []Exception, total uint64) {
	var kept [keptExceptions]Exception
	n, total := exceptions(from, &kept)
	return append([]Exception(nil), kept[:n]...), total
}
