// Package rt is the emulated ACL runtime: devices, contexts, streams, events, memory,
// host functions and error text, with the codes that CANN answers.
//
// A C function is emulated by a Go function or method of its name, a handler, which takes the C
// parameters with Go types:
//
//	func (r *Runtime) aclrtStreamGetId(stream *Stream, streamID Out[int32]) Code {
//		streamID.Set(stream.id)
//		return 0
//	}
//
// Package npugen finds the handlers and generates Functions, which decodes the words of a call,
// refuses null pointers (In, Out, Address, string), finds the objects of handles by the functions
// that are marked npugen:decode, and encodes the result. When several arguments are wrong, the
// first null pointer is reported, and else the first handle.
//
// A fault of a task is reported by few calls, as in CANN's runtime. The stream keeps its last fault.
//
//	call                              the stream goes on after faults     a stream is set to stop
//	aclrtSynchronizeStream            returns the fault, and clears it    returns the failure for ever
//	aclrtSynchronizeDevice            returns the first of all streams'   returns the failure for ever
//	                                  faults, and clears them
//	aclrtStreamQuery                  0                                   returns the failure for ever
//	aclrtSynchronizeEvent and its     0                                   returns the failure for ever
//	queries                                                               (in the event's context)
//	aclrtMemcpyAsync, pageable host   as aclrtSynchronizeStream           returns the failure for ever
//	aclrtMemcpy                       0, whatever the bytes are           0, whatever the bytes are
//	launches, records, waits          0; later tasks run                  refused with the failure
//
// After the fault is reported the stream can be used as before; a context that has stopped cannot.
//
// Packages describe, dump, graph, profile and queue add functions to a Runtime; this package does not
// import them. Graphs receive the tasks of streams through Capture and Detour; dumps read their part
// of aclInit's configuration with AtInitialize. Package sanitize, which this one imports, checks how
// tasks access memory. Package rttest calls the functions in tests. The package knows nothing of
// operators or collectives, and no package above cshim imports it.
package rt
