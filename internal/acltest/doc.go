// Package acltest opens CANN for tests: on the emulator with -tags emu, else through dlopen,
// on a device or on the emulator's SDK. Where no CANN is found the test is skipped with what
// was tried. It is for the tests of this module that need a device, and is no part of the
// library.
//
//	func TestX(t *testing.T) {
//		dev := acltest.Device(t, acltest.Open(t), 0)
//		st := acltest.Stream(t, dev)
//		...
//	}
//
// Everything it opens is closed when the test ends, and then no object of package acl may be
// left that was not there before.
package acltest
