// Package niltest checks what a package does with nil: it calls exported methods on receivers that
// nothing has made, and with nil for each parameter that can be nil. None may panic, and each
// error must be of a class that callers can tell. It is for the tests of this module.
//
//	niltest.Receivers(t, classes, (*acl.Stream)(nil), new(acl.Stream))
//	niltest.Parameters(t, classes, st)
//	niltest.Complete(t, ".", known...) // nothing exported was forgotten
package niltest
