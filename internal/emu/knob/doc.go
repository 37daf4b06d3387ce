// Package knob reads the environment variables that configure the emulator once per process, and reads them
// again when a program opens a device.
//
// The second reading changes nothing. It is for go test, which keeps results and runs a test again
// only if a variable that the test has read differs. It does not see what was read before the tests
// began. Variables that are read at each use need nothing of this package.
//
//	var threads = knob.Get("CANN_EMU_THREADS")
package knob
