// Package acl is CANN's runtime for Go: devices, contexts, streams, events, memory, errors.
//
//	rt, err := acl.Open(acl.Config{})
//	defer rt.Close()
//	dev, err := rt.Device(0)
//	defer dev.Close()
//	st, err := dev.NewStream(acl.StreamFast())
//	defer st.Close()
//	buf, err := st.Malloc(4 * len(host))
//	defer buf.Close()
//	err = acl.CopyToDevice(ctx, st, buf, host)
//	err = st.Synchronize(ctx)
//
// Objects are safe for concurrent use, except that Close must not run at the same time as another
// call on the same object.
//
// Calls that queue work return at once. A failure of the device appears at the next
// Synchronize, whose error names the operators launched last; ASCEND_LAUNCH_BLOCKING=1
// synchronises after every launch. Every wait takes a context.Context; a wait that is cut
// short leaves the object usable.
//
// # Threads
//
// Goroutines need no rule about OS threads: every call brings its context along. aclnn keeps
// executors, error texts and what it loads of the platform per OS thread, and what it keeps must not be
// used on two threads at once. So a launch with both its phases, and aclnn.Prepare, are one crossing to
// C each, which runs on one OS thread; if the workspace is too small, the crossing gives its executor up
// before it returns. Launches run on the thread that the goroutine happens to have. A thread of its own
// for each device was tried: handing a launch over to it and back took 15 µs and more, against 0.2 µs in
// place, and the share of launches that find their executor in the cache of their thread was over 99 %
// either way, with 16 goroutines on each of four devices, after each had taken two steps. Each thread has
// a cache of its own, so a stream whose goroutine changes threads makes each of them miss each call once:
// the cost ends when Go's threads are warm.
//
// # Closing
//
// Every object that a function of this package makes must be closed. Close may be called twice;
// where it waits for work, CloseContext waits at most until its context ends. Live counts what is
// open. An object that was forgotten is reported when the garbage collector finds it: to the
// logger of WithLogger, or, on the emulator without a logger, once to standard error. Its memory
// or handle stays with the process, unless Config.ReleaseLeaks says otherwise.
//
// # Errors
//
// Errors of this module match at most one of these classes with errors.Is. What is refused
// without asking CANN always matches one.
//
//	class               who can mend it, and how                               for a service
//	ErrInvalidArgument  the caller, by other arguments (also ErrWrongDevice)   400
//	ErrClosed           the program: it used an object after Close             500
//	ErrBusy             the program, by waiting for work or closing users      500
//	ErrCapture          the program, by making the call outside a capture      500
//	ErrOutOfMemory      less work, or later                                    503
//	ErrExhausted        closing streams and events, or later                   503
//	ErrTimeout          a longer limit, or later                               504
//	ErrNotInstalled     whoever runs it, by installing CANN, or Linux          500
//	ErrNotSupported     whoever runs it, by another CANN version or chip       501
//	ErrAborted          launching the work again                               500
//	ErrOverflow         scaling, or another dtype                              500
//	ErrKernel           see Suspects: the operators that may be to blame       500
//	ErrPeerLost         restarting the ranks that are left                     500
//	ErrDeviceLost       resetting the device, restarting the process           500
//
// A nil object, a zero value that no function made, and a nil context.Context are invalid
// arguments and never panic; only the methods that a nil *Device has from Context do. A wait that
// ended early matches its context's error, too. Error.Damage says what can still be used, and
// Device.Recover brings the device back after work has failed.
//
// # Health
//
// Runtime.Health tells what a device's driver measures: alarms and faults, use of cores and memory,
// temperature, power, and errors of memory. It needs the driver's library for management, libdcmi.so.
//
// # Profiles
//
// Runtime.Profile has CANN's profiler record what the devices do, into a folder for msprof.
// Stream.Range names steps and layers in it. The error of a failed kernel has what CANN told about
// the task (Error.Exceptions), and the files of CANN's log of this process, if there are some.
//
// Observe tells a function of each launch, copy and wait, for the program's own counts and spans.
//
// # Graphs
//
// Stream.Capture records work and Graph.Replay queues it again with one call, which spares the host
// the launches of a step that is always the same. Graph.Update changes arguments between replays.
// Stream.If, While and Switch capture parts that a number on the device chooses among.
//
// # Virtual memory
//
// Context.Reserve gives addresses, Context.MallocPhysical memory, and AddressRange.Map puts the one into
// the other. Config.Expandable makes the cache of a device grow in that way.
//
// The package knows no operators (package aclnn) and no collectives (package hccl).
package acl
