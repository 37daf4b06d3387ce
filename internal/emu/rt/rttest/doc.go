// Package rttest calls the emulated runtime as C programs do, for tests of the runtime and of what
// is built on it:
//
//	p := rttest.New(t)
//	thread := p.Thread(0)
//	stream := p.Stream(thread)
//	p.Must(thread, "aclrtSynchronizeStream", stream)
//
// Only tests use it. It does not know the packages below rt: a test adds the functions of those
// that it needs.
package rttest
