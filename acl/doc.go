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
// Goroutines need no rule about OS threads: every call brings its context along. Objects are
// safe for concurrent use, except that Close must not run at the same time as another call
// on the same object. Close twice does nothing; use after Close gives ErrClosed; an object
// that is forgotten is reported to the logger, and Live counts what is open.
//
// Calls that queue work return at once. A failure of the device appears at the next
// Synchronize, whose error names the operators launched last; ASCEND_LAUNCH_BLOCKING=1
// synchronises after every launch. Every wait takes a context.Context; a wait that is cut
// short leaves the object usable.
//
// The package knows no operators (package aclnn) and no collectives (package hccl). It does
// not capture graphs, share memory between processes or map virtual memory.
package acl
