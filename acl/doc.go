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
// call on the same object. Goroutines need no rule about OS threads: every call brings its context
// of CANN along.
//
// # Waiting
//
// A function that waits has a context.Context as its first parameter; a function that queues work
// returns at once and has none. A wait that its context ended leaves the object usable. The failure
// of queued work is reported once, by the wait that comes first: its error names the operators
// launched last. ASCEND_LAUNCH_BLOCKING=1 synchronises after every launch.
//
// Malloc waits only if the device is full, and then for the work that is queued.
//
// # Numbers of bytes
//
// Sizes and offsets in memory are int, as those of Go's slices are: in the parameters of Malloc and
// Copy, in the results of Size and MemInfo, and in statistics. Addresses and handles are uint64.
//
// # Closing
//
// Every object that a function of this package makes must be closed. Close may be called twice;
// where it waits for work, CloseContext waits at most until its context ends. Live counts what is
// open. An object that was forgotten is reported when the garbage collector finds it: to the
// logger of WithLogger, or, on the emulator without a logger, once to standard error. Its memory
// or handle stays with the process, unless Config.ReleaseLeaks is set.
//
// # Errors
//
// Errors of this module match at most one of these classes with errors.Is. A call that is refused
// without a call of CANN always matches one.
//
//	class               corrected by                                           for a service
//	ErrInvalidArgument  the caller, by other arguments (also ErrWrongDevice)   400
//	ErrClosed           the program: it used an object after Close             500
//	ErrBusy             the program, by waiting for work or closing users      500
//	ErrCapture          the program, by making the call outside a capture      500
//	ErrOutOfMemory      less work, or later                                    503
//	ErrExhausted        closing streams and events, or later                   503
//	ErrTimeout          a longer limit, or later                               504
//	ErrNotInstalled     the administrator, by installing CANN, or Linux        500
//	ErrNotSupported     the administrator, by another CANN version or chip     501
//	ErrAborted          launching the work again                               500
//	ErrOverflow         scaling, or another dtype                              500
//	ErrKernel           see Suspects: the operators that may be to blame       500
//	ErrPeerLost         restarting the ranks that are left                     500
//	ErrDeviceLost       resetting the device, restarting the process           500
//
// A nil object, a zero value that no function made, and a nil context.Context are invalid
// arguments and never panic. The error of a
// wait that its context ended matches the context's error, too. Error.Damage reports what can still
// be used, and Device.Recover brings the device back after work has failed.
//
// # Health
//
// Runtime.Health reports what a device's driver measures: alarms and faults, use of cores and
// memory, temperature, power, and errors of memory. It needs the driver's library for management,
// libdcmi.so.
//
// # Profiles
//
// Runtime.Profile has CANN's profiler record the work of the devices into a folder for msprof.
// Stream.Range names steps and layers in it. The error of a failed kernel has the task that CANN's
// exception callback named (Error.Exceptions), and the path of CANN's log of this process.
//
// Runtime.Observe calls a function after each launch, copy and wait, for the program's own counters
// and spans.
//
// # Graphs
//
// Stream.Capture records work and Graph.Replay queues it again with one call, which spares the host
// the launches of a step that is always the same. Graph.Update changes arguments between replays.
// Stream.If, While and Switch capture parts that a number on the device chooses among.
//
// # Virtual memory
//
// Context.Reserve gives addresses, Context.MallocPhysical memory, and AddressRange.Map maps the
// memory into the addresses. Config.Expandable makes the cache of a device grow in that way, and
// Config.MemoryPool makes it take its memory from a pool of CANN of a fixed size.
//
// The package knows no operators (package aclnn) and no collectives (package hccl).
package acl
